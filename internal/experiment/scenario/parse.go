package scenario

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/tomlfile"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/internal/workload/disk"
	"github.com/rowmill/rowmill/internal/workload/oltp"
	"github.com/rowmill/rowmill/result"
)

// kinds are the kinds of runs other than inserts. A scenario of one of these kinds has no section
// of another kind, no defaults of inserts, no share of memory, and none of the keys in the field
// without.
var kinds = []struct {
	does, noun string
	// figures is the prefix of the names of the figures that only such a run has.
	figures string
	without []string
}{
	{Scan, "a partition scan", "scan-", nil},
	{Tables, "a scenario of many tables", "table-", nil},
	{HotRow, "a scenario of counting in one row", "hot-", nil},
	{Disk, "a scenario of a disk", "disk-", []string{"rows", "durability"}},
	{TPCC, "a scenario of bench tpcc", "tpcc-", []string{"rows"}},
}

// Parse reads a declaration; source names it in errors. Unknown keys, invalid values and references
// to runs and figures that don't exist are refused, with their place and a hint. Values that only
// an engine or a workload knows, such as the names of presets, are checked when the scenario is
// planned.
func Parse(source string, text []byte) (*Declaration, error) {
	root, err := tomlfile.Parse(text)
	if err != nil {
		return nil, engine.Hinted(fmt.Errorf("%s:%w", source, err), "compare it with a built-in scenario: rowmill bench scenario ec2-2012 --print")
	}
	r := reader{d: &Declaration{Text: string(text), Source: source, root: root}}
	r.read(root)
	return r.d, r.err
}

// A reader fills in a declaration and keeps the first error.
type reader struct {
	d   *Declaration
	err error
}

func (r *reader) fail(at *tomlfile.Value, hint, format string, args ...any) {
	if r.err == nil {
		r.err = engine.Hinted(fmt.Errorf("%s:%d:%d: %s", r.d.Source, at.Line, at.Column, fmt.Sprintf(format, args...)), "%s", hint)
	}
}

type key struct {
	name string
	// into receives the value: a text, a number, a duration, or a list of numbers. If the key is
	// missing, a pointer stays nil. If into is a tomlfile.Kind, the value must be of that kind, a
	// table or tables, which the caller reads.
	into any
	// valid, unless nil, reports whether the value is valid; want says which values are.
	valid func() bool
	want  string
}

// table reads the keys of a table. It refuses unknown keys and invalid values.
func (r *reader) table(t *tomlfile.Value, keys ...key) {
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
		want := take(v, keys[i].into)
		if want == "" && keys[i].valid != nil && !keys[i].valid() {
			want = keys[i].want
		}
		if want != "" {
			written := cmp.Or(v.Text, v.What())
			if v.Kind == tomlfile.Text {
				written = strconv.Quote(v.Text)
			}
			r.fail(v, want, "%s = %s: want %s", v.Key, written, want)
		}
	}
}

// size is a number of bytes that is written with its unit.
type size int64

// take stores a value. If the value has the wrong kind, it returns the kind that is wanted.
func take(v *tomlfile.Value, into any) (want string) {
	var right bool
	switch p := into.(type) {
	case tomlfile.Kind:
		want, right = "a table of keys, or [[tables]] for runs, published figures and checks", v.Kind == p
	case *string:
		*p = v.Text
		want, right = "a quoted string", v.Kind == tomlfile.Text
	case *time.Duration:
		d, err := time.ParseDuration(v.Text)
		*p = d
		want, right = `a time, such as "90s" or "2h30m"`, v.Kind == tomlfile.Text && err == nil && d > 0
	case *size:
		n, err := engine.ParseBytes(v.Text)
		*p = size(n)
		want, right = `a size, such as "8KiB" or "1GB"`, v.Kind == tomlfile.Text && err == nil
	case *int64:
		n, err := v.Integer()
		*p = n
		want, right = "a whole number", v.Kind == tomlfile.Whole && err == nil
	case *int:
		var n int64
		want = take(v, &n)
		*p, right = int(n), want == ""
	case **int:
		*p = new(int)
		return take(v, *p)
	case *float64:
		f, err := strconv.ParseFloat(strings.ReplaceAll(v.Text, "_", ""), 64)
		*p = f
		want, right = "a number", (v.Kind == tomlfile.Whole || v.Kind == tomlfile.Number) && err == nil && !math.IsInf(f, 0)
	case **float64:
		*p = new(float64)
		return take(v, *p)
	case *[]float64:
		*p = make([]float64, len(v.In))
		want, right = "a list of numbers", v.Kind == tomlfile.List
		for i, e := range v.In {
			right = right && take(e, &(*p)[i]) == ""
		}
	}
	if right {
		return ""
	}
	return want
}

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

func nameKey(into *string) key {
	return key{"name", into, func() bool { return validName.MatchString(*into) }, "lower-case letters, digits and dashes"}
}

func choice(name string, into *string, of ...string) key {
	return key{name, into, func() bool { return slices.Contains(of, *into) }, "one of " + strings.Join(of, ", ")}
}

