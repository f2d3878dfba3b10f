package report

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/report/reference"
	"github.com/rowmill/rowmill/internal/statistics"
	"github.com/rowmill/rowmill/result"
)

// A projection shows the records of one family as a grid of three factors: a section for each level
// of the first (e.g. an operation), an axis with the levels of the second, which are numbers (e.g.
// of clients), and a line for each level of the third (e.g. a server). The third factor's first
// level is the base of the ratios. All families share the formats, doubts and comparisons. A new
// family needs only its samples, its measures and the sentences of its results (see hotRows), and a
// line in families.
type projection struct {
	*grid
	recs []result.Record
	vs   []view
	// who is the index of each record's contender.
	who        []int
	contenders []Contender

	title    string
	subtitle []string
	// measures describes the figures of a section's samples. Ratios are those of the first figure.
	measures func(section string) []measure
	// verdict returns the results of a section in sentences; strong sets them in large type.
	verdict func(s *panel) []string
	strong  bool
	// axes are the names of axes by section; other axes have the name of the second factor.
	axes map[string]string
	// doubling makes the axis logarithmic. text returns an explanation below a section's table.
	doubling bool
	text     func(s *panel) string
	// about has facts besides the contenders' and the machine's, serious the notes that come first.
	about   document.Facts
	serious []document.Note
	// drawn replaces the measures' charts, unless it is nil.
	drawn document.Charts
	// fits are lines fitted to the figures.
	fits []Fit
	// more has the family's own parts, after the sections of the grid.
	more []document.Part
}

// A measure is one figure of a sample.
type measure struct {
	key, name string // key in JSON, with the unit; name of the column
	format    func(float64) string
	// of returns the figure of a run, NaN if it isn't known; nil if the family adds samples itself.
	of func(v *view) float64
	// chart is the title of the measure's chart; "" for no chart. The axis shows figures divided by
	// per, e.g. by 1e6 for MB; 0 is the same as 1.
	chart string
	per   float64
	log   bool
	// compared figures take part in comparisons of records. smaller means that smaller is better.
	compared, smaller bool
}

// A Contender is one of the compared databases, or a database with a setting.
type Contender struct {
	Label         string `json:"label"`
	Engine        string `json:"engine"`
	ServerVersion string `json:"server_version"`
	Storage       string `json:"storage,omitempty"`
	Target        string `json:"target"`
	Durability    string `json:"durability,omitempty"`
	CacheBytes    int64  `json:"cache_bytes,omitempty"`
	// Setting is NAME=VALUE.
	Setting string `json:"setting,omitempty"`
	Source  string `json:"source,omitempty"`
}

// A Grid is a projection as JSON.
type Grid struct {
	Contenders []Contender     `json:"contenders"`
	Factors    []result.Factor `json:"factors"`
	Cells      []GridCell      `json:"cells"`
	Verdicts   []string        `json:"verdicts"`
	Fits       []Fit           `json:"fits,omitempty"`
	// Problems lists what a reader must know before the figures.
	Problems []string `json:"problems"`
}

// A GridCell has medians over its runs.
type GridCell struct {
	// Levels are in the order of the factors.
	Levels []string `json:"levels"`
	Runs   int      `json:"runs"`
	// The names of Figures include their units. If the first figure has several values, NAME_low and
	// NAME_high are the least and the greatest.
	Figures map[string]float64 `json:"figures"`
	// Ratio is the first figure relative to that of the base cell; it is above 1 if this cell is
	// better. Interval is the ratio's 95% confidence interval, from how much the pairs of runs vary.
	Ratio      *float64           `json:"ratio"`
	Interval   *statistics.Bounds `json:"ratio_95"`
	Verdict    string             `json:"verdict,omitempty"`
	Incomplete bool               `json:"incomplete,omitempty"`
	doubts
}

