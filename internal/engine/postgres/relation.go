package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// A relation is the catalog's entry for a name.
type relation struct {
	exists bool
	// table reports whether it is an ordinary or partitioned table.
	table bool
	// of is the table that it is a partition of, or "". ours reports whether that
	// is the table asked about.
	of   string
	ours bool
	// pending reports whether a concurrent detach of it was interrupted.
	pending bool
	bounds  string // as pg_get_expr prints them
	comment string
}

// apart reports whether it is a table that is not a partition.
func (r relation) apart() bool { return r.exists && r.table && r.of == "" }

// ask runs a query on the connection of a step. Render shows only statements
// that change something, so it omits these queries.
func ask(ctx context.Context, c *pgconn.PgConn, q string) ([][][]byte, error) {
	r := c.ExecParams(ctx, q, nil, nil, nil, nil).Read()
	if r.Err != nil {
		return nil, classifyIn(ctx, r.Err)
	}
	return r.Rows, nil
}

// look reads the relations with the given names, and whether they are
// partitions of t.
func (db *DB) look(ctx context.Context, c *pgconn.PgConn, t *engine.Table, names ...string) (map[string]relation, error) {
	pending := "false"
	if db.dialect.concurrent {
		pending = "COALESCE(i.inhdetachpending, false)"
	}
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = fmt.Sprintf("(%d, %s)", i, quoteText(db.dialect.Quote(name)))
	}
	parent := "NULL"
	if t != nil {
		parent = db.dialect.regclass(t)
	}
	rows, err := ask(ctx, c, "SELECT n.i, c.relkind IN ('r', 'p'), COALESCE(i.inhparent::regclass::text, ''), COALESCE(i.inhparent = "+parent+", false), "+pending+", "+
		"COALESCE(pg_get_expr(c.relpartbound, c.oid), ''), COALESCE(obj_description(c.oid, 'pg_class'), '') "+
		"FROM (VALUES "+strings.Join(list, ", ")+") n(i, name) JOIN pg_class c ON c.oid = to_regclass(n.name) "+
		"LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND c.relispartition")
	if err != nil {
		return nil, err
	}
	out := map[string]relation{}
	for _, row := range rows {
		text := func(i int) string { return string(row[i]) }
		var i int
		if _, err := fmt.Sscan(text(0), &i); err != nil {
			return nil, err
		}
		out[names[i]] = relation{exists: true, table: text(1) == "t", of: text(2), ours: text(3) == "t", pending: text(4) == "t", bounds: text(5), comment: text(6)}
	}
	return out, nil
}

// holds reports whether the relation is the partition of t with the bounds of p.
func (r relation) holds(t *engine.Table, p rolling.Period) bool {
	if !r.ours || r.pending {
		return false
	}
	from, to, err := parseBounds(t, r.bounds)
	return err == nil && from == p.From && to == p.To
}

// missingIndexes is a query for the statements that create the indexes of a
// table t that the named table lacks. ATTACH uses existing indexes and builds
// the others under its lock. Indexes are equal if their definitions are, apart
// from names and storage parameters.
func (d dialect) missingIndexes(t *engine.Table, name string) string {
	definitions := func(table string) string {
		return "SELECT *, row_number() OVER (PARTITION BY kind, indisunique, plain) AS nth FROM (" +
			"SELECT kind, indisunique, def, regexp_replace(def, ' WITH \\([^)]*\\)', '') AS plain FROM (" +
			"SELECT COALESCE(o.contype::text, '') AS kind, i.indisunique, " +
			"COALESCE(pg_get_constraintdef(o.oid), substring(pg_get_indexdef(i.indexrelid) FROM ' USING .*$')) AS def " +
			"FROM pg_index i LEFT JOIN pg_constraint o ON o.conindid = i.indexrelid AND o.contype IN ('p', 'u', 'x') AND o.conrelid = i.indrelid " +
			"WHERE i.indisvalid AND i.indrelid = " + table + ") d) d"
	}
	quoted := d.Quote(name)
	return "SELECT CASE WHEN kind = '' THEN 'CREATE ' || CASE WHEN indisunique THEN 'UNIQUE ' ELSE '' END || " + quoteText("INDEX ON "+quoted) + " || def " +
		"ELSE " + quoteText("ALTER TABLE "+quoted+" ADD ") + " || def END FROM (" + definitions(d.regclass(t)) + ") m WHERE NOT EXISTS (" +
		"SELECT FROM (" + definitions("to_regclass("+quoteText(quoted)+")") + ") h WHERE h.kind = m.kind AND h.indisunique = m.indisunique AND h.plain = m.plain AND h.nth = m.nth) " +
		"ORDER BY kind <> 'p', 1"
}

