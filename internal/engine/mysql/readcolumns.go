package mysql

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/mysqlwire"
)

// A fieldType is the SQL name and the class of a type in the protocol, for a text result.
type fieldType struct {
	name  string
	class engine.ResultClass
}

// fieldTypes are the types of columns in results. A character type is binary if its character set
// is binary; a flag marks ENUM and SET. TIME is a text here, because a negative TIME, or one of
// more than 99 hours, is longer. MySQL's JSON is of another class, because its text doesn't show
// all types.
var fieldTypes = map[byte]fieldType{
	0: {"DECIMAL", engine.ClassDecimal}, 246: {"DECIMAL", engine.ClassDecimal},
	1: {"TINYINT", engine.ClassInt}, 2: {"SMALLINT", engine.ClassInt}, 9: {"MEDIUMINT", engine.ClassInt},
	3: {"INT", engine.ClassInt}, 8: {"BIGINT", engine.ClassInt},
	4: {"FLOAT", engine.ClassFloat}, 5: {"DOUBLE", engine.ClassFloat},
	6: {"NULL", engine.ClassOther},
	7: {"TIMESTAMP", engine.ClassTime}, 10: {"DATE", engine.ClassTime}, 14: {"DATE", engine.ClassTime},
	11: {"TIME", engine.ClassText}, 12: {"DATETIME", engine.ClassTime}, 13: {"YEAR", engine.ClassTime},
	15: {"VARCHAR", engine.ClassText}, 253: {"VARCHAR", engine.ClassText}, 254: {"CHAR", engine.ClassText},
	249: {"TINYTEXT", engine.ClassText}, 252: {"TEXT", engine.ClassText},
	250: {"MEDIUMTEXT", engine.ClassText}, 251: {"LONGTEXT", engine.ClassText},
	16: {"BIT", engine.ClassText}, 245: {"JSON", engine.ClassOther},
	247: {"ENUM", engine.ClassText}, 248: {"SET", engine.ClassText}, 255: {"GEOMETRY", engine.ClassText},
}

// binaryNames are the names that character types have with the character set binary.
var binaryNames = map[string]string{
	"VARCHAR": "VARBINARY", "CHAR": "BINARY", "TINYTEXT": "TINYBLOB", "TEXT": "BLOB", "MEDIUMTEXT": "MEDIUMBLOB", "LONGTEXT": "LONGBLOB",
}

// Types and flags of columns.
const (
	binaryCharset = 63

	flagNotNull  = 1
	flagUnsigned = 32
	flagZerofill = 64
	flagEnum     = 256
	flagSet      = 2048
)

// parseField parses the packet of a column.
func parseField(p []byte) (mysqlwire.Column, error) {
	f, ok := mysqlwire.ReadColumn(p)
	if !ok {
		return f, malformed()
	}
	return f, nil
}

// computed reports whether a column is, or may be, the result of an expression.
func computed(c engine.ResultColumn) bool {
	f, err := parseField(c.Packet)
	return err != nil || f.Computed
}

// temporals maps the names of types to the types of times and dates.
var temporals = map[string]engine.Temporal{
	"TIME": engine.Duration, "YEAR": engine.Year, "DATE": engine.Date, "DATETIME": engine.DateTime, "TIMESTAMP": engine.DateTime,
}

