package experiment

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/experiment/scenario"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/internal/workload/disk"
	"github.com/rowmill/rowmill/result"
)

// A Script is the scenario of a Spec. Target, interval, seed and proof are fields of the Spec.
type Script struct {
	// Text is the declaration, Source its name in errors.
	Text   string `json:"text" toml:"text"`
	Source string `json:"source" toml:"source"`
	// Scale multiplies the rows, and with them memory and periods.
	Scale float64 `json:"scale" toml:"scale"`
	// MaxTime replaces the runs' own limits of time; 0 is no limit.
	MaxTime *Duration `json:"max-time,omitempty" toml:"max-time,omitempty"`
}

// A ScenarioPlan is the runs of a scenario at a scale, on a target.
type ScenarioPlan struct {
	d     *scenario.Declaration
	scale float64
	rows  int64 // of each run
	// target is the database; the method size adds the memory to it.
	target string
	// finalBytes is the table size of which the memory is a share; 0 if the scenario sets no memory.
	finalBytes int64
	// all are the runs of the scenario, trials those still to be made.
	trials, all []Trial
	// done are the recorded runs that were completed.
	done []result.Record
}

// OfDisk reports whether the runs are jobs of a disk.
func (p *ScenarioPlan) OfDisk() bool { return p.d.Does == scenario.Disk }

// LoadScenario reads a built-in scenario or a file, as [scenario.Load] does. Its error is a
// Refusal.
func LoadScenario(ctx context.Context, name string) (*scenario.Declaration, error) {
	d, err := scenario.Load(ctx, name)
	if err != nil {
		return nil, refuse(engine.HintOf(err), "%w", err)
	}
	return d, nil
}

// PlanScenario determines the runs, and refuses impossible ones. It opens no database.
func PlanScenario(s *Spec) (*ScenarioPlan, error) {
	if s.Scenario == nil || len(s.Targets) > 1 {
		return nil, refuse(s.help(), "a scenario has a declaration and one target")
	}
	d, err := scenario.Parse(s.Scenario.Source, []byte(s.Scenario.Text))
	if err != nil {
		return nil, refuse(engine.HintOf(err), "%w", err)
	}
	p := &ScenarioPlan{d: d, scale: s.Scenario.Scale, rows: int64(math.Round(float64(d.Rows) * s.Scenario.Scale)), target: s.Target()}
	if !p.OfDisk() {
		if err := target.Check(p.target); err != nil {
			return nil, refuse(engine.HintOf(err), "--target: %w", err)
		}
		if p.target, err = target.WithDurability(p.target, d.Durability); err != nil {
			return nil, err
		}
	}
	if d.Does == scenario.Inserts {
		if err := p.enoughRows(); err != nil {
			return nil, err
		}
	}
	for i := range d.Runs {
		r := &d.Runs[i]
		one, err := p.specOf(r, s)
		if err == nil {
			err = one.Validate()
		}
		if err != nil {
			hint := engine.HintOf(err)
			if hint == "" || hint == one.help() {
				hint = "another --target, or a copy of the scenario: --print"
			}
			return nil, refuse(hint, "%s: run %s: %w", d.At(r.Name), r.Name, err)
		}
		p.all = append(p.all, Trial{Spec: one, Whole: s, Label: "run " + r.Name, Scenario: d.Record(r.Name, p.scale, 0)})
	}
	p.trials = p.all
	return p, nil
}

// minScenarioRows is the least number of rows of a run or a period. With fewer, the
// measurement shows mainly the start of a server.
const minScenarioRows = 1000

// enoughRows refuses a scale at which runs or periods are too short.
func (p *ScenarioPlan) enoughRows() error {
	tooFew := func(share float64, format string, args ...any) error {
		return refuse(fmt.Sprintf("--scale %.2g", math.Ceil(1e4*minScenarioRows/share/float64(p.d.Rows))/1e4), "--scale %v: "+format, append([]any{p.scale}, args...)...)
	}
	if p.rows < minScenarioRows {
		return tooFew(1, "%d rows a run are too few to measure", p.rows)
	}
	for _, r := range p.d.Runs {
		if n := p.periodRows(&r); r.PeriodShare > 0 && n < minScenarioRows {
			return tooFew(r.PeriodShare, "periods of run %s would have %d rows: want at least %d", r.Name, n, minScenarioRows)
		}
	}
	return nil
}

