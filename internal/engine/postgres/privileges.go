package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

var _ engine.Limited = (*DB)(nil)

func (db *server) Hidden(ctx context.Context) ([]engine.Hidden, error) {
	var sees bool
	var user string
	err := db.pool.QueryRowContext(ctx, "SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'), current_user::text").Scan(&sees, &user)
	if err != nil {
		return nil, fmt.Errorf("check the privileges of the account: %w", classify(err))
	}
	if sees {
		return nil, nil
	}
	return []engine.Hidden{{
		What:  "how old transactions of other accounts are and what they run, one of which may hold a lock",
		Grant: "GRANT pg_read_all_stats TO " + db.dialect.Quote(user),
	}}, nil
}

func (db *server) Grants(ctx context.Context, tables []string, rights []engine.Right) ([]string, error) {
	var user, schema string
	if err := db.pool.QueryRowContext(ctx, "SELECT quote_ident(current_user), quote_ident(current_schema())").Scan(&user, &schema); err != nil {
		return nil, fmt.Errorf("read the account: %w", err)
	}
	owner, err := engine.List[string](ctx, db, db.pool, "SELECT format('ALTER TABLE %s OWNER TO %I', c.oid::regclass, current_user) FROM pg_class c "+
		"WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'v') AND NOT pg_has_role(c.relowner, 'USAGE') AND (starts_with(c.relname, 'rowmill_') OR "+
		"c.relname = ANY($1::text[]) OR c.oid IN (SELECT t.relid FROM unnest($1::text[]) n, pg_partition_tree(to_regclass(quote_ident(n))) t)) ORDER BY c.relname", tables)
	if err != nil {
		return nil, fmt.Errorf("read the owners: %w", err)
	}
	use := "USAGE"
	var out []string
	for _, r := range rights {
		all := strings.Split(r.Privileges, ", ")
		if slices.Contains(all, "CREATE") {
			use = "USAGE, CREATE"
		}
		if slices.Contains(all, "TRIGGER") {
			out = append(out, owner...)
		}
		all = slices.DeleteFunc(all, func(p string) bool { return !slices.Contains([]string{"SELECT", "INSERT", "UPDATE", "DELETE"}, p) })
		on := "ALL TABLES IN SCHEMA " + schema
		if r.Table != "" {
			on = db.dialect.Quote(r.Table)
		}
		out = append(out, fmt.Sprintf("GRANT %s ON %s TO %s", strings.Join(all, ", "), on, user))
	}
	return append([]string{fmt.Sprintf("GRANT %s ON SCHEMA %s TO %s", use, schema, user)}, out...), nil
}

// Probe implements engine.ProbeWords, in a transaction that is rolled back.
func (words) Probe(n engine.Needs) (statements, undo []string) {
	const table = engine.ProbeTable
	statements = []string{
		"BEGIN",
		"CREATE TABLE " + table + " (id INTEGER NOT NULL PRIMARY KEY)",
		"CREATE VIEW " + table + "_view AS SELECT id FROM " + table,
	}
	if n.Triggers {
		statements = append(statements,
			"CREATE FUNCTION "+table+"_insert() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
			"CREATE TRIGGER "+table+"_insert BEFORE INSERT ON "+table+" FOR EACH ROW EXECUTE FUNCTION "+table+"_insert()")
	}
	if n.Locks {
		statements = append(statements, "LOCK TABLE "+table+" IN ACCESS EXCLUSIVE MODE")
	}
	if n.Temporary {
		statements = append(statements, "CREATE TEMPORARY TABLE "+table+"_apart (id INTEGER NOT NULL PRIMARY KEY)")
	}
	return append(statements, "ROLLBACK"), []string{"ROLLBACK"}
}