// doubts are the reasons to doubt a cell's figures.
type doubts struct {
	// ClientBound: the clients spent more than half of their time on their own work. ClientHeavy:
	// client and server together used nearly all of this machine's cores, and the client more than the
	// server.
	ClientBound bool `json:"client_bound,omitempty"`
	ClientHeavy bool `json:"client_heavy,omitempty"`
	// OthersShare is the share of all cores that other programs used during the run. StealShare is the
	// share that the machine's host gave to other machines.
	OthersShare *float64 `json:"others_share,omitempty"`
	StealShare  float64  `json:"steal_share,omitempty"`
}

func (d *doubts) crowded() bool {
	return d.OthersShare != nil && *d.OthersShare+d.StealShare > crowdedShare
}

// crowd says who used the cores.
func (d *doubts) crowd() string {
	if !d.crowded() {
		return ""
	}
	part := func(who string, share float64) string { return onlyIf(share >= 0.01, who+percent(share)) }
	return document.Listed(", ", part("others ", *d.OthersShare), part("steal ", d.StealShare))
}

// A machine is full if this share of its cores (machineFull) is used. A run is doubtful if other
// programs and the host took more than this share of them (crowdedShare).
const (
	machineFull  = 0.8
	crowdedShare = 0.1
)

func newProjection(recs []result.Record, factors ...string) *projection {
	p := &projection{grid: newGrid(factors...), recs: recs}
	type identity struct{ source, target, setting, side string }
	at, files := map[identity]int{}, map[string]bool{}
	for i := range recs {
		r := &recs[i].Run
		key := identity{source: recs[i].Source, target: r.Target}
		if r.Speed != nil {
			key.setting, key.side = r.Speed.Setting, r.Side
		}
		if _, ok := at[key]; !ok {
			at[key] = len(p.contenders)
			p.contenders = append(p.contenders, Contender{Engine: r.Engine, ServerVersion: r.ServerVersion, Storage: r.Storage,
				Target: r.Target, Durability: r.Durability, CacheBytes: r.CacheBytes, Setting: key.setting, Source: recs[i].Source})
		}
		files[recs[i].Source] = true
		p.who, p.vs = append(p.who, at[key]), append(p.vs, view{rec: &recs[i], sum: recs[i].Summary(), label: r.Name})
	}
	of := func(name func(c *Contender) string) func(i int) string {
		return func(i int) string {
			c := &p.contenders[i]
			return oneLine(name(c)) + onlyIf(len(files) > 1, " ("+filepath.Base(c.Source)+")")
		}
	}
	for i, name := range document.Distinct(len(p.contenders),
		of(func(c *Contender) string { return cmp.Or(c.Setting, result.EngineName(c.Engine)) }),
		of(func(c *Contender) string { return result.EngineName(c.Engine) + " " + c.ServerVersion }),
		of(func(c *Contender) string { return result.EngineName(c.Engine) + " " + c.Storage }),
		of(func(c *Contender) string { return c.Target }),
		of(func(c *Contender) string { return strings.TrimSpace(result.EngineName(c.Engine) + " " + c.Setting) })) {
		p.contenders[i].Label = name
	}
	return p
}

// run adds a run as a sample of a section, with the figures of its measures.
func (p *projection) run(i int, section, at, line string) {
	s := sample{v: &p.vs[i]}
	for _, m := range p.measures(section) {
		s.figures = append(s.figures, m.of(s.v))
	}
	p.add(s, section, at, line)
}

// micro is a measure of a time in microseconds, in milliseconds in its chart.
func micro(key, name, chart string, of func(v *view) float64) measure {
	return measure{key: key, name: name, format: micros[float64], of: of, chart: chart, log: true}
}

// times are measures of an operation's percentiles, without charts.
func times(op string, percentiles ...string) (out []measure) {
	for _, q := range percentileNames {
		if slices.Contains(percentiles, q.name) {
			out = append(out, micro(strings.ReplaceAll(q.name, ".", "")+"_us", q.name, "", latencyOf(op, q.of)))
		}
	}
	return out
}

