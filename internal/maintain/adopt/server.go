package adopt

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

func clock() int64 { return rolling.Position(time.Now()) }

func (j *job) mysql() bool    { n := j.DB.Info().Engine; return n == "mysql" || n == "mariadb" }
func (j *job) postgres() bool { return j.DB.Info().Engine == "postgres" }
func (j *job) sqlite() bool   { return j.DB.Info().Engine == "sqlite" }

func (j *job) q(name string) string { return j.DB.Dialect().Quote(name) }

// text returns a string literal for a session that the engine has prepared.
func (j *job) text(s string) string {
	if j.mysql() {
		s = strings.ReplaceAll(s, `\`, `\\`)
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// strings runs a query that returns one column.
func (j *job) strings(ctx context.Context, query string, args ...any) ([]string, error) {
	rows, err := j.DB.SQL().QueryContext(ctx, j.DB.Bind(query), args...)
	if err != nil {
		return nil, j.DB.Classify(err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, j.DB.Classify(rows.Err())
}

// checkServer reports obstacles on the server. Privileges have already been tested by
// engine.Probe.
func (j *job) checkServer(ctx context.Context) (errs []error) {
	size, err := j.DB.Catalog().Sizes(ctx, &engine.Table{Name: j.Table.Name})
	if err != nil {
		return []error{fmt.Errorf("measure the table: %w", err)}
	}
	if dir := j.DB.Info().DataDir; dir != "" {
		need := size.Data + size.Index
		if free, ok := room(dir); ok && free < need+need/5 {
			errs = append(errs, engine.Hinted(fmt.Errorf("the rolling table needs some %d MB beside the plain one, and %d MB are free in %s", need>>20, free>>20, dir),
				"a larger disk, or delete old rows first"))
		}
	}
	ask := func(query, hint, format string, args ...any) {
		found, err := j.strings(ctx, query, args...)
		switch {
		case err != nil:
			errs = append(errs, err)
		case len(found) > 0:
			errs = append(errs, engine.Hinted(fmt.Errorf(format, strings.Join(found, ", ")), "%s", hint))
		}
	}
	name := j.Table.Name
	switch {
	case j.postgres():
		// Objects that depend on the table, and not on its name, would stay with the
		// old table.
		ask("SELECT DISTINCT v.relname::text FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid AND d.classid = 'pg_rewrite'::regclass "+
			"JOIN pg_class v ON v.oid = r.ev_class WHERE d.refobjid = to_regclass(?) AND v.oid <> d.refobjid",
			"drop them, and create them again afterwards", "views would go on reading the old table: %s", j.q(name))
		ask("SELECT polname::text FROM pg_policy WHERE polrelid = to_regclass(?)",
			"drop them, and create them again afterwards", "row security policies would stay with the old table: %s", j.q(name))
		ask("SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid IN (i.inhrelid, i.inhparent) WHERE to_regclass(?) IN (i.inhrelid, i.inhparent) AND c.oid <> to_regclass(?)",
			"a table by itself", "it inherits, or is inherited from: %s", j.q(name), j.q(name))
		ask("SELECT rolname::text FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner WHERE c.oid = to_regclass(?) AND NOT pg_has_role(r.oid, 'USAGE')",
			"connect as the owner", "the table belongs to %s", j.q(name))
	case j.mysql():
		ask("SELECT @@binlog_format FROM DUAL WHERE @@log_bin = 1 AND @@binlog_format = 'STATEMENT'",
			"SET GLOBAL binlog_format = ROW", "the server's binary log has the format %s, which can't hold what a copy without locks does")
		ask("SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND ENGINE IN ('MyISAM', 'Aria', 'MEMORY', 'CSV', 'ARCHIVE', 'MERGE')",
			"ALTER TABLE ... ENGINE=InnoDB", "its storage engine is %s, which has no transactions", name)
	}
	return errs
}

// checkTwin compares the columns of both tables as created by the server.
func (j *job) checkTwin(ctx context.Context) error {
	twin, err := j.DB.Describe(ctx, newName(j.Table.Name))
	if err != nil {
		return err
	}
	for _, c := range j.data.Columns {
		have := twin.Find(c.Name)
		if have == nil {
			return fmt.Errorf("column %s is in the table only", c.Name)
		}
		// The columns of the rolling table's key are NOT NULL. No row has NULL there
		// now, and rows that get it during the adoption become late rows.
		a, b := c, *have
		a.Null, b.Null = false, false
		if err := sameColumn(a, b); err != nil {
			return engine.Hinted(fmt.Errorf("%w: first in the table, then in the declaration", err), "declare it as it is")
		}
		if c.Null && !have.Null && !within([]string{c.Name}, j.Table.PrimaryKey) {
			return engine.Hinted(fmt.Errorf("column %s may be NULL in the table and not in the declaration", c.Name), "declare it as it is")
		}
		if j.postgres() && c.Collation != have.Collation {
			collation := func(s string) string { return cmp.Or(s, "the default") }
			return engine.Hinted(fmt.Errorf("the collation of column %s is %s in the table and %s in the declaration", c.Name, collation(c.Collation), collation(have.Collation)), "declare it as it is")
		}
	}
	if !j.mysql() {
		return nil
	}
	rows, err := j.strings(ctx, "SELECT CONCAT(a.COLUMN_NAME, ' is ', a.COLLATION_NAME, ' in the table and ', b.COLLATION_NAME, ' in the declaration') "+
		"FROM information_schema.COLUMNS AS a JOIN information_schema.COLUMNS AS b ON b.TABLE_SCHEMA = a.TABLE_SCHEMA AND b.COLUMN_NAME = a.COLUMN_NAME "+
		"WHERE a.TABLE_SCHEMA = DATABASE() AND a.TABLE_NAME = ? AND b.TABLE_NAME = ? AND a.COLLATION_NAME <> b.COLLATION_NAME", j.Table.Name, newName(j.Table.Name))
	if err != nil {
		return err
	}
	if len(rows) > 0 {
		return engine.Hinted(fmt.Errorf("the collation of column %s", strings.Join(rows, "; of column ")), "DEFAULT CHARSET and COLLATE in the declaration, as the table has them")
	}
	return nil
}

// nativeTypes returns the types of columns, including character sets, for a table
// that only stores their values.
func (j *job) nativeTypes(ctx context.Context, cols []engine.SchemaColumn) ([]string, error) {
	collation := map[string]string{}
	if j.mysql() {
		rows, err := j.DB.SQL().QueryContext(ctx, "SELECT COLUMN_NAME, CHARACTER_SET_NAME, COLLATION_NAME FROM information_schema.COLUMNS "+
			"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND COLLATION_NAME IS NOT NULL", j.Table.Name)
		if err != nil {
			return nil, j.DB.Classify(err)
		}
		defer rows.Close()
		for rows.Next() {
			var name, set, coll string
			if err := rows.Scan(&name, &set, &coll); err != nil {
				return nil, err
			}
			collation[name] = " CHARACTER SET " + set + " COLLATE " + coll
		}
		if err := rows.Err(); err != nil {
			return nil, j.DB.Classify(err)
		}
	}
	out := make([]string, len(cols))
	for i, c := range cols {
		out[i] = j.q(c.Name) + " " + c.Native + collation[c.Name]
		if j.postgres() && c.Collation != "" {
			out[i] += " COLLATE " + c.Collation // so that the log compares like the table
		}
		if j.mysql() {
			out[i] += " NULL" // otherwise a TIMESTAMP is NOT NULL
		}
	}
	return out, nil
}
