package mysql

import (
	"context"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// PeriodSizes implements engine.Keeper. If InnoDB's files can be read, the sizes
// are those of the files on disk, divided between data and indexes by the
// statistics, which may be outdated.
func (db *DB) PeriodSizes(ctx context.Context, t *engine.Table) (map[string]engine.PeriodSize, error) {
	out, err := db.periodSizes(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("sizes of the periods of %s: %w", t.Name, err)
	}
	return out, nil
}

func (db *DB) periodSizes(ctx context.Context, t *engine.Table) (map[string]engine.PeriodSize, error) {
	conn, err := db.pool.Conn(ctx)
	if err != nil {
		return nil, db.unreachable(err)
	}
	defer conn.Close()
	prepare := db.dialect.fresh()
	if db.dialect.rocksdb() {
		prepare = append(prepare, flushRocksDB)
	}
	for _, q := range prepare {
		// Without the privilege to flush, the figures are outdated.
		if _, err := conn.ExecContext(ctx, q); err != nil && !missing(err) {
			return nil, classify(err)
		}
	}
	stats, err := db.partitionStatistics(ctx, conn, t.Name)
	if err != nil {
		return nil, err
	}
	out := map[string]engine.PeriodSize{}
	for name, p := range stats {
		if name != "" && !(floored(t) && isFloor(name)) {
			out[name] = engine.PeriodSize{Rows: p.rows, Data: p.data, Index: p.index}
		}
	}
	spaces, err := db.tablespaces(ctx, conn, t.Name)
	if err != nil {
		return nil, err
	}
	files := map[string]tablespace{}
	for _, s := range spaces {
		files[strings.ToLower(s.partition)] = s
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
		if both := p.Data + p.Index; both > 0 {
			p.Index = int64(float64(bytes) * float64(p.Index) / float64(both))
		}
		p.Data = bytes - p.Index
		out[name] = p
	}
	return out, nil
}

// Outside counts the rows of a declared table that precede its first period, and so
// are outside every period. The servers store no lower bounds: see floorName.
func (db *DB) Outside(ctx context.Context, t *engine.Table) (int64, error) {
	l, err := db.layout(ctx, db.pool, t)
	if err != nil || !l.hasFloor {
		return 0, err
	}
	var n int64
	if err := db.pool.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+db.dialect.partition(t, floorName)).Scan(&n); err != nil {
		return 0, fmt.Errorf("rows of %s before its first period: %w", t.Name, classify(err))
	}
	return n, nil
}