// parseColumn parses the packet of a column. It keeps the packet.
func parseColumn(p []byte) (engine.ResultColumn, error) {
	f, err := parseField(p)
	if err != nil {
		return engine.ResultColumn{}, err
	}
	t := fieldTypes[f.Type]
	c := engine.ResultColumn{Name: f.Name, Native: t.name, Class: t.class, Packet: p}
	switch {
	case f.Flags&flagEnum != 0:
		c.Native = "ENUM"
	case f.Flags&flagSet != 0:
		c.Native = "SET"
	case f.Charset == binaryCharset && binaryNames[t.name] != "":
		c.Native, c.Class, c.Binary = binaryNames[t.name], engine.ClassBytes, true
	}
	c.Binary = c.Binary || c.Native == "BIT" || c.Native == "GEOMETRY"
	switch c.Native {
	case "CHAR", "BINARY":
		c.Width = int(f.Length)
	case "BIT":
		if f.Computed {
			c.Width = int(f.Length)
		}
	case "TIME":
		if f.Decimals <= 6 {
			c.Scale = int(f.Decimals)
		}
	}
	c.Temporal = temporals[c.Native]
	switch c.Class {
	case engine.ClassInt:
		c.Unsigned = f.Flags&flagUnsigned != 0
	case engine.ClassDecimal, engine.ClassTime, engine.ClassFloat:
		if c.Scale = int(f.Decimals); f.Decimals > 38 || c.Class == engine.ClassFloat && f.Decimals >= 31 {
			c.Scale = -1
		}
	}
	if c.Class == engine.ClassDecimal { // its length includes a point and a sign
		c.Unsigned = f.Flags&flagUnsigned != 0
		c.Precision = int(f.Length)
		if c.Scale > 0 {
			c.Precision--
		}
		if !c.Unsigned {
			c.Precision--
		}
	}
	c.AllDigits = c.Native == "DOUBLE" && c.Scale < 0
	// Leading zeros belong to the text.
	if f.Flags&flagZerofill != 0 && (c.Class == engine.ClassInt || c.Class == engine.ClassDecimal || c.Class == engine.ClassFloat) {
		c.Class = engine.ClassOther
	}
	return c, nil
}

// DescribeQuery implements engine.Reader by preparing the query. The server converts texts to the
// session's character set, and describes the converted texts. DescribeQuery therefore reads the
// original collations from a description without that conversion.
func (db *reader) DescribeQuery(ctx context.Context, s *engine.Session, query string) ([]engine.ResultColumn, error) {
	cols, err := s.Describe(ctx, query)
	if err != nil {
		return nil, err
	}
	stamps, texts := false, false
	subtotals := strings.Contains(strings.ToUpper(query), "ROLLUP") // with ROLLUP, columns are like expressions
	for i, c := range cols {
		cols[i].Provisional = subtotals || db.provisional(c)
		stamps = stamps || c.Native == "TIMESTAMP"
		texts = texts || c.Class == engine.ClassText && binaryNames[c.Native] != ""
	}
	if stamps {
		zone, err := s.State(ctx, "time_zone")
		if err != nil {
			return nil, err
		}
		for i := range cols {
			if cols[i].Native == "TIMESTAMP" && !fixedZone(zone) {
				cols[i].Class = engine.ClassOther
			}
		}
	}
	if !texts {
		return cols, nil
	}
	known, err := db.knownCollations(ctx)
	if err != nil {
		return nil, err
	}
	results, err := s.State(ctx, "character_set_results")
	if err != nil {
		return nil, err
	}
	own, err := unconverted(ctx, s, query, results)
	if err != nil {
		return nil, err
	}
	if len(own) != len(cols) {
		return nil, fmt.Errorf("describe a query: %d columns, then %d", len(cols), len(own))
	}
	for i, c := range own {
		f, err := parseField(c.Packet)
		if err != nil {
			return nil, err
		}
		if c.Class != engine.ClassText || binaryNames[c.Native] == "" && c.Native != "ENUM" && c.Native != "SET" {
			continue
		}
		switch {
		case !known.isFaithful(f.Charset, results):
			cols[i].Class = engine.ClassOther
		case results == utf8mb4 && binaryNames[c.Native] != "" && slices.Contains(known.exact, f.Charset):
			cols[i].Class = engine.ClassBytes
		default:
			cols[i].Padded = binaryNames[c.Native] != "" && slices.Contains(known.padded, f.Charset)
		}
	}
	return cols, nil
}

// unconverted describes a query whose texts are not converted to the session's character set.
func unconverted(ctx context.Context, s *engine.Session, query, results string) ([]engine.ResultColumn, error) {
	if err := s.SetStates(ctx, engine.State{{Name: "character_set_results"}}); err != nil {
		return nil, err
	}
	own, err := s.Describe(ctx, query)
	if back := s.SetStates(ctx, engine.State{{Name: "character_set_results", Value: results}}); err == nil {
		err = back
	}
	return own, err
}

