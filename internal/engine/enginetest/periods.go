package enginetest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// detach converts a period at any place to a table, and a table to a period.
func (s keepers) detach(t *testing.T) {
	eachKind(t, s.open, func(t *testing.T, db engine.Keeper, kind string) {
		k := created(t, db, "readings", kind, 4)
		k.insert(t, k.parts, 0, 50)
		whole := k.whole(t)
		for _, i := range []int{1, 0, 3} {
			p := k.parts[i]
			before := k.part(t, p)
			k.step(t, engine.Detach{Table: k.Table, Have: k.parts, Part: p, Into: "gone"})
			k.wantParts(t, k.without(k.parts, i))
			want(t, "the detached table", k.of(t, "gone"), before)
			want(t, "the rows left", k.whole(t).Rows, whole.Rows-before.Rows)
			k.step(t, engine.Attach{Table: k.Table, Have: k.without(k.parts, i), Part: p, From: "gone"})
			k.wantParts(t, k.parts)
			want(t, "the period", k.part(t, p), before)
			want(t, "the whole table", k.whole(t), whole)
			if left := k.tables(t, "gone"); len(left) > 0 {
				t.Errorf("tables %q are left", left)
			}
		}
		// A new table becomes the period after the last one.
		next := periods(t, k.Grid, k.parts[3].To, 1)[0]
		k.template(t, "new")
		k.step(t, engine.Attach{Table: k.Table, Have: k.parts, Part: next, From: "new"})
		k.parts = append(k.parts, next)
		k.wantParts(t, k.parts)
		k.insert(t, k.parts[4:], 0, 10)
		want(t, "rows of it", k.part(t, next).Rows, 10)
	})
}

// older creates periods before the first one and in gaps.
func (s keepers) older(t *testing.T) {
	for _, kind := range []string{"time", "sequence"} {
		t.Run(kind, func(t *testing.T) {
			db := s.open(t)
			k := keptTable(t, db, "readings", kind, 10)
			all := k.parts
			pick := func(indexes ...int) (out []rolling.Partition) {
				for _, i := range indexes {
					out = append(out, all[i])
				}
				return out
			}
			k.parts = pick(6, 7)
			apply(t, db, engine.CreateTable{Table: k.Table, Partitions: k.parts})
			k.insert(t, k.parts, 0, 10)
			for _, c := range []struct{ created, after []rolling.Partition }{
				{pick(1, 2, 4), pick(1, 2, 4, 6, 7)}, {pick(3), pick(1, 2, 3, 4, 6, 7)}, {pick(0, 9), pick(0, 1, 2, 3, 4, 6, 7, 9)},
			} {
				Must(t, Try(t, db, engine.CreatePartitions{Table: k.Table, Have: k.parts, New: c.created}))
				k.parts = c.after
				k.wantParts(t, k.parts)
				k.insert(t, c.created, 0, 10)
				for _, p := range c.created {
					want(t, "rows of "+p.Name, k.part(t, p).Rows, 10)
				}
			}
			want(t, "all rows", k.whole(t).Rows, 80)
			for _, step := range []engine.Step{
				engine.Detach{Table: k.Table, Have: k.parts, Part: all[0], Into: "gone"}, engine.Attach{Table: k.Table, Have: pick(1, 2, 3, 4, 6, 7, 9), Part: all[0], From: "gone"},
			} {
				k.step(t, step)
			}
			k.wantParts(t, k.parts)
			if o, ok := db.(engine.Outsider); ok { // other engines refuse rows in gaps
				k.insert(t, pick(5, 8), 0, 10)
				n, err := o.Outside(within(t), k.Table)
				Must(t, err)
				want(t, "rows in gaps", n, 20)
			}
			Must(t, Try(t, db, engine.CreatePartitions{Table: k.Table, Have: k.parts, New: pick(5, 8)}))
			k.wantParts(t, all)
		})
	}
}

