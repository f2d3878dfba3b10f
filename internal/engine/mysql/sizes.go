package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
)

// A sizer measures tables.
type sizer struct{ *server }

func (db *server) sizer() sizer { return sizer{db} }

// PeriodSizes implements engine.Keeper with the sizes of InnoDB's files, if the account can read
// them. It divides each file's size between data and indexes in the proportion of the server's
// statistics, which may be outdated.
func (db sizer) PeriodSizes(ctx context.Context, t *engine.Table) (map[string]engine.PeriodSize, error) {
	out, err := db.periodSizes(ctx, t)
	return out, engine.About(ctx, err, "sizes of the periods of "+t.Name)
}

func (db sizer) periodSizes(ctx context.Context, t *engine.Table) (map[string]engine.PeriodSize, error) {
	conn, err := db.freshConn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := db.flushRocksDB(ctx, conn); err != nil {
		return nil, err
	}
	stats, err := db.partitionStatistics(ctx, conn, t.Name)
	if err != nil {
		return nil, err
	}
	out := map[string]engine.PeriodSize{}
	for name, p := range stats {
		if name != "" && !outside(t, name) {
			out[name] = engine.PeriodSize{Rows: p.rows, Data: p.data, Index: p.index}
		}
	}
	files, err := db.files(ctx, conn, t.Name)
	if err != nil {
		return nil, err
	}
	for name, p := range out {
		f, ok := files[fileKey(name)]
		if !ok {
			continue
		}
		bytes := f.file
		if f.allocated > 0 {
			bytes = min(bytes, f.allocated)
		}
		p.Index = indexPart(bytes, p.Data, p.Index)
		p.Data = bytes - p.Index
		out[name] = p
	}
	return out, nil
}

// indexPart divides bytes in the proportion of data to index, and returns the indexes' part.
func indexPart(bytes, data, index int64) int64 {
	if data+index <= 0 {
		return 0
	}
	return int64(float64(bytes) * float64(index) / float64(data+index))
}

// freshConn returns a connection that reads the present statistics, not cached ones.
func (db *server) freshConn(ctx context.Context) (*sql.Conn, error) {
	conn, err := db.pool.Conn(ctx)
	if err != nil {
		return nil, db.unreachable(err)
	}
	for _, q := range db.dialect.fresh() {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", engine.FirstWords(q), classify(err)), conn.Close())
		}
	}
	return conn, nil
}

// flushRocksDB brings MyRocks' statistics up to date. Without the privilege, they stay outdated.
func (db sizer) flushRocksDB(ctx context.Context, conn *sql.Conn) error {
	if !db.dialect.rocksdb() {
		return nil
	}
	_, err := conn.ExecContext(ctx, flushRocksDB)
	var server *mysql.MySQLError
	if err != nil && !errors.As(err, &server) {
		return fmt.Errorf("%s: %w", flushRocksDB, classify(err))
	}
	return nil
}

func (db sizer) Spare(ctx context.Context, t *engine.Table) ([]string, error) {
	l, err := db.catalog().layout(ctx, db.pool, t)
	return partitionNames(l.free()), err
}

// Outside counts the rows of a declared table before its first period and between its periods:
// those in the floor and the gaps, see floorName and gapPrefix.
func (db sizer) Outside(ctx context.Context, t *engine.Table) (n int64, err error) {
	l, err := db.catalog().layout(ctx, db.pool, t)
	if err != nil || len(l.free()) == 0 {
		return 0, err
	}
	from := db.dialect.Quote(t.Name) + " PARTITION (" + db.dialect.list(partitionNames(l.free())) + ")"
	err = db.pool.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+from).Scan(&n)
	return n, engine.About(ctx, classify(err), "rows of "+t.Name+" outside of its periods")
}

// A tablespace is an InnoDB file: its id, its size in bytes, and its size on disk without the holes
// of compressed pages.
type tablespace struct{ id, file, allocated int64 }

// fileName encodes an identifier as InnoDB does in the names of files. For letters beyond ASCII,
// InnoDB has another encoding, so tablespaces with such names are not found.
func fileName(ident string) string {
	var out strings.Builder
	for _, r := range ident {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			out.WriteRune(r)
		} else {
			fmt.Fprintf(&out, "@%04x", r)
		}
	}
	return out.String()
}

