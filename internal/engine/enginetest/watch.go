package enginetest

import (
	"context"
	"math"
	"regexp"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rowmill/rowmill/internal/engine"
)

// figureName matches the name of a counter: lower-case words joined by underscores. ownFigure
// matches the names that are reserved for rowmill and the operating system.
var (
	figureName = regexp.MustCompile(`^[a-z]+(_[a-z0-9]+)*$`)
	ownFigure  = regexp.MustCompile(`^(os|client|server|cpu|mem|swap|pressure|disk|cgroup|work)_`)
)

func (s suite) counters(t *testing.T) {
	db, table := s.open(t), everyType("counted")
	// Sampling may begin before the table exists.
	c, err := db.Counters(within(t), table)
	Must(t, err)
	defer func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	described := c.Describe()
	names := map[string]bool{}
	for _, d := range described {
		if !figureName.MatchString(d.Name) || ownFigure.MatchString(d.Name) || d.Help == "" || names[d.Name] {
			t.Errorf("figure %+v: its name is odd or there twice, or it has no help", d)
		}
		if !slices.Contains([]string{"bytes", "pages", "rows", "ops", "us", ""}, d.Unit) {
			t.Errorf("figure %s is in %q", d.Name, d.Unit)
		}
		names[d.Name] = true
	}
	before, after := make([]float64, len(described)), make([]float64, len(described))
	Must(t, c.Sample(within(t), after))
	apply(t, db, engine.CreateTable{Table: table})
	// Only after CREATE TABLE: a server may count the rows of its own dictionary.
	Must(t, c.Sample(within(t), before))
	w, b := writer(t, db, table, db.Capabilities().Methods[0]), engine.NewBatch(table.Columns)
	f := newFiller(table.Columns)
	for i := range 10 {
		b.Reset()
		f.fill(b, int64(i*500), 500)
		write(t, w, b)
	}
	Must(t, c.Sample(within(t), after))
	grew := 0
	for i, d := range described {
		switch {
		case math.IsNaN(after[i]):
			t.Errorf("%s can't be read", d.Name)
		case after[i] < 0, d.Cumulative && after[i] < before[i]:
			t.Errorf("%s went from %v to %v", d.Name, before[i], after[i])
		case after[i] > before[i]:
			grew++
		}
		if d.Name == engine.CounterRows && after[i]-before[i] != 5000 {
			t.Errorf("%s went from %v to %v for 5000 rows", d.Name, before[i], after[i])
		}
	}
	if grew == 0 {
		t.Error("no figure grew")
	}
	s.sampleBesideWrites(t, db, table, c, w)
	if err := c.Sample(canceled(), after); err == nil && db.Capabilities().Stores {
		t.Error("a sample after the end of its context")
	}
}

// sampleBesideWrites samples while a writer writes continuously.
func (s suite) sampleBesideWrites(t *testing.T, db engine.DB, table *engine.Table, c engine.Counters, w engine.Writer) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		f, b := newFiller(table.Columns), engine.NewBatch(table.Columns)
		for first := int64(1e6); ; first += 500 {
			select {
			case <-stop:
				return
			default:
			}
			b.Reset()
			f.fill(b, first, 500)
			if _, err := w.Write(t.Context(), b); err != nil {
				t.Errorf("write: %v", err)
				return
			}
		}
	}()
	sample := make([]float64, len(c.Describe()))
	for range 20 {
		began := time.Now()
		if err := c.Sample(within(t), sample); err != nil {
			t.Error(err)
		}
		// This limit detects a blocked sample; it isn't a test of speed.
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("a sample took %v", took)
		}
	}
	close(stop)
	<-stopped
}

func (s suite) sizes(t *testing.T) {
	db := s.open(t)
	if !db.Capabilities().Stores {
		t.Skip("the engine stores nothing")
	}
	for _, table := range []*engine.Table{everyType("plain"), timeTable(t, "rolls", "15m")} {
		t.Run(table.Name, func(t *testing.T) {
			step := engine.CreateTable{Table: table}
			if table.Rolling() {
				if !db.Capabilities().Rolling {
					t.Skip("the engine has no rolling tables")
				}
				step.Partitions = periods(t, table.Grid, start, 12)
			}
			apply(t, db, step)
			measure := func() engine.Sizes {
				t.Helper()
				got, err := db.Catalog().Sizes(within(t), table)
				Must(t, err)
				return got
			}
			empty := measure()
			w, f := writer(t, db, table, db.Capabilities().Methods[0]), newFiller(table.Columns)
			b := engine.NewBatch(table.Columns)
			for i := range 10 {
				b.Reset()
				f.fill(b, int64(i)*2000, 2000)
				if table.Rolling() {
					for row := range b.Rows() {
						b.Columns[1].Ints[row] = start + int64(i*2000+row)*second/2
						b.Columns[1].Ints[row] -= b.Columns[1].Ints[row] % second
					}
				}
				write(t, w, b)
			}
			full := measure()
			// A row has 24 or some 200 bytes. Servers estimate sizes, and compress rows, but the sizes are
			// not wrong by a factor of 100.
			if full.Data <= empty.Data || full.Index <= 0 || full.Data < 20000*2 || full.Data > 20000*2000 || full.Index > 20000*2000 {
				t.Errorf("from %+v to %+v for 20000 rows", empty, full)
			}
		})
	}
}

// close checks that a closed database leaves no goroutines.
func (s suite) close(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Run("open and close", func(t *testing.T) {
		db, table := s.open(t), everyType("closed")
		apply(t, db, engine.CreateTable{Table: table})
		b := engine.NewBatch(table.Columns)
		newFiller(table.Columns).fill(b, 0, 10)
		for _, m := range db.Capabilities().Methods {
			w := writer(t, db, table, m)
			ctx, cancel := context.WithCancel(t.Context())
			_, err := w.Write(ctx, b)
			cancel()
			if err != nil && m == db.Capabilities().Methods[0] {
				t.Error(err)
			}
		}
		q := querier(t, db)
		find := &engine.Find{Table: table, On: []string{"id"}}
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			if _, err := q.Find(ctx, find, []engine.Value{{}}); err != nil {
				t.Error(err)
			}
			cancel()
		}
		c, err := db.Counters(within(t), table)
		Must(t, err)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}
