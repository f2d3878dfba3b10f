package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/rowmill/rowmill/internal/engine"
)

// dial opens a connection and prepares it with the default engine.Connect.
func (db *server) dial(ctx context.Context) (*pgconn.PgConn, error) {
	return db.dialSession(ctx, engine.Connect{})
}

func (db *server) dialSession(ctx context.Context, s engine.Connect) (*pgconn.PgConn, error) {
	return db.connectAs(ctx, db.config, s)
}

func (db *server) connectAs(ctx context.Context, cfg *pgconn.Config, s engine.Connect) (*pgconn.PgConn, error) {
	c, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, db.unreachable(ctx, err)
	}
	if err := db.prepareSession(ctx, c, s); err != nil {
		discard(c)
		return nil, err
	}
	return c, nil
}

// discardWait bounds the wait for a connection to close.
const discardWait = 5 * time.Second

// discard closes a connection, even while a statement runs on it.
func discard(c *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), discardWait)
	defer cancel()
	_ = c.Close(ctx) // the connection may be broken
	select {
	case <-c.CleanupDone(): // a running query has been canceled
	case <-ctx.Done():
	}
}

// borrow passes a connection of a pool to fn. Unless fn fails, the connection goes back to the
// pool, because a new one takes PostgreSQL several milliseconds of CPU time.
func (db *server) borrow(ctx context.Context, pool *sql.DB, fn func(c *pgconn.PgConn) error) error {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return db.unreachable(ctx, err)
	}
	defer conn.Close()
	var failed error
	err = conn.Raw(func(c any) error {
		borrowed := c.(*stdlib.Conn).Conn().PgConn()
		if failed = fn(borrowed); failed != nil {
			discard(borrowed)
			return driver.ErrBadConn
		}
		return nil
	})
	if failed != nil {
		return failed
	}
	return err
}

// query runs one statement on a connection of the pool and returns its rows as text.
func (db *server) query(ctx context.Context, q string) (rows [][][]byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	conn, err := db.plain.Conn(ctx)
	if err != nil {
		return nil, db.unreachable(ctx, err)
	}
	defer conn.Close()
	err = conn.Raw(func(c any) error {
		results, err := c.(*stdlib.Conn).Conn().PgConn().Exec(ctx, q).ReadAll()
		if err == nil && len(results) > 0 {
			rows = results[len(results)-1].Rows
		}
		return err
	})
	return rows, classifyIn(ctx, err)
}

// classifyIn classifies an error. If ctx has ended and the error is not the
// server's, it returns the error of ctx.
func classifyIn(ctx context.Context, err error) error {
	var server *pgconn.PgError
	if err != nil && ctx.Err() != nil && !errors.As(err, &server) {
		return ctx.Err()
	}
	return classify(err)
}

func (db *server) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	network, where := pgconn.NetworkAddress(db.config.Host, db.config.Port)
	var server *pgconn.PgError
	if errors.As(err, &server) {
		err := fmt.Errorf("connect to %s: %w", where, server)
		switch server.Code {
		case "3D000": // invalid_catalog_name
			return engine.Hinted(err, "CREATE DATABASE %s", dialect{}.Quote(db.config.Database))
		case "28P01", "28000": // invalid_password, invalid_authorization_specification
			return engine.Hinted(err, "PGPASSWORD, ~/.pgpass or ?password-file=FILE for the password of %q", db.config.User)
		}
		return classify(err)
	}
	return engine.Hinted(engine.Classed(engine.ErrUnreachable,
		fmt.Errorf("no answer from %s as user %q over %s: %w", where, db.config.User, network, err)),
		"check that the server runs and listens there; a private one to try things is --target 'sandbox:postgres'")
}

// killWait bounds the wait for a connection that was killed.
const killWait = 5 * time.Second