func (p *ScenarioPlan) periodRows(r *scenario.Run) int64 {
	return int64(math.Round(r.PeriodShare * float64(p.rows)))
}

// specOf returns the Spec of a run. For a partition scan, it is the Spec of the run's way alone.
func (p *ScenarioPlan) specOf(r *scenario.Run, s *Spec) (out *Spec, err error) {
	out = &Spec{Targets: []string{p.target}, Layouts: []string{workload.Plain}, Repeat: 1, Interval: s.Interval, DropExisting: s.DropExisting,
		LoadSpec: LoadSpec{Seed: s.Seed}}
	maxTime := func(usual time.Duration) Duration {
		if s.Scenario.MaxTime != nil {
			return *s.Scenario.MaxTime
		}
		return Duration(usual)
	}
	switch p.d.Does {
	case scenario.Disk:
		out.Workload, out.MaxTime = Disk, maxTime(p.d.Time)
		out.Disk = &DiskSpec{Kinds: []string{r.Job.Kind}, Sizes: []int64{max(r.Job.BlockBytes, 4096)}, Depths: []int{r.Job.Depth}, Writes: []int{r.Job.WritePercent},
			FileBytes: int64(math.Round(p.scale*float64(p.d.FileBytes))) &^ (1<<20 - 1)}
		out.Interval = min(s.Interval, out.MaxTime/20)
	case scenario.Tables:
		out.Workload = Tables
		out.Tables = &TablesSpec{Tables: int(p.rows), Connections: p.d.Connections, Open: min(p.d.Open, int(p.rows))}
		if name, value, ok := strings.Cut(r.Set, "="); ok {
			if !target.StartsServer(p.target) {
				return out, engine.Hinted(fmt.Errorf("%s is a setting of a private server, which %s is not", r.Set, p.target), "--target "+target.DefaultServer)
			}
			out.Targets[0], err = target.WithSetting(p.target, target.Setting{Name: name, Value: value})
		}
	case scenario.HotRow:
		out.Workload, out.Rows, out.Replicas, out.RetryFor, out.MaxTime = HotRow, p.rows, s.Replicas, Duration(time.Hour), maxTime(0)
		out.HotRow = &HotRowSpec{Ways: []string{r.Way}, Clients: []int{r.Clients}, Slots: 1, Cache: Duration(p.d.Cache)}
	case scenario.TPCC:
		out.Workload, out.RetryFor, out.MaxTime = TPCC, Duration(tpccRetry), maxTime(p.d.Time)
		// The scale shrinks each warehouse and not their number: each node needs some.
		out.TPCC = &TPCCSpec{Warehouses: p.d.Warehouses, Terminals: p.d.Terminals, Deep: true}
		if p.scale != 1 {
			out.TPCC.Scale = p.scale
		}
		if name, value, ok := strings.Cut(r.Option, "="); ok {
			out.Targets[0], err = target.WithOption(p.target, target.Setting{Name: name, Value: value})
		}
	case scenario.Scan:
		out.Workload, out.Rows, out.Replicas = Scan, p.rows, s.Replicas
		out.Scan = &ScanSpec{Partitions: p.d.Partitions, Step: p.d.Step, Ways: []string{r.Way}}
	default:
		out.Workload, out.Rows, out.Replicas, out.NoVerify, out.MaxTime = Insert, p.rows, s.Replicas, s.NoVerify, maxTime(r.MaxTime)
		out.Preset, out.Layouts, out.Indexes = r.Preset, []string{r.Layout}, r.Indexes
		out.PeriodRows, out.KeepPeriods = p.periodRows(r), r.KeepPeriods
		out.Writers, out.Batch, out.Method, out.Rate = r.Writers, r.Batch, r.Method, r.Rate
	}
	return out, err
}

// disk makes the jobs, after filling their file.
func (p *ScenarioPlan) disk(ctx context.Context, env *Env) ([]result.Record, error) {
	if len(p.trials) == 0 {
		return nil, nil
	}
	one := *p.trials[0].Spec
	fill := Trial{Spec: &one, Whole: p.trials[0].Whole}
	all := []diskTrial{{job: disk.Jobs(nil, nil, nil, nil)[0], trial: &fill}}
	for i := range p.trials {
		d := p.trials[i].Spec.Disk
		all = append(all, diskTrial{job: disk.Jobs(d.Kinds, d.Sizes, d.Depths, d.Writes)[1], trial: &p.trials[i]})
	}
	return env.diskTrials(ctx, &one, all)
}

