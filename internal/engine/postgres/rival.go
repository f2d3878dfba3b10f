package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

var _ engine.Rivaled = (*DB)(nil)

// partmanTables is a query for the configuration tables of pg_partman, in any schema, and whether
// the account may read them.
const partmanTables = `SELECT quote_ident(n.nspname) || '.part_config', has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = 'part_config' AND c.relkind = 'r'
AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'automatic_maintenance')`

// Rivals implements engine.Rivaled: pg_partman's configuration, and the jobs of pg_cron.
func (db *server) Rivals(ctx context.Context, table string) ([]engine.Rival, error) {
	fail := func(err error) ([]engine.Rival, error) {
		return nil, fmt.Errorf("look for what keeps table %s besides rowmill: %w", table, err)
	}
	var out []engine.Rival
	found, err := db.query(ctx, partmanTables)
	if err != nil {
		return fail(err)
	}
	// The names are compared as texts, because to look them up could need privileges.
	named, err := db.query(ctx, "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = "+db.dialect.regclass(table))
	if err != nil || len(named) == 0 {
		return nil, err
	}
	is := "parent_table = " + quoteText(string(named[0][0]))
	for _, row := range found {
		r := engine.Rival{Name: "pg_partman (" + string(row[0]) + ")"}
		if string(row[1]) != "t" && string(row[1]) != "true" {
			r.Unsure, r.Does = true, "GRANT SELECT ON "+string(row[0])+" shows what it keeps"
			out = append(out, r)
			continue
		}
		config, err := db.query(ctx, "SELECT partition_interval::text, premake::text, COALESCE(retention::text, '') FROM "+string(row[0])+" WHERE automatic_maintenance = 'on' AND "+is)
		if err != nil {
			return fail(err)
		}
		for _, c := range config {
			if r.Does = fmt.Sprintf("every %s, %s ahead", c[0], c[1]); len(c[2]) > 0 {
				r.Does += fmt.Sprintf(", kept for %s", c[2])
			}
			set := "UPDATE " + string(row[0]) + " SET automatic_maintenance = '%s' WHERE " + is
			r.Off, r.On = []string{fmt.Sprintf(set, "off")}, []string{fmt.Sprintf(set, "on")}
			out = append(out, r)
		}
	}
	jobs, err := db.cronJobs(ctx)
	if err != nil || len(jobs) == 0 {
		return out, err
	}
	routines := map[string]string{}
	rows, err := db.query(ctx, "SELECT lower(p.proname), p.prosrc FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang "+
		"WHERE l.lanname IN ('sql', 'plpgsql') AND n.nspname NOT IN ('pg_catalog', 'information_schema')")
	if err != nil {
		return fail(err)
	}
	for _, row := range rows {
		routines[string(row[0])] = string(row[1])
	}
	var others []string
	if rows, err = db.query(ctx, "SELECT c.relname FROM pg_class c WHERE c.relkind = 'p' AND NOT c.relispartition AND pg_table_is_visible(c.oid)"); err != nil {
		return fail(err)
	}
	for _, row := range rows {
		others = append(others, string(row[0]))
	}
	// A job that names no table runs pg_partman, or has another purpose.
	return append(out, slices.DeleteFunc(engine.RivalsOf(jobs, routines, table, others), func(r engine.Rival) bool { return r.Unsure })...), nil
}

// cronJobs returns the active jobs of pg_cron in this database.
func (db *server) cronJobs(ctx context.Context) (jobs []engine.Job, err error) {
	rows, err := db.query(ctx, "SELECT EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = n.oid AND p.proname = 'alter_job') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "+
		"WHERE n.nspname = 'cron' AND c.relname = 'job' AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')")
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	set := "UPDATE cron.job SET active = %[2]s WHERE jobid = %[1]s"
	if strings.HasPrefix(string(rows[0][0]), "t") {
		set = "SELECT cron.alter_job(%[1]s, active => %[2]s)"
	}
	if rows, err = db.query(ctx, "SELECT jobid::text, command FROM cron.job WHERE active AND database = current_database()"); err != nil {
		return nil, err
	}
	for _, row := range rows {
		j := engine.Job{Text: string(row[1])}
		j.Name = "job " + string(row[0]) + " of pg_cron"
		j.Off, j.On = []string{fmt.Sprintf(set, row[0], "false")}, []string{fmt.Sprintf(set, row[0], "true")}
		jobs = append(jobs, j)
	}
	return jobs, nil
}
