package enginetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// eachMethod runs a test for each insert method, each on its own database.
func (s suite) eachMethod(t *testing.T, run func(*testing.T, engine.DB, engine.Method)) {
	first := s.open(t)
	for i, m := range first.Capabilities().Methods {
		t.Run(string(m), func(t *testing.T) {
			db := first
			if i > 0 {
				db = s.open(t)
			}
			run(t, db, m)
		})
	}
}

// roundTrip writes batches of all sizes, including empty ones, with one writer. The context of each
// Write ends right after it, which must not affect the next Write.
func (s suite) roundTrip(t *testing.T) {
	s.eachMethod(t, func(t *testing.T, db engine.DB, m engine.Method) {
		table := everyType("every type")
		apply(t, db, engine.CreateTable{Table: table})
		w, f, all := writer(t, db, table, m), newFiller(table.Columns), engine.NewBatch(table.Columns)
		f.noZero = db.Capabilities().NoZeroBytes
		for i, n := range []int{500, 1, 0, 1000, 2, 63, 64, 65, 1, 7, 1000, 999, 129, 0, 3} {
			b := engine.NewBatch(table.Columns)
			if i == 0 {
				f.fillEdges(b, 0)
			}
			f.fill(b, int64(all.Rows()+b.Rows()), n)
			ctx, cancel := context.WithCancel(within(t))
			ack, err := w.Write(ctx, b)
			cancel()
			if err != nil || ack.Rows != int64(b.Rows()) || len(ack.Warnings) > 0 {
				t.Fatalf("%d rows: %+v, %v", b.Rows(), ack, err)
			}
			copyRows(all, b)
		}
		wantRows(t, db, table, all)
	})
}

// zeroBytes checks engines whose text can't contain zero bytes: a batch with a zero byte must be
// refused completely, and the writer must work afterwards.
func (s suite) zeroBytes(t *testing.T) {
	s.eachMethod(t, func(t *testing.T, db engine.DB, m engine.Method) {
		if !db.Capabilities().NoZeroBytes {
			t.Skip("text may hold zero bytes, which RoundTrip shows")
		}
		for _, column := range []string{"varchars", "chars_null", "dec"} {
			table := everyType("zero in " + column)
			apply(t, db, engine.CreateTable{Table: table})
			w, f := writer(t, db, table, m), newFiller(table.Columns)
			b, all := engine.NewBatch(table.Columns), engine.NewBatch(table.Columns)
			f.fill(b, 0, 1000)
			text := &b.Columns[table.Column(column)]
			last := text.Bytes[:text.Ends[len(text.Ends)-2]]
			text.Bytes = append(last, "1\x001"...)
			text.Ends[len(text.Ends)-1] = len(text.Bytes)
			if column == "chars_null" && text.Null(999) {
				t.Fatal("the last row's text is NULL: fill another number of rows")
			}
			if ack, err := w.Write(within(t), b); err == nil || ack.Rows != 0 {
				t.Errorf("%s: %d rows acknowledged, error %v", column, ack.Rows, err)
			}
			Must(t, w.Reset(within(t)))
			wantRows(t, db, table, all)
			f.fill(all, 0, 10)
			write(t, w, all)
			wantRows(t, db, table, all)
		}
	})
}

// serverKey checks that rows of batches without the key get different keys.
func (s suite) serverKey(t *testing.T) {
	s.eachMethod(t, func(t *testing.T, db engine.DB, m engine.Method) {
		for _, every := range []string{"", "100 rows"} {
			table := sequenceTable(t, "keyed"+every, 100)
			table.Columns[0].Auto, table.ServerKey = true, "id"
			var parts []rolling.Partition
			if every == "" || !db.Capabilities().Rolling {
				table.Grid = rolling.Grid{}
			} else {
				parts = periods(t, table.Grid, 0, 4)
			}
			apply(t, db, engine.CreateTable{Table: table, Partitions: parts})
			f := newFiller(append([]engine.Column{{}}, table.Inserted()...))
			for range 2 { // the second writer continues after the first
				w := writer(t, db, table, m)
				for range 3 {
					b := engine.NewBatch(append([]engine.Column{{}}, table.Inserted()...))
					f.fill(b, 0, 30)
					b.Columns = b.Columns[1:]
					write(t, w, b)
				}
			}
			if !db.Capabilities().Stores {
				continue
			}
			got := read(t, db, table, nil)
			seen := map[int64]bool{}
			for _, id := range got.Columns[0].Ints {
				seen[id] = true
				if id < 1 {
					t.Errorf("key %d", id)
				}
			}
			if len(seen) != 180 || got.Rows() != 180 {
				t.Errorf("%d rows with %d keys, want 180", got.Rows(), len(seen))
			}
		}
	})
}

