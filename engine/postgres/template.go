package postgres

import (
	"fmt"

	"github.com/rowmill/rowmill/engine"
)

// likeTable is what a table apart gets of the one whose rows it will hold. An
// identity stays with the parent, which assigns the keys: rows are written to
// the table apart with theirs.
const likeTable = "INCLUDING ALL EXCLUDING IDENTITY EXCLUDING COMMENTS EXCLUDING STATISTICS"

// compressedTarget is the toast_tuple_target of a compressed period, the
// smallest that the server takes: of a row that TOAST looks at, every value that
// can be is compressed. It is also how such a table is known.
const compressedTarget = "toast_tuple_target=128"

// createTemplate renders Words.CreateTemplate. The server names the indexes,
// after the table and without collisions.
func (d dialect) createTemplate(t *engine.Table, name string, o engine.Storage) []string {
	quoted := d.Quote(name)
	q := fmt.Sprintf("CREATE TABLE %s (LIKE %s %s)", quoted, d.Quote(t.Name), likeTable)
	if !o.Compress {
		return []string{q}
	}
	out := []string{q + " WITH (fillfactor=100, " + compressedTarget + ")"}
	// The columns are found by the server: their types say whether TOAST may
	// compress them. MAIN keeps values in the row once they are compressed;
	// otherwise so small a target would move them out of it.
	compression := ""
	if d.lz4 {
		compression = ", ALTER COLUMN %2$I SET COMPRESSION lz4"
	}
	body := "DECLARE r record; BEGIN " +
		"FOR r IN SELECT attname FROM pg_attribute WHERE attrelid = " + quoteText(quoted) + "::regclass " +
		"AND attnum > 0 AND NOT attisdropped AND attlen = -1 AND attstorage IN ('x', 'm') LOOP " +
		"EXECUTE format(" + quoteText("ALTER TABLE %1$s ALTER COLUMN %2$I SET STORAGE MAIN"+compression) + ", " + quoteText(quoted) + ", r.attname); END LOOP; " +
		"FOR r IN SELECT i.indexrelid::regclass AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam " +
		"WHERE i.indrelid = " + quoteText(quoted) + "::regclass AND a.amname = 'btree' LOOP " +
		"EXECUTE format('ALTER INDEX %s SET (fillfactor = 100)', r.name); END LOOP; END"
	return append(out, "DO "+quoteText(body))
}