// fill copies the rows of periods to a new table, as a rebuild does.
func (k *kept) fill(t testing.TB, name string, parts []rolling.Partition) {
	t.Helper()
	k.template(t, name)
	for _, p := range parts {
		k.exec(t, k.db.SQL(), fmt.Sprintf("INSERT INTO %s SELECT * FROM %s", k.quote(name), k.Words().From(k.Table, p)))
	}
}

// merge returns the Replace of n periods, starting with period i, by the table
// that contains their rows.
func (k *kept) merge(t testing.TB, i, n int, name, with string) engine.Replace {
	old := k.parts[i : i+n]
	if k.db.Capabilities().LastName {
		name = old[n-1].Name
	}
	r := engine.Replace{Table: k.Table, Have: k.parts, Old: old, With: with,
		New: rolling.Partition{Name: name, Period: rolling.Period{From: old[0].From, To: old[n-1].To}}}
	for j := range old {
		r.Out = append(r.Out, fmt.Sprintf("out_%d", j))
	}
	return r
}

// proofs returns a proof for each of the old partitions of a Replace.
func (k *kept) proofs(t testing.TB, r engine.Replace) (out []engine.Proof) {
	t.Helper()
	for _, p := range r.Old {
		q := engine.ChecksumQuery(k.Words().RowHash(k.schema(t, k.Name).Columns), k.Words().From(k.Table, p), "1 = 1")
		is := k.part(t, p)
		out = append(out, engine.Proof{Query: q, Sum: engine.Checksum{Rows: is.Rows, Hash: is.Hash}})
	}
	return out
}

// replaced returns the partitions after a Replace.
func replaced(parts []rolling.Partition, r engine.Replace) []rolling.Partition {
	i := slices.Index(parts, r.Old[0])
	return slices.Concat(parts[:i], []rolling.Partition{r.New}, parts[i+len(r.Old):])
}

// replace replaces one or several periods by rebuilt ones.
func (s keepers) replace(t *testing.T) {
	eachKind(t, s.open, func(t *testing.T, db engine.Keeper, kind string) {
		for i, c := range []struct {
			name     string
			first, n int
			keepName bool
		}{
			{"one by its own name", 1, 1, true}, {"one by another name", 1, 1, false}, {"the first", 0, 1, true}, {"the last", 3, 1, true},
			{"three in one", 0, 3, true}, {"two at the end", 2, 2, false}, {"all", 0, 4, false},
		} {
			if i > 0 && kind != "time" && c.n != 3 {
				continue // here the kind of column By makes no difference
			}
			t.Run(c.name, func(t *testing.T) {
				k := created(t, db, fmt.Sprintf("readings%d", i), kind, 4)
				k.insert(t, k.parts, 0, 30)
				whole := k.whole(t)
				old := make([]content, c.n)
				for i := range old {
					old[i] = k.part(t, k.parts[c.first+i])
				}
				name := k.parts[c.first].Name
				if !c.keepName {
					name += "x"
				}
				// The second round checks that the names of the first round can be used again. One case is
				// enough for that, except in the nightly run.
				rounds := 2
				if i > 0 && os.Getenv(nightly) == "" {
					rounds = 1
				}
				for range rounds {
					k.fill(t, "rebuilt", k.parts[c.first:c.first+c.n])
					r := k.merge(t, c.first, c.n, name, "rebuilt")
					wrong := r
					wrong.Proofs = k.proofs(t, r)
					wrong.Proofs[c.n-1].Sum.Rows--
					wantError(t, Try(t, db, wrong), engine.ErrWritten)
					k.wantParts(t, k.parts)
					want(t, "the whole table after a proof that doesn't hold", k.whole(t), whole)
					r.Proofs = k.proofs(t, r)
					k.step(t, r)
					k.parts = replaced(k.parts, r)
					k.wantParts(t, k.parts)
					want(t, "the whole table", k.whole(t), whole)
					for i, out := range r.Out {
						if len(old) > i {
							want(t, "the old rows in "+out, k.of(t, out), old[i])
						}
					}
					if left := k.tables(t, "rebuilt"); len(left) > 0 {
						t.Errorf("tables %q are left", left)
					}
					k.step(t, engine.DropTables{Names: r.Out})
					c.n, old = 1, []content{k.part(t, r.New)}
				}
				k.insert(t, k.parts[c.first:c.first+1], 500, 510)
				want(t, "rows after an insert", k.whole(t).Rows, whole.Rows+10)
			})
		}
	})
}