// largeBatch checks that a batch above any packet limit is one transaction.
func (s suite) largeBatch(t *testing.T) {
	s.eachMethod(t, func(t *testing.T, db engine.DB, m engine.Method) {
		// The test transfers 34 MB. The other methods send each row separately.
		if m != engine.Multi && (m != engine.Load || stoodFor(db)) && os.Getenv(nightly) == "" {
			t.Skip("in the nightly run only")
		}
		table := &engine.Table{
			Name: "large", PrimaryKey: []string{"id"},
			Columns: []engine.Column{{Name: "id", Type: engine.Int64}, {Name: "data", Type: engine.Varchar, Size: maxText}},
		}
		apply(t, db, engine.CreateTable{Table: table})
		b := engine.NewBatch(table.Columns)
		long := make([]byte, 0, 4*maxText)
		for len(long) < 4*maxText {
			long = append(long, "😀"...)
		}
		const rows = 1060 // 17 MB; MariaDB's packet limit is 16 MiB
		for i := range rows {
			b.Columns[0].Ints = append(b.Columns[0].Ints, int64(i))
			b.Columns[1].AppendBytes(long)
			b.EndRow()
		}
		w := writer(t, db, table, m)
		write(t, w, b)
		wantRows(t, db, table, b)
		if !db.Capabilities().Stores {
			return
		}
		// Its last row is a duplicate, so none of the others may be stored.
		for i := range rows - 1 {
			b.Columns[0].Ints[i] += rows
		}
		_, err := w.Write(within(t), b)
		wantError(t, err, engine.ErrDuplicateKey)
		if got := read(t, db, table, nil).Rows(); got != rows {
			t.Errorf("%d rows after a batch that failed, want %d", got, rows)
		}
	})
}

func (s suite) duplicate(t *testing.T) {
	s.eachMethod(t, func(t *testing.T, db engine.DB, m engine.Method) {
		if !db.Capabilities().Stores {
			t.Skip("an engine that stores nothing has no duplicates")
		}
		for _, n := range []int{1, 100} {
			table := sequenceTable(t, fmt.Sprintf("twice %d", n), 1000)
			parts := periods(t, table.Grid, 0, 2)
			if !db.Capabilities().Rolling {
				table.Grid, parts = rolling.Grid{}, nil
			}
			apply(t, db, engine.CreateTable{Table: table, Partitions: parts})
			w, f, all := writer(t, db, table, m), newFiller(table.Columns), engine.NewBatch(table.Columns)
			add := func(first int64) error {
				b := engine.NewBatch(table.Columns)
				f.fill(b, first, n)
				ack, err := w.Write(within(t), b)
				if err == nil {
					copyRows(all, b)
				} else if ack.Rows != 0 {
					t.Errorf("%d rows acknowledged of a batch that failed", ack.Rows)
				}
				return err
			}
			Must(t, add(1000))
			// The last row of the batch, or its first, is a duplicate.
			for _, first := range []int64{1000 - int64(n) + 1, 1000 + int64(n) - 1} {
				err := add(first)
				wantError(t, err, engine.ErrDuplicateKey)
				if engine.Retryable(err) {
					t.Error("a duplicate key is called retryable")
				}
				wantRows(t, db, table, all) // even before Reset
				if err := w.Reset(within(t)); err != nil {
					t.Fatalf("reset: %v", err)
				}
			}
			// The same key twice in one batch, and the next batch without Reset.
			b := engine.NewBatch(table.Columns)
			f.fill(b, 1500, 2)
			b.Columns[0].Ints[1] = 1500
			_, err := w.Write(within(t), b)
			wantError(t, err, engine.ErrDuplicateKey)
			if err := add(1200); err != nil {
				t.Fatalf("after an error: %v", err)
			}
			wantRows(t, db, table, all)
		}
	})
}

