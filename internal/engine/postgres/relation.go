package postgres

import (
	"context"
	"fmt"
	"slices"
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
	// of is the table of which it is a partition, or ""; ours: of the table asked about.
	of   string
	ours bool
	// pending reports whether a concurrent detach of it was interrupted.
	pending bool
	bounds  string // as pg_get_expr prints them
	comment string
}

// apart reports whether it is a table that is not a partition.
func (r relation) apart() bool { return r.exists && r.table && r.of == "" }

func ask(ctx context.Context, c *pgconn.PgConn, q string) ([][][]byte, error) {
	r := c.ExecParams(ctx, q, nil, nil, nil, nil).Read()
	if r.Err != nil {
		return nil, classifyIn(ctx, r.Err)
	}
	return r.Rows, nil
}

// ask runs a query, which Render doesn't show.
func (c *changer) ask(ctx context.Context, q string) (rows [][][]byte) {
	if c.err == nil {
		rows, c.err = ask(ctx, c.conn, q)
	}
	return rows
}

// texts returns the values of a query's first column without the NULLs.
func (c *changer) texts(ctx context.Context, q string) (out []string) {
	for _, row := range c.ask(ctx, q) {
		if row[0] != nil {
			out = append(out, string(row[0]))
		}
	}
	return out
}

// yes returns the answer of a query for one boolean.
func (c *changer) yes(ctx context.Context, q string) bool {
	return slices.Equal(c.texts(ctx, q), []string{"t"})
}

// look reads the relations with these names, and whether they are partitions of t.
func (c *changer) look(ctx context.Context, t *engine.Table, names ...string) map[string]relation {
	parent := "NULL"
	if t != nil {
		parent = c.regclass(t.Name)
	}
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = fmt.Sprintf("(%s, %s)", quoteText(name), quoteText(c.Quote(name)))
	}
	out := map[string]relation{}
	for _, row := range c.ask(ctx, "SELECT n.name, c.relkind IN ('r', 'p'), COALESCE(i.inhparent::regclass::text, ''), "+
		"COALESCE(i.inhparent = "+parent+", false), COALESCE(i.inhdetachpending, false), "+
		"COALESCE(pg_get_expr(c.relpartbound, c.oid), ''), COALESCE(obj_description(c.oid, 'pg_class'), '') "+
		"FROM (VALUES "+strings.Join(list, ", ")+") n(name, quoted) JOIN pg_class c ON c.oid = to_regclass(n.quoted) "+
		"LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND c.relispartition") {
		text := func(i int) string { return string(row[i]) }
		out[text(0)] = relation{exists: true, table: text(1) == "t", of: text(2), ours: text(3) == "t",
			pending: text(4) == "t", bounds: text(5), comment: text(6)}
	}
	return out
}

// holds reports whether the relation is the partition of t with the bounds of p.
func (r relation) holds(t *engine.Table, p rolling.Period) bool {
	if !r.ours || r.pending {
		return false
	}
	from, to, err := parseBounds(t, r.bounds)
	return err == nil && from == p.From && to == p.To
}

// missingIndexes is a query that returns statements: they create those of t's indexes that the
// table called name lacks. Otherwise ATTACH would build the indexes under its lock.
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
		"ELSE " + quoteText("ALTER TABLE "+quoted+" ADD ") + " || def END FROM (" + definitions(d.regclass(t.Name)) + ") m WHERE NOT EXISTS (" +
		"SELECT FROM (" + definitions(d.regclass(name)) + ") h WHERE h.kind = m.kind AND h.indisunique = m.indisunique AND h.plain = m.plain AND h.nth = m.nth) " +
		"ORDER BY kind <> 'p', 1"
}

// prepare adds the indexes and the CHECK of its bounds that a detached table still lacks.
func (c *changer) prepare(ctx context.Context, t *engine.Table, name string, p rolling.Partition) {
	statements, checked := c.texts(ctx, c.missingIndexes(t, name)), false
	for _, check := range c.texts(ctx, "SELECT conname FROM pg_constraint WHERE contype = 'c' AND convalidated AND conname LIKE "+
		quoteText(strings.ReplaceAll(boundsPrefix, "_", `\_`)+"%")+" AND conrelid = "+c.regclass(name)) {
		if check == boundsCheck(p.Period) {
			checked = true
		} else { // for bounds that an earlier attempt intended
			statements = append(statements, c.dropCheck(name, check))
		}
	}
	if !checked {
		compressed := quoteText(compressedTarget) + " = ANY (reloptions)"
		if c.yes(ctx, "SELECT EXISTS (SELECT FROM pg_class WHERE oid = "+c.regclass(name)+" AND "+compressed+")") {
			statements = append(statements, c.compress(ctx, name))
		}
		statements = append(statements, c.addCheck(t, name, p))
	}
	c.run(ctx, statements...)
}

