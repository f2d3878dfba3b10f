package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

func grid(t testing.TB, every string) rolling.Grid {
	t.Helper()
	g, err := rolling.Parse(every)
	Must(t, err)
	return g
}

// periods returns n partitions of a grid, starting with that of position pos.
func periods(t testing.TB, g rolling.Grid, pos int64, n int) []rolling.Partition {
	t.Helper()
	var out []rolling.Partition
	for range n {
		p, err := g.At(pos)
		Must(t, err)
		out = append(out, g.Named(p))
		pos = p.To
	}
	return out
}

// start is a time within the periods of the tests: 2026-11-20 18:00:00.
const start = int64(1795197600e6)

// sequenceTable returns a table that rolls by its key, column 0.
func sequenceTable(t testing.TB, name string, rows int) *engine.Table {
	return &engine.Table{
		Name: name,
		Columns: []engine.Column{
			{Name: "id", Type: engine.Int64}, {Name: "customer", Type: engine.Int32}, {Name: "price", Type: engine.Float32},
			{Name: "note", Type: engine.Varchar, Size: 40, Null: true},
		},
		PrimaryKey: []string{"id"},
		Indexes:    []engine.Index{{Name: "market", Columns: []string{"price", "customer"}}},
		Grid:       grid(t, fmt.Sprintf("%d rows", rows)), By: "id",
	}
}

// timeTable returns a table that rolls by a time, which is not its first column.
func timeTable(t testing.TB, name, every string) *engine.Table {
	return &engine.Table{
		Name:       name,
		Columns:    []engine.Column{{Name: "id", Type: engine.Int64}, {Name: "ts", Type: engine.Time}, {Name: "value", Type: engine.Float64}},
		PrimaryKey: []string{"id", "ts"},
		Indexes:    []engine.Index{{Name: "ts", Columns: []string{"ts"}}},
		Grid:       grid(t, every), By: "ts",
	}
}

func (s suite) info(t *testing.T) {
	db := s.open(t)
	info, caps := db.Info(), db.Capabilities()
	if info.Engine == "" || info.Version == "" || info.Target == "" {
		t.Errorf("engine, version or target is missing: %+v", info)
	}
	if len(caps.Methods) == 0 {
		t.Error("no insert method")
	}
	if caps.Stores && (info.CacheBytes <= 0 || info.Durability == "" || info.DataDir == "") {
		t.Errorf("cache, durability or data directory is missing: %+v", info)
	}
	settings, err := db.Catalog().Settings(within(t))
	Must(t, err)
	if caps.Stores && len(settings) < 5 {
		t.Errorf("settings: %v", settings)
	}
	for _, step := range []engine.Step{engine.Connect{}, engine.Connect{Maintenance: true}} {
		if _, err := db.Dialect().Render(step); err != nil {
			t.Errorf("render %T: %v", step, err)
		}
	}
	if _, err := db.Writer(within(t), everyType("x"), "carrier pigeon"); !errors.Is(err, engine.ErrUnsupported) {
		t.Errorf("a writer of an unknown method: %v", err)
	}
}

func (s suite) tables(t *testing.T) {
	db, table := s.open(t), everyType("plain")
	wantExists(t, db, table, false)
	_, err := db.Catalog().Partitions(within(t), table)
	wantError(t, err, engine.ErrNoTable)
	apply(t, db, engine.DropTable{Table: table}) // a missing table is not an error
	apply(t, db, engine.CreateTable{Table: table})
	wantExists(t, db, table, true)
	wantPartitions(t, db, table, nil)
	wantError(t, db.Apply(within(t), engine.CreateTable{Table: table}), engine.ErrTableExists)
	wantExists(t, db, everyType("plai"), false)
	wantExists(t, db, everyType("plain_"), false)
	apply(t, db, engine.DropTable{Table: table}, engine.CreateTable{Table: table})
	wantRows(t, db, table, engine.NewBatch(table.Columns))
	apply(t, db, engine.DropTable{Table: table})
	wantExists(t, db, table, false)
}