// readers checks that queries see each row once while periods are rebuilt and merged.
func (s keepers) readers(t *testing.T) {
	db := s.open(t)
	k := created(t, db, "readings", "time", 4)
	k.insert(t, k.parts, 0, 200)
	var rows, sum int64
	q := "SELECT COUNT(*), SUM(id) FROM readings"
	Must(t, db.SQL().QueryRowContext(within(t), q).Scan(&rows, &sum))
	ctx, stop := context.WithCancel(within(t))
	defer stop()
	var readers sync.WaitGroup
	var mu sync.Mutex
	var seen int
	var problems []string
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil {
				var r, u int64
				err := db.Classify(db.SQL().QueryRowContext(ctx, q).Scan(&r, &u))
				if ctx.Err() != nil {
					return
				}
				if errors.Is(err, engine.ErrLockTimeout) {
					continue // other tests share the server, and the session waits for a second at most
				}
				mu.Lock()
				if seen++; err != nil {
					problems = append(problems, err.Error())
				} else if r != rows || u != sum {
					problems = append(problems, fmt.Sprintf("%d rows with the sum %d, want %d with %d", r, u, rows, sum))
				}
				mu.Unlock()
			}
		})
	}
	step := func(s engine.Step) { t.Helper(); Must(t, Try(t, db, s)) }
	for i := range 4 {
		k.fill(t, "rebuilt", k.parts[i:i+1])
		r := k.merge(t, i, 1, k.parts[i].Name, "rebuilt")
		step(r)
		step(engine.DropTables{Names: r.Out})
	}
	k.fill(t, "rebuilt", k.parts[:3])
	r := k.merge(t, 0, 3, k.parts[0].Name+"x", "rebuilt")
	step(r)
	step(engine.DropTables{Names: r.Out})
	k.parts = replaced(k.parts, r)
	// Enough counts to ensure that some ran meanwhile.
	for n := 0; n < 20; time.Sleep(5 * time.Millisecond) {
		mu.Lock()
		n = seen
		mu.Unlock()
		if ctx.Err() != nil {
			t.Fatal("the readers don't get on")
		}
	}
	stop()
	readers.Wait()
	for i, p := range problems {
		if i < 10 {
			t.Errorf("a reader: %s", p)
		}
	}
	k.wantParts(t, k.parts)
}

// An Interrupter runs the tests of steps that are broken off and tried again.
type Interrupter struct {
	Open func(testing.TB) engine.Keeper
	// Break makes the next step fail with ErrConnectionLost when it is about to send its n-th message.
	// stop ends that, and reports whether the step has come to its n-th message.
	Break func(t testing.TB, db engine.Keeper, n int) (stop func() bool)
	// Late also inserts a row between the two attempts. Added adds a column before the step.
	Late, Added bool
	// Every also runs the steps that not every engine may repeat.
	Every bool
	// Clean checks that a step left nothing behind but the table and these periods.
	Clean func(t testing.TB, db engine.Keeper, parts []rolling.Partition)
}

