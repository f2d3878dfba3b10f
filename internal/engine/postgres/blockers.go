package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// mostStatement is the length to which a blocker's statement is cut, in characters.
const mostStatement = "200"

// blockers is the query for Blockers. It lists every transaction, idle or
// prepared ones included, that holds a lock on the table or a partition. While
// a detach is unfinished it also lists the transactions whose snapshot is older
// than the detach, because the detach waits for them. The parameter own is the
// application name of maintenance connections.
func (d dialect) blockers(t *engine.Table, own string) string {
	older := ""
	if d.concurrent {
		older = " OR a.datname = current_database() AND age(a.backend_xmin) >= " +
			"(SELECT min(age(i.xmin)) FROM pg_inherits i JOIN rel ON rel.oid = i.inhrelid WHERE i.inhdetachpending)"
	}
	return "WITH RECURSIVE rel(oid) AS (SELECT " + d.regclass(t) + "::oid UNION SELECT i.inhrelid FROM pg_inherits i JOIN rel ON i.inhparent = rel.oid), " +
		"held AS MATERIALIZED (SELECT l.pid, l.virtualtransaction FROM pg_locks l JOIN rel ON rel.oid = l.relation " +
		"WHERE l.locktype = 'relation' AND l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())) " +
		"SELECT a.pid, COALESCE(a.usename, ''), COALESCE(host(a.client_addr), CASE WHEN a.client_port = -1 THEN 'local' END, ''), " +
		"COALESCE(extract(epoch FROM clock_timestamp() - a.xact_start) * 1000000, 0)::bigint AS age, left(COALESCE(a.query, ''), " + mostStatement + "), " +
		"a.application_name IN (" + quoteText(own) + ", 'rowmill maintenance') " +
		"FROM pg_stat_activity a WHERE a.pid <> pg_backend_pid() AND a.backend_type <> 'autovacuum worker' " +
		"AND (a.pid IN (SELECT pid FROM held)" + older + ") " +
		"UNION ALL SELECT 0, p.owner, '', (extract(epoch FROM clock_timestamp() - p.prepared) * 1000000)::bigint, left('PREPARE TRANSACTION ' || quote_literal(p.gid), " + mostStatement + "), false " +
		"FROM pg_prepared_xacts p WHERE p.database = current_database() AND p.transaction IN (SELECT x.transactionid FROM pg_locks x " +
		"WHERE x.locktype = 'transactionid' AND x.pid IS NULL AND x.virtualtransaction IN (SELECT virtualtransaction FROM held WHERE pid IS NULL)) " +
		"ORDER BY age DESC"
}

// Blockers implements engine.Keeper. A prepared transaction has the ID 0; COMMIT
// PREPARED or ROLLBACK PREPARED ends it. Without the role pg_read_all_stats an
// account sees neither the age nor the statement of other users' transactions.
func (db *DB) Blockers(ctx context.Context, t *engine.Table) ([]engine.Blocker, error) {
	rows, err := db.query(ctx, db.dialect.blockers(t, maintenanceName(db.config)))
	if err != nil {
		return nil, fmt.Errorf("transactions that use %s: %w", t.Name, err)
	}
	var out []engine.Blocker
	for _, row := range rows {
		b := engine.Blocker{User: string(row[1]), Host: string(row[2]), Statement: string(row[4]), Own: string(row[5]) == "t"}
		b.ID, err = strconv.ParseInt(string(row[0]), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("transactions that use %s: %w", t.Name, err)
		}
		age, err := strconv.ParseInt(string(row[3]), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("transactions that use %s: %w", t.Name, err)
		}
		b.Age = max(time.Duration(age)*time.Microsecond, 0)
		out = append(out, b)
	}
	return out, nil
}