// Collations implements engine.Reader. A column's collation takes precedence over an expression's.
func (db *reader) Collations(ctx context.Context, s *engine.Session, query string) (list []int, err error) {
	results, err := s.State(ctx, "character_set_results")
	if err != nil {
		return nil, err
	}
	own, err := unconverted(ctx, s, query, results)
	for _, c := range own {
		f, ferr := parseField(c.Packet)
		if err == nil {
			err = ferr
		}
		list = append(list, int(f.Charset))
	}
	return list, err
}

// mostStoredLength is the maximum length of a computed text that keeps its type in a temporary
// table. A longer text becomes a TEXT or a BLOB. See CONVERT_IF_BIGGER_TO_BLOB in the servers'
// unireg.h.
const mostStoredLength = 512

// provisional reports whether a computed column may have another type in the result than in the
// description. If the server stores the result in a temporary table, the column gets the type that
// it has in that table. In MySQL, an integer becomes INT or BIGINT, depending on its digits, and a
// text gets the smallest type that holds it; in MariaDB, a CHAR may become a VARCHAR.
func (db *reader) provisional(c engine.ResultColumn) bool {
	f, err := parseField(c.Packet)
	switch {
	case err != nil || !f.Computed:
		return false
	case c.Class == engine.ClassInt, c.Native == "YEAR":
		return !db.dialect.mariadb && (f.Length < 12 || c.Native != "BIGINT")
	}
	return c.Native == "CHAR" || strings.HasSuffix(c.Native, "TEXT") || strings.HasSuffix(c.Native, "BLOB") ||
		f.Length > mostStoredLength && (c.Native == "VARCHAR" || c.Native == "VARBINARY")
}

// fixedZone reports whether a time zone has a constant offset, so that different instants have
// different local times.
func fixedZone(zone string) bool {
	return zone == "UTC" || len(zone) == 6 && (zone[0] == '+' || zone[0] == '-')
}

// collations are the ids of collations, by their properties.
type collations struct {
	// exact are collations that compare texts by their bytes in UTF-8. padded also compare them by
	// their bytes, but ignore trailing blanks.
	exact, padded []uint16
	// faithful are collations of character sets that convert to three-byte UTF-8 without loss:
	// different texts stay different. An example without this property is cp932, in which two codes
	// may stand for one character. four are collations of four-byte UTF-8.
	faithful, four []uint16
}

// utf8mb4 is the name of UTF-8 with up to four bytes for a character.
const utf8mb4 = "utf8mb4"

// isFaithful reports whether different texts stay different when they are converted from a
// collation's character set to results, a variant of UTF-8. MariaDB's catalog lacks the ids of UCA
// 14 collations: see my_uca1400_make_builtin_collation_id in its include/my_sys.h.
func (k collations) isFaithful(id uint16, results string) bool {
	return id >= 2048 && id < 2304 || slices.Contains(k.faithful, id) ||
		results == utf8mb4 && (id >= 2304 && id < 2560 || slices.Contains(k.four, id))
}

// knownCollations reads the ids of collations from the catalog, once.
func (db *reader) knownCollations(ctx context.Context) (collations, error) {
	return db.collations.once(func() (known collations, err error) {
		for _, part := range []struct {
			ids   *[]uint16
			where string
		}{
			{&known.exact, "COLLATION_NAME IN ('utf8mb4_0900_bin', 'utf8mb4_nopad_bin', 'utf8mb3_nopad_bin', 'utf8_nopad_bin', 'ascii_nopad_bin')"},
			{&known.padded, "COLLATION_NAME IN ('utf8mb4_bin', 'utf8mb3_bin', 'utf8_bin', 'ascii_bin', 'latin1_bin')"},
			{&known.faithful, "CHARACTER_SET_NAME IN ('utf8mb3', 'utf8', 'ascii', 'latin1', 'binary')"},
			{&known.four, "CHARACTER_SET_NAME = 'utf8mb4'"},
		} {
			list, err := engine.List[string](ctx, db, db.pool, "SELECT ID FROM information_schema.COLLATIONS WHERE ID IS NOT NULL AND "+part.where)
			if err != nil {
				return known, err
			}
			for _, id := range list {
				n, err := strconv.ParseUint(strings.TrimSpace(id), 10, 16)
				if err != nil {
					return known, fmt.Errorf("collation %q: %w", id, err)
				}
				*part.ids = append(*part.ids, uint16(n))
			}
		}
		return known, nil
	})
}