// breakable are the steps to break off, on a table with four periods of 10 rows.
var breakable = []struct {
	name string
	// rows is the number of rows in the table after the step. late is the index of the period that
	// gets the late row; -1 if there is none.
	rows int64
	late int
	// make prepares the step. Each element of was lists the rows of a period, in the form that ids
	// returns. make returns the step. It also returns what must exist after the step: the periods, and
	// the other tables with their rows.
	make func(t testing.TB, k *kept, was []string) (engine.Step, []rolling.Partition, map[string]string)
}{
	// Of the tests, only "interrupted" breaks off the step Rebuild, between two of its rendered
	// statements. When Rebuild is executed again, nothing tells whether the tables were exchanged
	// already: therefore both have the same rows.
	{"Rebuild", 40, -1, func(t testing.TB, k *kept, was []string) (engine.Step, []rolling.Partition, map[string]string) {
		k.fill(t, "with_it", k.parts[1:2])
		r := k.merge(t, 1, 1, k.parts[1].Name, "with_it")
		return r, replaced(k.parts, r), map[string]string{"out_0": was[1]}
	}},
	{"Detach", 30, 0, func(t testing.TB, k *kept, was []string) (engine.Step, []rolling.Partition, map[string]string) {
		return engine.Detach{Table: k.Table, Have: k.parts, Part: k.parts[0], Into: "gone"}, k.without(k.parts, 0), map[string]string{"gone": was[0]}
	}},
	{"Attach", 41, -1, func(t testing.TB, k *kept, was []string) (engine.Step, []rolling.Partition, map[string]string) {
		next := periods(t, k.Grid, k.parts[3].To, 1)
		k.put(t, k.template(t, "with_it"), next[0].From)
		return engine.Attach{Table: k.Table, Have: k.parts, Part: next[0], From: "with_it"}, append(slices.Clone(k.parts), next...), nil
	}},
	{"Merge", 40, 0, func(t testing.TB, k *kept, was []string) (engine.Step, []rolling.Partition, map[string]string) {
		k.fill(t, "with_it", k.parts[:3])
		r := k.merge(t, 0, 3, k.parts[0].Name+"x", "with_it")
		return r, replaced(k.parts, r), map[string]string{"out_0": was[0], "out_1": was[1], "out_2": was[2]}
	}},
	{"ReplaceByOther", 41, -1, func(t testing.TB, k *kept, was []string) (engine.Step, []rolling.Partition, map[string]string) {
		k.fill(t, "with_it", k.parts[1:2])
		k.put(t, "with_it", k.parts[1].From)
		r := k.merge(t, 1, 1, k.parts[1].Name, "with_it")
		return r, replaced(k.parts, r), map[string]string{"out_0": was[1]}
	}},
	{"DetachMiddle", 30, 1, func(t testing.TB, k *kept, was []string) (engine.Step, []rolling.Partition, map[string]string) {
		return engine.Detach{Table: k.Table, Have: k.parts, Part: k.parts[1], Into: "gone"}, k.without(k.parts, 1), map[string]string{"gone": was[1]}
	}},
	{"AttachFirst", 40, -1, func(t testing.TB, k *kept, was []string) (engine.Step, []rolling.Partition, map[string]string) {
		Must(t, Try(t, k.db, engine.Detach{Table: k.Table, Have: k.parts, Part: k.parts[0], Into: "with_it"}))
		return engine.Attach{Table: k.Table, Have: k.without(k.parts, 0), Part: k.parts[0], From: "with_it"}, k.parts, nil
	}},
	{"ReplaceByNone", 30, -1, func(t testing.TB, k *kept, was []string) (engine.Step, []rolling.Partition, map[string]string) {
		k.template(t, "with_it")
		r := k.merge(t, 1, 1, k.parts[1].Name, "with_it")
		return r, replaced(k.parts, r), map[string]string{"out_0": was[1]}
	}},
	// The steps from here on need Interrupter.Every.
	{"NamesChangePlaces", 40, -1, func(t testing.TB, k *kept, was []string) (engine.Step, []rolling.Partition, map[string]string) {
		k.fill(t, "with_it", k.parts[1:2])
		r := k.merge(t, 1, 1, k.parts[1].Name, "with_it")
		r.Out = []string{"with_it"}
		return r, k.parts, map[string]string{"with_it": was[1]}
	}},
	{"DropPartition", 30, -1, func(t testing.TB, k *kept, was []string) (engine.Step, []rolling.Partition, map[string]string) {
		return engine.DropPartition{Table: k.Table, Have: k.parts, Drop: k.parts[1]}, k.without(k.parts, 1), nil
	}},
	{"CreatePartitions", 40, -1, func(t testing.TB, k *kept, was []string) (engine.Step, []rolling.Partition, map[string]string) {
		next := periods(t, k.Grid, k.parts[3].To, 2)
		return engine.CreatePartitions{Table: k.Table, Have: k.parts, New: next}, append(slices.Clone(k.parts), next...), nil
	}},
	{"CreatePartitionsBefore", 40, -1, func(t testing.TB, k *kept, was []string) (engine.Step, []rolling.Partition, map[string]string) {
		older := periods(t, k.Grid, k.parts[0].From-7*day, 5)
		older = []rolling.Partition{older[0], older[1], older[4]}
		return engine.CreatePartitions{Table: k.Table, Have: k.parts, New: older}, append(older, k.parts...), nil
	}},
	{"DropTables", 40, -1, func(t testing.TB, k *kept, was []string) (engine.Step, []rolling.Partition, map[string]string) {
		k.template(t, "with_it")
		return engine.DropTables{Names: []string{"nothing", "with_it"}}, k.parts, nil
	}},
	{"AddColumn", 40, -1, func(t testing.TB, k *kept, was []string) (engine.Step, []rolling.Partition, map[string]string) {
		return engine.AddColumn{Table: k.Table, Have: k.parts, Name: "x", Definition: "x INT DEFAULT 7 -- why"}, k.parts, nil
	}},
}

