package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/experiment/record"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/apply"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/result"
	"github.com/rowmill/rowmill/rolling"
)

// fillIn sets every field of a value, so that a field that a format loses is noticed.
func fillIn(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillIn(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fillIn(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fillIn(v.Index(i))
		}
	case reflect.String:
		v.SetString("a \"text\"\nof two lines")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1<<53 + 1)
	case reflect.Uint64:
		v.SetUint(math.MaxUint64)
	case reflect.Float64:
		v.SetFloat(0.1)
	default:
		panic("fill in " + v.Type().String())
	}
}

// A Spec goes to JSON and TOML and back unchanged.
func TestSpecForms(t *testing.T) {
	var full Spec
	fillIn(reflect.ValueOf(&full).Elem())
	for name, want := range map[string]*Spec{"full": &full, "empty": {Targets: []string{}}, "small": insertSpec("null:")} {
		for form, codec := range map[string]struct {
			write func(any) ([]byte, error)
			read  func([]byte, any) error
		}{"JSON": {json.Marshal, json.Unmarshal}, "TOML": {toml.Marshal, toml.Unmarshal}} {
			text, err := codec.write(want)
			got := &Spec{}
			if err == nil {
				err = codec.read(text, got)
			}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s in %s: %v\n%s\n%s", name, form, err, diff, text)
			}
		}
	}
}

// insertSpec is a small insert run.
func insertSpec(target string) *Spec {
	return &Spec{Workload: Insert, Targets: []string{target}, Preset: "classic", Layouts: []string{"plain"}, Repeat: 1,
		Rows: 3000, LoadSpec: LoadSpec{Writers: 1, Seed: 1}, Interval: Duration(time.Second)}
}

type silent struct{ notes []string }

func (*silent) Begin(result.Run)         {}
func (*silent) Interval(result.Interval) {}
func (*silent) End(result.Summary)       {}
func (s *silent) Note(text string)       { s.notes = append(s.notes, text) }

// keepDeclaration is a table on a temporary database.
const keepDeclaration = `
[table]
name = "readings"
create = '''
CREATE TABLE readings (sensor INT NOT NULL, ts DATETIME NOT NULL, value DOUBLE NOT NULL, PRIMARY KEY (sensor, ts))'''
time = "ts"
[period]
every = "1h"
ahead = "6h"
keep = "3h"
`