// kill terminates a connection on the server and waits until it is gone: see engine.Linked.
func (db *server) kill(ctx context.Context, pid uint32) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killWait)
	defer cancel()
	if _, err := db.query(ctx, fmt.Sprintf("SELECT pg_terminate_backend(%d)", pid)); err != nil {
		return fmt.Errorf("end the server's process %d: %w", pid, err)
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		rows, err := db.query(ctx, fmt.Sprintf("SELECT 1 FROM pg_stat_activity WHERE pid = %d", pid))
		if err != nil {
			return fmt.Errorf("wait for the end of the server's process %d: %w", pid, err)
		}
		if len(rows) == 0 {
			return nil
		}
		time.Sleep(pause)
	}
}

// Every connection sets everything that rowmill relies on. Defaults of a server, a
// database or an account, which serve other programs, must not affect the meaning
// of a statement, the table that a name refers to, or the text of a value.

// common are the settings of every session, in the syntax of SET. A lock_timeout
// of 0 is PostgreSQL's default; maintenance and loaders set their own.
var common = []string{
	// Required to encode inserts and to parse values and bounds.
	"client_encoding = 'UTF8'", "standard_conforming_strings = on", "DateStyle = 'ISO, YMD'", "TimeZone = 'UTC'",
	// Text of values is exact.
	"extra_float_digits = 1", "bytea_output = 'hex'", "IntervalStyle = 'postgres'",
	// The catalog returns names unquoted, and = NULL is never true.
	"quote_all_identifiers = off", "transform_null_equals = off",
	// Each statement sees all committed rows and may write.
	"default_transaction_isolation = 'read committed'", "default_transaction_read_only = off", "default_transaction_deferrable = off",
	// Nothing times out: reading a period takes minutes. Warnings are sent: they report changed rows.
	"statement_timeout = 0", "lock_timeout = 0", "idle_in_transaction_session_timeout = 0", "client_min_messages = 'notice'",
}

// wholePath sets the search path to the existing schemas of the current path,
// in order, or to public if there are none. It omits pg_catalog, which is then
// searched first, so that no table hides a system catalog.
const wholePath = "SELECT pg_catalog.set_config('search_path', COALESCE((SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.i) " +
	"FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY s(name, i) WHERE s.name::text OPERATOR(pg_catalog.<>) 'pg_catalog'), 'public'), false)"

// session renders the statements that prepare a connection.
func (d dialect) session(s engine.Connect) []string {
	out := make([]string, len(common), len(common)+2)
	for i, setting := range common {
		out[i] = "SET " + setting
	}
	if d.version > 0 { // else it may be older than leastVersion
		out = append(out, "SET idle_session_timeout = 0")
	}
	if d.version >= 170000 {
		out = append(out, "SET transaction_timeout = 0")
	}
	if s.Maintenance {
		out = append(out, "SET lock_timeout = '"+lockWait+"'")
	}
	return append(out, d.searchPath())
}

// searchPath renders the setting of the search path. It is the path of the
// first connection, so that all connections of a DB find the same tables even
// if the account's path changes. The first connection takes the account's path.
func (d dialect) searchPath() string {
	if d.path == "" {
		return wholePath
	}
	return "SET search_path = " + d.path
}

// prepareSession prepares a connection. It sends the SET statements in one message. The first
// connection sets the search path by a query, in a second message: in one transaction with the SET
// statements, the query could block if transactions are read-only and deferrable by default.
func (db *server) prepareSession(ctx context.Context, c *pgconn.PgConn, s engine.Connect) error {
	statements := db.dialect.session(s)
	messages := []string{strings.Join(statements, "; ")}
	if db.dialect.path == "" {
		last := len(statements) - 1
		messages = []string{strings.Join(statements[:last], "; "), statements[last]}
	}
	return execAll(ctx, c, messages...)
}

// execAll executes statements that prepare a session.
func execAll(ctx context.Context, c *pgconn.PgConn, statements ...string) error {
	for _, q := range statements {
		if _, err := c.Exec(ctx, q).ReadAll(); err != nil {
			return fmt.Errorf("prepare session: %w", classifyIn(ctx, err))
		}
	}
	return nil
}
