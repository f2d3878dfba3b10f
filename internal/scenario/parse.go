package scenario

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/rowmill/rowmill/result"
)

// file is a declaration as it is written in TOML.
type file struct {
	Name   string  `toml:"name"`
	Title  string  `toml:"title"`
	Story  string  `toml:"story"`
	Rows   int64   `toml:"rows"`
	Takes  string  `toml:"takes"`
	Target string  `toml:"target"`
	Memory *memory `toml:"memory"`

	Durability string      `toml:"durability"`
	Defaults   settings    `toml:"defaults"`
	Runs       []run       `toml:"run"`
	Published  []published `toml:"published"`
	Checks     []check     `toml:"check"`
}

type memory struct {
	Share float64 `toml:"share"`
	Of    string  `toml:"of"`
}

// settings are the settings of a run; those not given are nil.
type settings struct {
	Preset      *string  `toml:"preset"`
	Layout      *string  `toml:"layout"`
	Method      *string  `toml:"method"`
	Writers     *int     `toml:"writers"`
	Batch       *int     `toml:"batch"`
	Indexes     *int     `toml:"indexes"`
	Period      *float64 `toml:"period"`
	KeepPeriods *int     `toml:"keep-periods"`
	Rate        *float64 `toml:"rate"`
	MaxTime     *string  `toml:"max-time"`
}

type run struct {
	Name  string `toml:"name"`
	Title string `toml:"title"`
	settings
}

type published struct {
	Run    string    `toml:"run"`
	Figure string    `toml:"figure"`
	Value  *float64  `toml:"value"`
	Range  []float64 `toml:"range"`
	What   string    `toml:"what"`
	Source string    `toml:"source"`
}

type check struct {
	Claim  string   `toml:"claim"`
	Figure string   `toml:"figure"`
	Over   string   `toml:"over"`
	Above  *float64 `toml:"above"`
	Below  *float64 `toml:"below"`
}

// An Error refers to one place of a declaration.
type Error struct {
	Source       string
	Line, Column int
	Text         string
	// Hint suggests a correction; it may be empty.
	Hint string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.Source, e.Line, e.Column, e.Text)
}

// Parse reads a declaration; source names it in errors.
func Parse(source string, text []byte) (*Declaration, error) {
	var f file
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
		return &Error{source, line, column, fmt.Sprintf("unknown key %q", key), knownKeys(key)}
	}
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		line, column := bad.Position()
		said := strings.TrimPrefix(bad.Error(), "toml: ")
		if m := wrongType.FindStringSubmatch(said); m != nil {
			said = fmt.Sprintf("%s is wanted here, not a %s", cmp.Or(typeNames[m[2]], "a table of keys"), m[1])
		}
		return &Error{source, line, column, said, "compare it with a scenario that is built in: rowmill bench scenario ec2-2012 --print"}
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
	"*string": "a text in quotes", "*int": "a whole number", "*float64": "a number", "[]float64": "a list of numbers",
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
	r.err = &Error{r.source, p.Line, p.Column, fmt.Sprintf(format, args...), hint}
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

func (r *reader) declaration(f *file) *Declaration {
	r.name("name", f.Name)
	switch {
	case f.Title == "":
		r.fail("title", `title = "what is to be seen"`, "title is missing")
	case f.Rows < 1:
		r.fail("rows", "rows = 1_000_000", "rows = %d: want how many each run inserts at scale 1", f.Rows)
	case len(f.Runs) == 0:
		r.fail("run", "[[run]] with a name", "there is no run")
	case !slices.Contains([]string{"", "full", "relaxed", "none"}, f.Durability):
		r.fail("durability", "full, relaxed or none", "unknown durability %q", f.Durability)
	}
	d := &Declaration{Name: f.Name, Title: f.Title, Story: strings.TrimSpace(f.Story), Rows: f.Rows,
		Takes: r.duration("takes", f.Takes), Target: cmp.Or(f.Target, "sandbox:mariadb"), Durability: f.Durability}
	r.checkSettings("defaults", f.Defaults)
	for i := range f.Runs {
		key := fmt.Sprintf("run[%d]", i)
		r.name(key+".name", f.Runs[i].Name)
		if d.Run(f.Runs[i].Name) != nil {
			r.fail(key+".name", "another name", "there are two runs called %q", f.Runs[i].Name)
		}
		r.checkSettings(key, f.Runs[i].settings)
		d.Runs = append(d.Runs, r.run(key, &f.Runs[i], f.Defaults))
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
func (r *reader) checkSettings(key string, s settings) {
	for name, v := range map[string]*int{"writers": s.Writers, "batch": s.Batch, "keep-periods": s.KeepPeriods} {
		if v != nil && *v < 1 {
			r.fail(key+"."+name, "a whole number from 1 up", "%s = %d", name, *v)
		}
	}
	if s.Indexes != nil && *s.Indexes < 0 {
		r.fail(key+".indexes", "0 or more", "indexes = %d", *s.Indexes)
	}
	if s.Layout != nil && *s.Layout != "plain" && *s.Layout != "rolling" {
		r.fail(key+".layout", "plain or rolling", "unknown layout %q", *s.Layout)
	}
	if s.Period != nil && !(*s.Period > 0 && *s.Period <= 1) {
		r.fail(key+".period", "period = 0.1 for a tenth of the rows", "period = %v: want a share of the rows, more than 0 and at most 1", *s.Period)
	}
	if s.Rate != nil && !(*s.Rate > 0 && !math.IsInf(*s.Rate, 0)) {
		r.fail(key+".rate", "rows per second, or leave it out for as fast as it goes", "rate = %v", *s.Rate)
	}
	if s.MaxTime != nil {
		r.duration(key+".max-time", *s.MaxTime)
	}
}

// run completes a run with the defaults.
func (r *reader) run(key string, f *run, def settings) Run {
	s := f.settings
	out := Run{
		Name: f.Name, Title: f.Title,
		Preset: of(s.Preset, def.Preset), Layout: cmp.Or(of(s.Layout, def.Layout), "plain"), Method: of(s.Method, def.Method),
		Writers: max(1, of(s.Writers, def.Writers)), Batch: of(s.Batch, def.Batch), Indexes: cmp.Or(s.Indexes, def.Indexes),
		PeriodShare: of(s.Period, def.Period), KeepPeriods: of(s.KeepPeriods, def.KeepPeriods), Rate: of(s.Rate, def.Rate),
		MaxTime: r.duration(key+".max-time", of(s.MaxTime, def.MaxTime)),
	}
	if out.Preset == "" {
		r.fail(key, `preset = "classic", here or in [defaults]`, "run %q has no preset", f.Name)
	}
	if out.Layout == "plain" {
		// Defaults of these settings apply only to runs that have periods.
		if s.Period != nil || s.KeepPeriods != nil {
			r.fail(key, `layout = "rolling"`, "run %q is plain and has no periods", f.Name)
		}
		out.PeriodShare, out.KeepPeriods = 0, 0
	}
	return out
}

// of returns a run's own setting, or else the default.
func of[T any](own, def *T) (v T) {
	if own = cmp.Or(own, def); own != nil {
		v = *own
	}
	return v
}

func (r *reader) published(key string, d *Declaration, f *published) result.Published {
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
	if strings.HasPrefix(figure, "period-") && d.Run(run) != nil && d.Run(run).Layout == "plain" {
		r.fail(figureKey, "another figure, or a rolling run", "run %q is plain and has no %s", run, figure)
	}
}

func (r *reader) check(key string, d *Declaration, f *check) result.Check {
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