// each calls test for each step but Rebuild, with its index and an empty database of its own.
func (i Interrupter) each(t *testing.T, test func(t *testing.T, db engine.Keeper, n int)) {
	for n, c := range breakable {
		if n > 0 && (n < 8 || i.Every) {
			t.Run(c.name, func(t *testing.T) { test(t, i.Open(t), n) })
		}
	}
}

// Run breaks off each step before each of its messages.
func (i Interrupter) Run(t *testing.T) {
	i.each(t, func(t *testing.T, db engine.Keeper, n int) {
		i.run(t, db, n, false)
		if i.Late && breakable[n].late >= 0 {
			i.run(t, db, n, true)
		}
	})
}

// Prepared calls test for each step, with the table, the step, and the periods and the other tables
// that must exist after the step.
func (i Interrupter) Prepared(t *testing.T, test func(*testing.T, engine.Keeper, *engine.Table, engine.Step, []rolling.Partition, []string)) {
	i.each(t, func(t *testing.T, db engine.Keeper, n int) {
		k, step, after, tables := i.prepare(t, db, n)
		test(t, db, k.Table, step, after, slices.Sorted(maps.Keys(tables)))
	})
}

func (i Interrupter) prepare(t testing.TB, db engine.Keeper, n int) (k *kept, step engine.Step, after []rolling.Partition, tables map[string]string) {
	k = created(t, db, "readings", "time", 4)
	k.insert(t, k.parts, 0, 10)
	if i.Added {
		Must(t, Try(t, db, engine.AddColumn{Table: k.Table, Have: k.parts, Name: "w", Definition: "w INT NOT NULL DEFAULT 5"}))
	}
	var was []string
	for _, p := range k.parts {
		was = append(was, k.ids(t, k.Words().From(k.Table, p)))
	}
	step, after, tables = breakable[n].make(t, k, was)
	return k, step, after, tables
}

// ids returns the number of rows of a FROM clause and the sum of their ids.
func (k *kept) ids(t testing.TB, from string) (out string) {
	t.Helper()
	var n, sum sql.NullInt64
	if err := k.db.SQL().QueryRowContext(within(t), "SELECT COUNT(*), SUM(id) FROM "+from).Scan(&n, &sum); err != nil {
		t.Fatalf("%s: %v", from, k.db.Classify(err))
	}
	return fmt.Sprintf("%d rows, %d", n.Int64, sum.Int64)
}

