package mysql

import (
	"fmt"
	"strconv"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// Words implements engine.Keeper.
func (db *DB) Words() engine.Words { return speaker{db.dialect, db} }

// From implements engine.Words.
func (d dialect) From(t *engine.Table, p rolling.Partition) string {
	return d.Quote(t.Name) + " PARTITION (" + d.Quote(p.Name) + ")"
}

// Literal implements engine.Words. If the column holds integers, a position between
// two values is rounded up, so that a condition on a half-open range matches the
// same rows.
func (d dialect) Literal(t *engine.Table, pos int64) string {
	switch kindOf(t) {
	case bySequence:
		return strconv.FormatInt(pos, 10)
	case byEpoch:
		unit := epochUnit(t)
		n := pos / unit
		if pos%unit > 0 {
			n++
		}
		return strconv.FormatInt(n, 10)
	case byDate:
		if text, err := bound(t, pos); err == nil {
			return text
		}
	}
	return datetimeText(pos)
}

// zeroTime is the instant at position 0.
const zeroTime = "TIMESTAMP'1970-01-01 00:00:00'"

// The range of positions of a TIMESTAMP. Position 0 is its zero date, which isn't a
// time: in MariaDB, from 11.7 on, FROM_UNIXTIME(0) is NULL.
const (
	firstTimestamp int64 = 1
	lastTimestamp  int64 = 2147483647_000000
)

// Position implements engine.Words. A TIMESTAMP is converted independently of the
// session's time zone: triggers and views run in the sessions of other programs.
func (d dialect) Position(t *engine.Table, expr string) string {
	switch kindOf(t) {
	case bySequence:
		return "CAST(" + expr + " AS SIGNED)"
	case byEpoch:
		return "CAST(" + expr + " AS SIGNED) * " + strconv.FormatInt(epochUnit(t), 10)
	case byTimestamp:
		return "CAST(UNIX_TIMESTAMP(" + expr + ") * 1000000 AS SIGNED)"
	}
	return "TIMESTAMPDIFF(MICROSECOND, " + zeroTime + ", " + expr + ")"
}

// FromPosition implements engine.Words.
func (d dialect) FromPosition(t *engine.Table, expr string) string {
	switch kindOf(t) {
	case bySequence:
		return "(" + expr + ")"
	case byEpoch:
		// The operator / returns a decimal and rounds.
		return "((" + expr + ") DIV " + strconv.FormatInt(epochUnit(t), 10) + ")"
	}
	if kindOf(t) == byTimestamp {
		// A position outside the range is clamped, because a comparison with NULL
		// matches no row. It is multiplied, because the number of digits of a
		// quotient depends on the session.
		return fmt.Sprintf("FROM_UNIXTIME(LEAST(GREATEST(%s, %d), %d) * 0.000001)", expr, firstTimestamp, lastTimestamp)
	}
	at := "TIMESTAMPADD(MICROSECOND, " + expr + ", " + zeroTime + ")"
	if kindOf(t) == byDate {
		return "DATE(" + at + ")"
	}
	return at
}

// AsText implements engine.Words.
func (d dialect) AsText(c engine.SchemaColumn) string {
	name := d.Quote(c.Name)
	switch c.Kind {
	case engine.KindText, engine.KindBytes:
		return name
	case engine.KindFloat:
		// A FLOAT as text has six digits. As a DOUBLE, which has exactly the same
		// value, it has all necessary digits. MySQL 9.7 returns those only in JSON;
		// elsewhere, it returns what fits in 22 characters.
		if d.mariadb {
			return "CONCAT(" + name + " * 1e0)"
		}
		return "JSON_UNQUOTE(CAST(" + name + " * 1e0 AS JSON))"
	}
	return "CAST(" + name + " AS CHAR)"
}

// CreateTemplate implements engine.Words.
func (d dialect) CreateTemplate(t *engine.Table, name string, o engine.Storage) []string {
	out := []string{"CREATE TABLE " + d.Quote(name) + " LIKE " + d.Quote(t.Name)}
	if t.Rolling() {
		out = append(out, "ALTER TABLE "+d.Quote(name)+" REMOVE PARTITIONING")
	}
	return append(out, d.compress(name, o)...)
}

// compress renders the page compression of an empty InnoDB table. In MariaDB such a
// table can't be exchanged with a partition unless the whole table was created with
// compression: see createDeclared.
func (d dialect) compress(name string, o engine.Storage) []string {
	if !o.Compress || d.mariadb || d.rocksdb() {
		return nil
	}
	return []string{"ALTER TABLE " + d.Quote(name) + " COMPRESSION = 'zlib'"}
}

// Text implements engine.Words.
func (dialect) Text() string { return "LONGTEXT CHARACTER SET utf8mb4" }

// Blob implements engine.Words.
func (dialect) Blob() string { return "LONGBLOB" }

// OwnTable implements engine.Words. It names the storage engine and character set,
// because the defaults of the server and the database may be unsuitable.
func (d dialect) OwnTable() string {
	storage, collation := "InnoDB", "utf8mb4_bin"
	if d.rocksdb() {
		storage = d.storage
	}
	if d.folds {
		collation = "utf8mb4_general_ci"
	}
	return " ENGINE=" + storage + " DEFAULT CHARSET=utf8mb4 COLLATE=" + collation
}

// Compact implements engine.CompactWords: InnoDB rebuilds a table in key order, and
// each of its indexes by sorting. MyRocks compacts by itself.
func (d dialect) Compact(table string) []string {
	if d.rocksdb() {
		return nil
	}
	return []string{"ALTER TABLE " + d.Quote(table) + " FORCE"}
}