// prepare makes a detached table ready to be attached: it adds the missing
// indexes and the CHECK that proves its bounds. Work that an earlier attempt
// completed, before a crash or a lock timeout, is not repeated.
func (db *DB) prepare(ctx context.Context, c *pgconn.PgConn, t *engine.Table, name string, p rolling.Partition) error {
	d := db.dialect
	self := "to_regclass(" + quoteText(d.Quote(name)) + ")"
	rows, err := ask(ctx, c, d.missingIndexes(t, name))
	if err != nil {
		return err
	}
	var statements []string
	for _, row := range rows {
		statements = append(statements, string(row[0]))
	}
	if rows, err = ask(ctx, c, "SELECT conname FROM pg_constraint WHERE contype = 'c' AND convalidated AND conname LIKE "+
		quoteText(strings.ReplaceAll(boundsPrefix, "_", `\_`)+"%")+" AND conrelid = "+self); err != nil {
		return err
	}
	checked := false
	for _, row := range rows {
		if string(row[0]) == boundsCheck(p.Period) {
			checked = true
		} else { // for bounds that an earlier attempt intended
			statements = append(statements, d.dropCheck(name, string(row[0])))
		}
	}
	if !checked {
		if rows, err = ask(ctx, c, "SELECT EXISTS (SELECT FROM pg_class WHERE oid = "+self+" AND "+quoteText(compressedTarget)+" = ANY (reloptions))"); err != nil {
			return err
		}
		if string(rows[0][0]) == "t" {
			q, err := db.compress(ctx, c, name)
			if err != nil {
				return err
			}
			statements = append(statements, q)
		}
		statements = append(statements, d.addCheck(t, name, p))
	}
	for _, q := range statements {
		if err := db.transact(ctx, c, q); err != nil {
			return err
		}
	}
	return nil
}

// leftChecks returns the other CHECKs of a detached table that have the same
// condition as the CHECK of its bounds: DETACH CONCURRENTLY leaves one behind.
func (db *DB) leftChecks(ctx context.Context, c *pgconn.PgConn, name string, p rolling.Partition) ([]string, error) {
	of := "conrelid = to_regclass(" + quoteText(db.dialect.Quote(name)) + ") AND contype = 'c'"
	bounds := quoteText(boundsCheck(p.Period))
	rows, err := ask(ctx, c, "SELECT conname FROM pg_constraint WHERE "+of+" AND conname <> "+bounds+
		" AND pg_get_constraintdef(oid) = (SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE "+of+" AND conname = "+bounds+")")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, row := range rows {
		out = append(out, string(row[0]))
	}
	return out, nil
}

// quietWait is how long a step waits, without holding a lock, for the
// transactions in its way.
const quietWait = 2 * time.Second

// quietPause is the interval between two queries for the transactions in the way.
const quietPause = 20 * time.Millisecond

// quiet waits until the transactions that hold locks on the tables at the time of
// the call have ended. It holds no lock that others could queue behind. If the
// wait takes too long, it returns ErrLockTimeout, which names the oldest of the
// transactions. Autovacuum is ignored, because it yields its lock on request.
func (db *DB) quiet(ctx context.Context, c *pgconn.PgConn, tables ...string) error {
	list := make([]string, len(tables))
	for i, name := range tables {
		list[i] = "to_regclass(" + quoteText(db.dialect.Quote(name)) + ")"
	}
	held := "l.locktype = 'relation' AND l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) " +
		"AND l.relation IN (" + strings.Join(list, ", ") + ")"
	return db.await(ctx, c, "holds a lock", "SELECT l.virtualtransaction, COALESCE(a.pid, 0), COALESCE(a.usename, ''), COALESCE(a.xact_start, now()) "+
		"FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid "+
		"WHERE "+held+" AND l.pid IS DISTINCT FROM pg_backend_pid() AND a.backend_type IS DISTINCT FROM 'autovacuum worker'")
}

