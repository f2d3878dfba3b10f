package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// each runs a query on the catalog and calls fn for each row.
func (db *DB) each(ctx context.Context, fn func(*sql.Rows) error, query string, args ...any) error {
	rows, err := db.pool.QueryContext(ctx, query, args...)
	if err != nil {
		return classify(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return classify(rows.Err())
}

// Describe implements engine.Keeper.
func (db *DB) Describe(ctx context.Context, name string) (*engine.Schema, error) {
	s := &engine.Schema{Name: name, Options: map[string]string{}}
	found := false
	err := db.each(ctx, func(r *sql.Rows) error {
		found = true
		var kind string
		var storage, format, options, collation sql.NullString
		if err := r.Scan(&kind, &storage, &format, &options, &collation); err != nil {
			return err
		}
		s.View = strings.Contains(kind, "VIEW")
		for k, v := range map[string]sql.NullString{"engine": storage, "row_format": format, "create_options": options, "collation": collation} {
			if v.String != "" {
				s.Options[k] = v.String
			}
		}
		return nil
	}, "SELECT TABLE_TYPE, ENGINE, ROW_FORMAT, CREATE_OPTIONS, TABLE_COLLATION FROM information_schema.TABLES "+
		"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?", name)
	if err == nil && !found {
		err = engine.Classed(engine.ErrNoTable, fmt.Errorf("no such table"))
	}
	s.Compacts = strings.EqualFold(s.Options["engine"], "rocksdb")
	for _, read := range []func(context.Context, *engine.Schema) error{
		db.describeColumns, db.describeKeys, db.describeReferences, db.describeTriggers, db.describePartitions,
	} {
		if err == nil {
			err = read(ctx, s)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("describe table %s: %w", name, err)
	}
	return s, nil
}

func (db *DB) describeColumns(ctx context.Context, s *engine.Schema) error {
	return db.each(ctx, func(r *sql.Rows) error {
		var c engine.SchemaColumn
		var nullable, extra string
		var value, collation sql.NullString
		if err := r.Scan(&c.Name, &c.Native, &nullable, &value, &extra, &collation); err != nil {
			return err
		}
		c.Collation = collation.String
		extra = strings.ToLower(extra)
		c.Null = nullable == "YES"
		c.Kind = kindOfType(c.Native)
		c.Auto = strings.Contains(extra, "auto_increment")
		c.Generated = strings.Contains(extra, "virtual generated") || strings.Contains(extra, "stored generated")
		c.Default = db.dialect.defaultText(c, value, strings.Contains(extra, "default_generated"))
		s.Columns = append(s.Columns, c)
		return nil
	}, "SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, EXTRA, COLLATION_NAME FROM information_schema.COLUMNS "+
		"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION", s.Name)
}

// expression matches a default that MySQL 8.0.15 returns without marking it as an
// expression.
var expression = regexp.MustCompile(`(?i)^(current_timestamp(\(\d?\))?|b'[01]*')$`)

// defaultText converts a default of the catalog to SQL text. MariaDB stores SQL
// text. MySQL stores values, and marks expressions.
func (d dialect) defaultText(c engine.SchemaColumn, value sql.NullString, isExpression bool) string {
	switch {
	case !value.Valid || c.Generated:
		return ""
	case d.mariadb && value.String == "NULL":
		return ""
	case d.mariadb || expression.MatchString(value.String):
		return value.String
	case isExpression:
		return "(" + value.String + ")"
	}
	return quoteText(value.String)
}

// kindOfType returns the kind of a type's values.
func kindOfType(native string) engine.Kind {
	name := typeName(native)
	switch name {
	case "TINYINT", "SMALLINT", "MEDIUMINT", "INT", "YEAR":
		return engine.KindInt
	case "BIGINT":
		if strings.Contains(strings.ToLower(native), "unsigned") {
			return engine.KindDecimal
		}
		return engine.KindInt
	case "FLOAT", "DOUBLE":
		return engine.KindFloat
	case "DECIMAL":
		return engine.KindDecimal
	case "DATETIME", "TIMESTAMP", "DATE":
		return engine.KindTime
	case "CHAR", "VARCHAR", "ENUM", "SET", "JSON", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT":
		return engine.KindText
	case "BINARY", "VARBINARY", "BIT", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB",
		"GEOMETRY", "POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON", "GEOMETRYCOLLECTION", "GEOMCOLLECTION":
		return engine.KindBytes
	}
	return engine.KindOther // TIME, an interval of up to 838 hours; INET6; UUID
}

func (db *DB) describeKeys(ctx context.Context, s *engine.Schema) error {
	unique, expression := map[string]bool{}, map[string]bool{}
	var keys []engine.Index
	err := db.each(ctx, func(r *sql.Rows) error {
		var key string
		var column sql.NullString // NULL for an expression
		var notUnique int
		if err := r.Scan(&key, &column, &notUnique); err != nil {
			return err
		}
		if n := len(keys); n == 0 || keys[n-1].Name != key {
			keys = append(keys, engine.Index{Name: key})
			unique[key] = notUnique == 0
		}
		k := &keys[len(keys)-1]
		k.Columns = append(k.Columns, column.String)
		expression[key] = expression[key] || !column.Valid
		return nil
	}, "SELECT INDEX_NAME, COLUMN_NAME, NON_UNIQUE FROM information_schema.STATISTICS "+
		"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? ORDER BY INDEX_NAME, SEQ_IN_INDEX", s.Name)
	for _, k := range keys {
		if k.Name == "PRIMARY" {
			s.PrimaryKey = k.Columns
			continue
		}
		s.Indexes = append(s.Indexes, k)
		switch {
		case unique[k.Name] && expression[k.Name]:
			s.UniqueOther = append(s.UniqueOther, k.Name)
		case unique[k.Name]:
			s.Unique = append(s.Unique, k.Columns)
		}
	}
	return err
}

func (db *DB) describeReferences(ctx context.Context, s *engine.Schema) error {
	return db.each(ctx, func(r *sql.Rows) error {
		var name string
		err := r.Scan(&name)
		if !slices.Contains(s.ForeignKeys, name) {
			s.ForeignKeys = append(s.ForeignKeys, name)
		}
		return err
	}, "SELECT CONSTRAINT_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS "+
		"WHERE CONSTRAINT_SCHEMA = DATABASE() AND (TABLE_NAME = ? OR REFERENCED_TABLE_NAME = ?) ORDER BY CONSTRAINT_NAME", s.Name, s.Name)
}

func (db *DB) describeTriggers(ctx context.Context, s *engine.Schema) error {
	return db.each(ctx, func(r *sql.Rows) error {
		var name string
		err := r.Scan(&name)
		s.Triggers = append(s.Triggers, name)
		return err
	}, "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS "+
		"WHERE TRIGGER_SCHEMA = DATABASE() AND EVENT_OBJECT_TABLE = ? ORDER BY TRIGGER_NAME", s.Name)
}

// rangeColumn matches a partitioning expression that is a column, or UNIX_TIMESTAMP
// of one, the only function by which a TIMESTAMP can be partitioned.
var rangeColumn = regexp.MustCompile("(?i)^\\s*(?:unix_timestamp\\s*\\(\\s*)?(?:`((?:[^`]|``)+)`|([^`(),]+?))\\s*\\)?\\s*$")

func (db *DB) describePartitions(ctx context.Context, s *engine.Schema) error {
	return db.each(ctx, func(r *sql.Rows) error {
		var method, expr, sub sql.NullString
		if err := r.Scan(&method, &expr, &sub); err != nil {
			return err
		}
		s.Partitioned = method.String != ""
		if !strings.HasPrefix(method.String, "RANGE") || sub.Valid {
			return nil
		}
		if m := rangeColumn.FindStringSubmatch(expr.String); m != nil {
			name := strings.ReplaceAll(m[1], "``", "`") + m[2]
			for _, c := range s.Columns {
				if strings.EqualFold(c.Name, name) {
					s.By = c.Name
				}
			}
		}
		return nil
	}, "SELECT PARTITION_METHOD, PARTITION_EXPRESSION, SUBPARTITION_METHOD FROM information_schema.PARTITIONS "+
		"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? LIMIT 1", s.Name)
}
