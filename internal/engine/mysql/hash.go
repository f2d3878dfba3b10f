package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
)

// A hash is a hash function of the server, used for rows' checksums.
type hash struct {
	// name is the prefix of its checksums: see engine.Words.RowHash.
	name string
	// function is the function's name in messages; call renders a call that returns
	// hexadecimal digits.
	function string
	call     func(expr string) string
	// float renders a floating-point value as text, the same for both zeros.
	float func(expr string) string
}

// hashes are the functions that rows' checksums have been made with; the first one
// is for new checksums. Every release of MySQL and MariaDB has SHA2(). MD5(), whose
// checksums have no prefix, was used for older seals: newer MySQL (9.7) has it only
// as a component, and a server in FIPS mode refuses it.
var hashes = []hash{
	{"sha2", "SHA2()", func(expr string) string { return "SHA2(" + expr + ", 256)" },
		// All digits, also in MySQL 9.7, which elsewhere returns only those that
		// fit in 22 characters. NULL becomes a text that differs from every number.
		func(expr string) string { return "JSON_ARRAY(" + expr + " + 0e0)" }},
	{"", "MD5()", func(expr string) string { return "MD5(" + expr + ")" },
		func(expr string) string { return "CONCAT(" + expr + " + 0e0)" }},
}

// probeHashes returns those of the functions that the server has.
func (db *DB) probeHashes(ctx context.Context) ([]hash, error) {
	var have []hash
	for _, h := range hashes {
		var digits sql.NullString
		err := db.pool.QueryRowContext(ctx, "SELECT "+h.call("'rowmill'")).Scan(&digits)
		var server *mysql.MySQLError
		switch {
		case err == nil && digits.String != "":
			have = append(have, h)
		case err != nil && (!errors.As(err, &server) || errors.Is(classify(err), engine.ErrConnectionLost)):
			return nil, db.unreachable(err)
		}
	}
	return have, nil
}

// RowHash implements engine.Words.
func (d dialect) RowHash(cols []engine.SchemaColumn) string {
	if len(d.hashes) == 0 { // a dry run, or a server that will report the missing function
		return hashes[0].rows(d, cols)
	}
	return d.hashes[0].rows(d, cols)
}

// RowHashLike implements engine.Words.
func (d dialect) RowHashLike(checksum string, cols []engine.SchemaColumn) (string, error) {
	name := engine.HashName(checksum)
	for _, h := range d.hashes {
		if h.name == name {
			return h.rows(d, cols), nil
		}
	}
	for _, h := range hashes {
		if h.name != name {
			continue
		}
		err := engine.Classed(engine.ErrUnsupported, fmt.Errorf("the checksum %s is made with %s, which this server doesn't have", checksum, h.function))
		if !d.mariadb {
			return "", engine.Hinted(err, "INSTALL COMPONENT 'file://component_classic_hashing', which has %s", h.function)
		}
		return "", err
	}
	return "", engine.UnknownHash(checksum)
}

// rows renders the sum of the first 64 bits of each row's hash. Every value is
// preceded by its length, and NULL has none, so that different rows have different
// texts.
func (h hash) rows(d dialect, cols []engine.SchemaColumn) string {
	values := make([]string, len(cols))
	for i, c := range cols {
		v := d.Quote(c.Name)
		switch {
		case c.Kind == engine.KindFloat:
			v = h.float(v)
		case c.Kind == engine.KindDecimal || c.Kind == engine.KindOther || typeName(c.Native) == "JSON":
			v = "CAST(" + v + " AS CHAR)"
		}
		v = "CAST(" + v + " AS BINARY)"
		if long(c.Native) {
			v = h.call(v) // several long values may exceed the maximum length of a text
		}
		values[i] = "COALESCE(CONCAT(LENGTH(" + v + "), ':', " + v + "), 'n')"
	}
	row := "''"
	if len(values) > 0 {
		row = "CONCAT(" + strings.Join(values, ", ") + ")"
	}
	sum := "CAST(COALESCE(SUM(CAST(CONV(LEFT(" + h.call(row) + ", 16), 16, 10) AS UNSIGNED)), 0) AS CHAR)"
	if h.name == "" {
		return sum
	}
	return "CONCAT('" + h.name + ":', " + sum + ")"
}

// long reports whether values of a type can be large.
func long(native string) bool {
	name := typeName(native)
	return strings.HasSuffix(name, "TEXT") || strings.HasSuffix(name, "BLOB") || name == "JSON"
}