// interrupted runs the first n of the statements that Render returns, for each n, one by one as a
// person would run them, and then loses the connection. Outside of the nightly run, it omits MySQL,
// whose statements TestTrapBrokenOff breaks off.
func (s keepers) interrupted(t *testing.T) {
	if stoodFor(s.open(t)) {
		t.Skip("in the nightly run only")
	}
	for n := range breakable[:4] {
		t.Run(breakable[n].name, func(t *testing.T) { Interrupter{Open: s.open}.run(t, s.open(t), n, false) })
	}
}

// run executes a step once for each of the step's messages, and breaks the step off before that
// message. It checks that two further executions of the step lead to the same result as one that
// was not broken off. If late, a late row is inserted after the break.
func (i Interrupter) run(t *testing.T, db engine.Keeper, which int, late bool) {
	c := breakable[which]
	for n, broken := 0, true; broken; n++ {
		k, step, parts, tables := i.prepare(t, db, which)
		if i.Break == nil {
			broken = k.runSome(t, step, n)
		} else {
			stop := i.Break(t, db, n)
			err := Try(t, db, step)
			if broken = stop(); broken != errors.Is(err, engine.ErrConnectionLost) || !broken && err != nil {
				t.Fatalf("broken off before message %d: %v, %v", n, broken, err)
			}
		}
		if late && broken {
			k.put(t, "readings", k.parts[c.late].From+3600*second)
		}
		written := false // the late row made the step fail: the partitions are as before
		for range 2 {
			err := Try(t, db, step)
			if written = late && errors.Is(err, engine.ErrWritten); err != nil && !written {
				t.Fatalf("broken off before message %d, again: %v", n, err)
			}
		}
		if written {
			parts = k.parts
		}
		k.wantParts(t, parts)
		names := k.tables(t, "gone", "with_it", "out_0", "out_1", "out_2")
		if !written && !slices.Equal(names, slices.Sorted(maps.Keys(tables))) {
			t.Fatalf("broken off before message %d: tables %q", n, names)
		}
		if late && broken {
			found := int64(0)
			for _, name := range append(names, "readings") {
				found += countRows(t, db, name+" WHERE id = 999")
			}
			want(t, fmt.Sprintf("broken off before message %d: the number of late rows", n), found, 1)
		} else {
			want(t, fmt.Sprintf("broken off before message %d: the number of rows", n), countRows(t, db, "readings"), c.rows)
			for name, rows := range tables {
				want(t, fmt.Sprintf("broken off before message %d: %s", n, name), k.ids(t, name), rows)
			}
		}
		apply(t, db, engine.DropTables{Names: names})
		if i.Clean != nil {
			i.Clean(t, db, parts)
		}
		apply(t, db, engine.DropTable{Table: k.Table, Partitions: parts})
		if n == 0 && !broken {
			t.Fatal("it was never broken off")
		}
	}
}

// runSome runs the first n statements of a step, and reports whether it has more.
func (k *kept) runSome(t testing.TB, step engine.Step, n int) bool {
	t.Helper()
	statements, err := k.db.Dialect().Render(step)
	Must(t, err)
	conn, err := k.db.SQL().Conn(within(t))
	Must(t, err)
	for _, q := range statements[:n] {
		k.exec(t, conn, q)
	}
	// This discards the connection and its transaction.
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	return n < len(statements)
}

// put inserts the row 999 into a table.
func (k *kept) put(t testing.TB, table string, pos int64) {
	t.Helper()
	k.exec(t, k.db.SQL(), "INSERT INTO "+table+" (id, ts) VALUES (999, "+k.Words().Literal(k.Table, pos)+")")
}

