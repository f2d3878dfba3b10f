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

// Somebody may exchange a partition for a table, change the rows of that table, and exchange it
// back. The partition then has the same id in InnoDB, no trigger has fired, and no catalog keeps a
// trace. But as long as the server's counter of ALTER TABLE stays the same, nobody has exchanged a
// partition. After an ALTER TABLE of any table, the time of the last commit that changed the
// partition tells whether its rows are the same. InnoDB keeps that time in memory.

// alters reads the server's counter of ALTER TABLE. Two equal texts mean that no ALTER TABLE has
// begun between the two calls. text is "" if that isn't certain, for example while an ALTER TABLE
// may be waiting for its lock. now is the server's clock in Unix seconds, read before the counter.
// server is the server's serverID.
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

// touch opens a table in the transaction of a session, and returns the values of expressions. Until
// the transaction ends, nobody can change the table by DDL.
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

// writtenTimeout limits the wait for the times of the last commits. To read them, the server opens
// the table, and waits behind DDL that itself waits for a lock.
const writtenTimeout = 2 * time.Second

// written returns when the last commit changed each partition, in Unix seconds. The time is 0 if
// the server doesn't know it: it forgets the time when it closes the partition, which it may do at
// any moment. out is nil if the server doesn't answer within writtenTimeout. definition is the time
// of the last ALTER TABLE other than EXCHANGE PARTITION.
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

// A lineage is a period of time in which triggers noticed every change of a partition's rows.
type lineage struct {
	id     string // the partition's id in InnoDB
	alters string // the counter of ALTER TABLE when the lineage was last certain
	// written is the time of the partition's last commit, as read when the lineage was last certain.
	// It is 0 if the time is unknown, or so recent that another commit may have the same time.
	written int64
	number  uint64 // no other lineage has it
	// began is when the lineage was first seen. While written is 0, look is the next time at which to
	// read the time of the last commit. The intervals between the reads double, because a read proves
	// nothing while clients write to the partition. began and look are in Unix seconds.
	began, look int64
}

// lineages holds the lineage of each partition, by table.
type lineages struct {
	mu     sync.Mutex
	tables map[string]map[string]lineage
	last   uint64
}

// mostTraced is the maximum number of tables in lineages. When it is reached, all tables are
// removed before another one is added.
const mostTraced = 1000

// lineages returns the number of each partition's present lineage, by the partition's name. ids are
// the partitions' ids in InnoDB, by name. alters, the server's count of ALTER TABLE, and the time
// now were read before ids.
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
		// The time of a recent commit proves nothing: another commit in the same second would have the
		// same time.
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
	l.tables[key] = next // nobody changes next from here on
	return numbers, nil
}