// values checks a table that is divided by the values of a column.
func (s suite) values(t *testing.T) {
	db := s.open(t)
	caps := db.Capabilities()
	if !caps.Stores {
		t.Skip("the engine stores nothing")
	}
	table := sequenceTable(t, "by value", 1)
	table.Grid, table.Values, table.PrimaryKey, table.By = rolling.Grid{}, 3, []string{"id", "customer"}, "customer"
	if caps.PeriodTables {
		wantError(t, db.Apply(within(t), engine.CreateTable{Table: table}), engine.ErrUnsupported)
		return
	}
	apply(t, db, engine.DropTable{Table: table}, engine.CreateTable{Table: table})
	b := engine.NewBatch(table.Columns)
	for i := range 9 {
		b.Columns[0].Ints, b.Columns[1].Ints, b.Columns[2].Floats = append(b.Columns[0].Ints, int64(i)), append(b.Columns[1].Ints, int64(i%3)), append(b.Columns[2].Floats, 0.5)
		b.Columns[3].AppendNull()
	}
	b.EndRows(9)
	w, err := db.Writer(within(t), table, caps.Methods[0])
	Must(t, err)
	_, err = w.Write(within(t), b)
	Must(t, errors.Join(err, w.Close()))
	wantRows(t, db, table, b)
	if r, ok := db.(reader); ok {
		parts, err := r.TableParts(within(t), readSession(t, r, nil), "", table.Name)
		Must(t, err)
		if len(parts.Parts) != 3 {
			t.Errorf("the table has the partitions %v, want 3", parts.Parts)
		}
	}
	apply(t, db, engine.DropTable{Table: table})
	wantExists(t, db, table, false)
	table.Columns[1].Null = true
	if err := db.Apply(within(t), engine.CreateTable{Table: table}); err == nil {
		t.Error("a table was divided by a column with NULL")
	}
}

func (s suite) partitions(t *testing.T) {
	db := s.open(t)
	if !db.Capabilities().Rolling {
		t.Skip("the engine has no rolling tables")
	}
	for _, c := range []struct {
		name  string
		table *engine.Table
		pos   int64
	}{
		{"hours", timeTable(t, "by hour", "2h"), start},
		{"seconds before 1970", timeTable(t, "by second", "1s"), -1},
		{"months over the epoch", timeTable(t, "by month", "1mo"), -40 * day},
		{"weeks", timeTable(t, "by week", "1w"), start},
		{"years from 1000", timeTable(t, "by year", "1y"), rolling.MinTime},
		{"rows", sequenceTable(t, "by rows", 1000), 5500},
		{"rows from 0", sequenceTable(t, "from 0", 10), 0},
		{"rows near the end", sequenceTable(t, "huge", 1<<60), 1 << 61},
	} {
		t.Run(c.name, func(t *testing.T) { rollOn(t, db, c.table, periods(t, c.table.Grid, c.pos, 5)) })
	}
}

// rollOn creates a table, fills it, and creates and drops its five partitions.
func rollOn(t *testing.T, db engine.DB, table *engine.Table, all []rolling.Partition) {
	_, err := db.Catalog().Partitions(within(t), table)
	wantError(t, err, engine.ErrNoTable)
	wantError(t, db.Apply(within(t), engine.CreatePartitions{Table: table, Have: all[:1], New: all[1:2]}), engine.ErrNoTable)
	apply(t, db, engine.DropTable{Table: table, Partitions: all})
	apply(t, db, engine.CreateTable{Table: table, Partitions: all[:2]})
	wantExists(t, db, table, true)
	wantPartitions(t, db, table, all[:2])
	apply(t, db, engine.CreatePartitions{Table: table, Have: all[:2]}) // none
	wantPartitions(t, db, table, all[:2])
	apply(t, db, engine.CreatePartitions{Table: table, Have: all[:2], New: all[2:]})
	wantPartitions(t, db, table, all)

	// One row at the start and one at the end of each period, in one batch.
	b := engine.NewBatch(table.Columns)
	f := newFiller(table.Columns)
	for _, p := range all {
		last := p.To - 1
		if table.Grid.Axis() == rolling.Time {
			last = p.To - second
		}
		for i, pos := range []int64{p.From, last} {
			if i == 1 && last == p.From {
				continue
			}
			f.fill(b, int64(b.Rows()), 1)
			b.Columns[table.Column(table.By)].Ints[b.Rows()-1] = pos
		}
	}
	for i, m := range db.Capabilities().Methods {
		if i > 0 && table.By == "id" {
			break
		}
		for row := range b.Rows() {
			if table.By != "id" {
				b.Columns[0].Ints[row] = int64(i*100 + row)
			}
		}
		write(t, writer(t, db, table, m), b)
	}
	if db.Capabilities().Stores {
		for i, p := range all {
			got := read(t, db, table, &all[i])
			if got.Rows() == 0 {
				t.Errorf("partition %s is empty", p.Name)
			}
			for _, pos := range got.Columns[table.Column(table.By)].Ints {
				if !p.Contains(pos) {
					t.Errorf("partition %s holds position %d", p.Name, pos)
				}
			}
		}
	}
	apply(t, db, engine.DropPartition{Table: table, Have: all, Drop: all[0]})
	wantPartitions(t, db, table, all[1:])
	apply(t, db, engine.DropPartition{Table: table, Have: all[1:], Drop: all[2]})
	wantPartitions(t, db, table, bridged(db, all[1], all[3:]))
	if db.Capabilities().Stores {
		for _, pos := range read(t, db, table, nil).Columns[table.Column(table.By)].Ints {
			if all[0].Contains(pos) || all[2].Contains(pos) {
				t.Errorf("position %d is still there after its partition was dropped", pos)
			}
		}
	}
	wantError(t, db.Apply(within(t), engine.CreateTable{Table: table, Partitions: all[:1]}), engine.ErrTableExists)
	have := partitionsOf(t, db, table)
	apply(t, db, engine.DropTable{Table: table, Partitions: have})
	wantExists(t, db, table, false)
	apply(t, db, engine.CreateTable{Table: table, Partitions: all[:1]})
	if err := db.Apply(within(t), engine.DropPartition{Table: table, Have: all[:1], Drop: all[0]}); err == nil {
		t.Error("the only partition could be dropped")
	}
	wantPartitions(t, db, table, all[:1])
}

