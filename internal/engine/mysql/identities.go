package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// PartIdentities implements engine.PartIdentifier: InnoDB's ids of a partition's table and file, which TRUNCATE, EXCHANGE, REBUILD and
// DISCARD TABLESPACE change, and the times of creation of rowmill's triggers. See alters for an EXCHANGE there and back.
func (db *DB) PartIdentities(ctx context.Context, s *engine.Session, database, table string, parts []string) (*engine.PartIdentities, error) {
	if database == "" {
		database = db.config.DBName
	}
	t := &engine.TableParts{Database: database, Name: table}
	fail := func(err error) (*engine.PartIdentities, error) {
		return nil, fmt.Errorf("read what identifies the partitions of %s: %w", db.qualified(t), err)
	}
	if s != nil { // from here on, its transaction keeps others from changing the table by DDL
		if err := s.Text(ctx, "SELECT 1 FROM "+db.qualified(t)+" LIMIT 0", nil, func([][]byte) error { return nil }); err != nil {
			return fail(err)
		}
	}
	alters, now, err := db.alters(ctx)
	if err != nil {
		return fail(err)
	}
	triggers := sha256.New()
	err = engine.Each(ctx, db, db.pool, func(r *sql.Rows) error {
		var name, created string
		err := r.Scan(&name, &created)
		fmt.Fprintf(triggers, "%s %s\n", name, created)
		return err
	}, "SELECT TRIGGER_NAME, COALESCE(CREATED, '') FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = ? AND EVENT_OBJECT_TABLE = ? "+
		"AND TRIGGER_NAME LIKE 'rowmill%' ORDER BY TRIGGER_NAME", database, table)
	if err != nil {
		return fail(err)
	}
	out := &engine.PartIdentities{IDs: map[string]string{}, Alters: alters, Now: now * time.Second.Microseconds()}
	tables, err := db.innodbTables(ctx, t, "TABLE_ID", "SPACE")
	if missing(err) {
		out.Why = noProcess
		return out, nil
	}
	if err != nil {
		return fail(err)
	}
	common := hex.EncodeToString(triggers.Sum(nil)[:8])
	for _, p := range parts {
		if id := tables[fileKey(p)]; id != "" {
			out.IDs[p] = common + " " + id
		}
	}
	return out, nil
}

// noProcess is why InnoDB's ids can't be read.
const noProcess = "the account may not read InnoDB's tables: GRANT PROCESS ON *.* TO it"

// PartsWritten implements engine.PartIdentifier.
func (db *DB) PartsWritten(ctx context.Context, database, table string) (map[string]int64, error) {
	if database == "" {
		database = db.config.DBName
	}
	all, err := db.written(ctx, database, table)
	if err != nil {
		return nil, fmt.Errorf("read when partitions of %s were changed: %w", table, err)
	}
	for name, at := range all {
		if at == 0 {
			delete(all, name)
		} else {
			all[name] = at * time.Second.Microseconds()
		}
	}
	return all, nil
}
