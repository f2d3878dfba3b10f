package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowmill/rowmill/internal/engine"
)

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
	// Reading a period takes minutes. Warnings report changed rows.
	"statement_timeout = 0", "lock_timeout = 0", "idle_in_transaction_session_timeout = 0", "client_min_messages = 'notice'",
}

// wholePath sets the search path to the existing schemas of the current path,
// in order, or to public if there are none. It omits pg_catalog, which is then
// searched first, so that no table hides a system catalog.
const wholePath = "SELECT pg_catalog.set_config('search_path', COALESCE((SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.i) " +
	"FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY s(name, i) WHERE s.name::text OPERATOR(pg_catalog.<>) 'pg_catalog'), 'public'), false)"

// session renders the statements that prepare a connection.
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

// searchPath renders the setting of the search path. It is the path of the
// first connection, so that all connections of a DB find the same tables even
// if the account's path changes. The first connection takes the account's path.
func (d dialect) searchPath() string {
	if d.path == "" {
		return wholePath
	}
	return "SET search_path = " + d.path
}

// prepareSession prepares a connection. The SET statements go in one message. A
// query goes in a second one: in the same transaction it could block, if the
// account's transactions are read-only and deferrable by default.
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
