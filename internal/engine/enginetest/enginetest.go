// Package enginetest is the test suite that every engine passes.
//
// An engine's test passes a function that opens private, empty databases:
//
//	func TestEngine(t *testing.T) {
//		enginetest.Run(t, func(t testing.TB) engine.DB { return testdb.Open(t, "sqlite") })
//	}
//
// The suite skips features that engine.Capabilities declares missing. For an
// engine that doesn't store rows, it checks the acknowledgements but not the
// rows.
package enginetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// A test is a named test of a suite.
type test struct {
	name string
	run  func(*testing.T)
}

// beside runs tests in parallel with each other and with other tests.
func beside(t *testing.T, tests []test) {
	t.Parallel()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t)
		})
	}
}

// Run runs the tests that can run in parallel with each other and with other
// tests; RunAlone runs the others. open returns an empty database, which is closed
// and removed at the end of the test that it is called for.
func Run(t *testing.T, open func(testing.TB) engine.DB) {
	s := suite{open}
	beside(t, []test{
		{"Info", s.info},
		{"Tables", s.tables},
		{"Partitions", s.partitions},
		{"Values", s.values},
		{"Identifiers", s.identifiers},
		{"Refusals", s.refusals},
		{"RoundTrip", s.roundTrip},
		{"ZeroBytes", s.zeroBytes},
		{"ServerKey", s.serverKey},
		{"LargeBatch", s.largeBatch},
		{"Duplicate", s.duplicate},
		{"Ignore", s.ignore},
		{"OutsidePartitions", s.outside},
		{"MissingTable", s.missingTable},
		{"Cancel", s.cancel},
		{"Scan", s.scan},
		{"Find", s.find},
		{"FindRefusals", s.findRefusals},
		{"Delete", s.deletes},
		{"CreateIndexes", s.createIndexes},
		{"CancelFind", s.cancelFind},
		{"WritersAndPartitions", s.writersAndPartitions},
		{"Sizes", s.sizes},
	})
}

// RunQuerier runs the tests of queriers, for an engine with several kinds of them.
func RunQuerier(t *testing.T, open func(testing.TB) engine.DB) {
	s := suite{open}
	beside(t, []test{{"Find", s.find}, {"FindRefusals", s.findRefusals}, {"Delete", s.deletes}, {"CancelFind", s.cancelFind}})
}

// RunAlone runs the tests of the suite that read counters or change settings of
// the whole server, or inspect the whole process. No other test may run or use
// open's server meanwhile.
func RunAlone(t *testing.T, open func(testing.TB) engine.DB) {
	s := suite{open}
	k := keepers{func(t testing.TB) engine.Keeper {
		db, ok := open(t).(engine.Keeper)
		if !ok {
			t.Skip("it keeps no tables")
		}
		return db
	}}
	for _, test := range []test{
		{"Counters", s.counters},
		{"Settle", s.settle},
		{"FindAllocations", s.findAllocations},
		{"Close", s.close},
		{"Blocked", k.blocked},
		{"Running", k.running},
		{"Killed", loaders{k}.killed},
	} {
		t.Run(test.name, test.run)
	}
}

type suite struct{ open func(testing.TB) engine.DB }

// longest is far above the duration of any call here on a busy machine.
const longest = time.Minute

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	t.Cleanup(cancel)
	return ctx
}

// Must ends the test if there is an error.
func Must(t testing.TB, err error) {
	if err != nil { // a benchmark pays nothing for Helper
		t.Helper()
		t.Fatal(err)
	}
}

// apply applies steps that must succeed.
func apply(t testing.TB, db engine.DB, steps ...engine.Step) {
	t.Helper()
	if err := db.Apply(within(t), steps...); err != nil {
		t.Fatalf("apply: %v", err)
	}
}

// writer opens a writer that is closed when the test ends.
func writer(t testing.TB, db engine.DB, table *engine.Table, m engine.Method) engine.Writer {
	t.Helper()
	w, err := db.Writer(within(t), table, m)
	if err != nil {
		t.Fatalf("writer by %s: %v", m, err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("close writer: %v", err)
		}
	})
	return w
}

// write writes a batch, all of which must be acknowledged without a warning.
func write(t testing.TB, w engine.Writer, b *engine.Batch) {
	t.Helper()
	ack, err := w.Write(within(t), b)
	if err != nil {
		t.Fatalf("write %d rows: %v", b.Rows(), err)
	}
	if ack.Rows != int64(b.Rows()) || len(ack.Warnings) > 0 {
		t.Fatalf("wrote %d rows, acknowledged were %d with warnings %q", b.Rows(), ack.Rows, ack.Warnings)
	}
}

// partitionsOf returns the partitions in the catalog.
func partitionsOf(t testing.TB, db engine.DB, table *engine.Table) []rolling.Partition {
	t.Helper()
	parts, err := db.Catalog().Partitions(within(t), table)
	if err != nil {
		t.Fatalf("partitions: %v", err)
	}
	return parts
}

func wantPartitions(t testing.TB, db engine.DB, table *engine.Table, want []rolling.Partition) {
	t.Helper()
	if got := partitionsOf(t, db, table); !slices.Equal(got, want) {
		t.Fatalf("the catalog has partitions\n%v\nwant\n%v", got, want)
	}
}

func wantExists(t testing.TB, db engine.DB, table *engine.Table, want bool) {
	t.Helper()
	got, err := db.Catalog().Exists(within(t), table)
	if err != nil {
		t.Fatalf("exists: %v", err)
	}
	if got != want {
		t.Fatalf("table %q exists: %v, want %v", table.Name, got, want)
	}
}

func wantError(t testing.TB, err, class error) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Fatalf("got error %v, want one of class %q", err, class)
	}
}

// read returns all rows of a table, or of one partition, in the order of Scan.
func read(t testing.TB, db engine.DB, table *engine.Table, part *rolling.Partition) *engine.Batch {
	t.Helper()
	all := engine.NewBatch(table.Columns)
	err := db.Scan(within(t), table, part, func(b *engine.Batch) error {
		copyRows(all, b)
		return nil
	})
	if err != nil {
		t.Fatalf("scan: %v", err)
	}
	return all
}

// wantRows compares the table's rows with those that were written: first the
// checksums, then, if they differ, row by row. Column 0 must be the only key.
func wantRows(t testing.TB, db engine.DB, table *engine.Table, want *engine.Batch) {
	t.Helper()
	if !db.Capabilities().Stores {
		return
	}
	got := read(t, db, table, nil)
	var sumGot, sumWant engine.Sum
	sumGot.Add(got, nil)
	sumWant.Add(want, nil)
	if sumGot.Equal(&sumWant) {
		return
	}
	t.Errorf("checksums differ: got %d rows, want %d", got.Rows(), want.Rows())
	compare(t, table, got, want)
	t.FailNow()
}
