package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// A partition that is exchanged out of its table, changed there and exchanged back has the same id
// in InnoDB, and no trigger has fired. No catalog keeps a trace of it. While the server has begun
// no ALTER TABLE, of any table, it hasn't happened; after one, the time of the last commit that
// changed the partition tells, which InnoDB keeps in memory.

// alters reads the server's counter of ALTER TABLE: a text that is the same as long as none has
// begun since; "" if that isn't certain, as while one may be waiting for its lock. now is the
// server's clock in Unix seconds, before, and server its serverID.
func (db *versions) alters(ctx context.Context) (text string, now int64, server string, err error) {
	view := "performance_schema.global_status"
	if db.dialect.mariadb {
		view = "information_schema.GLOBAL_STATUS"
	}
	conn, err := db.pool.Conn(ctx)
	if err != nil {
		return "", 0, "", classify(err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	var start, flushed, waiting int64
	var count sql.NullString
	found := 0
	err = engine.Each(ctx, db, conn, func(r *sql.Rows) error {
		var name, value string
		if err := r.Scan(&name, &value, &now, &waiting, &server); err != nil {
			return err
		}
		var n int64
		_, err := fmt.Sscan(value, &n)
		switch found++; strings.ToLower(name) {
		case "uptime":
			start = now - n
		case "uptime_since_flush_status":
			flushed = now - n
		default:
			count = sql.NullString{String: value, Valid: true}
		}
		return err
	}, "SELECT VARIABLE_NAME, VARIABLE_VALUE, UNIX_TIMESTAMP(), (SELECT COUNT(*) FROM "+db.dialect.sessions()+" WHERE STATE LIKE 'Waiting for%lock'), "+
		db.dialect.serverID()+" FROM "+view+" WHERE VARIABLE_NAME IN ('Uptime', 'Uptime_since_flush_status', 'Com_alter_table')")
	if err == nil && !count.Valid { // MySQL has the counters of statements only here
		var name string
		err = conn.QueryRowContext(ctx, "SHOW GLOBAL STATUS WHERE Variable_name = 'Com_alter_table'").Scan(&name, &count)
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
	}
	if err != nil {
		return "", now, server, fmt.Errorf("read the server's counters: %w", classify(err))
	}
	if found < 2 || !count.Valid || waiting > 0 || now-flushed < settled {
		return "", now, server, nil
	}
	return fmt.Sprintf("%d %d %s", start, flushed, count.String), now, server, nil
}

// touch opens a table in the transaction of a session, which from then on keeps others from
// changing it by DDL, and returns values of expressions.
func (db *versions) touch(ctx context.Context, s *engine.Session, t *engine.TableParts, expressions ...string) (values []string, err error) {
	err = s.Text(ctx, "SELECT "+bytesOf(expressions...)+" FROM (SELECT 1 FROM "+db.qualified(t)+" LIMIT 0) AS x RIGHT JOIN (SELECT 1) AS y ON 1 = 1"+whole, nil, func(v [][]byte) error {
		for _, x := range v {
			values = append(values, string(x))
		}
		return nil
	})
	if err == nil && len(values) != len(expressions) {
		err = fmt.Errorf("%s has %d values", strings.Join(expressions, ", "), len(values))
	}
	return values, err
}

// writtenTimeout limits the wait for the times of the last commits: the server opens the table for
// them, behind DDL that waits for its lock.
const writtenTimeout = 2 * time.Second

// written returns when the last commit changed each partition, in Unix seconds, as far as the
// server knows it: not since it opened the partition, which it may do anew at any time. It is nil
// if the server doesn't tell in time. definition is the time of the last ALTER TABLE, other than
// EXCHANGE PARTITION.
func (db *versions) written(ctx context.Context, database, table string) (out map[string]int64, definition string, err error) {
	limited, cancel := context.WithTimeout(ctx, writtenTimeout)
	defer cancel()
	out, definition, err = db.readWritten(limited, database, table)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, "", nil
	}
	return out, definition, err
}

func (db *server) readWritten(ctx context.Context, database, table string) (out map[string]int64, definition string, err error) {
	conn, err := db.freshConn(ctx)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	out = map[string]int64{}
	parts := map[string]int{}
	err = engine.Each(ctx, db, conn, func(r *sql.Rows) error {
		var name string
		var at int64
		err := r.Scan(&name, &at, &definition)
		if parts[name]++; parts[name] == 1 {
			out[name] = at
		} else { // subpartitions
			out[name] = 0
		}
		return err
	}, "SELECT PARTITION_NAME, COALESCE(UNIX_TIMESTAMP(UPDATE_TIME), 0), COALESCE(UNIX_TIMESTAMP(CREATE_TIME), '') FROM information_schema.PARTITIONS "+
		"WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND PARTITION_NAME IS NOT NULL", database, table)
	return out, definition, err
}

// A lineage is a stretch of time in which the rows of a partition have changed by nothing that
// triggers don't see. Number tells it from all others, Alters is the counter, and Written the last
// commit, when it was last certain.
type lineage struct {
	id, alters string
	written    int64 // 0 if it proves nothing
	number     uint64
	// began is when it was first seen, look when to look again for a commit that proves something, in
	// Unix seconds: at intervals that double, since partitions that are being written never have one.
	began, look int64
}

// lineages are those of the partitions of tables.
type lineages struct {
	mu     sync.Mutex
	tables map[string]map[string]lineage
	last   uint64
}

// mostTraced is how many tables lineages has; beyond it, it begins anew.
const mostTraced = 1000

// lineages returns the numbers of the present lineages of partitions that have these ids. alters
// and now were read before the ids.
func (db *versions) lineages(ctx context.Context, t *engine.TableParts, ids map[string]string, alters string, now int64) (numbers map[string]uint64, err error) {
	l := &db.traced
	key := db.qualified(t)
	l.mu.Lock()
	known := l.tables[key]
	l.mu.Unlock()
	counted := func(part, id string) bool {
		return known[part].id == id && alters != "" && known[part].alters == alters
	}
	var written map[string]int64
	if slices.ContainsFunc(t.Parts, func(p engine.TablePart) bool {
		id, x := ids[p.Name], known[p.Name]
		return id != "" && (!counted(p.Name, id) || x.written == 0 && now >= x.look)
	}) {
		if written, _, err = db.written(ctx, t.Database, t.Name); err != nil {
			return nil, err
		}
	}
	next, numbers := map[string]lineage{}, map[string]uint64{}
	l.mu.Lock()
	defer l.mu.Unlock()
	for part, id := range ids {
		x, at := known[part], written[part]
		switch {
		case counted(part, id):
		case x.id == id && x.written != 0 && x.written == at:
			x.alters = alters
		default:
			l.last++
			x = lineage{id: id, alters: alters, number: l.last, began: now}
		}
		// A commit in the second of the last one, or within the resolution of the clock, would not be
		// told from it.
		if written != nil {
			x.written = 0
			if at != 0 && at < now-settled {
				x.written = at
			}
			x.look = now + max(settled, now-x.began)
		}
		next[part], numbers[part] = x, x.number
	}
	if l.tables == nil || len(l.tables) >= mostTraced {
		l.tables = map[string]map[string]lineage{}
	}
	l.tables[key] = next // which nobody changes
	return numbers, nil
}