func (s suite) outside(t *testing.T) {
	s.eachMethod(t, func(t *testing.T, db engine.DB, m engine.Method) {
		if !db.Capabilities().Rolling || !db.Capabilities().Stores {
			t.Skip("the engine has no partitions to be outside of")
		}
		table := timeTable(t, "rolls", "1h")
		parts := periods(t, table.Grid, start, 2)
		apply(t, db, engine.CreateTable{Table: table, Partitions: parts})
		w, f, all := writer(t, db, table, m), newFiller(table.Columns), engine.NewBatch(table.Columns)
		f.fill(all, 0, 10)
		for i := range all.Rows() {
			all.Columns[1].Ints[i] = start + int64(i)*second
		}
		write(t, w, all)
		b := engine.NewBatch(table.Columns)
		f.fill(b, 10, 10)
		for i := range b.Rows() {
			b.Columns[1].Ints[i] = parts[1].To - second + int64(i/9)*second // only the last is outside
		}
		_, err := w.Write(within(t), b)
		wantError(t, err, engine.ErrNoPartition)
		wantRows(t, db, table, all)
		Must(t, w.Reset(within(t)))
		// The writer uses a partition that was created after it was opened.
		apply(t, db, engine.CreatePartitions{Table: table, Have: parts, New: periods(t, table.Grid, parts[1].To, 1)})
		write(t, w, b)
		copyRows(all, b)
		wantRows(t, db, table, all)
	})
}

func (s suite) missingTable(t *testing.T) {
	s.eachMethod(t, func(t *testing.T, db engine.DB, m engine.Method) {
		if !db.Capabilities().Stores {
			t.Skip("an engine that stores nothing needs no table")
		}
		table := everyType("nowhere")
		err := db.Scan(within(t), table, nil, func(*engine.Batch) error { return nil })
		wantError(t, err, engine.ErrNoTable)
		b := engine.NewBatch(table.Columns)
		newFiller(table.Columns).fill(b, 0, 3)
		w, err := db.Writer(within(t), table, m)
		if err == nil {
			_, err = w.Write(within(t), b)
			t.Cleanup(func() { w.Close() })
		}
		wantError(t, err, engine.ErrNoTable)
		if w == nil {
			return
		}
		Must(t, w.Reset(within(t)))
		apply(t, db, engine.CreateTable{Table: table})
		write(t, w, b)
		wantRows(t, db, table, b)
	})
}

// cancel checks that the end of a context interrupts a Write, and that the table
// then has the acknowledged rows and all or none of the interrupted batch.
func (s suite) cancel(t *testing.T) {
	s.eachMethod(t, func(t *testing.T, db engine.DB, m engine.Method) {
		table := everyType("cancelled")
		apply(t, db, engine.CreateTable{Table: table})
		w, f, all := writer(t, db, table, m), newFiller(table.Columns), engine.NewBatch(table.Columns)
		b := engine.NewBatch(table.Columns)
		next := int64(0)
		for round := range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(round*15)*time.Millisecond)
			broken := func() int64 {
				for {
					b.Reset()
					f.fill(b, next, 200)
					if _, err := w.Write(ctx, b); err != nil {
						if ctx.Err() == nil || !errors.Is(err, context.DeadlineExceeded) {
							t.Fatalf("a write that was broken off: %v", err)
						}
						return next
					}
					copyRows(all, b)
					next += int64(b.Rows())
				}
			}()
			cancel()
			if err := w.Reset(within(t)); err != nil {
				t.Fatalf("reset: %v", err)
			}
			if !db.Capabilities().Stores {
				continue
			}
			there := 0
			for _, id := range read(t, db, table, nil).Columns[0].Ints {
				if id >= broken {
					there++
				}
			}
			switch there {
			case 0:
			case b.Rows():
				copyRows(all, b)
			default:
				t.Fatalf("%d of the %d rows of the batch that was broken off are there", there, b.Rows())
			}
			next += int64(b.Rows())
			wantRows(t, db, table, all)
		}
		b.Reset()
		f.fill(b, next, 10)
		write(t, w, b)
		if _, err := w.Write(canceled(), b); !errors.Is(err, context.Canceled) {
			t.Errorf("a write after the end: %v", err)
		}
		if err := db.Apply(canceled(), engine.CreateTable{Table: everyType("late")}); !errors.Is(err, context.Canceled) {
			t.Errorf("apply after the end: %v", err)
		}
		if _, err := db.Writer(canceled(), table, m); !errors.Is(err, context.Canceled) {
			t.Errorf("a writer after the end: %v", err)
		}
	})
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func (s suite) scan(t *testing.T) {
	db, table := s.open(t), everyType("scanned")
	if !db.Capabilities().Stores {
		wantError(t, db.Scan(within(t), table, nil, nil), engine.ErrUnsupported)
		return
	}
	apply(t, db, engine.CreateTable{Table: table})
	b := engine.NewBatch(table.Columns)
	newFiller(table.Columns).fill(b, 0, 2500)
	write(t, writer(t, db, table, db.Capabilities().Methods[0]), b)
	stop, calls := errors.New("enough"), 0
	err := db.Scan(within(t), table, nil, func(*engine.Batch) error { calls++; return stop })
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("after %d calls: %v", calls, err)
	}
	ctx, cancel := context.WithCancel(within(t))
	err = db.Scan(ctx, table, nil, func(*engine.Batch) error { cancel(); return nil })
	// A server may have sent all rows by then.
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a scan that was broken off: %v", err)
	}
	if err := db.Scan(canceled(), table, nil, func(*engine.Batch) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a scan after the end: %v", err)
	}
}

