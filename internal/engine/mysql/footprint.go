package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/rowmill/rowmill/internal/engine"
)

var _ engine.Sizer = (*DB)(nil)

// Named implements engine.Sizer.
func (db *DB) Named(ctx context.Context, prefix string) ([]string, error) {
	rows, err := db.pool.QueryContext(ctx, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND LEFT(TABLE_NAME, CHAR_LENGTH(?)) = ? ORDER BY TABLE_NAME", prefix, prefix)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", classify(err))
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, fmt.Errorf("list tables: %w", classify(err))
		}
		out = append(out, name)
	}
	return out, rows.Err()
}

// Footprint implements engine.Sizer. InnoDB's persistent statistics count the leaf
// pages in use of each index; DATA_LENGTH and INDEX_LENGTH count whole extents,
// which are megabytes for a small table. If the statistics can't be read, or with
// another storage engine, DATA_LENGTH and INDEX_LENGTH are used.
func (db *DB) Footprint(ctx context.Context, table string) (*engine.Footprint, error) {
	schema, err := db.Describe(ctx, table)
	if err != nil {
		return nil, err
	}
	f := &engine.Footprint{Clustered: true, Saved: -1}
	fail := func(err error) (*engine.Footprint, error) {
		return nil, fmt.Errorf("measure table %s: %w", table, classify(err))
	}
	if _, err := db.pool.ExecContext(ctx, "ANALYZE TABLE "+db.dialect.Quote(table)); err != nil {
		return fail(err)
	}
	pages, err := db.leafPages(ctx, table)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil || len(pages) == 0 || pages["PRIMARY"]+pages["GEN_CLUST_INDEX"] == 0 {
		s, err := db.Catalog().Sizes(ctx, &engine.Table{Name: table})
		if err != nil {
			return nil, err
		}
		f.Heap, f.Rough = s.Data, true
		if len(schema.Indexes) > 0 {
			f.Indexes = []engine.IndexFootprint{{Name: "all indexes", Bytes: s.Index}}
		}
		return f, nil
	}
	f.Heap = pages["PRIMARY"] + pages["GEN_CLUST_INDEX"]
	for _, ix := range schema.Indexes {
		f.Indexes = append(f.Indexes, engine.IndexFootprint{Name: ix.Name, Columns: ix.Columns, Bytes: pages[ix.Name]})
	}
	size, allocated, err := db.allocated(ctx, table)
	switch {
	case err != nil:
	case db.dialect.mariadb:
		// The part of the file beyond its pages in use is a hole, too.
		f.Saved = max(f.Total()-allocated, 0)
	default:
		// MySQL allocates that part. A page uses at least one of its four blocks.
		f.Saved = min(max(size-allocated, 0), f.Total()*3/4)
	}
	return f, nil
}

// leafPages returns the size of the leaf pages of each index, in bytes.
func (db *DB) leafPages(ctx context.Context, table string) (map[string]int64, error) {
	rows, err := db.pool.QueryContext(ctx, "SELECT index_name, stat_value * @@innodb_page_size FROM mysql.innodb_index_stats "+
		"WHERE database_name = DATABASE() AND table_name = ? AND stat_name = 'n_leaf_pages'", db.dialect.stored(table))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]int64{}
	for rows.Next() {
		var name string
		var bytes int64
		if err := rows.Scan(&name, &bytes); err != nil {
			return nil, err
		}
		out[name] = bytes
	}
	return out, rows.Err()
}

// allocated returns the size of the table's file, and its size on disk without the
// holes of page compression. Dirty pages are flushed first, because holes appear
// only when pages are written.
func (db *DB) allocated(ctx context.Context, table string) (size, allocated int64, err error) {
	conn, err := db.pool.Conn(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "FLUSH TABLES "+db.dialect.Quote(table)+" FOR EXPORT"); err != nil {
		return 0, 0, err
	}
	if _, err := conn.ExecContext(context.WithoutCancel(ctx), "UNLOCK TABLES"); err != nil {
		return 0, 0, err
	}
	for _, q := range db.dialect.fresh() {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			return 0, 0, err
		}
	}
	view := "INNODB_TABLESPACES"
	if db.dialect.mariadb {
		view = "INNODB_SYS_TABLESPACES"
	}
	var file, disk sql.NullInt64
	err = conn.QueryRowContext(ctx, "SELECT FILE_SIZE, ALLOCATED_SIZE FROM information_schema."+view+" WHERE NAME = CONCAT(DATABASE(), '/', ?)", db.dialect.stored(fileName(table))).Scan(&file, &disk)
	if err == nil && (file.Int64 <= 0 || disk.Int64 <= 0) {
		err = errors.New("the server doesn't say")
	}
	if err != nil {
		return 0, 0, fmt.Errorf("size of the file of %s: %w", table, err)
	}
	return file.Int64, disk.Int64, nil
}
