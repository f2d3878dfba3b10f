package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// PartIdentities implements engine.PartIdentifier. An identity has InnoDB's ids of a partition's
// table and file, which TRUNCATE, EXCHANGE, REBUILD and DISCARD TABLESPACE change, and the times at
// which rowmill's triggers were created. It also has the server's id, because a replica that has
// run the same DDL may have the same ids and times. An exchange that is undone by a second one
// restores the identity: alters notices such exchanges.
func (db *versions) PartIdentities(ctx context.Context, s *engine.Session, database, table string, parts []string) (out *engine.PartIdentities, err error) {
	err = whileDropped(func() error {
		out, err = db.partIdentities(ctx, s, database, table, parts)
		return err
	})
	return out, err
}

// errUnknownDatabase is ER_BAD_DB_ERROR.
const errUnknownDatabase = 1049

// whileDropped repeats a read of the catalog that failed because another session dropped a
// database. On MySQL 8.0.15, the read fails whichever database is dropped meanwhile; the error is
// "Unknown database", with an empty name.
func whileDropped(read func() error) error {
	const most = 5
	for n := 1; ; n++ {
		err := read()
		if n == most || !serverError(err, errUnknownDatabase) || !strings.Contains(err.Error(), "''") {
			return err
		}
	}
}

func (db *versions) partIdentities(ctx context.Context, s *engine.Session, database, table string, parts []string) (*engine.PartIdentities, error) {
	if database == "" {
		database = db.config.DBName
	}
	t := &engine.TableParts{Database: database, Name: table}
	fail := func(err error) (*engine.PartIdentities, error) {
		return nil, fmt.Errorf("read what identifies the partitions of %s: %w", db.qualified(t), err)
	}
	var own []string
	if s != nil {
		var err error
		if own, err = db.touch(ctx, s, t, db.dialect.serverID()); err != nil {
			return fail(err)
		}
	}
	alters, now, server, err := db.alters(ctx)
	if err != nil {
		return fail(err)
	}
	if own != nil && server != "" && own[0] != server {
		return &engine.PartIdentities{Why: severalServers}, nil
	}
	triggers := sha256.New()
	err = engine.Each(ctx, db, db.pool, func(r *sql.Rows) error {
		var name, created, server string
		err := r.Scan(&name, &created, &server)
		fmt.Fprintf(triggers, "%s %s %s\n", name, created, server)
		return err
	}, "SELECT TRIGGER_NAME, COALESCE(CREATED, ''), "+db.dialect.serverID()+" FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = ? AND EVENT_OBJECT_TABLE = ? "+
		"AND TRIGGER_NAME LIKE 'rowmill%' ORDER BY TRIGGER_NAME", database, table)
	if err != nil {
		return fail(err)
	}
	out := &engine.PartIdentities{IDs: map[string]string{}, Alters: alters, Now: now * time.Second.Microseconds()}
	out.Columns, err = engine.Pairs[string](ctx, db, db.pool, "SELECT COLUMN_NAME, CONCAT(ORDINAL_POSITION, ' ', SHA2(CONCAT_WS(' ', DATA_TYPE, GENERATION_EXPRESSION), 256)) FROM information_schema.COLUMNS "+
		"WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?", database, table)
	if err != nil {
		return fail(err)
	}
	tables, err := db.innodbTables(ctx, t, "TABLE_ID", "SPACE")
	if missing(err) {
		out.Why = noProcess
		return out, nil
	}
	if err != nil {
		return fail(err)
	}
	if len(tables) == 0 {
		out.Why = noInnoDB
		return out, nil
	}
	common := hex.EncodeToString(triggers.Sum(nil)[:8])
	for _, p := range parts {
		if id := tables[fileKey(p)]; id != "" {
			out.IDs[p] = common + " " + id
		}
	}
	return out, nil
}

// Reasons why InnoDB's ids can't be read.
const (
	noProcess = "the account may not read InnoDB's tables: GRANT PROCESS ON *.* TO it"
	noInnoDB  = "InnoDB, whose ids tell whether a partition was replaced, doesn't list its partitions: another storage engine has them"

	severalServers = "connections to the target lead to several servers, as through a proxy: whether a partition was replaced isn't known"
)

// serverID is an expression that differs between servers that replicate from each other.
func (d dialect) serverID() string {
	if d.mariadb {
		return "@@GLOBAL.server_id"
	}
	return "@@GLOBAL.server_uuid"
}

func (db *versions) PartsWritten(ctx context.Context, database, table string) (*engine.PartsWritten, error) {
	if database == "" {
		database = db.config.DBName
	}
	all, definition, err := db.written(ctx, database, table)
	if err != nil {
		return nil, fmt.Errorf("read when partitions of %s were changed: %w", table, err)
	}
	if all == nil {
		return nil, nil
	}
	w := &engine.PartsWritten{At: map[string]int64{}, Definition: definition}
	for name, at := range all {
		if at != 0 {
			w.At[name] = at * time.Second.Microseconds()
		}
	}
	return w, nil
}
