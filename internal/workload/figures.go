package workload

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
)

// maxWarnings is the maximum number of different server warnings that are kept.
const maxWarnings = 20

func (w *Insert) warn(texts []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.warnings == nil {
		w.warnings = map[string]int64{}
	}
	for _, text := range texts {
		if _, known := w.warnings[text]; known || len(w.warnings) < maxWarnings {
			w.warnings[text]++
		}
	}
}

// Warnings returns the server's warnings about batches, each with the number of
// batches.
func (w *Insert) Warnings() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, text := range slices.Sorted(maps.Keys(w.warnings)) {
		out = append(out, fmt.Sprintf("the server warned of %s: %s", figure.Plural(w.warnings[text], "batch", "batches"), text))
	}
	return out
}

// Sizes returns the total size of all tables.
func (w *Insert) Sizes(ctx context.Context) (engine.Sizes, error) {
	var sum engine.Sizes
	for _, t := range w.tables {
		s, err := w.db.Catalog().Sizes(ctx, &t.Table)
		if err != nil {
			return sum, err
		}
		sum.Data += s.Data
		sum.Index += s.Index
	}
	return sum, nil
}

// SkippedRows returns how many of the acknowledged rows the server skipped
// because their keys existed.
func (w *Insert) SkippedRows() int64 {
	var n int64
	for _, t := range w.tables {
		n += t.skipped.Load()
	}
	return n
}

// DroppedRows returns the number of rows in dropped periods. If the server
// assigns the keys, it is an estimate until Verify has counted.
func (w *Insert) DroppedRows() int64 {
	var n int64
	for _, t := range w.tables {
		n += w.droppedRows(t)
	}
	return n
}

func (w *Insert) droppedRows(t *table) int64 {
	if t.roller == nil {
		return 0
	}
	below := w.firstAt(t.roller.dropped.Load())
	acked, _ := t.sent()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dropped >= 0 {
		return t.dropped
	}
	var n int64
	for _, s := range acked {
		n += w.distinct(t, acked, span{s.from, max(s.from, min(s.to, below))})
	}
	return n
}

// DeletedRows returns the number of rows whose delete, to keep the tables' size,
// was acknowledged.
func (w *Insert) DeletedRows() int64 {
	var n int64
	for _, t := range w.tables {
		n += t.tail.removed.Load()
	}
	return n
}
