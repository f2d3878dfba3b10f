package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
)

// statementLength is the maximum length, in characters, of a blocker's statement.
const statementLength = 200

// trxAge is a transaction's age in seconds. InnoDB reports the start of a transaction in the
// system's time zone, so the present time, which is in UTC in rowmill's sessions, is converted to
// that zone.
const trxAge = "COALESCE(TIMESTAMPDIFF(SECOND, x.trx_started, CONVERT_TZ(NOW(), '+00:00', 'SYSTEM')), p.TIME, 0)"

// A blockerView is one way to query the sessions that hold a table's lock.
type blockerView struct {
	// when is a query that returns 1 if the view is available; "" means always.
	when string
	// query takes the table's name for each placeholder.
	query string
}

// blockerViews returns queries for the sessions that block a table, the most precise one first. The
// last two queries are approximations. The last but one returns this database's transactions and
// the matching statements: those that are running, contain the table's name, and either run in this
// database or contain its name. The last one, for accounts that can't read transactions, returns
// only the matching statements.
func (d dialect) blockerViews() []blockerView {
	query := func(age, statement, joins, where string) string {
		return "SELECT p.ID, p.USER, p.HOST, " + age + " AS age, " + statement + " AS statement, " +
			"IS_USED_LOCK(CONCAT('" + ownLock + "', p.ID)) IS NOT NULL AS own FROM " + d.sessions() + " p " + joins +
			"WHERE " + where + " AND p.ID <> CONNECTION_ID() ORDER BY age DESC, ID"
	}
	const joinTrx = "LEFT JOIN information_schema.INNODB_TRX x ON x.trx_mysql_thread_id = p.ID "
	const statement = "COALESCE(x.trx_query, p.INFO, '')"
	views := []blockerView{{
		when: "SELECT COUNT(*) FROM performance_schema.setup_instruments WHERE NAME = 'wait/lock/metadata/sql/mdl' AND ENABLED = 'YES' AND @@performance_schema = 1",
		query: query(trxAge, "COALESCE(x.trx_query, p.INFO, e.SQL_TEXT)",
			"JOIN performance_schema.threads t ON t.PROCESSLIST_ID = p.ID JOIN performance_schema.metadata_locks m ON m.OWNER_THREAD_ID = t.THREAD_ID "+
				"LEFT JOIN performance_schema.events_statements_current e ON e.THREAD_ID = t.THREAD_ID AND e.NESTING_EVENT_ID IS NULL "+joinTrx,
			"m.OBJECT_TYPE = 'TABLE' AND m.OBJECT_SCHEMA = DATABASE() AND m.OBJECT_NAME = ? AND m.LOCK_STATUS = 'GRANTED'"),
	}}
	if d.mariadb {
		views = append(views, blockerView{query: query(trxAge, statement,
			"JOIN information_schema.METADATA_LOCK_INFO m ON m.THREAD_ID = p.ID "+joinTrx,
			"m.LOCK_TYPE = 'Table metadata lock' AND m.TABLE_SCHEMA = DATABASE() AND m.TABLE_NAME = ?")})
	}
	if d.rocksdb() {
		views = append(views, blockerView{query: query("p.TIME", "COALESCE(p.INFO, '')",
			"JOIN information_schema.ROCKSDB_TRX r ON r.THREAD_ID = p.ID ", "p.DB = DATABASE()")})
	}
	const running = "p.COMMAND IN ('Query', 'Execute') AND LOCATE(?, p.INFO) > 0 AND (p.DB = DATABASE() OR LOCATE(DATABASE(), p.INFO) > 0)"
	return append(views,
		blockerView{query: query(trxAge, statement, joinTrx, "(x.trx_id IS NOT NULL AND p.DB = DATABASE() OR "+running+")")},
		blockerView{query: query("p.TIME", "p.INFO", "", running)})
}

// trxCache is slightly longer than the time for which INNODB_TRX returns a cached result.
const trxCache = 120 * time.Millisecond