// dropLeft gets the statements of a transaction that attaches the table called name under the name
// child. It adds statements that drop the table's surplus CHECKs, and returns all of them. A CHECK
// is surplus if it repeats the CHECK of the table's bounds: DETACH CONCURRENTLY leaves such a CHECK
// behind.
func (c *changer) dropLeft(ctx context.Context, name, child string, p rolling.Partition, statements []string) []string {
	of := "conrelid = " + c.regclass(name) + " AND contype = 'c'"
	bounds := quoteText(boundsCheck(p.Period))
	// The server's own CHECK of a column TIMESTAMP(n) repeats that type.
	const definition = `regexp_replace(pg_get_constraintdef(oid), 'timestamp\(\d\)', 'timestamp', 'g')`
	for _, check := range c.texts(ctx, "SELECT conname FROM pg_constraint WHERE "+of+" AND conname <> "+bounds+
		" AND "+definition+" = (SELECT "+definition+" FROM pg_constraint WHERE "+of+" AND conname = "+bounds+")") {
		statements = slices.Insert(statements, len(statements)-1, c.dropCheck(child, check))
	}
	return statements
}

// quietWait is how long a step waits, without a lock, for the transactions in its way.
const quietWait = 2 * time.Second

// quietPause is the interval between two queries for the transactions in the way.
const quietPause = 20 * time.Millisecond

// quiet waits until the transactions that now hold locks on the tables have ended. Meanwhile it
// holds no lock that others could queue behind. When it has waited too long, it fails with
// ErrLockTimeout and names the oldest of the transactions. It ignores autovacuum, which yields its
// lock on request.
func (c *changer) quiet(ctx context.Context, tables ...string) {
	held := "l.locktype = 'relation' AND l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) " +
		"AND l.relation IN (" + engine.QuoteList(tables, c.regclass) + ")"
	c.await(ctx, "holds a lock", "SELECT l.virtualtransaction, COALESCE(a.pid, 0), COALESCE(a.usename, ''), COALESCE(a.xact_start, now()) "+
		"FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid "+
		"WHERE "+held+" AND l.pid IS DISTINCT FROM pg_backend_pid() AND a.backend_type IS DISTINCT FROM 'autovacuum worker'")
}

// seen waits until no transaction reads from a snapshot older than the CHECK of a detached table.
// Once the table is a partition, such a snapshot would show neither its rows nor the old partition.
// seen ignores a transaction of one statement: its snapshot ends no later than its locks.
//
// backend_xmin alone is not enough: a long write transaction in any database makes new snapshots
// look as old as itself. seen therefore excludes transactions that began after this process first
// saw the CHECK. If one of them imports an older snapshot, seen waits only for the transaction that
// exported it.
func (c *changer) seen(ctx context.Context, name string, p rolling.Partition) {
	is := "o.conrelid = " + c.regclass(name) + " AND o.conname = " + quoteText(boundsCheck(p.Period))
	rows := c.ask(ctx, "SELECT o.oid, clock_timestamp() FROM pg_constraint o WHERE "+is)
	if len(rows) == 0 {
		c.fail(fmt.Errorf("table %s has lost the check of its bounds", name))
		return
	}
	check, at := string(rows[0][0]), string(rows[0][1])
	c.db.mu.Lock()
	if first, known := c.db.checked[check]; known {
		at = first
	} else {
		c.db.checked[check] = at
	}
	c.db.mu.Unlock()
	c.await(ctx, "reads from a snapshot taken before the new period", "SELECT a.pid || ' ' || a.xact_start, a.pid, COALESCE(a.usename, ''), a.xact_start "+
		"FROM pg_stat_activity a, pg_constraint o WHERE "+is+" AND a.datname = current_database() AND a.backend_type = 'client backend' "+
		"AND a.pid <> pg_backend_pid() AND age(a.backend_xmin) >= age(o.xmin) AND a.xact_start <= "+quoteText(at)+
		"::timestamptz AND NOT (a.state = 'active' AND a.xact_start = a.query_start)")
	if c.err == nil {
		c.db.mu.Lock()
		delete(c.db.checked, check)
		c.db.mu.Unlock()
	}
}

// await repeats the query q until none of the transactions in the first result is left. The columns
// of q are a transaction's id, its process, its user and its start.
func (c *changer) await(ctx context.Context, why, q string) {
	q = "SELECT w.*, extract(epoch FROM clock_timestamp() - w.xact_start)::bigint FROM (" + q + ") w (id, pid, usename, xact_start) ORDER BY w.xact_start"
	first := map[string]bool{}
	deadline := time.Now().Add(c.db.quietWait)
	for round := 0; ; round++ {
		var left [][]byte
		for _, row := range c.ask(ctx, q) {
			if round == 0 {
				first[string(row[0])] = true
			}
			if left == nil && first[string(row[0])] {
				left = row
			}
		}
		if left == nil {
			return
		}
		if time.Now().After(deadline) {
			who := fmt.Sprintf("process %s of user %s", left[1], left[2])
			if string(left[1]) == "0" {
				who = "a prepared transaction"
			}
			c.fail(engine.Classed(engine.ErrLockTimeout, fmt.Errorf("%s %s, in a transaction open for %s s", who, why, left[4])))
			return
		}
		c.fail(engine.Sleep(ctx, quietPause))
	}
}