func positive(name string, into *int) key {
	return key{name, into, func() bool { return *into > 0 }, "a whole number from 1 up"}
}

func (r *reader) read(root *tomlfile.Value) {
	d := r.d
	keys := []key{nameKey(&d.Name), {name: "title", into: &d.Title}, {name: "story", into: &d.Story},
		{"rows", &d.Rows, func() bool { return d.Rows > 0 }, "rows = 1_000_000, how many each run inserts at scale 1"},
		{name: "takes", into: &d.Takes}, {name: "target", into: &d.Target},
		choice("durability", &d.Durability, sandbox.Full, sandbox.Relaxed, sandbox.None),
		{name: "memory", into: tomlfile.Table}, {name: "defaults", into: tomlfile.Table},
		{name: "run", into: tomlfile.Tables}, {name: "published", into: tomlfile.Tables}, {name: "check", into: tomlfile.Tables}}
	for _, k := range kinds {
		keys = append(keys, key{name: k.does, into: tomlfile.Table})
		if root.Find(k.does) != nil {
			d.Does = cmp.Or(d.Does, k.does)
		}
	}
	r.table(root, keys...)
	for _, m := range [][2]string{{"name", `name = "plain"`}, {"title", `title = "what the scenario shows"`}, {"rows", "rows = 1_000_000"}, {"run", "[[run]] with a name"}} {
		if root.Find(m[0]) == nil && (m[0] != "rows" || d.Does != Disk && d.Does != TPCC) {
			r.fail(root, m[1], "%s is missing", m[0])
		}
	}
	if r.err != nil {
		return
	}
	d.Story, d.Target = strings.TrimSpace(d.Story), cmp.Or(d.Target, target.DefaultServer)
	r.section(root)
	defaults := Run{Layout: workload.Plain, Writers: 1}
	r.table(root.Find("defaults"), insertKeys(&defaults)...)
	for _, t := range root.Find("run").In {
		r.run(t, defaults)
	}
	if m := root.Find("memory"); m != nil && r.err == nil {
		d.MemoryOf = d.Runs[0].Name
		share := func() bool { return d.MemoryShare > 0 && d.MemoryShare <= 10 }
		r.table(m, key{"share", &d.MemoryShare, share, "a share of the final size, more than 0 and at most 10: share = 0.25"},
			key{"of", &d.MemoryOf, func() bool { return d.Run(d.MemoryOf) != nil }, r.runNames()})
		if m.Find("share") == nil {
			r.fail(m, "share = 0.25", "memory has no share")
		}
	}
	if p := root.Find("published"); p != nil {
		for _, t := range p.In {
			r.published(t)
		}
	}
	if c := root.Find("check"); c != nil {
		for _, t := range c.In {
			r.check(t)
		}
	}
}

// section reads the section of a scenario that does not insert.
func (r *reader) section(root *tomlfile.Value) {
	d := r.d
	t := root.Find(d.Does)
	switch d.Does {
	case Scan:
		d.Partitions, d.Step = 1, 1
		r.table(t, positive("partitions", &d.Partitions), positive("step", &d.Step))
	case Tables:
		d.Connections, d.Open = 1, 1
		r.table(t, positive("connections", &d.Connections), positive("open", &d.Open))
	case HotRow:
		r.table(t, key{name: "cache", into: &d.Cache})
	case Disk:
		if root.Find("target") == nil {
			d.Target = "."
		}
		d.FileBytes, d.Time = 1<<30, 3*time.Second
		r.table(t, key{name: "size", into: (*size)(&d.FileBytes)}, key{name: "time", into: &d.Time})
	case TPCC:
		d.Warehouses, d.Terminals, d.Time = 1, 10, time.Minute
		r.table(t, positive("warehouses", &d.Warehouses), positive("terminals", &d.Terminals), key{name: "time", into: &d.Time})
	}
	without := []string{"defaults", "memory"}
	for _, k := range kinds {
		without = append(without, k.does)
	}
	for _, k := range kinds {
		if k.does != d.Does {
			continue
		}
		for _, name := range slices.Concat(without, k.without) {
			if also := root.Find(name); also != nil && name != d.Does {
				r.fail(also, "no "+name, "%s has no %s", k.noun, name)
			}
		}
	}
}

func (r *reader) runNames() string {
	var all []string
	for _, run := range r.d.Runs {
		all = append(all, run.Name)
	}
	return "one of " + strings.Join(all, ", ")
}

func insertKeys(run *Run) []key {
	return []key{
		{name: "preset", into: &run.Preset}, choice("layout", &run.Layout, workload.Layouts()...), {name: "method", into: &run.Method},
		positive("writers", &run.Writers), positive("batch", &run.Batch), positive("keep-periods", &run.KeepPeriods),
		{"indexes", &run.Indexes, func() bool { return *run.Indexes >= 0 }, "0 or more"},
		{"period", &run.PeriodShare, func() bool { return run.PeriodShare > 0 && run.PeriodShare <= 1 }, "a share of the rows, more than 0 and at most 1: period = 0.1"},
		{"rate", &run.Rate, func() bool { return run.Rate > 0 }, "rows per second, or leave it out for as fast as possible"},
		{name: "max-time", into: &run.MaxTime},
	}
}

