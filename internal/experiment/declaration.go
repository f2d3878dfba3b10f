package experiment

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/textfile"
	"github.com/rowmill/rowmill/internal/tomlfile"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/internal/workload/disk"
	"github.com/rowmill/rowmill/internal/workload/oltp"
	"github.com/rowmill/rowmill/result"
)

// A Declaration is a scenario as it is written in TOML: a list of runs, the published
// figures to compare them with, and the expected shape of the results.
type Declaration struct {
	Name, Title, Story string
	// Rows is the number of rows that each run inserts at scale 1.
	Rows int64
	// Takes is the approximate duration of all runs at scale 1 on two cores; 0 means unknown.
	Takes time.Duration
	// Target is the database, without its memory and durability settings.
	Target     string
	Durability string // "" means the target's default
	// MemoryShare is the server's memory as a share of the final size of run
	// MemoryOf; 0 leaves the target's memory unchanged.
	MemoryShare float64
	MemoryOf    string
	// Scan, unless nil, makes the runs ways of one partition scan, and not inserts.
	Scan *ScanSpec
	// Tables, unless nil, makes the runs create as many tables as there are rows.
	Tables *TablesSpec
	// Disk, unless nil, makes the runs jobs of bench disk, on one file of FileBytes at scale 1 in the
	// folder Target, each for DiskTime.
	Disk     *DiskSpec
	DiskTime time.Duration
	// HotRow, unless nil, makes each run count in one row as often as there are rows.
	HotRow *HotRowSpec
	// TPCC, unless nil, makes the runs transactions of bench tpcc, on warehouses of which the scale is
	// the share of the rows, for TPCCTime.
	TPCC     *TPCCSpec
	TPCCTime time.Duration

	Runs      []ScriptedRun
	Published []result.Published
	Checks    []result.Check

	// Text is the declaration's source text, Source the name of the file or of the
	// built-in scenario.
	Text, Source string
	root         *tomlfile.Value
}

// A ScriptedRun is one run of a scenario.
type ScriptedRun struct {
	Name, Title string
	// Spec has the run's preset, layout, load and limit of time.
	Spec Spec
	// PeriodShare is a period's share of the rows; 0 means that two periods fit into
	// the database's cache.
	PeriodShare float64
	// Way is that of a run of a partition scan, or of one that counts in one row with these Clients.
	Way     string
	Clients int
	// Set is a setting of the private server, NAME=VALUE, of a run that creates tables.
	Set string
	// Job is that of a run of bench disk.
	Job result.Disk
	// Option is one of the target's URL, NAME=VALUE, of a run of bench tpcc.
	Option string
}

//go:embed builtin/*.toml
var builtin embed.FS

// Scenarios lists the built-in scenarios in alphabetical order.
func Scenarios() []string {
	files, err := fs.Glob(builtin, "builtin/*.toml")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(path.Base(f), ".toml")
	}
	return files
}