// drop drops tables, some of which don't exist.
func (s keepers) drop(t *testing.T) {
	db := s.open(t)
	k := created(t, db, "readings", "time", 1)
	for _, name := range []string{"a", "b", `odd " ' name`} {
		k.template(t, name)
	}
	k.step(t, engine.DropTables{Names: []string{"a", "nowhere", `odd " ' name`}})
	if got := k.tables(t, "a", "b", `odd " ' name`); !slices.Equal(got, []string{"b"}) {
		t.Errorf("tables %q are left", got)
	}
	k.step(t, engine.DropTables{})
}

// addColumn checks that rows of every period have an added column, and that
// periods can still be created and dropped.
func (s keepers) addColumn(t *testing.T) {
	eachKind(t, s.open, func(t *testing.T, db engine.Keeper, kind string) {
		k := created(t, db, "readings", kind, 4)
		k.insert(t, k.parts, 0, 30)
		before := k.whole(t)
		columns := "INT NOT NULL DEFAULT 5"
		step := engine.AddColumn{Table: k.Table, Have: k.parts, Name: "extra col", Definition: k.quote("extra col") + " " + columns}
		Must(t, Try(t, db, step))
		if c := k.schema(t, k.Name).Column("extra col"); c == nil || c.Null || c.Kind != value.Int {
			t.Fatalf("the column is %+v", c)
		}
		want(t, "rows with the default", countRows(t, db, "readings WHERE "+k.quote("extra col")+" = 5"), before.Rows)
		// Use the definition with the new column, as its owner would write it.
		text := strings.Replace(k.Definition.Text, ",\n  PRIMARY KEY", ",\n  "+step.Definition+",\n  PRIMARY KEY", 1)
		d, err := rolling.ReadDefinition(text)
		Must(t, err)
		k.Definition = d
		whole := k.whole(t)
		k.fill(t, "rebuilt", k.parts[:2])
		r := k.merge(t, 0, 2, k.parts[0].Name+"x", "rebuilt")
		k.step(t, r)
		k.parts = replaced(k.parts, r)
		want(t, "the whole table", k.whole(t), whole)
		k.step(t, engine.Detach{Table: k.Table, Have: k.parts, Part: k.parts[1], Into: "gone"})
		k.step(t, engine.Attach{Table: k.Table, Have: k.without(k.parts, 1), Part: k.parts[1], From: "gone"})
		want(t, "the whole table", k.whole(t), whole)
		next := periods(t, k.Grid, k.parts[2].To, 1)
		Must(t, Try(t, db, engine.CreatePartitions{Table: k.Table, Have: k.parts, New: next}))
		ts, id := k.Words().Literal(k.Table, next[0].From), int64(1)
		if kind == "sequence" {
			ts, id = "'2026-11-20 18:00:00'", next[0].From
		}
		k.exec(t, db.SQL(), fmt.Sprintf("INSERT INTO readings (id, ts, %s) VALUES (?, %s, 6)", k.quote("extra col"), ts), id)
		want(t, "rows", k.whole(t).Rows, whole.Rows+1)
	})
}

// Stall repeats call and beside until stop is called. stop returns how much longer the slowest run
// of call took than the slowest run of beside, which only the machine delays.
func Stall(t testing.TB, call, beside func(n int) error) (stop func() time.Duration) {
	quit, slowest := make(chan struct{}), [2]time.Duration{}
	var running sync.WaitGroup
	for i, fn := range []func(int) error{call, beside} {
		running.Go(func() {
			for n := 0; ; n++ {
				began := time.Now()
				if err := fn(n); err != nil {
					t.Errorf("call %d: %v", n, err)
					return
				}
				slowest[i] = max(slowest[i], time.Since(began))
				select {
				case <-quit:
					return
				case <-time.After(time.Millisecond):
				}
			}
		})
	}
	return func() time.Duration {
		close(quit)
		running.Wait()
		return slowest[0] - slowest[1]
	}
}