// writersAndPartitions runs several writers while partitions are created for later rows and dropped
// behind the written ones. It checks that no row is lost or duplicated.
func (s suite) writersAndPartitions(t *testing.T) {
	s.eachMethod(t, func(t *testing.T, db engine.DB, m engine.Method) {
		const writers, batches, rows, perPeriod, keep = 3, 60, 10, 200, 4
		table := sequenceTable(t, "busy", perPeriod)
		policy := rolling.Policy{Grid: table.Grid, Ahead: 2}
		parts := periods(t, table.Grid, 0, 3)
		if !db.Capabilities().Rolling {
			t.Skip("the engine has no rolling tables")
		}
		apply(t, db, engine.CreateTable{Table: table, Partitions: parts})

		var mu sync.Mutex // protects the state shared by the writers
		next, grown := int64(0), sync.NewCond(&mu)
		pending := map[int]int64{}
		done := 0
		var wg sync.WaitGroup
		fail := func(err error) {
			t.Error(err)
			mu.Lock()
			defer mu.Unlock()
			done = writers
			grown.Broadcast()
		}
		all := engine.NewBatch(table.Columns)
		for n := range writers {
			w, f := writer(t, db, table, m), newFiller(table.Columns)
			wg.Go(func() {
				b := engine.NewBatch(table.Columns)
				for range batches {
					mu.Lock()
					pending[n] = next
					first := next
					next += rows
					for done < writers && parts[len(parts)-1].To < first+rows {
						grown.Wait()
					}
					mu.Unlock()
					b.Reset()
					f.fill(b, first, rows)
					var err error
					for try := 0; try < 100; try++ {
						if _, err = w.Write(within(t), b); err == nil || !engine.Retryable(err) {
							break
						}
						if err := w.Reset(within(t)); err != nil {
							fail(err)
							return
						}
					}
					if err != nil {
						fail(fmt.Errorf("rows from %d: %w", first, err))
						return
					}
					mu.Lock()
					copyRows(all, b)
					mu.Unlock()
				}
				mu.Lock()
				pending[n] = 1 << 62
				done++
				mu.Unlock()
			})
		}
		roll := func() error {
			mu.Lock()
			pos, oldest := next, next
			have := parts
			for _, p := range pending {
				oldest = min(oldest, p)
			}
			mu.Unlock()
			s, err := policy.Steps(have, pos)
			if err != nil {
				return err
			}
			if len(s.Create) > 0 {
				if err := db.Apply(within(t), engine.CreatePartitions{Table: table, Have: have, New: s.Create}); err != nil {
					return err
				}
				have = append(have[:len(have):len(have)], s.Create...)
			}
			if len(have) > keep && have[0].To <= oldest {
				if err := db.Apply(within(t), engine.DropPartition{Table: table, Have: have, Drop: have[0]}); err != nil {
					return err
				}
				have = have[1:]
			}
			mu.Lock()
			defer mu.Unlock()
			parts = have
			grown.Broadcast()
			return nil
		}
		for {
			mu.Lock()
			stop := done >= writers
			mu.Unlock()
			if stop {
				break
			}
			if err := roll(); err != nil {
				fail(err)
			}
			time.Sleep(time.Millisecond)
		}
		wg.Wait()
		if t.Failed() {
			return
		}
		if err := roll(); err != nil { // by now, a partition can be dropped
			t.Fatal(err)
		}
		wantPartitions(t, db, table, parts)
		if parts[0].From == 0 {
			t.Fatalf("no partition was dropped: %v", parts)
		}
		left := engine.NewBatch(table.Columns)
		for i := range all.Rows() {
			if all.Columns[0].Ints[i] >= parts[0].From {
				copyRow(left, all, i)
			}
		}
		wantRows(t, db, table, left)
	})
}

// nightly is the environment variable that requests the tests that CI omits. Package testdb defines
// it, too, but the engines' own tests can't import testdb.
const nightly = "ROWMILL_TEST_NIGHTLY"