// ResumeScenario plans the runs that a scenario's record lacks. dropExisting permits dropping
// tables of the same names even if the recorded Spec doesn't.
func ResumeScenario(ctx context.Context, path string, dropExisting bool) (*ScenarioPlan, error) {
	r, err := readResumption(ctx, path, Scenario)
	if err != nil {
		return nil, err
	}
	p, err := PlanScenario(r.Spec)
	if err != nil {
		return nil, err
	}
	completed := map[string]bool{}
	for _, rec := range r.Recs {
		if rec.Run.Scenario != nil && !rec.Broken() {
			p.done = append(p.done, rec)
			completed[rec.Run.Scenario.Run] = true
		}
	}
	p.trials = slices.DeleteFunc(slices.Clone(p.all), func(t Trial) bool { return completed[t.Scenario.Run] })
	for i := range p.trials {
		p.trials[i].Spec.DropExisting = p.trials[i].Spec.DropExisting || dropExisting
	}
	return p, nil
}

// Run determines the memory for the servers and makes the runs in order, up to the first failure.
// It returns the records of the runs that began, and of the runs already recorded, in the order of
// the scenario.
func (p *ScenarioPlan) Run(ctx context.Context, env *Env) ([]result.Record, error) {
	for _, line := range p.describe() {
		env.Show.Note(line)
	}
	if err := p.size(ctx, env); err != nil {
		return p.done, early(ctx, err)
	}
	switch p.d.Does {
	case scenario.Scan:
		recs, err := p.scan(ctx, env)
		return p.inOrder(recs), err
	case scenario.Disk:
		recs, err := p.disk(ctx, env)
		return p.inOrder(recs), err
	}
	n, seen := 0, map[string]bool{}
	recs, err := each(ctx, p.trials, func(t Trial) string { return t.Label }, func(t Trial) ([]result.Record, error) {
		n++
		env.Show.Note(fmt.Sprintf("run %d of %d: %s", n, len(p.trials), t.Scenario.Run))
		switch p.d.Does {
		case scenario.Tables:
			return env.tablesRun(ctx, t.Spec, &t)
		case scenario.HotRow:
			t.Again = n > 1
			return env.hotTrial(ctx, t.Spec.HotRow.Ways[0], t.Spec.HotRow.Clients[0], t)
		case scenario.TPCC:
			return env.tpcc(ctx, &t)
		}
		t.Spec.Targets, t.Scenario.FinalBytes = []string{p.target}, p.finalBytes
		if p.finalBytes == 0 {
			t.Scenario.MemoryShare, t.Scenario.MemoryOf = 0, ""
		}
		t.Again, seen[t.Spec.Preset] = seen[t.Spec.Preset], true
		return env.insert(ctx, t)
	})
	return p.inOrder(recs), err
}

// scan makes the runs of a partition scan, on one table.
func (p *ScenarioPlan) scan(ctx context.Context, env *Env) ([]result.Record, error) {
	if len(p.trials) == 0 {
		return nil, nil
	}
	whole := *p.trials[0].Spec
	scan := *whole.Scan
	whole.Scan, scan.Ways = &scan, nil
	for _, t := range p.trials {
		scan.Ways = append(scan.Ways, t.Spec.Scan.Ways...)
	}
	return env.scanAs(ctx, &whole, func(way string) *Trial {
		t := p.trials[slices.IndexFunc(p.trials, func(t Trial) bool { return t.Spec.Scan.Ways[0] == way })]
		return &t
	})
}

// inOrder returns the records of runs that were made, and of runs already recorded, in the order of
// the scenario.
func (p *ScenarioPlan) inOrder(recs []result.Record) []result.Record {
	recs = slices.Concat(p.done, recs)
	place := func(rec result.Record) int {
		if rec.Run.Scenario == nil {
			return -1 // the job that fills the disk's file
		}
		return slices.IndexFunc(p.all, func(t Trial) bool { return t.Scenario.Run == rec.Run.Scenario.Run })
	}
	slices.SortStableFunc(recs, func(x, y result.Record) int { return place(x) - place(y) })
	return recs
}