// files renders the query for the files of a table. database is an SQL expression for its name.
func (d dialect) files(database, table string) string {
	view := "INNODB_TABLESPACES"
	if d.mariadb {
		view = "INNODB_SYS_TABLESPACES"
	}
	name := "/" + d.stored(fileName(table))
	begin := "CONCAT(" + database + ", " + quoteText(name+"#p#") + ")"
	return fmt.Sprintf("SELECT SPACE, NAME, FILE_SIZE, ALLOCATED_SIZE FROM information_schema.%s WHERE NAME = CONCAT(%s, %s) OR LEFT(NAME, CHAR_LENGTH(%s)) = %s",
		view, database, quoteText(name), begin, begin)
}

// files returns the data files of a table. The key of a file is the fileKey of its partition, or ""
// for a plain table. Without the privilege PROCESS, or with another storage engine, there are none.
func (db sizer) files(ctx context.Context, from querent, table string) (map[string]tablespace, error) {
	database := db.dialect.stored(fileName(db.config.DBName))
	name := database + "/" + db.dialect.stored(fileName(table))
	out := map[string]tablespace{}
	err := engine.Each(ctx, db, from, func(r *sql.Rows) error {
		var s tablespace
		var full string
		if err := r.Scan(&s.id, &full, &s.file, &s.allocated); err != nil {
			return err
		}
		partition := ""
		if len(full) > len(name) { // "#p#p1" or "#P#p1" follows
			partition = full[len(name)+len("#p#"):]
		}
		out[strings.ToLower(partition)] = s
		return nil
	}, db.dialect.files(quoteText(database), table))
	if missing(err) {
		return nil, nil
	}
	return out, err
}

// tablespace returns the number of the tablespace that belongs to this table alone. It returns 0 if
// there is none, or without the privilege PROCESS. After a crash, MySQL's list of tablespaces may
// lack this one; the view INNODB_TABLES has it, but is slow to read.
func (db sizer) tablespace(ctx context.Context, from querent, table string) (space int64, err error) {
	files, err := db.files(ctx, from, table)
	if f, ok := files[""]; err != nil || ok && len(files) == 1 {
		return f.id, err
	}
	view := "INNODB_TABLES"
	if db.dialect.mariadb {
		view = "INNODB_SYS_TABLES"
	}
	err = from.QueryRowContext(ctx, fmt.Sprintf("SELECT COALESCE(MAX(SPACE), 0) FROM information_schema.%s WHERE NAME = %s AND SPACE_TYPE = 'Single'", view,
		quoteText(db.dialect.stored(fileName(db.config.DBName))+"/"+db.dialect.stored(fileName(table))))).Scan(&space)
	if missing(err) {
		return 0, nil
	}
	return space, classify(err)
}

// fileKey returns a partition's key among files. It is in lower case, because servers differ in the
// case of the names that they store.
func fileKey(partition string) string { return strings.ToLower(fileName(partition)) }

// mostAnalyzed is the largest number of partitions whose statistics a measurement refreshes. For
// each of them, the server reads some twenty random pages of each index.
const mostAnalyzed = 4

// A statistic has the server's statistics of a partition or of a plain table.
type statistic struct {
	rows, data, index int64
	changed           int64 // the last write since the server opened the table, in Unix seconds
}

// statistics renders the query for the statistics of a table.
func (d dialect) statistics(table string) string {
	return "SELECT COALESCE(PARTITION_NAME, ''), COALESCE(TABLE_ROWS, 0), COALESCE(DATA_LENGTH, 0), COALESCE(INDEX_LENGTH, 0), COALESCE(UNIX_TIMESTAMP(UPDATE_TIME), 0) " +
		"FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = " + quoteText(table)
}

// partitionStatistics returns the statistics by the partition's name, "" for a plain table.
func (db sizer) partitionStatistics(ctx context.Context, from querent, table string) (map[string]statistic, error) {
	out := map[string]statistic{}
	err := engine.Each(ctx, db, from, func(r *sql.Rows) error {
		var name string
		var s statistic
		err := r.Scan(&name, &s.rows, &s.data, &s.index, &s.changed)
		out[name] = s
		return err
	}, db.dialect.statistics(table))
	if err == nil && len(out) == 0 {
		err = engine.Classed(engine.ErrNoTable, errors.New("no such table"))
	}
	return out, err
}

// analyzeSome renders the refresh of the statistics of some partitions, or of a plain table.
func (d dialect) analyzeSome(table string, partitions []string) string {
	if len(partitions) == 1 && partitions[0] == "" {
		return "ANALYZE TABLE " + d.Quote(table)
	}
	return fmt.Sprintf("ALTER TABLE %s ANALYZE PARTITION %s", d.Quote(table), d.list(partitions))
}