// rate is the main measure of most experiments.
func rate(v *view) float64 { return v.sum.RowsPerSecond }

// latencyOf returns a measure of an operation's latencies; op "" is the main operation.
func latencyOf(op string, of func(l result.Latency) int64) func(v *view) float64 {
	return func(v *view) float64 {
		name := op
		switch names := ops(v.sum.LatencyUS); {
		case op != "":
		case v.sum.Disk != nil:
			name = v.sum.Disk.Operation()
		case len(names) == 1:
			name = names[0]
		case v.rec.Run.Speed != nil:
			name = v.rec.Run.Speed.Operation
		}
		if l, ok := v.sum.LatencyUS[name]; ok {
			return float64(of(l))
		}
		return math.NaN()
	}
}

// nonzero returns NaN for 0: in records, 0 means that the figure is unknown.
func nonzero(v float64) float64 {
	if v == 0 {
		return math.NaN()
	}
	return v
}

// label is the name of a record's contender.
func (p *projection) label(i int) string { return p.contenders[p.who[i]].Label }

// common returns the conditions that all contenders share, each in a few words.
func (p *projection) common() []string {
	first, most := p.contenders[0], 0
	for _, c := range p.cells {
		most = max(most, len(c.counted()))
	}
	warmup := p.recs[0].Run.WarmupSeconds
	out := []string{onlyIf(warmup > 0, "after a warm-up of "+seconds(warmup)), onlyIf(most > 1, fmt.Sprintf("medians of %d runs", most))}
	differ := func(f func(c Contender) bool) bool { return slices.ContainsFunc(p.contenders, f) }
	return append(out, onlyIf(!differ(func(c Contender) bool { return c.CacheBytes != first.CacheBytes }), cacheText(first.CacheBytes)),
		onlyIf(!differ(func(c Contender) bool { return c.Durability != first.Durability }), called("durability", first.Durability)),
		some(p.recs[0].Run.Machine.Cores, "core", "cores"))
}

// A panel is one section of a projection.
type panel struct {
	*projection
	name     string
	measures []measure
	axisName string
	axis     []string // the levels that the section has
	lines    []string
}

func (p *projection) panels() (out []panel) {
	p.sorted(1)
	for _, name := range p.factors[0].Levels {
		s := panel{projection: p, name: name, measures: p.measures(name), axisName: cmp.Or(p.axes[name], p.factors[1].Name)}
		has := func(f int) []string {
			return slices.DeleteFunc(slices.Clone(p.factors[f].Levels), func(level string) bool {
				return !slices.ContainsFunc(p.cells, func(c *gridCell) bool { return c.levels[0] == name && c.levels[f] == level })
			})
		}
		s.axis, s.lines = has(1), has(2)
		out = append(out, s)
	}
	return out
}

func (s *panel) cell(at, line string) *gridCell { return s.at(s.name, at, line) }

// change compares a line's cell with the cell of the base at this place of the axis; nil if the
// line is the base, or there is nothing to compare.
func (s *panel) change(at, line string) *statistics.Change {
	return s.between(s.cell(at, s.factors[2].Levels[0]), s.cell(at, line))
}

// between compares the first figure of a cell with that of a base.
func (s *panel) between(base, c *gridCell) *statistics.Change {
	if base == nil || c == nil || base == c {
		return nil
	}
	pairs, _ := matched(base.records(), c.records())
	return changed(pairs, func(side int, r *result.Record) float64 { return []*gridCell{base, c}[side].figureOf(r, 0) }, s.measures[0].smaller)
}