// Blockers implements engine.Keeper. If the server has neither metadata locks in its performance
// schema nor MariaDB's plugin METADATA_LOCK_INFO, Blockers also returns transactions of this
// database that use only other tables.
func (db *server) Blockers(ctx context.Context, t *engine.Table) ([]engine.Blocker, error) {
	if err := engine.Sleep(ctx, trxCache); err != nil {
		return nil, err
	}
	var out []engine.Blocker
	for _, v := range db.dialect.blockerViews() {
		if v.when != "" {
			var kept bool
			err := db.pool.QueryRowContext(ctx, v.when).Scan(&kept)
			if missing(err) || err == nil && !kept {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("list the transactions that hold table %s: %w", t.Name, classify(err))
			}
		}
		found, err := db.blockers(ctx, v, t.Name)
		if err == nil && len(found) == 0 && v.when == "" {
			// Another session may have read INNODB_TRX, which keeps the cached result alive for longer.
			if err := engine.Sleep(ctx, trxCache); err != nil {
				return nil, err
			}
			found, err = db.blockers(ctx, v, t.Name)
		}
		if missing(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list the transactions that hold table %s: %w", t.Name, err)
		}
		out = found
		if len(found) > 0 || v.when != "" || !db.dialect.rocksdb() {
			break
		}
	}
	return out, nil
}

// missing reports whether a view doesn't exist or can't be read.
func missing(err error) bool {
	return serverError(err, 1044, 1109, 1142, 1146, 1193, errPrivilege, errCannotConvert)
}

const (
	processList       = "information_schema.PROCESSLIST"
	schemaProcessList = "performance_schema.processlist"
	// errCannotConvert is MySQL 9.7's error for reading processList while any session runs a statement
	// whose text has bytes that aren't UTF-8, or a character above U+FFFF.
	errCannotConvert = 3854
)

// sessions returns the view of the list of sessions, for a FROM clause.
func (d dialect) sessions() string { return cmp.Or(d.listed, processList) }

// Sessions lists the sessions visible to the target's user. It uses SHOW PROCESSLIST: the view
// information_schema.PROCESSLIST omits a session if its statement has bytes that the view's columns
// can't hold.
func (db *server) Sessions(ctx context.Context) ([]engine.ServerSession, error) {
	var out []engine.ServerSession
	err := engine.EachText(ctx, db, db.pool, func(_, row []string) error { // MariaDB has more columns than MySQL
		id, err := strconv.ParseInt(row[0], 10, 64)
		out = append(out, engine.ServerSession{ID: id, Database: row[3], State: row[6], Statement: row[7]})
		return err
	}, "SHOW FULL PROCESSLIST")
	return out, engine.About(ctx, err, "list sessions")
}

// probeSessions returns the view that lists sessions: performance_schema.processlist on MySQL
// 8.0.22 and later with the performance schema enabled, else information_schema.PROCESSLIST. A
// query of the latter fails while a session runs certain statements: see errCannotConvert.
func (db *server) probeSessions(ctx context.Context) (string, error) {
	if db.dialect.mariadb {
		return processList, nil
	}
	var n int
	err := db.pool.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+schemaProcessList).Scan(&n)
	var server *mysql.MySQLError
	switch {
	case err == nil && n > 0: // at least this session
		return schemaProcessList, nil
	case err != nil && !errors.As(err, &server):
		return "", db.unreachable(err)
	}
	return processList, nil
}

func (db *server) blockers(ctx context.Context, v blockerView, table string) ([]engine.Blocker, error) {
	args := slices.Repeat([]any{db.dialect.stored(table)}, strings.Count(v.query, "?"))
	var out []engine.Blocker
	seen := map[int64]bool{}
	err := engine.Each(ctx, db, db.pool, func(r *sql.Rows) error {
		var b engine.Blocker
		var seconds int64
		var user, host, statement sql.NullString
		var own sql.NullBool
		if err := r.Scan(&b.ID, &user, &host, &seconds, &statement, &own); err != nil {
			return err
		}
		if seen[b.ID] {
			return nil
		}
		seen[b.ID] = true
		b.User, b.Host, b.Statement, b.Own = user.String, host.String, statement.String, own.Bool
		if text := []rune(b.Statement); len(text) > statementLength {
			b.Statement = string(text[:statementLength])
		}
		// The servers count whole seconds; 0 seconds is a transaction of less than one second.
		b.Age = max(time.Duration(seconds)*time.Second, time.Millisecond)
		out = append(out, b)
		return nil
	}, v.query, args...)
	return out, err
}