// ignore checks that a writer of a table with Ignore skips rows whose key exists, reports how many
// it skipped, and keeps the first row of each key. It must refuse invalid rows like any other
// writer.
func (s suite) ignore(t *testing.T) {
	s.eachMethod(t, func(t *testing.T, db engine.DB, m engine.Method) {
		for _, rolls := range []bool{false, true} {
			if rolls && !db.Capabilities().Rolling {
				continue
			}
			table := timeTable(t, "ignores", "1h")
			table.Ignore = true
			var parts []rolling.Partition
			if rolls {
				table.Name = "ignores rolling"
				parts = periods(t, table.Grid, start, 2)
			} else {
				table.Grid = rolling.Grid{}
			}
			apply(t, db, engine.CreateTable{Table: table, Partitions: parts})
			if slices.Contains(db.Capabilities().NoIgnore, m) {
				_, err := db.Writer(within(t), table, m)
				wantError(t, err, engine.ErrUnsupported)
				continue
			}
			s.ignoreOn(t, db, table, m)
		}
	})
}

func (s suite) ignoreOn(t *testing.T, db engine.DB, table *engine.Table, m engine.Method) {
	w, f := writer(t, db, table, m), newFiller(table.Columns)
	all, b := engine.NewBatch(table.Columns), engine.NewBatch(table.Columns)
	// put writes rows with these ids; those already in the table must be skipped.
	there := map[int64]bool{}
	put := func(ids ...int64) {
		t.Helper()
		b.Reset()
		want := engine.Ack{}
		for i, id := range ids {
			f.fill(b, id, 1) // values differ from those of earlier rows with that key
			b.Columns[1].Ints[i] = start + id*second
			if there[id] {
				want.Skipped++
				continue
			}
			there[id] = true
			want.Rows++
			copyRow(all, b, i)
		}
		if !db.Capabilities().Stores {
			want = engine.Ack{Rows: int64(len(ids))} // it stores no keys, so it skips nothing
		}
		ack, err := w.Write(within(t), b)
		if err != nil || ack.Rows != want.Rows || ack.Skipped != want.Skipped || len(ack.Warnings) > 0 {
			t.Fatalf("rows %v: acknowledged %+v, error %v; want %+v", ids, ack, err, want)
		}
	}
	for range 2 {
		put(1)
		put(2)
		put(1, 2)
	}
	put(2, 3, 3, 4)
	many := make([]int64, 3000)
	for i := range many {
		many[i] = int64(i) * 2 % 2000 // each two or three times
	}
	put(many...)
	wantRows(t, db, table, all)
	if !table.Rolling() || !db.Capabilities().Stores {
		return
	}
	// A row outside every period is not a duplicate: its whole batch must be refused. The first batch
	// has only this row; the second also has a duplicate and a good row.
	for _, n := range []int{1, 3} {
		b.Reset()
		f.fill(b, 5000, n)
		for i := range n {
			b.Columns[1].Ints[i] = start + (5000+int64(i))*second
		}
		b.Columns[1].Ints[n-1] = start + 365*day
		if n > 1 {
			b.Columns[0].Ints[0], b.Columns[1].Ints[0] = 1, start+second
		}
		_, err := w.Write(within(t), b)
		wantError(t, err, engine.ErrNoPartition)
		Must(t, w.Reset(within(t)))
		wantRows(t, db, table, all)
	}
	put(1, 6000)
	wantRows(t, db, table, all)
}

// RunHostile runs the suites on a server whose defaults all differ from the settings that sessions
// rely on. If whole is false, it runs only some tests, which execute each kind of statement on each
// kind of connection. open is as for RunKeeper.
func RunHostile(t *testing.T, whole bool, open func(testing.TB) engine.Keeper) {
	plain := func(t testing.TB) engine.DB { return open(t) }
	r := readers{open: func(t testing.TB) reader { return open(t).(reader) }, own: true}
	t.Run("Snapshots", r.snapshots) // before the others, which run at the same time
	if whole {
		t.Run("Engine", func(t *testing.T) { Run(t, plain) })
		t.Run("Keeper", func(t *testing.T) { RunKeeper(t, open) })
		t.Run("Loader", func(t *testing.T) { RunLoader(t, open) })
		t.Run("Reader", func(t *testing.T) { beside(t, r.hostile()) })
		return
	}
	s, k := suite{plain}, keepers{open}
	for _, test := range append([]test{
		{"RoundTrip", s.roundTrip},
		{"Ignore", s.ignore},
		{"Delete", s.deletes},
		{"Detach", k.detach},
		{"AsText", k.asText},
		{"Loader", loaders{k}.together},
	}, r.hostile()...) {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t)
		})
	}
}

// RunNames changes the periods and columns of tables whose names are unusual, one table after the
// other. open is as for RunKeeper.
func RunNames(t *testing.T, open func(testing.TB) engine.Keeper) { keepers{open}.oddNames(t) }