// table has a row for each place of the axis and line.
func (s *panel) table() *document.Table {
	t := &document.Table{Header: []string{s.axisName, s.factors[2].Name, s.measures[0].name, either(s.measures[0].smaller, "gain", "ratio")}}
	for _, m := range s.measures[1:] {
		t.Header = append(t.Header, m.name)
	}
	t.Header = append(t.Header, "notes")
	for _, at := range s.axis {
		for _, line := range s.lines {
			c := s.cell(at, line)
			if c == nil {
				continue
			}
			to := ""
			if len(s.lines) > 1 {
				to = changeText(s.change(at, line))
			}
			row := []string{count(int64(number(at))), line}
			for i, m := range s.measures {
				if row = append(row, m.text(c.middle(i))); i == 0 {
					row = append(row, to)
				}
			}
			t.Add(append(row, s.remarks(c))...)
		}
	}
	return t
}

// remarks returns the doubts about a cell's figures, in a few words.
func (p *projection) remarks(c *gridCell) string {
	d := p.doubts(c)
	return document.Listed(", ", onlyIf(d.ClientBound, "CLIENT-BOUND"), onlyIf(d.ClientHeavy, "client-heavy"), onlyIf(c.incomplete(), "incomplete"), d.crowd())
}

func (m *measure) text(v float64) string {
	if m.format == nil {
		return figure(v)
	}
	return m.format(v)
}

// charts returns a chart for each measure that is to be plotted. Its x axis is the panel's axis,
// and it has a line for each of the last factor's levels.
func (s *panel) charts() (out document.Charts) {
	if s.drawn != nil {
		return s.drawn
	}
	axis := document.Scale{Log: s.doubling, Name: s.axisName}
	if s.doubling {
		axis.Margin = 1.2
		for _, level := range s.axis {
			axis.Ticks = append(axis.Ticks, document.Tick{At: number(level), Label: count(int64(number(level)))})
		}
	}
	for k, m := range s.measures {
		if m.chart == "" {
			continue
		}
		c := &document.Chart{Title: m.chart, X: axis, Height: 250, Ends: !s.doubling}
		if m.log {
			c.Note, c.Y = "logarithmic", document.Scale{Log: true, Margin: 2}
		}
		if m.per == 0 {
			c.Y.Format = m.format
		}
		c.Title = onlyIf(len(s.factors[0].Levels) > 1 && len(out) == 0, s.name+", ") + c.Title
		for _, name := range s.lines {
			l := document.Line{Name: name, Style: s.style(name), Dots: len(s.axis) <= 30}
			for _, at := range s.axis {
				if cell := s.cell(at, name); cell != nil {
					addPoint(&l, number(at), cell, k, cmp.Or(m.per, 1), fmt.Sprintf("%s, %s %s: ", name, at, s.axisName)+m.text(cell.middle(k)))
					if c.Ends && k == 0 {
						if l.End = []string{m.text(cell.middle(k))}; s.change(at, name) != nil {
							l.End[0] = ratio(statistics.Value(s.change(at, name).Ratio))
						}
					}
				}
			}
			c.Lines = append(c.Lines, l)
		}
		out = append(out, c)
	}
	return out
}

// style returns the style of a line, the same in all sections.
func (p *projection) style(line string) document.Style {
	return document.NthStyle(slices.Index(p.factors[2].Levels, line))
}

// addPoint adds a figure of a cell to a line, if the cell has the figure. For the first figure, it
// also adds the extremes.
func addPoint(l *document.Line, at float64, c *gridCell, figure int, per float64, tip string) {
	v := c.middle(figure) / per
	if !(v > 0) || math.IsInf(v, 0) {
		return
	}
	l.X, l.Y, l.Tips = append(l.X, at), append(l.Y, v), append(l.Tips, tip)
	if low, high := c.extremes(); figure == 0 {
		l.Lo, l.Hi = append(l.Lo, low/per), append(l.Hi, high/per)
	}
}

// latencyHeight is the height of each row of charts below the first, as a share of the first row's
// height. A picture gets rowHeight pixels higher for each row beyond the second.
const (
	latencyHeight = 0.7
	rowHeight     = 180
)