// To determine the bytes per row, scenarioSample rows are loaded, or scenarioSampleShare of the
// run's rows if that is less, but at least minScenarioSample. In a smaller sample, the first
// extents of the table and its indexes would dominate, and fewer pages would be split than in the
// full table.
const (
	scenarioSample      = 200_000
	scenarioSampleShare = 0.1
	minScenarioSample   = 20_000
)

// size measures bytes per row on a sample, and sets the memory of the runs.
func (p *ScenarioPlan) size(ctx context.Context, env *Env) error {
	if p.d.MemoryShare == 0 {
		return nil
	}
	memory := fmt.Sprintf("%v of the final size of %s", p.d.MemoryShare, p.d.MemoryOf)
	least, unit, ok := target.MemoryFloor(p.target)
	if !ok {
		env.Show.Note("the target's memory is unchanged: the scenario asks for " + memory)
		return nil
	}
	sample := max(minScenarioSample, min(scenarioSample, int64(scenarioSampleShare*float64(p.rows))))
	env.Show.Note(fmt.Sprintf("measuring bytes per row of %s on a sample of %s, for %s", p.d.MemoryOf, rows(sample), memory))
	perRow, err := p.bytesPerRow(ctx, sample, env)
	if err != nil {
		return err
	}
	p.finalBytes = int64(perRow * float64(p.rows))
	share := p.d.MemoryShare * float64(p.finalBytes)
	given := int64(math.Round(share/float64(unit))) * unit
	if given < least {
		return refuse(fmt.Sprintf("--scale %.2g", math.Ceil(100*p.scale*float64(least)/share)/100),
			"--scale %v: %s are %s, and %s takes at least %s: the shape would differ",
			p.scale, memory, figure.Bytes(share), p.target, sandbox.FormatSize(least))
	}
	env.Show.Note(fmt.Sprintf("%s: %.0f bytes per row, %s in the end, memory %s", p.d.MemoryOf, perRow, figure.Bytes(float64(p.finalBytes)), figure.Bytes(float64(given))))
	p.target, err = target.WithMemory(p.target, given)
	return err
}

// bytesPerRow measures the bytes per row of the table of run MemoryOf as a plain table: the
// server's memory is declared as a share of this table's size. bytesPerRow loads the sample at full
// speed, because the insert method does not affect the size.
func (p *ScenarioPlan) bytesPerRow(ctx context.Context, sample int64, env *Env) (perRow float64, err error) {
	i := slices.IndexFunc(p.d.Runs, func(r scenario.Run) bool { return r.Name == p.d.MemoryOf })
	one := p.all[i].Spec.alone(workload.Plain)
	one.Method, one.Batch = "", 0
	m := measurement{env: env, trial: &Trial{Spec: one}}
	err = m.open(ctx, func() error {
		w, err := workload.NewInsert(m.db, one.insertOptions(workload.Plain))
		if err != nil {
			return err
		}
		perRow, err = w.BytesPerRow(ctx, sample)
		return err
	})
	return perRow, err
}

// describe announces the runs: what they show, and how long they take.
func (p *ScenarioPlan) describe() []string {
	lines := []string{fmt.Sprintf("%s: %s", p.d.Name, p.d.Title)}
	if p.OfDisk() {
		return lines // the jobs say the rest
	}
	lines = append(lines, fmt.Sprintf("%s of %s on %s", figure.Plural(len(p.trials), "run"), p.d.Amount(p.scale), p.target))
	if took := p.d.Takes.Seconds() * p.scale * float64(len(p.trials)) / float64(len(p.all)); took > 0 {
		lines = append(lines, fmt.Sprintf("about %s on 2 cores", figure.Duration(max(took, 1))))
	}
	var most time.Duration
	limited := len(p.trials) > 0
	for _, t := range p.trials {
		most += t.Spec.MaxTime.D()
		limited = limited && t.Spec.MaxTime > 0
		if int64(t.Spec.Batch)*8 > p.rows {
			lines = append(lines, fmt.Sprintf("! %s: %s are less than 8 batches, so that there is no first or last rate of them", t.Label, rows(p.rows)))
		}
	}
	if limited {
		lines = append(lines, fmt.Sprintf("at most %s of inserting, by the runs' limits of time", figure.Duration(most.Seconds())))
	}
	return lines
}
