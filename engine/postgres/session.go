package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowmill/rowmill/engine"
)

// Every connection begins with all that rowmill relies on: what a server, a
// database or an account has as default for other programs must not change what
// a statement means, which table a name is, or how a value reads.

// common are the settings of every session, as SET has them. lock_timeout is
// that of the servers; maintenance and loaders have their own.
var common = []string{
	// What the encoding of inserts and the reading of values and bounds rely on.
	"client_encoding = 'UTF8'", "standard_conforming_strings = on", "DateStyle = 'ISO, YMD'", "TimeZone = 'UTC'",
	// Values as text that read back exactly.
	"extra_float_digits = 1", "bytea_output = 'hex'", "IntervalStyle = 'postgres'",
	// Names come from the catalog as they are, and = NULL is never true.
	"quote_all_identifiers = off", "transform_null_equals = off",
	// Each statement sees what is committed, and may write.
	"default_transaction_isolation = 'read committed'", "default_transaction_read_only = off", "default_transaction_deferrable = off",
	// A period is read for minutes. Warnings tell of rows that were changed.
	"statement_timeout = 0", "lock_timeout = 0", "idle_in_transaction_session_timeout = 0", "client_min_messages = 'notice'",
}

// wholePath sets the search path to the schemas that it names and that are
// there, in their order, and to public where there is none. pg_catalog, left out,
// comes first, so that nothing hides what is the server's own.
const wholePath = "SELECT pg_catalog.set_config('search_path', COALESCE((SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.i) " +
	"FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY s(name, i) WHERE s.name::text OPERATOR(pg_catalog.<>) 'pg_catalog'), 'public'), false)"

// session renders the statements with which a connection begins.
func (d dialect) session(s engine.Session) []string {
	out := make([]string, len(common), len(common)+2)
	for i, setting := range common {
		out[i] = "SET " + setting
	}
	if d.version >= 140000 {
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

// searchPath renders the setting of the search path: that of the first
// connection, so that all of a DB find the same tables whatever is changed
// meanwhile, or, before there is one, of the account.
func (d dialect) searchPath() string {
	if d.path == "" {
		return wholePath
	}
	return "SET search_path = " + d.path
}

// prepareSession prepares a connection. The statements go in one message, but for a
// query: it waits in a transaction that is read-only and deferrable.
func (db *DB) prepareSession(ctx context.Context, c *pgconn.PgConn, s engine.Session) error {
	statements := db.dialect.session(s)
	messages := []string{strings.Join(statements, "; ")}
	if db.dialect.path == "" {
		last := len(statements) - 1
		messages = []string{strings.Join(statements[:last], "; "), statements[last]}
	}
	for _, m := range messages {
		if _, err := c.Exec(ctx, m).ReadAll(); err != nil {
			return fmt.Errorf("prepare session: %w", classifyIn(ctx, err))
		}
	}
	return nil
}
