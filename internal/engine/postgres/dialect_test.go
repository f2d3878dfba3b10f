package postgres

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/rolling"
)

// purchases has a column of each type.
func purchases() *engine.Table {
	t := enginetest.Purchases(`note's "name"`)
	t.Indexes = append(t.Indexes, engine.Index{Name: `a"b`, Columns: []string{`note's "name"`}})
	return t
}

func batch() *engine.Batch { return enginetest.PurchasesBatch("it's \\ \t😀") }

// declaredTable returns a table with a user's CREATE TABLE statement.
func declaredTable(t *testing.T) *engine.Table {
	t.Helper()
	d, err := rolling.ReadDefinition("CREATE TABLE readings ( -- (of sensors)\n  sensor INT NOT NULL,\n  \"at (UTC)\" TIMESTAMP WITH TIME ZONE NOT NULL,\n" +
		"  note TEXT DEFAULT ')' CHECK (length(note) < 5),\n  PRIMARY KEY (sensor, \"at (UTC)\")\n) TABLESPACE pg_default")
	if err != nil {
		t.Fatal(err)
	}
	g, err := rolling.Parse("1d")
	if err != nil {
		t.Fatal(err)
	}
	return &engine.Table{Name: "readings", Grid: g, By: "at (UTC)", Definition: d, Indexes: []engine.Index{{Name: "at", Columns: []string{"at (UTC)"}}}}
}

func TestRender(t *testing.T) {
	d := newDialect()
	byRows, byTime, declared := enginetest.Roll(t, purchases(), "1000 rows", "id"), enginetest.Roll(t, purchases(), "2h", "at"), declaredTable(t)
	rows, times, days := enginetest.Periods(t, byRows.Grid, 0), enginetest.Periods(t, byTime.Grid, enginetest.Noon), enginetest.Periods(t, declared.Grid, enginetest.Noon)
	plain, keyed, keyedRolling, withoutKey := purchases(), purchases(), enginetest.Roll(t, purchases(), "1000 rows", "id"), batch()
	keyed.ServerKey, keyedRolling.ServerKey, withoutKey.Columns = "id", "id", withoutKey.Columns[1:]
	long, zero := enginetest.Roll(t, purchases(), "1000 rows", "id"), batch()
	long.Name, zero.Columns[6].Bytes[1] = strings.Repeat("x", 62), 0
	inserts := enginetest.Inserts(plain, batch(), engine.Multi, engine.Single, engine.Prepared, engine.Pipeline, engine.Load)
	refused := enginetest.Refused(t, purchases, batch())
	maps.Copy(refused, map[string]engine.Step{
		"long name":           engine.CreateTable{Table: long, Partitions: rows},
		"long name, later":    engine.CreatePartitions{Table: long, Have: rows[:1], New: rows[1:]},
		"the only partition":  engine.DropPartition{Table: byRows, Have: rows[:1], Drop: rows[0]},
		"zero byte in a text": engine.Insert{Table: plain, Method: engine.Multi, Batch: zero},
	})
	enginetest.RunRenderings(t, append(enginetest.Standard(t, d, "", purchases), []enginetest.Rendering{
		{Name: "sessions", Dialect: d, Steps: []engine.Step{engine.Connect{}, engine.Connect{Maintenance: true}}},
		{Name: "changes-rows", Dialect: d, Steps: enginetest.Changes(byRows, rows)},
		{Name: "changes-time", Dialect: d, Steps: enginetest.Changes(byTime, times)},
		{Name: "declared", Dialect: d, Steps: append([]engine.Step{engine.CreateTable{Table: declared, Partitions: days[:1]}}, enginetest.Changes(declared, days)...)},
		{Name: "server-key", Dialect: d, Steps: []engine.Step{engine.CreateTable{Table: keyed}, engine.CreateTable{Table: keyedRolling, Partitions: rows[:1]}}},
		{Name: "queries", Dialect: d, Steps: enginetest.Queries(t, purchases)},
		{Name: "insert", Dialect: d, Steps: append(inserts, enginetest.Inserts(keyed, withoutKey, engine.Multi, engine.Prepared, engine.Load)...)},
	}...), refused)
}

func TestVersions(t *testing.T) {
	for version, old := range map[int]bool{90624: true, 130023: true, 140000: false, 180001: false} {
		db := &server{dialect: dialect{version: version}}
		db.info.Version = "13.23"
		if err := db.checkVersion(); errors.Is(err, engine.ErrUnsupported) != old || old && !strings.Contains(err.Error(), "PostgreSQL 13.23") {
			t.Errorf("%d: %v", version, err)
		}
	}
}

func TestIndexName(t *testing.T) {
	t.Parallel()
	table := purchases()
	table.Indexes[0].Name = strings.Repeat("ü", 30) // 60 bytes
	if _, err := newDialect().Render(engine.CreateTable{Table: table}); err == nil || !strings.Contains(err.Error(), "63 bytes") {
		t.Errorf("an index with a name that the server would cut: %v", err)
	}
}

func TestParseBounds(t *testing.T) {
	t.Parallel()
	byRows, byTime := enginetest.Roll(t, purchases(), "1000 rows", "id"), enginetest.Roll(t, purchases(), "2h", "at")
	for text, want := range map[string][2]int64{
		"FOR VALUES FROM ('0') TO ('1000')":      {0, 1000},
		"FOR VALUES FROM (-5) TO (7)":            {-5, 7},
		"FOR VALUES FROM (MINVALUE) TO ('1000')": {byRows.Grid.Bounds().From, 1000},
		"FOR VALUES FROM ('5') TO (MAXVALUE)":    {5, byRows.Grid.Bounds().To},
	} {
		from, to, err := parseBounds(byRows, text)
		if err != nil || from != want[0] || to != want[1] {
			t.Errorf("%s: %d to %d, %v", text, from, to, err)
		}
	}
	from, to, err := parseBounds(byTime, "FOR VALUES FROM ('1970-01-01 00:00:01') TO ('1970-01-01 00:00:02.5')")
	if err != nil || from != 1e6 || to != 2.5e6 {
		t.Errorf("times: %d to %d, %v", from, to, err)
	}
	for _, text := range []string{"", "DEFAULT", "FOR VALUES IN (1, 2)", "FOR VALUES WITH (modulus 4, remainder 0)", "FOR VALUES FROM ('a') TO ('b')", "FOR VALUES FROM (1, 2) TO (3, 4)"} {
		if from, to, err := parseBounds(byRows, text); err == nil {
			t.Errorf("%s is read as %d to %d", text, from, to)
		}
	}
}
