package experiment

import (
	"bytes"
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
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/textfile"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// A Declaration is a scenario as it is written in TOML: a list of runs, the published
// figures to compare them with, and the expected shape of the results.
type Declaration struct {
	Name, Title, Story string
	// Rows is the number of rows that each run inserts at scale 1.
	Rows int64
	// Takes is the approximate duration of all runs at scale 1 on two cores; 0 means
	// unknown.
	Takes time.Duration
	// Target is the database, without its memory and durability settings.
	Target     string
	Durability string // "" means the target's default
	// MemoryShare is the server's memory as a share of the final size of run
	// MemoryOf; 0 leaves the target's memory unchanged.
	MemoryShare float64
	MemoryOf    string

	Runs      []ScriptedRun
	Published []result.Published
	Checks    []result.Check

	// Text is the declaration's source text, Source the name of the file or of the
	// built-in scenario.
	Text, Source string
	at           positions
}

// A ScriptedRun is one run of a scenario.
type ScriptedRun struct {
	Name, Title string
	// Spec has the run's preset, layout, load and limit of time.
	Spec Spec
	// PeriodShare is a period's share of the rows; 0 means that two periods fit into
	// the database's cache.
	PeriodShare float64
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

// LoadScenario reads the built-in scenario of the given name, or a file if the name ends in
// .toml.
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
		return nil, refuse("rowmill bench scenario --list", "no scenario %q: built in are %s; a file of your own ends in .toml", name, strings.Join(Scenarios(), ", "))
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

// At returns the position of a run's setting key, as FILE:LINE:COLUMN. If the run
// doesn't have the setting, it returns that of the defaults.
func (d *Declaration) At(run, key string) string {
	i := slices.IndexFunc(d.Runs, func(r ScriptedRun) bool { return r.Name == run })
	for _, at := range []string{fmt.Sprintf("run[%d].%s", i, key), "defaults." + key, fmt.Sprintf("run[%d]", i)} {
		if p, ok := d.at[at]; ok {
			return fmt.Sprintf("%s:%d:%d", d.Source, p.Line, p.Column)
		}
	}
	return d.Source
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

// scenarioFile is a declaration as it is written in TOML.
type scenarioFile struct {
	Name   string `toml:"name"`
	Title  string `toml:"title"`
	Story  string `toml:"story"`
	Rows   int64  `toml:"rows"`
	Takes  string `toml:"takes"`
	Target string `toml:"target"`
	Memory *struct {
		Share float64 `toml:"share"`
		Of    string  `toml:"of"`
	} `toml:"memory"`

	Durability string           `toml:"durability"`
	Defaults   settings         `toml:"defaults"`
	Runs       []scenarioRun    `toml:"run"`
	Published  []scenarioFigure `toml:"published"`
	Checks     []scenarioCheck  `toml:"check"`
}

// settings are the settings of a run.
type settings struct {
	Preset      string  `toml:"preset"`
	Layout      string  `toml:"layout"`
	Method      string  `toml:"method"`
	Writers     int     `toml:"writers"`
	Batch       int     `toml:"batch"`
	Indexes     int     `toml:"indexes"`
	Period      float64 `toml:"period"`
	KeepPeriods int     `toml:"keep-periods"`
	Rate        float64 `toml:"rate"`
	MaxTime     string  `toml:"max-time"`
}

type scenarioRun struct {
	Name  string `toml:"name"`
	Title string `toml:"title"`
	settings
}

type scenarioFigure struct {
	Run    string    `toml:"run"`
	Figure string    `toml:"figure"`
	Value  *float64  `toml:"value"`
	Range  []float64 `toml:"range"`
	What   string    `toml:"what"`
	Source string    `toml:"source"`
}

type scenarioCheck struct {
	Claim  string   `toml:"claim"`
	Figure string   `toml:"figure"`
	Over   string   `toml:"over"`
	Above  *float64 `toml:"above"`
	Below  *float64 `toml:"below"`
}

// A DeclarationError refers to one place of a declaration.
type DeclarationError struct {
	Source       string
	Line, Column int
	Text         string
	// Hint suggests a correction; it may be empty.
	Hint string
}

func (e *DeclarationError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.Source, e.Line, e.Column, e.Text)
}

// ParseScenario reads a declaration; source names it in errors.
func ParseScenario(source string, text []byte) (*Declaration, error) {
	d, err := parseScenario(source, text)
	var bad *DeclarationError
	if errors.As(err, &bad) {
		return nil, refuse(bad.Hint, "%w", err)
	}
	return d, err
}

func parseScenario(source string, text []byte) (*Declaration, error) {
	var f scenarioFile
	dec := toml.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return nil, syntax(source, text, err)
	}
	at, err := positionsOf(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	r := reader{source: source, at: at}
	d := r.declaration(&f)
	if r.err != nil {
		return nil, r.err
	}
	d.Text, d.Source, d.at = string(text), source, at
	return d, nil
}

// syntax adds the position to an error of the TOML reader.
func syntax(source string, text []byte, err error) error {
	var unknown *toml.StrictMissingError
	if errors.As(err, &unknown) && len(unknown.Errors) > 0 {
		first := &unknown.Errors[0]
		line, column := first.Position()
		key := strings.Join(first.Key(), ".")
		// The reader omits the name of an inline table.
		if at, err := positionsOf(text); err == nil {
			for full, p := range at {
				if p == (position{line, column}) {
					key = elements.ReplaceAllString(full, "")
				}
			}
		}
		return &DeclarationError{source, line, column, fmt.Sprintf("unknown key %q", key), knownKeys(key)}
	}
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		line, column := bad.Position()
		said := strings.TrimPrefix(bad.Error(), "toml: ")
		if m := wrongType.FindStringSubmatch(said); m != nil {
			said = fmt.Sprintf("%s is wanted here, not a %s", cmp.Or(typeNames[m[2]], "a table of keys"), m[1])
		}
		return &DeclarationError{source, line, column, said, "compare it with a built-in scenario: rowmill bench scenario ec2-2012 --print"}
	}
	return fmt.Errorf("%s: %w", source, err)
}

// elements matches the array indexes in the keys of positions.
var elements = regexp.MustCompile(`\[[0-9]+\]`)

// wrongType matches the reader's message for a value that doesn't fit the type of a
// Go field.
var wrongType = regexp.MustCompile(`^cannot decode TOML (.+) into .*of type (\S+)$`)

var typeNames = map[string]string{
	"string": "a text in quotes", "int": "a whole number", "int64": "a whole number", "float64": "a number",
	"*float64": "a number", "[]float64": "a list of numbers",
}

// knownKeys lists the keys that are valid in place of a key.
func knownKeys(key string) string {
	const settings = "preset, layout, method, writers, batch, indexes, period, keep-periods, rate, max-time"
	table, _, nested := strings.Cut(key, ".")
	if !nested {
		table = ""
	}
	keys, ok := map[string]string{
		"":          "name, title, story, rows, takes, target, durability, and the tables memory, defaults, run, published, check",
		"memory":    "share, of",
		"defaults":  settings,
		"run":       "name, title, " + settings,
		"published": "run, figure, value, range, what, source",
		"check":     "claim, figure, over, above, below",
	}[table]
	if !ok {
		return ""
	}
	if table != "" {
		return "one of [" + table + "]'s keys: " + keys
	}
	return "one of the keys " + keys
}

// A reader checks a file and keeps the first error.
type reader struct {
	source string
	at     positions
	err    error
}

// fail records an error at a key, or at its nearest ancestor that is present.
func (r *reader) fail(key, hint, format string, args ...any) {
	if r.err != nil {
		return
	}
	p := position{1, 1}
	for k := key; k != ""; k = k[:max(strings.LastIndexAny(k, ".["), 0)] {
		if found, ok := r.at[k]; ok {
			p = found
			break
		}
	}
	r.err = &DeclarationError{r.source, p.Line, p.Column, fmt.Sprintf(format, args...), hint}
}

var names = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

func (r *reader) name(key, name string) {
	switch {
	case name == "":
		r.fail(key, `name = "plain"`, "%s is missing", key)
	case !names.MatchString(name):
		r.fail(key, "lower-case letters, digits and dashes", "%s %q can't be a name", key, name)
	}
}

func (r *reader) duration(key, text string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		r.fail(key, `"90s", or "2h30m"`, "%s = %q is no time", key, text)
	}
	return d
}

