package workload

import (
	"context"
	"errors"
	"fmt"

	"github.com/rowmill/rowmill/internal/engine"
)

// Parameters by which Measure fits periods into a cache.
const (
	// sampleRows is large enough that a table's first extents, which servers allocate whole
	// (1 MiB for InnoDB), don't dominate the measurement.
	sampleRows = 50000
	// sampleShare limits the sample to a small part of a short run.
	sampleShare = 10
	// cacheShare is the share of the cache that inserts may fill. The rest is for undo, the
	// dictionary and pages waiting to be written.
	cacheShare = 0.8
	// residentPeriods is how many periods must fit in the cache: the period being filled, and the one
	// before it, which receives late rows and is still being written back.
	residentPeriods = 2
	minPeriodRows   = 1000
	// unknownPeriodRows makes about one period per second of a run that stores nothing.
	unknownPeriodRows = 10_000_000
)

// Measure determines the number of rows per period: it measures the bytes per row of a sample, with
// indexes, and makes two periods fit in the database's cache. It does nothing for a plain layout,
// or if the options set the number.
//
// The sample is in a scratch table, whose name is rowmill_sample_ and the table's name. Measure
// drops the scratch table at the end; after a killed run, the next Measure drops it.
func (w *Insert) Measure(ctx context.Context) (err error) {
	if w.opt.Layout != Rolling || w.opt.PeriodRows > 0 {
		return nil
	}
	cache := w.db.Info().CacheBytes
	if !w.db.Capabilities().Stores {
		rows := int64(unknownPeriodRows)
		if w.opt.Rows > 0 {
			rows = max(minPeriodRows, w.opt.Rows/10)
		}
		return w.roll(rows, "any number of rows: the engine stores nothing")
	}
	if cache <= 0 {
		return engine.Hinted(fmt.Errorf("period rows auto: %s doesn't say how large its cache is", w.db.Info().Engine),
			"--period-rows N, so that two periods of N rows fit into memory")
	}
	rows := int64(sampleRows)
	if w.opt.Rows > 0 {
		rows = min(rows, max(w.opt.Rows/sampleShare, minPeriodRows))
	}
	perRow, err := w.BytesPerRow(ctx, rows)
	if err != nil {
		return err
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

// BytesPerRow measures the size of a row with its share of the indexes. It inserts a sample of the
// given number of rows into a scratch table, and drops the table at the end.
func (w *Insert) BytesPerRow(ctx context.Context, rows int64) (perRow float64, err error) {
	scratch := w.scratch()
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
		defer cancel()
		if failed := w.db.Apply(clean, engine.DropTable{Table: scratch}); failed != nil {
			err = errors.Join(err, fmt.Errorf("drop scratch table %s: %w", scratch.Name, failed))
		}
		if err != nil {
			err = fmt.Errorf("measure bytes per row: %w", err)
		}
	}()
	if err := w.db.Apply(ctx, engine.DropTable{Table: scratch}, engine.CreateTable{Table: scratch}); err != nil {
		return 0, err
	}
	// Single rows would take too long.
	load := transfer{into: scratch, stream: w.tables[0].stream, rows: span{0, rows}, batch: int64(max(w.opt.Batch, minPeriodRows)), method: w.opt.Method}
	if err := w.load(ctx, load); err != nil {
		return 0, err
	}
	s, err := w.db.Catalog().Sizes(ctx, scratch)
	if err != nil {
		return 0, err
	}
	if s.Data+s.Index <= 0 {
		return 0, engine.Hinted(errors.New("the server reports that the sample takes no space"), "--period-rows N")
	}
	return float64(s.Data+s.Index) / float64(rows), nil
}

// roundDown truncates a number to the two leading digits that the measurement justifies.
func roundDown(n int64) int64 {
	unit := int64(1)
	for n/unit >= 100 {
		unit *= 10
	}
	return n / unit * unit
}

// scratch returns the table for the sample. Its name depends only on the preset, so that the
// next run finds and drops the table of a killed run.
func (w *Insert) scratch() *engine.Table {
	t := w.preset.table
	t.Name = scratchPrefix + t.Name
	return &t
}

const scratchPrefix = "rowmill_sample_"
