package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

var _ engine.Sizer = (*DB)(nil)

// Named implements engine.Sizer.
func (db *DB) Named(ctx context.Context, prefix string) ([]string, error) {
	var out []string
	err := catalog{db}.query(ctx, "SELECT name FROM sqlite_schema WHERE type = 'table' AND substr(name, 1, length(?)) = ? ORDER BY name", []driver.Value{prefix, prefix},
		func(row []driver.Value) error {
			out = append(out, text(row[0]))
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	return out, nil
}

// Footprint implements engine.Sizer. It counts pages in the file, as Sizes does.
// A table WITHOUT ROWID stores its rows in its primary key.
func (db *DB) Footprint(ctx context.Context, table string) (*engine.Footprint, error) {
	fail := func(err error) (*engine.Footprint, error) {
		return nil, fmt.Errorf("measure table %s: %w", table, err)
	}
	schema, err := db.Describe(ctx, table)
	if err != nil {
		return nil, err
	}
	if err := db.lock(ctx); err != nil {
		return nil, err
	}
	defer db.unlock()
	if err := each(db.write, "PRAGMA wal_checkpoint(PASSIVE)", nil, func([]driver.Value) error { return nil }); err != nil {
		return fail(err)
	}
	tree, err := openTree(db.path)
	if err != nil {
		return fail(err)
	}
	defer tree.file.Close()
	f := &engine.Footprint{Saved: -1}
	err = each(db.write, "SELECT type, name, rootpage, coalesce(sql, '') FROM sqlite_schema WHERE rootpage > 0 AND lower(tbl_name) = lower(?) ORDER BY type DESC, name", []driver.Value{table},
		func(row []driver.Value) error {
			root, ok := row[2].(int64)
			if !ok {
				return fmt.Errorf("root page %v", row[2])
			}
			pages, err := tree.pages(root, maxDepth)
			if err != nil {
				return err
			}
			if text(row[0]) == "table" {
				f.Heap = pages * tree.size
				f.Clustered = withoutRowid(text(row[3])) || rowidKey(schema)
				return nil
			}
			ix := engine.IndexFootprint{Name: text(row[1]), Bytes: pages * tree.size}
			for _, s := range schema.Indexes {
				if s.Name == ix.Name {
					ix.Columns = s.Columns
				}
			}
			if ix.Columns == nil && strings.HasPrefix(ix.Name, "sqlite_autoindex_") {
				ix.Columns = schema.PrimaryKey
			}
			f.Indexes = append(f.Indexes, ix)
			return nil
		})
	if err != nil {
		return fail(err)
	}
	return f, nil
}

// withoutRowid reports whether a CREATE TABLE statement ends with WITHOUT ROWID.
func withoutRowid(create string) bool {
	end := create[strings.LastIndexByte(create, ')')+1:]
	return strings.Contains(strings.Join(strings.Fields(strings.ToUpper(end)), " "), "WITHOUT ROWID")
}

// rowidKey reports whether the primary key is the rowid itself.
func rowidKey(s *engine.Schema) bool {
	if len(s.PrimaryKey) != 1 {
		return false
	}
	c := s.Column(s.PrimaryKey[0])
	return c != nil && strings.EqualFold(c.Native, "INTEGER")
}