func (r *reader) declaration(f *scenarioFile) *Declaration {
	r.name("name", f.Name)
	switch {
	case f.Title == "":
		r.fail("title", `title = "what is to be seen"`, "title is missing")
	case f.Rows < 1:
		r.fail("rows", "rows = 1_000_000", "rows = %d: want how many each run inserts at scale 1", f.Rows)
	case len(f.Runs) == 0:
		r.fail("run", "[[run]] with a name", "there is no run")
	case !slices.Contains([]string{"", sandbox.Full, sandbox.Relaxed, sandbox.None}, f.Durability):
		r.fail("durability", "full, relaxed or none", "unknown durability %q", f.Durability)
	}
	d := &Declaration{Name: f.Name, Title: f.Title, Story: strings.TrimSpace(f.Story), Rows: f.Rows,
		Takes: r.duration("takes", f.Takes), Target: cmp.Or(f.Target, target.DefaultServer), Durability: f.Durability}
	r.checkSettings("defaults", &f.Defaults)
	for i := range f.Runs {
		key := fmt.Sprintf("run[%d]", i)
		r.name(key+".name", f.Runs[i].Name)
		if d.Run(f.Runs[i].Name) != nil {
			r.fail(key+".name", "another name", "there are two runs called %q", f.Runs[i].Name)
		}
		r.checkSettings(key, &f.Runs[i].settings)
		d.Runs = append(d.Runs, r.run(key, &f.Runs[i], &f.Defaults))
	}
	if f.Memory != nil && r.err == nil {
		d.MemoryShare, d.MemoryOf = f.Memory.Share, cmp.Or(f.Memory.Of, d.Runs[0].Name)
		if s := d.MemoryShare; !(s > 0 && s <= 10) {
			r.fail("memory.share", "share = 0.25 for a quarter of the final size", "memory.share = %v: want more than 0 and at most 10", s)
		}
		if d.Run(d.MemoryOf) == nil {
			r.fail("memory.of", runNames(d), "memory.of = %q is no run", d.MemoryOf)
		}
	}
	for i := range f.Published {
		d.Published = append(d.Published, r.published(fmt.Sprintf("published[%d]", i), d, &f.Published[i]))
	}
	for i := range f.Checks {
		d.Checks = append(d.Checks, r.check(fmt.Sprintf("check[%d]", i), d, &f.Checks[i]))
	}
	return d
}