// Document shows the projection in every format.
func (p *projection) Document() *document.Document {
	all := p.panels()
	sheet := func() *document.Table { return cellSheet(p.factors, p.data().Cells) }
	d := &document.Document{Title: p.title, Notes: p.notes(), Footer: footer(&p.recs[0].Run), Sheet: sheet, Data: func() any {
		out := summaries(p.recs)
		out.Grid = p.data()
		return out
	}}
	subtitle := p.subtitle
	if slices.ContainsFunc(p.cells, func(c *gridCell) bool { d := p.doubts(c); return d.crowded() }) {
		subtitle = append(slices.Clone(subtitle), "DISTURBED by other programs or the host")
	}
	d.Subtitle = document.Listed(" · ", subtitle...)
	var names document.Legend
	for _, line := range p.factors[2].Levels {
		names = append(names, document.Key{Label: line, Style: p.style(line)})
	}
	reference.AddTo(d, p.recs)
	d.Add(names)
	for i := range all {
		s := &all[i]
		for _, text := range p.verdict(s) {
			d.Lines = append(d.Lines, document.Sentence{Text: text, Strong: p.strong})
		}
		parts := []document.Part{s.charts(), s.table()}
		if p.text != nil && p.text(s) != "" {
			parts = append(parts, document.Paragraph(p.text(s)))
		}
		d.Add(&document.Section{Title: cmp.Or(s.name, p.factors[1].Name), Parts: parts})
	}
	d.Add(p.more...)
	d.Picture = func(opts document.PNGOptions) *document.Picture {
		out := &document.Picture{}
		if len(all) == 1 {
			out.Lines = p.verdict(&all[0])
		}
		for i := range all {
			for k, c := range all[i].charts() {
				if k == len(out.Rows) {
					out.Rows = append(out.Rows, nil)
				}
				if c.Height = latencyHeight; k == 0 {
					c.Height, c.Y.Log = 1, c.Y.Log || opts.Log
				}
				out.Rows[k] = append(out.Rows[k], c)
			}
		}
		drawn := map[string]bool{}
		for k, row := range out.Rows {
			for _, c := range row {
				// Only the lowest of charts above each other has the labels of their axis.
				c.X.Bare = k == 0 && len(out.Rows) > 1 && len(out.Rows[1]) == len(row)
				for _, l := range c.Lines {
					drawn[l.Name] = drawn[l.Name] || len(l.X) > 0
				}
			}
		}
		out.Legend = slices.DeleteFunc(slices.Clone(names), func(k document.Key) bool { return !drawn[k.Label] })
		if more := len(out.Rows) - 2; more > 0 {
			out.Height = document.DefaultHeight + more*rowHeight
		}
		return out
	}
	about := document.Facts{}
	for i := range p.contenders {
		c := &p.contenders[i]
		about = append(about, document.Fact{Name: c.Label, Value: document.Listed(", ", words(c.Engine, c.ServerVersion), called("storage", c.Storage), called("cache", document.IfAny(c.CacheBytes, bytes)),
			called("durability", c.Durability), c.Target)})
	}
	d.Add(&document.Section{Title: "Measured", Parts: []document.Part{append(append(about, document.Fact{Name: "machine", Value: machine(p.recs[0].Run.Machine)}), p.about...)}})
	addDelays(d, p.recs)
	return d
}

// data is the projection as JSON.
func (p *projection) data() *Grid {
	out := &Grid{Contenders: p.contenders, Factors: p.factors, Fits: p.fits, Cells: []GridCell{}, Verdicts: []string{}, Problems: []string{}}
	for _, s := range p.panels() {
		out.Verdicts = append(out.Verdicts, p.verdict(&s)...)
		for _, at := range s.axis {
			for _, line := range s.lines {
				c := s.cell(at, line)
				if c == nil {
					continue
				}
				g := p.cellData(c, s.measures)
				if ch := s.change(at, line); ch != nil {
					g.Ratio, g.Interval, g.Verdict = ch.Ratio, ch.Interval, ch.Verdict
				}
				out.Cells = append(out.Cells, g)
			}
		}
	}
	for _, n := range p.notes() {
		out.Problems = append(out.Problems, document.Listed(": ", n.Label, n.Text))
	}
	return out
}

