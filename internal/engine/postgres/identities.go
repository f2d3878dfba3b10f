package postgres

import (
	"context"

	"github.com/rowmill/rowmill/internal/engine"
)

// altered is what engine.PartIdentities.Alters has on PostgreSQL, for all partitions. It never
// changes: a partition that is attached again has a new row in pg_inherits, and so a new identity.
const altered = "none"

// PartIdentities implements engine.PartIdentifier. A partition is identified by its OID; its file,
// which TRUNCATE or a rewrite of the table replaces; the transaction that attached it; and the
// transactions that last changed rowmill's triggers, such as by DISABLE TRIGGER. Catalogs are read
// in the transaction's snapshot, as the rows are.
func (db reader) PartIdentities(ctx context.Context, s *engine.Session, database, table string, parts []string) (*engine.PartIdentities, error) {
	name := dialect{}.Quote(table)
	if database != "" {
		name = quoted(database, table)
	}
	query := "SELECT c.relname, c.oid || ' ' || c.relfilenode || ' ' || i.xmin || ' ' || pg_catalog.md5(COALESCE((SELECT pg_catalog.string_agg(t.oid || ' ' || t.tgenabled::text || ' ' || t.xmin, ',' ORDER BY t.oid) " +
		"FROM pg_catalog.pg_trigger t WHERE t.tgrelid = i.inhparent AND t.tgname LIKE 'rowmill%'), '')) " +
		"FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid WHERE c.relkind = 'r' AND c.relfilenode <> 0 AND i.inhparent = pg_catalog.to_regclass(" + escaped(name) + ")" + attached
	pairs := func(query string) (map[string]string, error) {
		if s == nil {
			return engine.Pairs[string](ctx, db, db.pool, query)
		}
		out := map[string]string{}
		return out, s.Text(ctx, query, nil, func(v [][]byte) error { out[string(v[0])] = string(v[1]); return nil })
	}
	out := &engine.PartIdentities{IDs: map[string]string{}, Alters: altered}
	children, err := pairs(query)
	for child, id := range children {
		out.IDs[partitionName(&engine.Table{Name: table}, child)] = id
	}
	if err == nil {
		out.Columns, err = pairs("SELECT attname, attnum || ' ' || atttypid || ' ' || attcollation FROM pg_catalog.pg_attribute WHERE attnum > 0 AND NOT attisdropped AND attrelid = pg_catalog.to_regclass(" + escaped(name) + ")")
	}
	return out, engine.About(ctx, err, "read what identifies the partitions of "+name)
}

// PartsWritten implements engine.PartIdentifier; it isn't needed.
func (db reader) PartsWritten(context.Context, string, string) (*engine.PartsWritten, error) {
	return &engine.PartsWritten{}, nil
}