// bridged returns the partitions first and after, between which there is a gap, as the engine
// reports them. If a server stores only upper bounds, the partition behind the gap includes the
// gap.
func bridged(db engine.DB, first rolling.Partition, after []rolling.Partition) []rolling.Partition {
	out := append([]rolling.Partition{first}, after...)
	if !db.Capabilities().Gaps {
		out[1].From = first.To
	}
	return out
}

func (s suite) identifiers(t *testing.T) {
	db := s.open(t)
	// MySQL supports no characters beyond the basic multilingual plane in names.
	for _, odd := range []string{"select", "a b", "a`b", `a"b`, "a'b", "100%s", "a.b", `a\b`, "ünï✓", "a;--b", "a?b", "$x", "A", "日本"} {
		t.Run(odd, func(t *testing.T) {
			table := &engine.Table{
				Name: odd, PrimaryKey: []string{odd},
				Columns: []engine.Column{{Name: odd, Type: engine.Int64}, {Name: odd + "2", Type: engine.Varchar, Size: 10}},
				Indexes: []engine.Index{{Name: odd, Columns: []string{odd + "2"}}},
				Grid:    grid(t, "10 rows"), By: odd,
			}
			parts := periods(t, table.Grid, 0, 3)
			parts[1].Name = odd
			if !db.Capabilities().Rolling {
				table.Grid, parts = rolling.Grid{}, nil
			}
			apply(t, db, engine.CreateTable{Table: table, Partitions: parts})
			wantExists(t, db, table, true)
			wantPartitions(t, db, table, parts)
			all, f := engine.NewBatch(table.Columns), newFiller(table.Columns)
			for i, m := range db.Capabilities().Methods {
				b := engine.NewBatch(table.Columns)
				f.fill(b, int64(i*3), 3)
				for row := range b.Rows() {
					copyRow(all, b, row)
				}
				write(t, writer(t, db, table, m), b)
			}
			wantRows(t, db, table, all)
			if _, err := db.Catalog().Sizes(within(t), table); err != nil {
				t.Errorf("sizes: %v", err)
			}
			if table.Rolling() {
				apply(t, db, engine.DropPartition{Table: table, Have: parts, Drop: parts[1]})
			}
			apply(t, db, engine.DropTable{Table: table, Partitions: partitionsOf(t, db, table)})
			wantExists(t, db, table, false)
		})
	}
}

// refusals checks that invalid requests are refused before anything is sent.
func (s suite) refusals(t *testing.T) {
	db := s.open(t)
	roll := sequenceTable(t, "r", 10)
	for name, change := range map[string]func(*engine.Table){
		"no columns":        func(t *engine.Table) { t.Columns = nil },
		"no key":            func(t *engine.Table) { t.PrimaryKey = nil },
		"key not there":     func(t *engine.Table) { t.PrimaryKey = []string{"nowhere"} },
		"index not there":   func(t *engine.Table) { t.Indexes[0].Columns = []string{"nowhere"} },
		"rolls outside key": func(t *engine.Table) { t.By = "customer" },
		"rolls by text":     func(t *engine.Table) { t.By = "note"; t.PrimaryKey = []string{"note"} },
		"name with NUL":     func(t *engine.Table) { t.Name = "a\x00b" },
	} {
		t.Run(name, func(t *testing.T) {
			table := *roll
			table.Indexes = slices.Clone(roll.Indexes)
			change(&table)
			parts := periods(t, roll.Grid, 0, 1)
			if err := db.Apply(within(t), engine.CreateTable{Table: &table, Partitions: parts}); err == nil {
				t.Error("it was created")
			}
			if _, err := db.Writer(within(t), &table, db.Capabilities().Methods[0]); err == nil {
				t.Error("it got a writer")
			}
		})
	}
	if db.Capabilities().Rolling {
		err := db.Apply(within(t), engine.CreateTable{Table: roll})
		if err == nil || !strings.Contains(err.Error(), "first partition") {
			t.Errorf("a rolling table without partitions: %v", err)
		}
	}
}