// cellData is a cell as JSON, without its ratio.
func (p *projection) cellData(c *gridCell, measures []measure) GridCell {
	g := GridCell{Levels: c.levels, Runs: len(c.counted()), Figures: map[string]float64{}, Incomplete: c.incomplete(), doubts: p.doubts(c)}
	for i, m := range measures {
		if v := c.middle(i); statistics.Known(v) != nil {
			g.Figures[m.key] = v
		}
	}
	if low, high := c.extremes(); low < high {
		key := measures[0].key
		g.Figures[key+"_low"], g.Figures[key+"_high"] = low, high
	}
	return g
}

// doubts returns the doubts about a run.
func (v *view) doubts() (out doubts) {
	out.ClientBound = v.sum.Client.Bound
	if programs, host := v.othersShare(); !math.IsNaN(programs) {
		out.OthersShare, out.StealShare = &programs, host
	}
	if cpu := v.sum.Server.CPUSeconds; cpu != nil && v.rec.End != nil {
		own := v.sum.Client.CPUSeconds
		out.ClientHeavy = own > *cpu && own+*cpu > machineFull*v.sum.Seconds*float64(v.rec.Run.Machine.Cores)
	}
	return out
}

// doubts returns the doubts about a cell's counted runs.
func (p *projection) doubts(c *gridCell) (out doubts) {
	var others, steal []float64
	for _, s := range c.counted() {
		d := s.v.doubts()
		out.ClientBound, out.ClientHeavy = out.ClientBound || d.ClientBound, out.ClientHeavy || d.ClientHeavy
		if d.OthersShare != nil {
			others, steal = append(others, *d.OthersShare), append(steal, d.StealShare)
		}
	}
	out.OthersShare = statistics.Known(statistics.Median(others))
	if len(steal) > 0 {
		out.StealShare = statistics.Median(steal)
	}
	return out
}

// notes returns what a reader must know before believing the figures.
func (p *projection) notes() []document.Note {
	out := slices.Clone(p.serious)
	for _, text := range p.unlike() {
		out = append(out, document.Note{Text: text})
	}
	for _, n := range gridNotes(p.vs) {
		if n.Text != result.NotVerified { // selects insert nothing
			out = append(out, n)
		}
	}
	slices.SortStableFunc(out, func(a, b document.Note) int { return cmp.Compare(rankOf(a), rankOf(b)) })
	return out
}

// gridNotes returns the problems of the runs. For problems with the machine's CPU, it counts the
// runs, e.g. "client-bound in 2 of 8 runs".
func gridNotes(vs []view) (out []document.Note) {
	var bound, heavy, disturbed int
	for i := range vs {
		d := vs[i].doubts()
		for n, is := range map[*int]bool{&bound: d.ClientBound, &heavy: d.ClientHeavy, &disturbed: d.crowded()} {
			if is {
				*n++
			}
		}
	}
	add := func(n int, serious bool, text string) {
		if n > 0 {
			out = append(out, document.Note{Serious: serious, Text: fmt.Sprintf(text, fmt.Sprintf("%d of %s", n, plural(len(vs), "run", "runs")))})
		}
	}
	for _, n := range allProblems(vs) {
		if n.Label = cmp.Or(n.Label, vs[0].label); !strings.HasPrefix(n.Text, "client-bound:") {
			out = append(out, n)
		}
	}
	add(bound, true, "client-bound in %s: their clients spent most of their time on their own work, so the database could take more")
	add(disturbed, true, "disturbed in %s: other programs or the host took more than 10%% of this machine's cores meanwhile, "+
		"so these rates are too low; measure on a machine that does nothing else")
	add(heavy, false, "client-heavy in %s: client and server filled this machine's cores, and the client took more of them; from another machine the server may be faster")
	return out
}