func runNames(d *Declaration) string {
	var all []string
	for _, r := range d.Runs {
		all = append(all, r.Name)
	}
	return "one of " + strings.Join(all, ", ")
}

// checkSettings refuses values that are invalid for every run.
func (r *reader) checkSettings(key string, s *settings) {
	wrong := func(name string, valid bool, hint, format string, args ...any) {
		if _, given := r.at[key+"."+name]; given && !valid {
			r.fail(key+"."+name, hint, format, args...)
		}
	}
	const positive = "a whole number from 1 up"
	wrong("writers", s.Writers > 0, positive, "writers = %d", s.Writers)
	wrong("batch", s.Batch > 0, positive, "batch = %d", s.Batch)
	wrong("keep-periods", s.KeepPeriods > 0, positive, "keep-periods = %d", s.KeepPeriods)
	wrong("indexes", s.Indexes >= 0, "0 or more", "indexes = %d", s.Indexes)
	wrong("layout", slices.Contains(workload.Layouts(), s.Layout), "plain or rolling", "unknown layout %q", s.Layout)
	wrong("period", s.Period > 0 && s.Period <= 1, "period = 0.1 for a tenth of the rows", "period = %v: want a share of the rows, more than 0 and at most 1", s.Period)
	wrong("rate", s.Rate > 0 && !math.IsInf(s.Rate, 0), "rows per second, or leave it out for as fast as it goes", "rate = %v", s.Rate)
	if s.MaxTime != "" {
		r.duration(key+".max-time", s.MaxTime)
	}
}

// run completes a run with the defaults.
func (r *reader) run(key string, f *scenarioRun, defaults *settings) ScriptedRun {
	given := func(name string) bool {
		_, ok := r.at[key+"."+name]
		return ok
	}
	from := func(name string) *settings {
		if given(name) {
			return &f.settings
		}
		return defaults
	}
	out := ScriptedRun{Name: f.Name, Title: f.Title, PeriodShare: from("period").Period, Spec: Spec{
		Preset: from("preset").Preset, Layouts: []string{cmp.Or(from("layout").Layout, workload.Plain)}, Method: from("method").Method,
		Writers: max(1, from("writers").Writers), Batch: from("batch").Batch, KeepPeriods: from("keep-periods").KeepPeriods,
		Rate: from("rate").Rate, MaxTime: Duration(r.duration(key+".max-time", from("max-time").MaxTime)),
	}}
	if _, ok := r.at["defaults.indexes"]; ok || given("indexes") {
		out.Spec.Indexes = &from("indexes").Indexes
	}
	if out.Spec.Preset == "" {
		r.fail(key, `preset = "classic", here or in [defaults]`, "run %q has no preset", f.Name)
	}
	if out.Spec.Layouts[0] == workload.Plain {
		// Defaults of these settings apply only to runs that have periods.
		if given("period") || given("keep-periods") {
			r.fail(key, `layout = "rolling"`, "run %q is plain and has no periods", f.Name)
		}
		out.PeriodShare, out.Spec.KeepPeriods = 0, 0
	}
	return out
}

