package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/rolling"
)

// How Measure fits periods into a cache.
const (
	// sampleRows is enough that a table's first extents, which servers
	// allocate whole (1 MiB for InnoDB), don't dominate what is measured.
	sampleRows = 50000
	// sampleShare keeps the sample a small part of a short run.
	sampleShare = 10
	// cacheShare is how much of the cache inserts may fill. The rest is for
	// undo, the dictionary and pages on their way to disk.
	cacheShare = 0.8
	// residentPeriods must fit: the one that fills and the one before it,
	// which takes stragglers and is still being written back.
	residentPeriods = 2
	minPeriodRows   = 1000
)

// Measure finds how many rows a period may hold: it loads a sample into a
// scratch table of the same schema, measures its bytes per row, indexes
// included, and fits two periods into the database's cache. It does nothing
// for a plain layout, or when the options say how many rows.
func (w *Insert) Measure(ctx context.Context) (err error) {
	if w.opt.Layout != Rolling || w.opt.PeriodRows > 0 {
		return nil
	}
	cache := w.db.Info().CacheBytes
	if !w.db.Capabilities().Stores {
		// Nothing is stored, so nothing has to fit: a tenth makes ten periods.
		return w.roll(max(minPeriodRows, w.opt.Rows/10), "a tenth of the rows: the engine stores nothing")
	}
	if cache <= 0 {
		return engine.Hinted(fmt.Errorf("period rows auto: %s doesn't say how large its cache is", w.db.Info().Engine),
			"--period-rows N, so that two periods of N rows fit into memory")
	}
	rows := int64(sampleRows)
	if w.opt.Rows > 0 {
		rows = min(rows, max(w.opt.Rows/sampleShare, minPeriodRows))
	}
	perRow, err := w.sample(ctx, rows)
	if err != nil {
		return fmt.Errorf("measure bytes per row: %w", err)
	}
	tables := int64(len(w.tables))
	fit := int64(cacheShare*float64(cache)/perRow) / residentPeriods / tables
	fit = max(roundDown(fit), minPeriodRows)
	why := fmt.Sprintf("%d periods of %.0f bytes per row, measured on %d rows, fit into %.0f%% of a cache of %d bytes",
		residentPeriods, perRow, rows, 100*cacheShare, cache)
	if tables > 1 {
		why += fmt.Sprintf(", for each of %d tables", tables)
	}
	return w.roll(fit, why)
}

// roundDown cuts a number to two leading digits: more would only look exact.
func roundDown(n int64) int64 {
	unit := int64(1)
	for n/unit >= 100 {
		unit *= 10
	}
	return n / unit * unit
}

// sample loads rows into a scratch table and returns their bytes per row.
func (w *Insert) sample(ctx context.Context, rows int64) (perRow float64, err error) {
	scratch := w.tables[0].Table
	scratch.Name = fmt.Sprintf("rowmill_sample_%s_%d", scratch.Name, time.Now().UnixNano())
	scratch.Grid, scratch.By = rolling.Grid{}, ""
	if err := w.db.Apply(ctx, engine.CreateTable{Table: &scratch}); err != nil {
		return 0, err
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		err = errors.Join(err, w.db.Apply(clean, engine.DropTable{Table: &scratch}))
	}()
	writer, err := w.db.Writer(ctx, &scratch, w.opt.Method)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, writer.Close()) }()
	b := engine.NewBatch(scratch.Inserted())
	step := int64(max(w.opt.Batch, minPeriodRows)) // single rows would take long
	for at := int64(0); at < rows; at += step {
		b.Reset()
		w.preset.fill(b, w.tables[0].stream, at, int(min(step, rows-at)))
		if _, err := writer.Write(ctx, b); err != nil {
			return 0, err
		}
	}
	s, err := w.db.Catalog().Sizes(ctx, &scratch)
	if err != nil {
		return 0, err
	}
	if s.Data+s.Index <= 0 {
		return 0, errors.New("the server says that the sample takes no room; give --period-rows")
	}
	return float64(s.Data+s.Index) / float64(rows), nil
}