// rankOf puts serious notes first.
func rankOf(n document.Note) int { return map[bool]int{false: 1}[n.Serious] }

// serverFlags are the kinds of differences that are flagged between contenders. Contenders are
// different servers, so differences of other kinds are on purpose.
var serverFlags = []string{"durability", "cache", "machine", "settings", "server"}

// unlike describes how the contenders differ from the first contender. It compares one run of each.
func (p *projection) unlike() (out []string) {
	for n := 1; n < len(p.contenders); n++ {
		at := slices.Index(p.who, n)
		x, y := &p.recs[0], &p.recs[at]
		same := x.Run.Engine == y.Run.Engine
		who := p.contenders[0].Label + " against " + p.contenders[n].Label + ": "
		for _, f := range flags(&p.vs[0], &p.vs[at]) {
			switch {
			case f.What == "table":
				out = append(out, who+f.Text)
			case !slices.Contains(serverFlags, f.Kind), !same && f.Kind == "server", !same && f.What != "" && f.Kind != "machine":
				// Settings of other engines have different names.
			case f.Kind == "settings" && strings.Contains(x.Run.Target+y.Run.Target, f.What+"="): // the target sets it: the difference is on purpose
			case !f.of(p.contenders[0].Setting) && !f.of(p.contenders[n].Setting):
				out = append(out, who+f.Text)
			}
		}
	}
	return out
}

// tableOf describes what a run of an experiment read, and for how long; "" for runs that insert.
func tableOf(r *result.Run) string {
	switch {
	case r.Speed != nil:
		return fmt.Sprintf("%s of %s for %s", r.Preset, plural(r.Speed.Filled, "row", "rows"), seconds(r.MaxTimeSeconds))
	case r.Tables != nil:
		return fmt.Sprintf("%s of %s", plural(r.Tables.Objects(), "object", "objects"), plural(r.Tables.Definitions, "definition", "definitions"))
	case r.Disk != nil:
		return fmt.Sprintf("%s requests of %s for %s", r.Disk.Kind, bytes(r.Disk.BlockBytes), seconds(r.MaxTimeSeconds))
	case r.HotRow != nil:
		return "fans of one item"
	case r.Scan != nil:
		return fmt.Sprintf("%s in %s", plural(r.Scan.TableRows, "row", "rows"), plural(r.Scan.Partitions, "partition", "partitions"))
	case r.TPCC != nil:
		return fmt.Sprintf("%s for %s", plural(r.TPCC.Warehouses, "warehouse", "warehouses"), seconds(r.MaxTimeSeconds))
	}
	return ""
}

// of reports whether the flag is about a setting that is compared on purpose. setting is its
// NAME=VALUE; the flag may have a longer name that begins with NAME.
func (f *Flag) of(setting string) bool {
	name, _, ok := strings.Cut(setting, "=")
	return ok && (strings.HasPrefix(f.What, name) || f.Kind == name)
}

// othersShare returns the share of all cores that programs other than rowmill and the server used,
// and the share that the host withheld; NaN if the server's own share is unknown. Interrupts and
// kernel threads count as no program: they may work for the server, e.g. for its disk.
func (v *view) othersShare() (programs, host float64) {
	rec, s := v.rec, &v.sum
	own := s.Client.CPUSeconds
	cores := float64(rec.Run.Machine.Cores)
	switch {
	case rec.End == nil || s.Seconds == 0 || cores == 0:
		return math.NaN(), math.NaN()
	case s.Server.CPUSeconds != nil:
		own += *s.Server.CPUSeconds
	case !rec.Run.Embedded:
		return math.NaN(), math.NaN()
	}
	mean := rec.MeanCounters()
	used, known := mean["os_cpu_user"]
	if !known {
		return math.NaN(), math.NaN()
	}
	used += mean["os_cpu_system"] - mean["os_cpu_interrupts"] - mean["kernel_threads_cpu"]/cores
	return max(0, used-own/s.Seconds/cores), mean["os_cpu_steal"]
}