func (r *reader) published(key string, d *Declaration, f *scenarioFigure) result.Published {
	out := result.Published{Run: f.Run, Figure: f.Figure, What: f.What, Source: f.Source}
	r.figure(key, d, f.Run, key+".run", f.Figure, key+".figure")
	switch {
	case f.Source == "":
		r.fail(key, `source = "who published it, and where"`, "a published figure without a source")
	case (f.Value == nil) == (f.Range == nil):
		r.fail(key, "value = 9000, or range = [6500, 12500]", "a published figure has either a value or a range")
	case f.Range != nil && (len(f.Range) != 2 || f.Range[0] >= f.Range[1] || f.Range[0] < 0):
		r.fail(key+".range", "range = [6500, 12500]", "range = %v: want its lower and its upper end", f.Range)
	case f.Range != nil:
		out.Low, out.High = f.Range[0], f.Range[1]
		out.Value = (out.Low + out.High) / 2
	case *f.Value <= 0:
		r.fail(key+".value", "more than 0", "value = %v", *f.Value)
	default:
		out.Value = *f.Value
	}
	return out
}

// figure refuses a run or a figure that doesn't exist.
func (r *reader) figure(key string, d *Declaration, run, runKey, figure, figureKey string) {
	if d.Run(run) == nil {
		r.fail(runKey, runNames(d), "%q is no run", run)
	}
	var all []string
	for _, k := range result.Figures() {
		all = append(all, k.Name)
	}
	if !slices.Contains(all, figure) {
		r.fail(figureKey, "one of "+strings.Join(all, ", "), "%q is no figure of a run", figure)
	}
	if strings.HasPrefix(figure, "period-") && d.Run(run) != nil && d.Run(run).Spec.Layouts[0] == workload.Plain {
		r.fail(figureKey, "another figure, or a rolling run", "run %q is plain and has no %s", run, figure)
	}
}

func (r *reader) check(key string, d *Declaration, f *scenarioCheck) result.Check {
	for name, ref := range map[string]string{"figure": f.Figure, "over": f.Over} {
		if ref == "" && name == "over" {
			continue
		}
		run, figure, ok := strings.Cut(ref, ".")
		if !ok {
			r.fail(key+"."+name, `figure = "RUN.FIGURE", such as "plain.last"`, "%s = %q names no run's figure", name, ref)
			continue
		}
		r.figure(key, d, run, key+"."+name, figure, key+"."+name)
	}
	switch {
	case f.Claim == "":
		r.fail(key, `claim = "the plain table falls to under a tenth"`, "a check without a claim")
	case f.Above == nil && f.Below == nil:
		r.fail(key, "below = 0.1", "a check needs above, below or both")
	case f.Above != nil && f.Below != nil && *f.Above >= *f.Below:
		r.fail(key+".above", "a smaller one", "above = %v isn't less than below = %v", *f.Above, *f.Below)
	}
	return result.Check{Claim: f.Claim, Figure: f.Figure, Over: f.Over, Above: f.Above, Below: f.Below}
}

// A position is a line and a column in a text, both counted from 1.
type position struct{ Line, Column int }

// positions maps the keys of a declaration to their positions: "memory.share",
// "run[1].layout", "run[1]".
type positions map[string]position

// positionsOf finds all keys of a text that was parsed without an error.
func positionsOf(text []byte) (positions, error) {
	out := positions{}
	var p unstable.Parser
	p.Reset(text)
	table, elements := "", map[string]int{}
	for p.NextExpression() {
		e := p.Expression()
		name, at := keyOf(&p, e)
		switch e.Kind {
		case unstable.Table:
			table = name + "."
			out[name] = at
		case unstable.ArrayTable:
			element := fmt.Sprintf("%s[%d]", name, elements[name])
			elements[name]++
			table = element + "."
			out[element] = at
		case unstable.KeyValue:
			out.add(&p, table+name, at, e.Value())
		}
	}
	return out, p.Error()
}

// add records a key and, if its value is an inline table, the keys in it.
func (ps positions) add(p *unstable.Parser, key string, at position, value *unstable.Node) {
	ps[key] = at
	if value.Kind != unstable.InlineTable {
		return
	}
	for it := value.Children(); it.Next(); {
		if n := it.Node(); n.Kind == unstable.KeyValue {
			name, at := keyOf(p, n)
			ps.add(p, key+"."+name, at, n.Value())
		}
	}
}

// keyOf returns the key of an expression and its position.
func keyOf(p *unstable.Parser, e *unstable.Node) (string, position) {
	if e.Kind != unstable.Table && e.Kind != unstable.ArrayTable && e.Kind != unstable.KeyValue {
		return "", position{}
	}
	var parts []string
	var at position
	for it := e.Key(); it.Next(); {
		n := it.Node()
		if len(parts) == 0 {
			start := p.Shape(n.Raw).Start
			at = position{start.Line, start.Column}
		}
		parts = append(parts, string(n.Data))
	}
	return strings.Join(parts, "."), at
}
