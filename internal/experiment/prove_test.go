package experiment

import (
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/experiment/record"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// TestProve measures both sides of a Trial twice, on servers of their own: with a setting and
// without, a plain table and one that rolls, and keys in no order and ascending.
func TestProve(t *testing.T) {
	testdb.SkipUnlessNightly(t, "TestTrialServers")
	testdb.OnKinds(t, []string{"mariadb", "mysql", "postgres"}, func(t *testing.T, kind string) {
		at, logged, kept := "DATETIME(6)", "set=general_log=ON", "set=general_log=OFF"
		if kind == "postgres" {
			at, logged, kept = "TIMESTAMPTZ", "set=log_statement=all", "set=log_statement=ddl"
		}
		table := &TableSpec{File: "t.toml", Declaration: "[table]\nname = \"t\"\ncreate = \"CREATE TABLE t (id BIGINT NOT NULL, at " + at + " NOT NULL, PRIMARY KEY (id, at))\"\ntime = \"at\"\n[period]\nevery = \"1d\"\n"}
		for _, trial := range []*engine.Trial{{Before: logged, After: kept}, {Rolls: true}, {Ascending: "id"}} {
			out, err := record.Create("")
			if err != nil {
				t.Fatal(err)
			}
			g, err := (&Env{Out: out, Show: &silent{}}).Prove(t.Context(), kind, table, trial, 2000)
			if err != nil {
				t.Fatal(err)
			}
			if len(g.Before) != proveRounds || len(g.After) != proveRounds || g.Rows != 2000 || !(g.Ratio() > 0) || g.BeforeOn == g.AfterOn {
				t.Errorf("%+v", g)
			}
		}
	})
}

// TestTrialServers: the sides of a Trial differ in what it is about alone; a gain counts beyond the
// noise of the runs.
func TestTrialServers(t *testing.T) {
	redo := engine.RedoTrial(1<<30, 8<<30, 8<<20)
	small := engine.RedoTrial(1<<20, 8<<30, 8<<20)
	more := engine.MoreMemory(nil)
	for params, want := range map[string]string{
		"":                       "sandbox:mysql?memory=64MiB",
		"set=general_log=ON":     "sandbox:mysql?set=general_log=ON&memory=64MiB",
		redo.Before + "&set=a=1": "sandbox:mysql?memory=256MiB&redo=32MiB&set=a=1",
		redo.After:               "sandbox:mysql?memory=256MiB&redo=320MiB",
		small.Before:             "sandbox:mysql?memory=256MiB&redo=8MiB",
		more.Before:              "sandbox:mysql?memory=64MiB",
		more.After:               "sandbox:mysql?memory=256MiB",
	} {
		if got := trialServer("mysql", params); got != want {
			t.Errorf("%q: %s, want %s", params, got, want)
		}
	}
	if g := (&engine.Gain{Before: []float64{90, 110}, After: []float64{132, 99}}); g.Ratio() != 0.9 {
		t.Errorf("ratio %v", g.Ratio())
	}
}

// TestAscending: the keys of a table ascend, and all else of its values stays.
func TestAscending(t *testing.T) {
	t.Parallel()
	const text = "[table]\nname = \"t\"\ncreate = \"CREATE TABLE t (id CHAR(36) NOT NULL, at DATETIME(6) NOT NULL, n INT, PRIMARY KEY (id, at))\"\ntime = \"at\"\n[period]\nevery = \"1d\"\n" +
		"[values]\nrows-per-second = 7\n[values.id]\norder = \"random\"\ndistinct = 1000\nlength = [36, 36]\n[values.n]\norder = \"recent\"\nwindow = 9\n"
	table, err := (&TableSpec{File: "t.toml", Declaration: text}).ascending("sandbox:mysql", "id")
	if err != nil {
		t.Fatal(err)
	}
	d, err := table.Declared("sandbox:mysql")
	if err != nil {
		t.Fatal(err)
	}
	id, n := d.Values.Of("id"), d.Values.Of("n")
	if id.Order != rolling.OrderAscending || id.Distinct != 0 || id.Length != [2]int{36, 36} || n.Order != rolling.OrderRecent || n.Window != 9 || d.Values.RowsPerSecond != 7 {
		t.Errorf("%+v", d.Values)
	}
}
