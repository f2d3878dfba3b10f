package workload

import (
	"context"
	"errors"
	"fmt"

	"github.com/rowmill/rowmill/engine"
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
	// unknownPeriodRows keeps the life of periods out of what a run that
	// stores nothing measures: one every second or so.
	unknownPeriodRows = 10_000_000
)

// Measure finds how many rows a period may hold: it loads a sample into a
// scratch table of the same schema, measures its bytes per row, indexes
// included, and fits two periods into the database's cache. It does nothing
// for a plain layout, or when the options say how many rows.
//
// The scratch table is rowmill_sample_ and the preset's table's name. It is
// dropped at the end, also after errors and interrupts; one that a killed run
// left is dropped by the next Measure, or by hand.
func (w *Insert) Measure(ctx context.Context) (err error) {
	if w.opt.Layout != Rolling || w.opt.PeriodRows > 0 {
		return nil
	}
	cache := w.db.Info().CacheBytes
	if !w.db.Capabilities().Stores {
		// Nothing is stored, so nothing has to fit.
		if w.opt.Rows == 0 {
			return w.roll(unknownPeriodRows, "any number of rows: the engine stores nothing")
		}
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

// BytesPerRow measures what a row takes in the table with its indexes, on a
// sample of so many rows, in a scratch table as Measure does. The layout makes
// no difference to it but for the periods' first extents.
func (w *Insert) BytesPerRow(ctx context.Context, rows int64) (float64, error) {
	perRow, err := w.sample(ctx, rows)
	if err != nil {
		return 0, fmt.Errorf("measure bytes per row: %w", err)
	}
	return perRow, nil
}

// roundDown cuts a number to two leading digits: more would only look exact.
func roundDown(n int64) int64 {
	unit := int64(1)
	for n/unit >= 100 {
		unit *= 10
	}
	return n / unit * unit
}

// scratch returns the table that a sample is loaded into. It has one name for
// each preset, so that what a killed run left is found and dropped by the next.
func (w *Insert) scratch() *engine.Table {
	t := w.preset.table
	t.Name = scratchPrefix + t.Name
	return &t
}

const scratchPrefix = "rowmill_sample_"

// sample loads rows into a scratch table and returns their bytes per row.
func (w *Insert) sample(ctx context.Context, rows int64) (perRow float64, err error) {
	scratch := w.scratch()
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
		defer cancel()
		if failed := w.db.Apply(clean, engine.DropTable{Table: scratch}); failed != nil {
			err = errors.Join(err, fmt.Errorf("drop scratch table %s: %w", scratch.Name, failed))
		}
	}()
	if err := w.db.Apply(ctx, engine.DropTable{Table: scratch}, engine.CreateTable{Table: scratch}); err != nil {
		return 0, err
	}
	if err := w.load(ctx, scratch, rows); err != nil {
		return 0, err
	}
	s, err := w.db.Catalog().Sizes(ctx, scratch)
	if err != nil {
		return 0, err
	}
	if s.Data+s.Index <= 0 {
		return 0, engine.Hinted(errors.New("the server says that the sample takes no room"), "--period-rows N")
	}
	return float64(s.Data+s.Index) / float64(rows), nil
}

// load inserts the first rows of the first table into another one.
func (w *Insert) load(ctx context.Context, into *engine.Table, rows int64) (err error) {
	writer, err := w.db.Writer(ctx, into, w.opt.Method)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, writer.Close()) }()
	b := engine.NewBatch(into.Inserted())
	step := int64(max(w.opt.Batch, minPeriodRows)) // single rows would take long
	for at := int64(0); at < rows; at += step {
		b.Reset()
		w.preset.fill(b, w.tables[0].stream, at, int(min(step, rows-at)))
		if _, err := writer.Write(ctx, b); err != nil {
			return err
		}
	}
	return nil
}
