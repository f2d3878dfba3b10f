package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowmill/rowmill/internal/engine"
)

// likeTable lists what a detached table copies from the table that it will be
// attached to. The identity is left out: the parent assigns the keys, and rows
// are written to the detached table with their keys.
const likeTable = "INCLUDING ALL EXCLUDING IDENTITY EXCLUDING COMMENTS EXCLUDING STATISTICS"

// compressedTarget is the toast_tuple_target of a compressed period. It is the
// minimum of the server, so that TOAST compresses every compressible value of
// the rows that it processes. It also marks a table as compressed.
const compressedTarget = "toast_tuple_target=128"

// createTemplate renders Words.CreateTemplate. The server chooses unique names
// for the indexes, derived from the table's name.
func (d dialect) createTemplate(t *engine.Table, name string, o engine.Storage) []string {
	quoted := d.Quote(name)
	q := fmt.Sprintf("CREATE TABLE %s (LIKE %s %s)", quoted, d.Quote(t.Name), likeTable)
	if !o.Compress {
		return []string{q}
	}
	out := []string{q + " WITH (fillfactor=100, " + compressedTarget + ")"}
	// The server finds the columns: their types determine whether TOAST may
	// compress them. STORAGE MAIN keeps compressed values in the row; with such a
	// low target they would otherwise be moved out of it.
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

// recompressed is a query for the columns of a table whose values TOAST may
// compress, with their full types and an expression that returns a value
// uncompressed. It returns nothing for a table with generated columns, which
// can't be rewritten.
const recompressed = `SELECT a.attname, format_type(a.atttypid, a.atttypmod) ||
	CASE WHEN a.attcollation <> t.typcollation THEN ' COLLATE ' || quote_ident(n.nspname) || '.' || quote_ident(o.collname) ELSE '' END,
	format_type(a.atttypid, a.atttypmod), CASE t.typname WHEN 'jsonb' THEN '%s::text' WHEN 'json' THEN '%s::text' WHEN 'bytea' THEN '%s || ''''::bytea' ELSE '%s || ''''' END
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_collation o ON o.oid = a.attcollation LEFT JOIN pg_namespace n ON n.oid = o.collnamespace
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped AND a.attstorage = 'm' AND t.typname IN ('text', 'varchar', 'bytea', 'jsonb', 'json')
AND NOT EXISTS (SELECT FROM pg_attribute g WHERE g.attrelid = a.attrelid AND g.attgenerated <> '') ORDER BY a.attnum`

// compress returns the statement that minimizes the size of a filled table that
// is to be compressed.
//
// TOAST stops compressing a row once it is below 2 kB, and does not process the
// row again when it is copied. If the table has a compressed value, the
// statement rewrites all rows from uncompressed values; TOAST then continues
// down to the table's much lower target. Meanwhile the rewrite needs the table's
// space a second time. Otherwise the statement only rebuilds the indexes: a load
// in primary key order leaves the pages of the other indexes two thirds full.
func (db *DB) compress(ctx context.Context, c *pgconn.PgConn, name string) (string, error) {
	d := db.dialect
	reindex := "REINDEX TABLE " + d.Quote(name)
	if !d.concurrent { // pg_column_compression is also new in 14
		return reindex, nil
	}
	rows, err := ask(ctx, c, strings.ReplaceAll(recompressed, "$1", quoteText(d.Quote(name))))
	if err != nil || len(rows) == 0 {
		return reindex, err
	}
	var compressed, changes []string
	for _, row := range rows {
		column := d.Quote(string(row[0]))
		compressed = append(compressed, "pg_column_compression("+column+") IS NOT NULL")
		changes = append(changes, fmt.Sprintf("ALTER COLUMN %s TYPE %s USING (%s)::%s, ALTER COLUMN %[1]s SET STORAGE MAIN",
			column, row[1], strings.ReplaceAll(string(row[3]), "%s", column), row[2]))
		if d.lz4 {
			changes[len(changes)-1] += ", ALTER COLUMN " + column + " SET COMPRESSION lz4"
		}
	}
	if rows, err = ask(ctx, c, "SELECT EXISTS (SELECT FROM "+d.Quote(name)+" WHERE "+strings.Join(compressed, " OR ")+")"); err != nil {
		return "", err
	}
	if string(rows[0][0]) != "t" {
		return reindex, nil
	}
	return "ALTER TABLE " + d.Quote(name) + " " + strings.Join(changes, ", "), nil
}