// LoadScenario reads the built-in scenario of the given name, or a file if the name ends in .toml.
func LoadScenario(ctx context.Context, name string) (*Declaration, error) {
	if slices.Contains(Scenarios(), name) {
		text, err := builtin.ReadFile("builtin/" + name + ".toml")
		if err != nil {
			return nil, err
		}
		return ParseScenario(name+".toml", text)
	}
	err := fs.ErrNotExist
	var text []byte
	if strings.HasSuffix(name, ".toml") {
		text, err = textfile.Read(ctx, name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		own := "a file of your own ends in .toml"
		if strings.HasSuffix(name, ".toml") {
			own = "and there is no such file"
		}
		return nil, refuse("rowmill bench scenario --list", "no scenario %q: built in are %s; %s", name, strings.Join(Scenarios(), ", "), own)
	}
	if err != nil {
		return nil, fmt.Errorf("read scenario: %w", err)
	}
	return ParseScenario(name, text)
}

// Run returns the run with the given name; nil if there is none.
func (d *Declaration) Run(name string) *ScriptedRun {
	for i := range d.Runs {
		if d.Runs[i].Name == name {
			return &d.Runs[i]
		}
	}
	return nil
}

// At returns the place of a run's setting key, as FILE:LINE:COLUMN. If the run doesn't
// have the setting, it returns that of the defaults.
func (d *Declaration) At(run, key string) string {
	i := slices.IndexFunc(d.Runs, func(r ScriptedRun) bool { return r.Name == run })
	if i < 0 {
		return d.Source
	}
	table := d.root.Find("run").In[i]
	at := cmp.Or(table.Find(key), d.root.Find("defaults").Find(key), table)
	return fmt.Sprintf("%s:%d:%d", d.Source, at.Line, at.Column)
}

// Record returns the part of a run's record that describes the experiment.
func (d *Declaration) Record(run string, scale float64, finalBytes int64) *result.Scenario {
	s := &result.Scenario{
		Name: d.Name, Title: d.Title, Story: d.Story, Run: run, Scale: scale,
		MemoryShare: d.MemoryShare, MemoryOf: d.MemoryOf, FinalBytes: finalBytes,
		Published: d.Published, Checks: d.Checks, Declaration: d.Text,
	}
	for _, r := range d.Runs {
		s.Runs = append(s.Runs, r.Name)
	}
	return s
}

// ParseScenario reads a declaration; source names it in errors. Unknown keys, invalid
// values and references to runs and figures that don't exist are refused, with their
// place. Values that only an engine or a workload knows, such as the names of presets,
// are checked when the scenario is planned.
func ParseScenario(source string, text []byte) (*Declaration, error) {
	root, err := tomlfile.Parse(text)
	if err != nil {
		return nil, refuse("compare it with a built-in scenario: rowmill bench scenario ec2-2012 --print", "%s:%w", source, err)
	}
	r := scenarioReader{source: source, d: &Declaration{Text: string(text), Source: source, root: root}}
	r.read(root)
	return r.d, r.err
}

// A scenarioReader fills in a declaration and keeps the first error.
type scenarioReader struct {
	source string
	d      *Declaration
	err    error
}

func (r *scenarioReader) fail(at *tomlfile.Value, hint, format string, args ...any) {
	if r.err == nil {
		r.err = refuse(hint, "%s:%d:%d: %s", r.source, at.Line, at.Column, fmt.Sprintf(format, args...))
	}
}

type scenarioKey struct {
	name string
	// into receives the value: a text, a number, a duration, or a list of numbers. A
	// pointer stays nil without the key. A tomlfile.Kind is that of a table or tables.
	into any
	// valid, unless nil, refuses a value; want says what is valid.
	valid func() bool
	want  string
}

// table reads the keys of a table. It refuses unknown keys and invalid values.
func (r *scenarioReader) table(t *tomlfile.Value, keys ...scenarioKey) {
	if t == nil {
		return
	}
	var names []string
	for _, k := range keys {
		names = append(names, k.name)
	}
	for _, v := range t.In {
		i := slices.Index(names, v.Key)
		if i < 0 {
			r.fail(v, tomlfile.DidYouMean(v.Key, names), "unknown key %q", strings.TrimPrefix(t.Key+"."+v.Key, "."))
			return
		}
		k, want := keys[i], ""
		if !take(v, k.into) {
			want = kindOf(k.into)
		} else if k.valid != nil && !k.valid() {
			want = k.want
		}
		if want != "" {
			r.fail(v, want, "%s = %s: want %s", v.Key, written(v), want)
		}
	}
}

func kindOf(into any) string {
	switch into.(type) {
	case *string:
		return "a quoted string"
	case *time.Duration:
		return `a time, such as "90s" or "2h30m"`
	case *int, *int64, **int:
		return "a whole number"
	case *[]float64:
		return "a list of numbers"
	case *size:
		return `a size, such as "8KiB" or "1GB"`
	case tomlfile.Kind:
		return "a table of keys, or [[tables]] for runs, published figures and checks"
	}
	return "a number"
}

func written(v *tomlfile.Value) string {
	switch v.Kind {
	case tomlfile.Text:
		return strconv.Quote(v.Text)
	case tomlfile.List:
		var all []string
		for _, e := range v.In {
			all = append(all, written(e))
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	return cmp.Or(v.Text, v.What())
}

// size is a number of bytes that is written with its unit.
type size int64

// take stores a value, and reports whether it is of the right kind.
func take(v *tomlfile.Value, into any) bool {
	switch p := into.(type) {
	case tomlfile.Kind:
		return v.Kind == p
	case *string:
		*p = v.Text
		return v.Kind == tomlfile.Text
	case *time.Duration:
		d, err := time.ParseDuration(v.Text)
		*p = d
		return v.Kind == tomlfile.Text && err == nil && d > 0
	case *size:
		n, err := engine.ParseBytes(v.Text)
		*p = size(n)
		return v.Kind == tomlfile.Text && err == nil
	case *int64:
		n, err := v.Integer()
		*p = n
		return v.Kind == tomlfile.Whole && err == nil
	case *int:
		var n int64
		ok := take(v, &n)
		*p = int(n)
		return ok
	case **int:
		*p = new(int)
		return take(v, *p)
	case *float64:
		f, err := strconv.ParseFloat(strings.ReplaceAll(v.Text, "_", ""), 64)
		*p = f
		return (v.Kind == tomlfile.Whole || v.Kind == tomlfile.Number) && err == nil && !math.IsInf(f, 0)
	case **float64:
		*p = new(float64)
		return take(v, *p)
	case *[]float64:
		*p = make([]float64, len(v.In))
		for i, e := range v.In {
			if !take(e, &(*p)[i]) {
				return false
			}
		}
		return v.Kind == tomlfile.List
	}
	return false
}

var scenarioName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

func name(into *string) scenarioKey {
	return scenarioKey{"name", into, func() bool { return scenarioName.MatchString(*into) }, "lower-case letters, digits and dashes"}
}

func choice(key string, into *string, of ...string) scenarioKey {
	return scenarioKey{key, into, func() bool { return slices.Contains(of, *into) }, "one of " + strings.Join(of, ", ")}
}

func positive(key string, into *int) scenarioKey {
	return scenarioKey{key, into, func() bool { return *into > 0 }, "a whole number from 1 up"}
}

func (r *scenarioReader) read(root *tomlfile.Value) {
	d := r.d
	r.table(root, name(&d.Name), scenarioKey{name: "title", into: &d.Title}, scenarioKey{name: "story", into: &d.Story},
		scenarioKey{"rows", &d.Rows, func() bool { return d.Rows > 0 }, "rows = 1_000_000, how many each run inserts at scale 1"},
		scenarioKey{name: "takes", into: &d.Takes}, scenarioKey{name: "target", into: &d.Target},
		choice("durability", &d.Durability, sandbox.Full, sandbox.Relaxed, sandbox.None),
		scenarioKey{name: "memory", into: tomlfile.Table}, scenarioKey{name: "scan", into: tomlfile.Table}, scenarioKey{name: "tables", into: tomlfile.Table},
		scenarioKey{name: "hotrow", into: tomlfile.Table}, scenarioKey{name: "disk", into: tomlfile.Table}, scenarioKey{name: "tpcc", into: tomlfile.Table}, scenarioKey{name: "defaults", into: tomlfile.Table},
		scenarioKey{name: "run", into: tomlfile.Tables}, scenarioKey{name: "published", into: tomlfile.Tables}, scenarioKey{name: "check", into: tomlfile.Tables})
	disk, usual := root.Find("disk"), target.DefaultServer
	if disk != nil {
		usual = "."
	}
	d.Story, d.Target = strings.TrimSpace(d.Story), cmp.Or(d.Target, usual)
	for _, m := range []struct{ key, example string }{
		{"name", `name = "plain"`}, {"title", `title = "what the scenario shows"`}, {"rows", "rows = 1_000_000"}, {"run", "[[run]] with a name"}} {
		if root.Find(m.key) == nil && (m.key != "rows" || disk == nil && root.Find("tpcc") == nil) {
			r.fail(root, m.example, "%s is missing", m.key)
		}
	}
	if r.err != nil {
		return
	}
	if t := root.Find("scan"); t != nil {
		d.Scan = &ScanSpec{Partitions: 1, Step: 1}
		r.table(t, positive("partitions", &d.Scan.Partitions), positive("step", &d.Scan.Step))
		if also := cmp.Or(root.Find("defaults"), root.Find("memory")); also != nil {
			r.fail(also, "no "+also.Key, "a partition scan has no %s", also.Key)
		}
	}
	if t := root.Find("tables"); t != nil {
		d.Tables = &TablesSpec{Connections: 1, Open: 1}
		r.table(t, positive("connections", &d.Tables.Connections), positive("open", &d.Tables.Open))
		if also := cmp.Or(root.Find("defaults"), root.Find("memory"), root.Find("scan")); also != nil {
			r.fail(also, "no "+also.Key, "a scenario of many tables has no %s", also.Key)
		}
	}
	if disk != nil {
		d.Disk, d.DiskTime = &DiskSpec{FileBytes: 1 << 30}, 3*time.Second
		r.table(disk, scenarioKey{name: "size", into: (*size)(&d.Disk.FileBytes)}, scenarioKey{name: "time", into: &d.DiskTime})
		for _, key := range []string{"defaults", "memory", "scan", "tables", "hotrow", "rows", "durability"} {
			if also := root.Find(key); also != nil {
				r.fail(also, "no "+key, "a scenario of a disk has no %s", key)
			}
		}
	}
	if t := root.Find("hotrow"); t != nil {
		d.HotRow = &HotRowSpec{Slots: 1}
		r.table(t, scenarioKey{"cache", (*time.Duration)(&d.HotRow.Cache), func() bool { return d.HotRow.Cache >= 0 }, `a time, such as "5s"`})
		if also := cmp.Or(root.Find("defaults"), root.Find("memory"), root.Find("scan"), root.Find("tables")); also != nil {
			r.fail(also, "no "+also.Key, "a scenario of counting in one row has no %s", also.Key)
		}
	}
	if t := root.Find("tpcc"); t != nil {
		d.TPCC, d.TPCCTime = &TPCCSpec{Warehouses: 1, Terminals: 10, Deep: true}, time.Minute
		r.table(t, positive("warehouses", &d.TPCC.Warehouses), positive("terminals", &d.TPCC.Terminals), scenarioKey{name: "time", into: &d.TPCCTime})
		for _, key := range []string{"rows", "defaults", "memory", "scan", "tables"} {
			if also := root.Find(key); also != nil {
				r.fail(also, "no "+key, "a scenario of bench tpcc has no %s", key)
			}
		}
	}
	defaults := ScriptedRun{Spec: Spec{Layouts: []string{workload.Plain}, LoadSpec: LoadSpec{Writers: 1}}}
	r.table(root.Find("defaults"), settings(&defaults)...)
	for _, t := range root.Find("run").In {
		r.run(t, defaults)
	}
	if m := root.Find("memory"); m != nil && r.err == nil {
		d.MemoryOf = d.Runs[0].Name
		share := func() bool { return d.MemoryShare > 0 && d.MemoryShare <= 10 }
		r.table(m, scenarioKey{"share", &d.MemoryShare, share, "a share of the final size, more than 0 and at most 10: share = 0.25"},
			scenarioKey{"of", &d.MemoryOf, func() bool { return d.Run(d.MemoryOf) != nil }, r.runNames()})
		if m.Find("share") == nil {
			r.fail(m, "share = 0.25", "memory has no share")
		}
	}
	for _, t := range in(root.Find("published")) {
		r.published(t)
	}
	for _, t := range in(root.Find("check")) {
		r.check(t)
	}
}

func in(list *tomlfile.Value) []*tomlfile.Value {
	if list == nil {
		return nil
	}
	return list.In
}

func (r *scenarioReader) runNames() string {
	var all []string
	for _, run := range r.d.Runs {
		all = append(all, run.Name)
	}
	return "one of " + strings.Join(all, ", ")
}

func settings(run *ScriptedRun) []scenarioKey {
	s := &run.Spec
	return []scenarioKey{
		{name: "preset", into: &s.Preset}, choice("layout", &s.Layouts[0], workload.Layouts()...), {name: "method", into: &s.Method},
		positive("writers", &s.Writers), positive("batch", &s.Batch), positive("keep-periods", &s.KeepPeriods),
		{"indexes", &s.Indexes, func() bool { return *s.Indexes >= 0 }, "0 or more"},
		{"period", &run.PeriodShare, func() bool { return run.PeriodShare > 0 && run.PeriodShare <= 1 }, "a share of the rows, more than 0 and at most 1: period = 0.1"},
		{"rate", &s.Rate, func() bool { return s.Rate > 0 }, "rows per second, or leave it out for as fast as possible"},
		{name: "max-time", into: (*time.Duration)(&s.MaxTime)},
	}
}

func (r *scenarioReader) run(t *tomlfile.Value, run ScriptedRun) {
	s := &run.Spec
	s.Layouts = slices.Clone(s.Layouts)
	keys := settings(&run)
	if r.d.Scan != nil {
		keys = []scenarioKey{choice("way", &run.Way, result.ScanWays()...)}
	}
	if r.d.Tables != nil {
		keys = []scenarioKey{{"set", &run.Set, func() bool { return strings.Contains(run.Set, "=") }, `a setting of the private server: set = "innodb_file_per_table=0"`}}
	}
	if r.d.Disk != nil {
		run.Job = result.Disk{Kind: result.DiskRandom, Depth: 1}
		keys = []scenarioKey{choice("kind", &run.Job.Kind, disk.Kinds()...), {name: "block", into: (*size)(&run.Job.BlockBytes)}, positive("depth", &run.Job.Depth),
			{"writes", &run.Job.WritePercent, func() bool { return run.Job.WritePercent >= 0 && run.Job.WritePercent <= 100 }, "a percentage, 0 to 100"}}
	}
	if r.d.HotRow != nil {
		keys = []scenarioKey{choice("way", &run.Way, oltp.HotWays()...), positive("clients", &run.Clients)}
	}
	if r.d.TPCC != nil {
		keys = []scenarioKey{{"option", &run.Option, func() bool { return strings.Contains(run.Option, "=") }, `an option of the target: option = "spider=2"`}}
	}
	r.table(t, append(keys, name(&run.Name), scenarioKey{name: "title", into: &run.Title})...)
	own := cmp.Or(t.Find("period"), t.Find("keep-periods"))
	switch {
	case run.Name == "":
		r.fail(t, `name = "plain"`, "a run has no name")
	case r.d.Run(run.Name) != nil:
		r.fail(t.Find("name"), "another name", "there are two runs called %q", run.Name)
	case r.d.Scan != nil && run.Way == "":
		r.fail(t, `way = "serial"`, "run %q has no way", run.Name)
	case r.d.Scan != nil && slices.ContainsFunc(r.d.Runs, func(o ScriptedRun) bool { return o.Way == run.Way }):
		r.fail(t.Find("way"), "another way", "there are two runs of way %s", run.Way)
	case r.d.Scan != nil:
		r.d.Scan.Ways = append(r.d.Scan.Ways, run.Way)
	case r.d.Tables != nil || r.d.TPCC != nil:
	case r.d.Disk != nil && run.Job.BlockBytes == 0 && slices.Contains([]string{result.DiskRandom, result.DiskSequential}, run.Job.Kind):
		r.fail(t, `block = "8KiB"`, "run %q has no block", run.Name)
	case r.d.Disk != nil:
	case r.d.HotRow != nil && (run.Way == "" || run.Clients == 0):
		r.fail(t, `way = "plain" and clients = 100`, "run %q has no way, or no clients", run.Name)
	case r.d.HotRow != nil:
	case s.Preset == "":
		r.fail(t, `preset = "classic", here or in [defaults]`, "run %q has no preset", run.Name)
	case s.Layouts[0] == workload.Plain && own != nil:
		r.fail(own, `layout = "rolling"`, "run %q is plain and has no periods", run.Name)
	case s.Layouts[0] == workload.Plain:
		run.PeriodShare, s.KeepPeriods = 0, 0 // the defaults are for runs that have periods
	}
	r.d.Runs = append(r.d.Runs, run)
}

func (r *scenarioReader) published(t *tomlfile.Value) {
	var p result.Published
	var span []float64
	r.table(t, scenarioKey{"run", &p.Run, func() bool { return r.d.Run(p.Run) != nil }, r.runNames()}, scenarioKey{name: "figure", into: &p.Figure},
		scenarioKey{"value", &p.Value, func() bool { return p.Value > 0 }, "more than 0"},
		scenarioKey{"range", &span, func() bool { return len(span) == 2 && span[0] < span[1] && span[0] >= 0 }, "its lower and its upper end: range = [6500, 12500]"},
		scenarioKey{name: "what", into: &p.What}, scenarioKey{name: "source", into: &p.Source})
	switch {
	case p.Source == "":
		r.fail(t, `source = "who published it, and where"`, "a published figure without a source")
	case (p.Value == 0) == (span == nil):
		r.fail(t, "value = 9000, or range = [6500, 12500]", "a published figure has either a value or a range")
	case span != nil && r.err == nil:
		p.Low, p.High = span[0], span[1]
		p.Value = (p.Low + p.High) / 2
	}
	r.figure(cmp.Or(t.Find("figure"), t), p.Run, p.Figure)
	r.d.Published = append(r.d.Published, p)
}

func (r *scenarioReader) figure(at *tomlfile.Value, run, figure string) {
	var all []string
	for _, k := range result.Figures() {
		all = append(all, k.Name)
	}
	of := r.d.Run(run)
	switch {
	case of == nil:
		r.fail(at, r.runNames(), "%q is not a run", run)
	case !slices.Contains(all, figure):
		r.fail(at, "one of "+strings.Join(all, ", "), "%q is not a figure of a run", figure)
	case strings.HasPrefix(figure, "scan-") != (r.d.Scan != nil):
		r.fail(at, "scan-all or scan-one of a partition scan, others of inserts", "run %q has no %s", run, figure)
	case strings.HasPrefix(figure, "table-") != (r.d.Tables != nil):
		r.fail(at, "table-disk and so on of many tables, others of inserts", "run %q has no %s", run, figure)
	case strings.HasPrefix(figure, "disk-") != (r.d.Disk != nil):
		r.fail(at, "disk-requests and so on of a disk, others of inserts", "run %q has no %s", run, figure)
	case strings.HasPrefix(figure, "hot-") != (r.d.HotRow != nil):
		r.fail(at, "hot-rate of counting in one row, others of inserts", "run %q has no %s", run, figure)
	case strings.HasPrefix(figure, "tpcc-") != (r.d.TPCC != nil):
		r.fail(at, "tpcc-orders and so on of bench tpcc, others of inserts", "run %q has no %s", run, figure)
	case strings.HasPrefix(figure, "period-") && of.Spec.Layouts[0] == workload.Plain:
		r.fail(at, "another figure, or a rolling run", "run %q is plain and has no %s", run, figure)
	}
}

func (r *scenarioReader) check(t *tomlfile.Value) {
	var c result.Check
	r.table(t, scenarioKey{name: "claim", into: &c.Claim}, scenarioKey{name: "figure", into: &c.Figure}, scenarioKey{name: "over", into: &c.Over},
		scenarioKey{name: "above", into: &c.Above}, scenarioKey{name: "below", into: &c.Below})
	for _, key := range []string{"figure", "over"} {
		v := t.Find(key)
		if v == nil && key == "over" {
			continue
		}
		v = cmp.Or(v, t)
		if run, figure, ok := strings.Cut(v.Text, "."); ok {
			r.figure(v, run, figure)
		} else {
			r.fail(v, `figure = "RUN.FIGURE", such as "plain.last"`, "%s = %q names no run's figure", key, v.Text)
		}
	}
	switch {
	case c.Claim == "":
		r.fail(t, `claim = "the plain table falls to under a tenth"`, "a check without a claim")
	case c.Above == nil && c.Below == nil:
		r.fail(t, "below = 0.1", "a check needs above, below or both")
	case c.Above != nil && c.Below != nil && *c.Above >= *c.Below:
		r.fail(t.Find("above"), "a smaller one", "above = %v isn't less than below = %v", *c.Above, *c.Below)
	}
	r.d.Checks = append(r.d.Checks, c)
}

// amount formats what a run makes at a scale: rows, tables, fans, transactions, or requests to a
// file.
func (d *Declaration) amount(scale float64) string {
	n := int64(math.Round(float64(d.Rows) * scale))
	switch {
	case d.Tables != nil:
		return figure.Plural(n, "table")
	case d.HotRow != nil:
		return figure.Plural(n, "fan")
	case d.Disk != nil:
		return fmt.Sprintf("requests for %v to a file of %s", d.DiskTime, figure.Bytes(scale*float64(d.Disk.FileBytes)))
	case d.TPCC != nil:
		share := "all"
		if scale != 1 {
			share = fmt.Sprint(scale)
		}
		return fmt.Sprintf("%v of transactions on %s, with %s of their rows,", d.TPCCTime, figure.Plural(d.TPCC.Warehouses, "warehouse"), share)
	}
	return rows(n)
}

// Explain describes the scenario to users: what it shows, its runs, and how long they take.
func (d *Declaration) Explain() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\n", d.Name, d.Title)
	for line := range strings.SplitSeq(d.Story, "\n") {
		fmt.Fprintln(&b, strings.TrimRight("  "+line, " "))
	}
	fmt.Fprintln(&b)
	width := 0
	for _, r := range d.Runs {
		width = max(width, len(r.Name))
	}
	for _, r := range d.Runs {
		fmt.Fprintf(&b, "  %-*s  %s\n", width, r.Name, r.Title)
	}
	fmt.Fprintf(&b, "\n  At scale 1 %s a run on %s, about %s on 2 cores.\n", d.amount(1), d.Target, figure.Duration(d.Takes.Seconds()))
	return b.String()
}