// run reads a run. Inserts begin with the values of defaults.
func (r *reader) run(t *tomlfile.Value, run Run) {
	d := r.d
	var keys []key
	switch d.Does {
	case Scan:
		keys = []key{choice("way", &run.Way, result.ScanWays()...)}
	case Tables:
		keys = []key{{"set", &run.Set, func() bool { return strings.Contains(run.Set, "=") }, `a setting of the private server: set = "innodb_file_per_table=0"`}}
	case HotRow:
		keys = []key{choice("way", &run.Way, oltp.HotWays()...), positive("clients", &run.Clients)}
	case Disk:
		run.Job = result.Disk{Kind: result.DiskRandom, Depth: 1}
		keys = []key{choice("kind", &run.Job.Kind, disk.Kinds()...), {name: "block", into: (*size)(&run.Job.BlockBytes)}, positive("depth", &run.Job.Depth),
			{"writes", &run.Job.WritePercent, func() bool { return run.Job.WritePercent >= 0 && run.Job.WritePercent <= 100 }, "a percentage, 0 to 100"}}
	case TPCC:
		keys = []key{{"option", &run.Option, func() bool { return strings.Contains(run.Option, "=") }, `an option of the target: option = "spider=2"`}}
	default:
		keys = insertKeys(&run)
	}
	r.table(t, append(keys, nameKey(&run.Name), key{name: "title", into: &run.Title})...)
	sized := run.Job.Kind == result.DiskRandom || run.Job.Kind == result.DiskSequential
	for _, m := range []struct {
		missing bool
		example string
	}{
		{run.Name == "", `name = "plain"`},
		{(d.Does == Scan || d.Does == HotRow) && run.Way == "", `way = "serial"`},
		{d.Does == HotRow && run.Clients == 0, "clients = 100"},
		{sized && run.Job.BlockBytes == 0, `block = "8KiB"`},
		{d.Does == Inserts && run.Preset == "", `preset = "classic", here or in [defaults]`},
	} {
		if name, _, _ := strings.Cut(m.example, " "); m.missing {
			r.fail(t, m.example, "run %q has no %s", run.Name, name)
		}
	}
	if d.Run(run.Name) != nil {
		r.fail(t.Find("name"), "another name", "there are two runs called %q", run.Name)
	}
	if d.Does == Scan && slices.ContainsFunc(d.Runs, func(o Run) bool { return o.Way == run.Way }) {
		r.fail(t.Find("way"), "another way", "there are two runs of way %s", run.Way)
	}
	if run.Layout == workload.Plain {
		if own := cmp.Or(t.Find("period"), t.Find("keep-periods")); own != nil {
			r.fail(own, `layout = "rolling"`, "run %q is plain and has no periods", run.Name)
		}
		run.PeriodShare, run.KeepPeriods = 0, 0 // the defaults are for runs that have periods
	}
	d.Runs = append(d.Runs, run)
}

func (r *reader) published(t *tomlfile.Value) {
	var p result.Published
	var span []float64
	r.table(t, key{"run", &p.Run, func() bool { return r.d.Run(p.Run) != nil }, r.runNames()}, key{name: "figure", into: &p.Figure},
		key{"value", &p.Value, func() bool { return p.Value > 0 }, "more than 0"},
		key{"range", &span, func() bool { return len(span) == 2 && span[0] < span[1] && span[0] >= 0 }, "its lower and its upper end: range = [6500, 12500]"},
		key{name: "what", into: &p.What}, key{name: "source", into: &p.Source})
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

// figure refuses a figure that a run doesn't have.
func (r *reader) figure(at *tomlfile.Value, run, figure string) {
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
	case strings.HasPrefix(figure, "period-") && of.Layout == workload.Plain:
		r.fail(at, "another figure, or a rolling run", "run %q is plain and has no %s", run, figure)
	}
	for _, k := range kinds {
		if strings.HasPrefix(figure, k.figures) != (r.d.Does == k.does) {
			r.fail(at, "figures with "+k.figures+" for "+k.noun+", others for inserts", "run %q has no %s", run, figure)
		}
	}
}

func (r *reader) check(t *tomlfile.Value) {
	var c result.Check
	r.table(t, key{name: "claim", into: &c.Claim}, key{name: "figure", into: &c.Figure}, key{name: "over", into: &c.Over},
		key{name: "above", into: &c.Above}, key{name: "below", into: &c.Below})
	for _, name := range []string{"figure", "over"} {
		v := t.Find(name)
		if v == nil && name == "over" {
			continue
		}
		v = cmp.Or(v, t)
		if run, figure, ok := strings.Cut(v.Text, "."); ok {
			r.figure(v, run, figure)
		} else {
			r.fail(v, `figure = "RUN.FIGURE", such as "plain.last"`, "%s = %q names no run's figure", name, v.Text)
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