// measure renders Measure. It renders ANALYZE only for a plain table: for a rolling table, only the
// server's statistics tell which partitions will be analyzed.
func (d dialect) measure(t *engine.Table) []string {
	out := d.fresh()
	if d.rocksdb() {
		return append(out, flushRocksDB, d.analyzeSome(t.Name, []string{""}), d.sizes(t))
	}
	out = append(out, d.statistics(t.Name), d.files("DATABASE()", t.Name))
	if !t.Rolling() {
		out = append(out, d.analyzeSome(t.Name, []string{""}), d.statistics(t.Name))
	}
	return out
}

// Sizes implements engine.Catalog. InnoDB updates a partition's statistics some ten seconds after a
// tenth of its rows has changed. So Sizes refreshes only the statistics of the partitions written
// to last. If a partition's statistics are nearly empty (STATS_AUTO_RECALC=0), it takes the file's
// size instead. If the table has no files of its own, or the account can't see them, it refreshes
// all statistics.
func (db catalog) Sizes(ctx context.Context, t *engine.Table) (engine.Sizes, error) {
	fail := func(err error) (engine.Sizes, error) {
		return engine.Sizes{}, fmt.Errorf("measure table %s: %w", t.Name, err)
	}
	conn, err := db.freshConn(ctx)
	if err != nil {
		return fail(err)
	}
	defer conn.Close()
	d := db.dialect
	var files map[string]tablespace
	if !d.rocksdb() {
		if files, err = db.sizer().files(ctx, conn, t.Name); err != nil {
			return fail(err)
		}
	}
	stats, err := db.sizer().partitionStatistics(ctx, conn, t.Name)
	if err != nil {
		return fail(err)
	}
	for name := range stats {
		if _, ok := files[fileKey(name)]; !ok {
			return db.analyzed(ctx, conn, t)
		}
	}
	if latest := lastChanged(stats); len(latest) > 0 {
		if _, err := conn.ExecContext(ctx, d.analyzeSome(t.Name, latest)); err != nil {
			return fail(classify(err))
		}
		if stats, err = db.sizer().partitionStatistics(ctx, conn, t.Name); err != nil {
			return fail(err)
		}
	}
	return sizesOf(stats, files), nil
}

// analyzed refreshes all statistics, and measures only by them.
func (db catalog) analyzed(ctx context.Context, conn *sql.Conn, t *engine.Table) (engine.Sizes, error) {
	d := db.dialect
	if err := db.sizer().flushRocksDB(ctx, conn); err != nil {
		return engine.Sizes{}, err
	}
	q := d.analyzeSome(t.Name, []string{""})
	if _, err := conn.ExecContext(ctx, q); err != nil {
		return engine.Sizes{}, fmt.Errorf("%s: %w", q, classify(err))
	}
	var s engine.Sizes
	err := conn.QueryRowContext(ctx, d.sizes(t)).Scan(&s.Data, &s.Index)
	return s, engine.About(ctx, classify(err), "measure table "+t.Name)
}

// lastChanged returns the partitions written to most recently, newest first.
func lastChanged(stats map[string]statistic) []string {
	var out []string
	for name, s := range stats {
		if s.changed > 0 {
			out = append(out, name)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(cmp.Compare(stats[b].changed, stats[a].changed), strings.Compare(b, a))
	})
	return out[:min(len(out), mostAnalyzed)]
}

// sizesOf adds up the partitions' sizes by their statistics. If a partition's statistics give less
// than a tenth of its file's size, they are outdated: for this partition, sizesOf takes the file's
// size, divided into data and indexes in the proportion of the other partitions.
func sizesOf(stats map[string]statistic, files map[string]tablespace) engine.Sizes {
	var known engine.Sizes
	var rest int64
	for name, s := range stats {
		if file := files[fileKey(name)].file; s.data+s.index < file/10 {
			rest += file
		} else {
			known.Data += s.data
			known.Index += s.index
		}
	}
	index := indexPart(rest, known.Data, known.Index)
	return engine.Sizes{Data: known.Data + rest - index, Index: known.Index + index}
}

var _ engine.Sizer = (*DB)(nil)