// openTable opens the declared table of a Spec, and applies it.
func openTable(ctx context.Context, s *Spec) (*maintain.Table, *target.DB, error) {
	d, err := rolling.ParseDeclarationFor(s.Keep.File, []byte(s.Keep.Declaration), s.Target())
	if err != nil {
		return nil, nil, err
	}
	db, err := target.Open(ctx, s.Target(), func(string) {})
	if err != nil {
		return nil, nil, err
	}
	table, err := maintain.Open(ctx, db.DB.(engine.Keeper), d, time.Now)
	if err != nil {
		return nil, nil, err
	}
	if table.Schema == nil {
		plan, err := apply.PlanTable(ctx, table)
		if err == nil {
			err = plan.Run(ctx, func(apply.Step) {})
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return table, db, nil
}

// A run can be made again from the Spec in the header of its record alone, for every workload.
func TestRun(t *testing.T) {
	t.Chdir(t.TempDir()) // for temporary databases
	second, target := Duration(time.Second), []string{"sqlite:?durability=none"}
	few := Duration(100 * time.Millisecond)
	for _, c := range []struct {
		spec *Spec
		runs int
	}{
		{&Spec{Workload: Insert, Targets: target, Preset: "classic", Layouts: []string{"plain"}, Repeat: 2, Rows: 3000, LoadSpec: LoadSpec{Writers: 1, Seed: 1}, Interval: second}, 2},
		{&Spec{Workload: Ibench, Targets: target, Preset: "ibench", Layouts: []string{"plain"}, Rows: 5000, LoadSpec: LoadSpec{Seed: 1}, Interval: few,
			WorkloadSpecs: WorkloadSpecs{Ibench: &IbenchSpec{Clients: 1, Steps: []string{"l.i0", "l.x", "qr100"}, QueryTime: 3 * few}}}, 3},
		{&Spec{Workload: Mixed, Targets: append(target, "null:"), Preset: "classic", Layouts: []string{"plain"}, Rows: 500, LoadSpec: LoadSpec{Batch: 2, Seed: 1}, Repeat: 1,
			WorkloadSpecs: WorkloadSpecs{Cells: &CellsSpec{Ops: []string{"insert", "mixed"}, Clients: []int{2}, Seconds: 0.2, Mix: 50}}}, 4},
		{&Spec{Workload: Points, Targets: target, Preset: "sbtest", Layouts: []string{"plain"}, Rows: 500, LoadSpec: LoadSpec{Batch: 1, Seed: 1}, Repeat: 1,
			WorkloadSpecs: WorkloadSpecs{Cells: &CellsSpec{Ops: []string{"points"}, Clients: []int{1}, Seconds: 0.2, Points: 3, Set: []string{"cache=1MB,cache=2MB"}}}}, 2},
		{&Spec{Workload: Steady, Targets: target, Preset: "classic", Layouts: []string{"rolling"}, Repeat: 1, LoadSpec: LoadSpec{
			Rate: 1000, Batch: 10, Writers: 1, Seed: 1,
			RetryFor: second,
		},
			PeriodRows: 5000, KeepPeriods: 3, MaxTime: 10 * few, Interval: 4 * few, NoWork: true}, 1},
		{&Spec{Workload: Keep, Targets: []string{"sqlite:kept.db?durability=none"}, Layouts: []string{"rolling"}, LoadSpec: LoadSpec{Rate: 100, Batch: 10, Writers: 1, Seed: 1}, MaxTime: 5 * few, Interval: few,
			WorkloadSpecs: WorkloadSpecs{Keep: &KeepSpec{File: "readings.toml", Declaration: keepDeclaration, Stall: few, Speed: 1, WithRun: true}}}, 1},
		{&Spec{Workload: Matrix, Targets: target, Preset: "classic", Layouts: []string{"plain", "rolling"}, Repeat: 2, Rows: 300, PeriodRows: 100, LoadSpec: LoadSpec{Seed: 1}, Interval: few,
			WorkloadSpecs: WorkloadSpecs{Matrix: &Levels{Methods: []string{"multi"}, Batches: []string{"10", "100"}, Writers: []string{"1"}}}}, 8},
		{&Spec{Workload: Scenario, Targets: target, LoadSpec: LoadSpec{Seed: 1}, Interval: few, WorkloadSpecs: WorkloadSpecs{Scenario: &Script{Text: small, Source: "small.toml", Scale: 10}}}, 2},
	} {
		t.Run(c.spec.Workload, func(t *testing.T) {
			spec := c.spec
			for range 2 {
				for _, left := range []string{"kept.db", "kept.db-wal", "kept.db-shm"} {
					if err := os.Remove(left); err != nil && !errors.Is(err, fs.ErrNotExist) {
						t.Fatal(err)
					}
				}
				out, err := record.Create(filepath.Join(t.TempDir(), "run.jsonl"))
				if err != nil {
					t.Fatal(err)
				}
				_, err = Run(t.Context(), &Env{Out: out, Show: &silent{}, Rowmill: "test", Command: []string{"bench"}, OpenTable: openTable}, spec)
				if err := errors.Join(err, out.Close()); err != nil {
					t.Fatal(err)
				}
				recs, err := record.Read(t.Context(), out.Path)
				if err != nil || len(recs) != c.runs {
					t.Fatalf("%d records, %v", len(recs), err)
				}
				for _, r := range recs {
					spec, err = Recorded(&r.Run)
					if diff := cmp.Diff(c.spec, spec); err != nil || diff != "" {
						t.Errorf("%v\n%s", err, diff)
					}
				}
				last := recs[len(recs)-1]
				proven := last.End.Verified != nil && last.End.Verified.Sound()
				inserts := last.Run.Workload == Insert && (last.Run.Cell != nil || last.Run.Scenario != nil)
				if reads := c.spec.Workload == Points || last.Run.Target == "null:"; proven == reads || last.Run.Workload != c.spec.Workload && !inserts {
					t.Errorf("%s: verified %+v", last.Run.Workload, last.End.Verified)
				}
			}
		})
	}
}

// A record without a Spec, or with one of another version, says so and what to do.
func TestRecorded(t *testing.T) {
	old := result.Run{Rowmill: "0.9", Command: []string{"bench", "insert"}}
	if _, err := Recorded(&old); err == nil || !strings.Contains(err.Error(), "no spec: rowmill 0.9, which wrote it") || engine.HintOf(err) != "run the experiment again, with --out NEW.jsonl" {
		t.Errorf("%v, try %s", err, engine.HintOf(err))
	}
	for _, text := range []string{`{"warp":9,"targets":["null:"]}`, `{"rows":"many"}`, `{}`, `[]`} {
		if s, err := Recorded(&result.Run{Spec: json.RawMessage(text)}); err == nil {
			t.Errorf("%s was taken as %+v", text, s)
		}
	}
}

// A Spec that lacks nearly everything is refused, and doesn't end the process.
func TestValidateIncomplete(t *testing.T) {
	for _, workload := range []string{"", "tpcc", Insert, Ibench, Mixed, Points, Keep, Steady} {
		full := Spec{Workload: workload, Layouts: []string{"plain"}, WorkloadSpecs: WorkloadSpecs{Ibench: &IbenchSpec{}, Cells: &CellsSpec{}, Keep: &KeepSpec{}}}
		for name, s := range map[string]*Spec{"empty": {Workload: workload}, "sections": &full} {
			var refusal *Refusal
			if err := s.Validate(); !errors.As(err, &refusal) || engine.HintOf(err) == "" {
				t.Errorf("%q, %s: %v", workload, name, err)
			}
		}
	}
}

// TestFitInterval: a short run has shorter intervals by default.
func TestFitInterval(t *testing.T) {
	d := func(v time.Duration) Duration { return Duration(v) }
	for name, c := range map[string]struct {
		spec Spec
		want time.Duration
	}{
		"long":        {Spec{Workload: Insert, Interval: d(time.Second), MaxTime: d(45 * time.Second)}, time.Second},
		"by rows":     {Spec{Workload: Insert, Interval: d(time.Second), Rows: 1}, time.Second},
		"5 s":         {Spec{Workload: Insert, Interval: d(time.Second), MaxTime: d(5 * time.Second)}, 250 * time.Millisecond},
		"0.1 s":       {Spec{Workload: Insert, Interval: d(time.Second), MaxTime: d(100 * time.Millisecond)}, 50 * time.Millisecond},
		"a search":    {Spec{Workload: Insert, Interval: d(time.Second), SearchSpec: SearchSpec{FindRate: true, Trial: d(5 * time.Second)}, MaxTime: d(time.Hour)}, 500 * time.Millisecond},
		"queries":     {Spec{Workload: Ibench, Interval: d(time.Second), WorkloadSpecs: WorkloadSpecs{Ibench: &IbenchSpec{QueryTime: d(2 * time.Second)}}}, 100 * time.Millisecond},
		"a load":      {Spec{Workload: Steady, Interval: d(10 * time.Second), MaxTime: d(time.Minute), LoadSpec: LoadSpec{Rate: 100, Batch: 1}}, 3 * time.Second},
		"few inserts": {Spec{Workload: Steady, Interval: d(10 * time.Second), MaxTime: d(time.Minute), LoadSpec: LoadSpec{Rate: 10, Batch: 2}}, 4 * time.Second},
	} {
		if c.spec.FitInterval(); c.spec.Interval.D() != c.want {
			t.Errorf("%s: %v, want %v", name, c.spec.Interval.D(), c.want)
		}
	}
}

// small is a scenario of two runs.
const small = `name  = "small"
title = "two runs"
story = "none"
rows  = 1_000
takes = "2s"
target = "sqlite:"
durability = "none"
memory = { share = 0.5, of = "rolls" }

[defaults]
preset  = "classic"
period  = 0.1
writers = 2
max-time = "1m"

[[run]]
name = "plain"
indexes = 0

[[run]]
name   = "rolls"
layout = "rolling"
max-time = "90s"

[[published]]
run = "plain"
figure = "mean"
range = [10, 20]
source = "nobody"

[[check]]
claim  = "it is flat"
figure = "rolls.last"
over   = "rolls.first"
above  = 0.5
`