// seen waits until no transaction reads from a snapshot that is older than the
// CHECK of a detached table, and so possibly older than its rows: such a
// transaction would see neither the old partition nor these rows.
// Single-statement transactions are excluded, because they hold their snapshot
// no longer than the locks on the tables they read.
//
// backend_xmin alone is not enough: a long write transaction in any database of
// the server makes new snapshots look as old as itself. Transactions that began
// after the CHECK existed are therefore excluded by their start time. If such a
// transaction imports an older snapshot (SET TRANSACTION SNAPSHOT), seen waits
// only for the transaction that exported it.
func (db *DB) seen(ctx context.Context, c *pgconn.PgConn, name string, p rolling.Partition) error {
	checked, err := db.checkedAt(ctx, c, name, p)
	if err != nil {
		return err
	}
	err = db.await(ctx, c, "reads from a snapshot taken before the new period", "SELECT a.pid || ' ' || a.xact_start, a.pid, COALESCE(a.usename, ''), a.xact_start "+
		"FROM pg_stat_activity a, pg_constraint o WHERE o.conrelid = to_regclass("+quoteText(db.dialect.Quote(name))+") AND o.conname = "+quoteText(boundsCheck(p.Period))+
		" AND a.datname = current_database() AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid() "+
		"AND age(a.backend_xmin) >= age(o.xmin) AND a.xact_start <= "+quoteText(checked.at)+"::timestamptz AND NOT (a.state = 'active' AND a.xact_start = a.query_start)")
	if err == nil {
		db.mu.Lock()
		delete(db.checked, checked.check)
		db.mu.Unlock()
	}
	return err
}

// A checkTime is the OID of a CHECK and a time of the server at which it existed.
type checkTime struct{ check, at string }

// checkedAt returns the CHECK of a table's bounds and the time at which this
// process first saw it.
func (db *DB) checkedAt(ctx context.Context, c *pgconn.PgConn, name string, p rolling.Partition) (checkTime, error) {
	rows, err := ask(ctx, c, "SELECT oid, clock_timestamp() FROM pg_constraint WHERE conrelid = to_regclass("+quoteText(db.dialect.Quote(name))+") AND conname = "+quoteText(boundsCheck(p.Period)))
	if err != nil {
		return checkTime{}, err
	}
	if len(rows) == 0 {
		return checkTime{}, fmt.Errorf("table %s has lost the check of its bounds", name)
	}
	is := checkTime{string(rows[0][0]), string(rows[0][1])}
	db.mu.Lock()
	defer db.mu.Unlock()
	if at, known := db.checked[is.check]; known {
		is.at = at
	} else {
		db.checked[is.check] = is.at
	}
	return is, nil
}

// await repeats a query until none of the transactions in its first result is
// left. The query's first column identifies a transaction; the others are its
// process, user and start.
func (db *DB) await(ctx context.Context, c *pgconn.PgConn, why, q string) error {
	q = "SELECT w.*, extract(epoch FROM clock_timestamp() - w.xact_start)::bigint FROM (" + q + ") w (id, pid, usename, xact_start) ORDER BY w.xact_start"
	first := map[string]bool{}
	deadline := time.Now().Add(db.quietWait)
	for round := 0; ; round++ {
		rows, err := ask(ctx, c, q)
		if err != nil {
			return err
		}
		var left [][]byte
		for _, row := range rows {
			if round == 0 {
				first[string(row[0])] = true
			}
			if left == nil && first[string(row[0])] {
				left = row
			}
		}
		if left == nil {
			return nil
		}
		if time.Now().After(deadline) {
			who := fmt.Sprintf("process %s of user %s", left[1], left[2])
			if string(left[1]) == "0" {
				who = "a prepared transaction"
			}
			return engine.Classed(engine.ErrLockTimeout, fmt.Errorf("%s %s, in a transaction open for %s s", who, why, left[4]))
		}
		select {
		case <-time.After(quietPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