func (db sizer) Named(ctx context.Context, prefix string) ([]string, error) {
	out, err := engine.List[string](ctx, db, db.pool, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND LEFT(TABLE_NAME, CHAR_LENGTH(?)) = ? ORDER BY TABLE_NAME", prefix, prefix)
	return out, engine.About(ctx, err, "list tables")
}

// Footprint implements engine.Sizer. It takes the number of leaf pages from InnoDB's persistent
// statistics. Without these statistics, it takes DATA_LENGTH and INDEX_LENGTH, which count whole
// extents: megabytes even for a small table.
func (db sizer) Footprint(ctx context.Context, table string) (*engine.Footprint, error) {
	schema, err := db.catalog().Describe(ctx, table)
	if err != nil {
		return nil, err
	}
	if _, err := db.pool.ExecContext(ctx, "ANALYZE TABLE "+db.dialect.Quote(table)); err != nil {
		return nil, fmt.Errorf("measure table %s: %w", table, classify(err))
	}
	f, err := db.known(ctx, schema, func() (engine.Sizes, error) { return db.Catalog().Sizes(ctx, &engine.Table{Name: table}) })
	if err != nil || f.Rough {
		return f, err
	}
	disk, err := db.onDisk(ctx, table)
	switch {
	case err != nil: // it remains unknown
	case db.dialect.mariadb:
		// The part of the file after its used pages is a hole, too.
		f.Saved = max(f.Total()-disk.allocated, 0)
	default:
		// MySQL allocates the unused end, too. A compressed page takes at least one of its four blocks.
		f.Saved = min(max(disk.file-disk.allocated, 0), f.Total()*3/4)
	}
	f.Spare = max(disk.allocated-f.Total(), 0)
	return f, nil
}

func (db sizer) Estimate(ctx context.Context, table string) (*engine.Footprint, error) {
	schema, err := db.catalog().Describe(ctx, table)
	if err != nil {
		return nil, err
	}
	return db.known(ctx, schema, func() (s engine.Sizes, err error) {
		err = db.pool.QueryRowContext(ctx, db.dialect.sizes(&engine.Table{Name: table})).Scan(&s.Data, &s.Index)
		return s, classify(err)
	})
}

// known returns the footprint by InnoDB's statistics. If there are none, or they can't be read, it
// returns the footprint by the table's sizes, which it gets from the function sizes.
func (db sizer) known(ctx context.Context, schema *engine.Schema, sizes func() (engine.Sizes, error)) (*engine.Footprint, error) {
	f := &engine.Footprint{Clustered: true, Saved: -1}
	pages, err := db.leafPages(ctx, schema.Name)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil || len(pages) == 0 || pages["PRIMARY"]+pages["GEN_CLUST_INDEX"] == 0 {
		s, err := sizes()
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
	return f, nil
}

// leafPages returns the size of the leaf pages of each index, in bytes. For an index of less than
// 32 pages, MariaDB's statistics have one leaf page. leafPages then takes all pages but one, the
// root, for leaves, as they are.
func (db sizer) leafPages(ctx context.Context, table string) (map[string]int64, error) {
	out := map[string]int64{}
	err := engine.Each(ctx, db, db.pool, func(r *sql.Rows) error {
		var name string
		var leaves, all, pageSize int64
		err := r.Scan(&name, &leaves, &all, &pageSize)
		if leaves == 1 {
			leaves = max(all-1, 1)
		}
		out[name] = leaves * pageSize
		return err
	}, "SELECT l.index_name, l.stat_value, s.stat_value, @@innodb_page_size FROM mysql.innodb_index_stats l "+
		"JOIN mysql.innodb_index_stats s USING (database_name, table_name, index_name) "+
		"WHERE database_name = DATABASE() AND table_name = ? AND l.stat_name = 'n_leaf_pages' AND s.stat_name = 'size'", db.dialect.stored(table))
	return out, err
}

// onDisk returns the table's file. It first flushes dirty pages, because the holes of page
// compression appear only when pages are written.
func (db sizer) onDisk(ctx context.Context, table string) (tablespace, error) {
	conn, err := db.freshConn(ctx)
	if err != nil {
		return tablespace{}, err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "FLUSH TABLES "+db.dialect.Quote(table)+" FOR EXPORT"); err != nil {
		return tablespace{}, err
	}
	if _, err := conn.ExecContext(context.WithoutCancel(ctx), "UNLOCK TABLES"); err != nil {
		return tablespace{}, err
	}
	files, err := db.files(ctx, conn, table)
	f := files[""]
	if err == nil && (f.file <= 0 || f.allocated <= 0) {
		err = errors.New("the server doesn't say")
	}
	return f, err
}
