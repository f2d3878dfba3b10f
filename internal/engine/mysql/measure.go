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

// mostAnalyzed is the largest number of partitions whose statistics a measurement
// refreshes: for each, the server reads some twenty pages of each index, at random.
const mostAnalyzed = 4

// A statistic is the server's statistics of a partition or a plain table.
type statistic struct {
	rows, data, index int64
	// changed is the time of the last write, in Unix seconds; 0 means none since
	// the server opened the table.
	changed int64
}

// statistics renders the query for the statistics of a table.
func (d dialect) statistics(table string) string {
	return "SELECT COALESCE(PARTITION_NAME, ''), COALESCE(TABLE_ROWS, 0), COALESCE(DATA_LENGTH, 0), COALESCE(INDEX_LENGTH, 0), COALESCE(UNIX_TIMESTAMP(UPDATE_TIME), 0) " +
		"FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = " + quoteText(table)
}

// partitionStatistics returns the statistics by the partition's name, "" for a
// plain table.
func (db *DB) partitionStatistics(ctx context.Context, from querent, table string) (map[string]statistic, error) {
	rows, err := from.QueryContext(ctx, db.dialect.statistics(table))
	if err != nil {
		return nil, classify(err)
	}
	defer rows.Close()
	out := map[string]statistic{}
	for rows.Next() {
		var name string
		var s statistic
		if err := rows.Scan(&name, &s.rows, &s.data, &s.index, &s.changed); err != nil {
			return nil, classify(err)
		}
		out[name] = s
	}
	if err := rows.Err(); err != nil {
		return nil, classify(err)
	}
	if len(out) == 0 {
		return nil, engine.Classed(engine.ErrNoTable, errors.New("no such table"))
	}
	return out, nil
}

// analyzeSome renders the refresh of the statistics of some partitions, or of a
// plain table.
func (d dialect) analyzeSome(table string, partitions []string) string {
	if len(partitions) == 1 && partitions[0] == "" {
		return "ANALYZE TABLE " + d.Quote(table)
	}
	return fmt.Sprintf("ALTER TABLE %s ANALYZE PARTITION %s", d.Quote(table), d.list(partitions))
}

// measure renders Measure. Only the server knows which partitions will be analyzed,
// so ANALYZE is rendered for a plain table only.
func (d dialect) measure(t *engine.Table) []string {
	out := d.fresh()
	if d.rocksdb() {
		return append(out, flushRocksDB, d.analyzeSome(t.Name, []string{""}), d.sizes(t))
	}
	out = append(out, d.statistics(t.Name), d.tablespaces("DATABASE()", t.Name))
	if !t.Rolling() {
		out = append(out, d.analyzeSome(t.Name, []string{""}), d.statistics(t.Name))
	}
	return out
}

// Sizes implements engine.Catalog. InnoDB updates statistics by itself, about ten
// seconds after a tenth of a partition has changed, so only those of the partitions
// written to last are outdated: only these are refreshed. If the statistics of a
// partition are nearly empty, for example with STATS_AUTO_RECALC=0, the size of its
// file is used. If the files can't be read (this needs the privilege PROCESS), in a
// shared tablespace, and with another storage engine, all statistics are refreshed.
func (c catalog) Sizes(ctx context.Context, t *engine.Table) (engine.Sizes, error) {
	fail := func(err error) (engine.Sizes, error) {
		return engine.Sizes{}, fmt.Errorf("measure table %s: %w", t.Name, err)
	}
	conn, err := c.db.pool.Conn(ctx)
	if err != nil {
		return engine.Sizes{}, c.db.unreachable(err)
	}
	defer conn.Close()
	d := c.db.dialect
	for _, q := range d.fresh() {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			return fail(classify(err))
		}
	}
	var files map[string]int64
	if !d.rocksdb() {
		if files, err = c.db.files(ctx, conn, t.Name); err != nil {
			return fail(err)
		}
	}
	stats, err := c.db.partitionStatistics(ctx, conn, t.Name)
	if err != nil {
		return fail(err)
	}
	for name := range stats {
		if _, ok := files[fileKey(name)]; !ok {
			return c.analyzed(ctx, conn, t)
		}
	}
	if latest := lastChanged(stats); len(latest) > 0 {
		if _, err := conn.ExecContext(ctx, d.analyzeSome(t.Name, latest)); err != nil {
			return fail(classify(err))
		}
		if stats, err = c.db.partitionStatistics(ctx, conn, t.Name); err != nil {
			return fail(err)
		}
	}
	return sizesOf(stats, files), nil
}

// analyzed measures by the statistics alone, after refreshing all of them.
func (c catalog) analyzed(ctx context.Context, conn *sql.Conn, t *engine.Table) (engine.Sizes, error) {
	d := c.db.dialect
	if d.rocksdb() {
		_, err := conn.ExecContext(ctx, flushRocksDB)
		// Without the privilege, the figure is outdated.
		var server *mysql.MySQLError
		if err != nil && !errors.As(err, &server) {
			return engine.Sizes{}, fmt.Errorf("%s: %w", flushRocksDB, classify(err))
		}
	}
	q := d.analyzeSome(t.Name, []string{""})
	if _, err := conn.ExecContext(ctx, q); err != nil {
		return engine.Sizes{}, fmt.Errorf("%s: %w", q, classify(err))
	}
	var s engine.Sizes
	if err := conn.QueryRowContext(ctx, d.sizes(t)).Scan(&s.Data, &s.Index); err != nil {
		return engine.Sizes{}, fmt.Errorf("measure table %s: %w", t.Name, classify(err))
	}
	return s, nil
}

// files returns the sizes of a table's files by the partition's fileKey.
func (db *DB) files(ctx context.Context, from querent, table string) (map[string]int64, error) {
	spaces, err := db.tablespaces(ctx, from, table)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for _, s := range spaces {
		out[strings.ToLower(s.partition)] = s.file
	}
	return out, nil
}

// fileKey returns a partition's key among files: servers differ in the case in
// which they store its name.
func fileKey(partition string) string { return strings.ToLower(fileName(partition)) }

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

// unknown reports whether the statistics have less than a tenth of the file's size:
// they were not updated since it was filled.
func (s statistic) unknown(file int64) bool { return s.data+s.index < file/10 }

// sizesOf adds up the partitions' sizes by their statistics. If these are unknown,
// it takes the size of the file, divided between data and indexes like the others.
func sizesOf(stats map[string]statistic, files map[string]int64) engine.Sizes {
	var known engine.Sizes
	var rest int64
	for name, s := range stats {
		if file := files[fileKey(name)]; s.unknown(file) {
			rest += file
		} else {
			known.Data += s.data
			known.Index += s.index
		}
	}
	index := int64(0)
	if both := known.Data + known.Index; both > 0 {
		index = int64(float64(rest) * float64(known.Index) / float64(both))
	}
	return engine.Sizes{Data: known.Data + rest - index, Index: known.Index + index}
}
