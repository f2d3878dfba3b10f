// Package rollup finds out which part of a query can be answered exactly from roll-ups, and writes
// the queries that read the roll-ups.
//
// In: the plan of a query, and a table with its roll-ups, called levels. Out: for each level, the
// query that reads it, or why the level can't answer; and the partitions left to read.
package rollup

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/parse"
	"github.com/rowmill/rowmill/internal/query/plan"
	"github.com/rowmill/rowmill/internal/sqltext"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// A Query derives the queries that read roll-ups from the query of a plan's pieces.
type Query struct {
	reader engine.Reader
	plan   *plan.Plan
	table  *engine.RolledTable
	syn    sqltext.Syntax
	traits engine.Semantics
	utc    bool
	text   string // of a piece that reads the table itself
	sel    *parse.Select
	// within is the time that the query asks for.
	within rolling.Period
}

// New prepares to answer a split query from the roll-ups of its table. It examines the query that
// each piece of the plan runs. If no roll-up can answer that query, New returns why.
func New(reader engine.Reader, p *plan.Plan, t *engine.RolledTable) (*Query, string) {
	u := &Query{reader: reader, plan: p, table: t, syn: reader.Syntax(p.State), traits: reader.Semantics(p.State)}
	u.text = p.Partial[0] + reader.Dialect().Quote(p.Table.Name) + p.Partial[1]
	for _, st := range p.State {
		if name := strings.ToLower(st.Name); name == "time_zone" || name == "timezone" {
			u.utc = slices.Contains([]string{"utc", "+00:00", "etc/utc"}, strings.ToLower(st.Value))
		}
	}
	q, err := parse.Parse(u.text, u.syn)
	switch {
	case err != nil:
		return nil, "its pieces aren't understood: " + err.Error()
	case q.Body == nil || q.With != nil || q.Rest != nil || len(q.OrderBy) > 0 || q.Limit != nil || q.Offset != nil:
		return nil, "its pieces are more than one simple query"
	case len(q.Body.From) != 1 || q.Body.From[0].Table == "" || q.Body.From[0].Join != "":
		return nil, "it reads several tables"
	case q.Body.Having != nil || q.Body.Rollup || q.Body.Sets || q.Body.Windows != nil || q.Body.Distinct || q.Body.From[0].Partitions != nil:
		return nil, "its pieces are more than groups"
	case t.Zoned && !u.utc:
		return nil, "the session's time zone is not UTC"
	case t.Untyped && t.Unit == 0:
		return nil, "times are text, of which the server doesn't check the form"
	case t.Time.Null:
		return nil, "the time may be NULL"
	case t.Time.Virtual:
		return nil, "the time is computed when a row is read"
	case p.Keys > len(q.Body.Items) || len(q.Body.Items) != len(p.PartialColumns):
		return nil, "its pieces have other columns than expected"
	}
	u.sel = q.Body
	u.within = u.bounds()
	return u, ""
}

// sameName compares names of columns as the server does.
func (u *Query) sameName(a, b string) bool { return plan.SameColumn(u.traits, a, b) }

func (u *Query) times(l *engine.RolledLevel) *Time {
	return &Time{table: u.table, level: l, utc: u.utc, same: u.sameName, traits: u.traits}
}

// bounds returns the range of time to which the conditions of the query limit the rows.
func (u *Query) bounds() rolling.Period {
	p := rolling.Period{From: math.MinInt64, To: math.MaxInt64}
	t := u.times(nil)
	for _, c := range parse.Conjuncts(u.sel.Where) {
		if from, to, ok := t.bounded(c); ok {
			p.From, p.To = max(p.From, from), min(p.To, to)
		}
	}
	return p
}

// A Level is a level that can answer the query. edits make the query of a piece read the level.
type Level struct {
	*engine.RolledLevel
	edits []parse.Edit
	// counts has the columns, by index, that sum up integers of the level, such as its counts.
	counts map[int]bool
}

// Level returns how a level answers the query, or why it can't.
func (u *Query) Level(r *engine.RolledLevel) (_ *Level, why string) {
	if r.Why != "" {
		return nil, r.Why
	}
	l := &Level{RolledLevel: r, counts: map[int]bool{}}
	t := u.times(r)
	for _, c := range parse.Conjuncts(u.sel.Where) {
		if _, _, bounded := t.bounded(c); !bounded && (!t.fixed(c) || t.traits.MisreadsFractions && hasFraction(c)) {
			return nil, "it doesn't have what the condition " + c.Of(u.text) + " asks for"
		}
	}
	for i, it := range u.sel.Items {
		if it.Star {
			return nil, "it doesn't have the columns of *"
		}
		if why := u.derive(l, t, it.Expr, i); why != "" {
			return nil, why
		}
	}
	for _, e := range u.sel.GroupBy {
		if !t.fixed(e) {
			return nil, "its groups don't tell apart " + e.Of(u.text)
		}
	}
	return l, ""
}

// hasFraction reports whether a condition contains a number such as 1.5. If MariaDB or MySQL looks
// it up in an index of integers, it may find another number. A roll-up doesn't have the table's
// index, so its answer may differ.
func hasFraction(c *parse.Expr) bool {
	return parse.Any(c, func(e *parse.Expr) bool {
		return e.Kind == parse.Literal && !strings.ContainsAny(e.Name, "'xX") && strings.ContainsAny(e.Name, ".eE") && strings.ContainsAny(e.Name, "0123456789")
	})
}

// Text is the text of a piece that reads ranges of a level.
func (u *Query) Text(l *Level, ranges []rolling.Period) string {
	return parse.Replace(u.text, append(slices.Clone(l.edits), parse.Edit{Span: u.sel.From[0].Name, Text: u.operand(l.RolledLevel, ranges)}))
}

// operand returns a derived table with a level's rows in ranges. The derived table's column of
// buckets has the name of the time column of the rolled-up table.
func (u *Query) operand(l *engine.RolledLevel, ranges []rolling.Period) string {
	quote := u.reader.Dialect().Quote
	bucket := quote(engine.RolledBucket)
	cols := []string{bucket + " AS " + quote(u.table.Time.Name)}
	for _, name := range l.By {
		cols = append(cols, quote(name))
	}
	cols = append(cols, quote(engine.RolledRows))
	for _, a := range l.Select {
		switch a.Func {
		case "count", "sum", "min", "max":
			cols = append(cols, quote(a.Name))
		case "avg":
			cols = append(cols, quote(a.Name+engine.RolledNumber), quote(a.Name+engine.RolledSum))
		}
	}
	var where []string
	for _, x := range ranges {
		where = append(where, fmt.Sprintf("%s >= %s AND %s < %s", bucket, u.table.Literal(x.From), bucket, u.table.Literal(x.To)))
	}
	from := plan.QuotedName(u.reader.Dialect(), u.plan.Table.Database, l.Name)
	return "(SELECT " + strings.Join(cols, ", ") + " FROM " + from + " WHERE " + strings.Join(where, " OR ") + ")"
}

// derive writes the edits that compute an element of the select list from the rows of a level. It
// returns why that is impossible, or "". item is the element's index.
func (u *Query) derive(l *Level, t *Time, e *parse.Expr, item int) (why string) {
	isAggregate := func(e *parse.Expr) bool {
		return e.Kind == parse.Call && u.reader.Function(e.Name, len(e.Args)) == engine.AggregateFunction
	}
	if isAggregate(e) {
		text, count := u.aggregate(t, e)
		if text == "" {
			return "it doesn't have " + e.Of(u.text)
		}
		l.counts[item] = l.counts[item] || count
		l.edits = append(l.edits, parse.Edit{Span: e.Span, Text: text})
		return ""
	}
	aggregates := parse.Any(e, isAggregate)
	switch {
	case !aggregates && t.fixed(e):
		return ""
	case !aggregates:
		return "its groups don't tell apart " + e.Of(u.text)
	case e.Query != nil || e.Over != nil || e.Filter != nil || e.OrderBy != nil:
		return "it doesn't have " + e.Of(u.text)
	}
	for _, a := range e.Args {
		if why := u.derive(l, t, a, item); why != "" {
			return why
		}
	}
	return ""
}

// aggregate returns an expression that computes an aggregate from a level's columns; "" if the
// level lacks them. count says that the expression sums up integers of the level, e.g. counts of
// rows.
func (u *Query) aggregate(t *Time, e *parse.Expr) (text string, count bool) {
	if e.Distinct || e.Filter != nil || e.Over != nil || e.OrderBy != nil || e.Qualified || e.Separator != "" || !e.Star && len(e.Args) != 1 {
		return "", false
	}
	quote := u.reader.Dialect().Quote
	sum := func(column string) string { return "COALESCE(SUM(" + quote(column) + "), 0)" }
	if e.Star {
		return sum(engine.RolledRows), e.Name == "count"
	}
	arg := parse.Bare(e.Args[0])
	if e.Name == "count" && arg.Kind == parse.Literal && !strings.EqualFold(arg.Name, "NULL") {
		return sum(engine.RolledRows), true
	}
	if arg.Kind != parse.Column {
		return "", false
	}
	name := arg.Names[len(arg.Names)-1]
	i := slices.IndexFunc(u.table.Columns, func(c engine.SchemaColumn) bool { return u.sameName(c.Name, name) })
	if i < 0 {
		return "", false
	}
	col := u.table.Columns[i]
	if col.Virtual { // computed by the settings of the session that filled the roll-up, not of this one
		return "", false
	}
	if e.Name == "count" && !col.Null {
		return sum(engine.RolledRows), true
	}
	if (e.Name == "min" || e.Name == "max") && t.group(arg) != "" {
		return e.Of(u.text), false
	}
	for _, a := range t.level.Select {
		if a.Column != col.Name {
			continue
		}
		switch {
		case a.Func == "count" && e.Name == "count":
			return sum(a.Name), true
		case a.Func == "avg" && e.Name == "count":
			return sum(a.Name + engine.RolledNumber), true
		case (a.Func == "min" || a.Func == "max") && a.Func == e.Name:
			return strings.ToUpper(e.Name) + "(" + quote(a.Name) + ")", false
		case u.table.Untyped && e.Name == "sum":
			// A sum of values of several types would be stored as one type.
		case a.Func == "sum" && e.Name == "sum":
			return "SUM(" + quote(a.Name) + ")", col.Kind == value.Int
		case a.Func == "avg" && e.Name == "sum":
			return "SUM(" + quote(a.Name+engine.RolledSum) + ")", col.Kind == value.Int
		}
	}
	return "", false
}

// Differs compares the columns of a level's query with those of the query of the table. It returns
// why the level's values may be written in another way; "" if they are written alike.
func (u *Query) Differs(l *Level, cols []engine.ResultColumn) string {
	want := u.plan.PartialColumns
	if len(cols) != len(want) {
		return "its query has another number of columns"
	}
	for i, w := range want {
		c := cols[i]
		whole := func(c engine.ResultColumn) bool {
			return c.Class == engine.ClassInt || c.Class == engine.ClassDecimal && c.Scale <= 0
		}
		switch {
		case l.counts[i] && whole(w) && whole(c):
		case w.Class != c.Class || w.Scale != c.Scale || w.Binary != c.Binary || w.Hex != c.Hex:
			return fmt.Sprintf("its column %d is %s, and that of the table %s", i+1, c.Native, w.Native)
		}
	}
	return ""
}

// Joined returns ranges in order. Those that meet become one.
func Joined(ranges []rolling.Period) (out []rolling.Period) {
	slices.SortFunc(ranges, func(a, b rolling.Period) int { return cmp.Compare(a.From, b.From) })
	for _, x := range ranges {
		if n := len(out); n > 0 && out[n-1].To == x.From {
			out[n-1].To = x.To
		} else {
			out = append(out, x)
		}
	}
	return out
}

// Without takes the ranges of l within the time that the query asks for, except the ranges in used,
// and returns the whole buckets in them.
func (u *Query) Without(l *Level, used []rolling.Period) (out []rolling.Period) {
	add := func(from, to int64) {
		if from, to = l.Every.Ceil(from), l.Every.Floor(to); from < to {
			out = append(out, rolling.Period{From: from, To: to})
		}
	}
	for _, x := range l.Ranges {
		at, to := max(x.From, u.within.From), min(x.To, u.within.To)
		for _, y := range used {
			if y.From < to && y.To > at {
				add(at, y.From)
				at = y.To
			}
		}
		add(at, to)
	}
	return out
}

// Rest returns the partitions, and the pieces of partitions, that must still be read from rows
// because they lie outside the used ranges of roll-ups. rows has the estimated rows of each
// partition.
func (u *Query) Rest(used []rolling.Period, rows map[string]int64) (whole []string, cut []plan.Piece) {
	byName := map[string]rolling.Partition{}
	for _, p := range u.table.Periods {
		byName[p.Name] = p
	}
	periods := map[string]rolling.Period{}
	for _, part := range u.plan.Table.Parts {
		p, ok := byName[part.Period]
		if !ok {
			if p, ok = byName[part.Name]; !ok {
				continue
			}
		}
		x := p.Period
		if p.Name == u.table.Periods[0].Name {
			x.From = math.MinInt64 // the first partition may have no lower bound
		}
		if p.Name == u.table.Periods[len(u.table.Periods)-1].Name {
			x.To = math.MaxInt64
		}
		periods[part.Name] = x
	}
	for _, name := range u.plan.Parts {
		x, ok := periods[name]
		if !ok {
			x = rolling.Period{From: math.MinInt64, To: math.MaxInt64}
		}
		asked := rolling.Period{From: max(x.From, u.within.From), To: min(x.To, u.within.To)}
		covered := false
		var not []string
		for _, r := range used {
			covered = covered || r.From <= asked.From && asked.To <= r.To
			if r.Overlaps(x) {
				time := u.reader.Dialect().Quote(u.table.Time.Name)
				not = append(not, fmt.Sprintf("(%s < %s OR %s >= %s)", time, u.table.Literal(r.From), time, u.table.Literal(r.To)))
			}
		}
		switch {
		case covered && asked.From < asked.To:
		case len(not) == 0:
			whole = append(whole, name)
		default:
			cut = append(cut, plan.Piece{Parts: []string{name}, Where: strings.Join(not, " AND "), Rows: rows[name]})
		}
	}
	return whole, cut
}

// SameRows returns the function for plan.RolledUp.SameRows: it checks that the roll-ups match the
// partitions that they replace.
func (u *Query) SameRows(used []rolling.Period) func(ctx context.Context, s *engine.Session) (string, error) {
	if u.table.Same == nil {
		return nil
	}
	var periods []string
	for _, p := range u.table.Periods {
		if slices.ContainsFunc(used, p.Overlaps) {
			periods = append(periods, p.Name)
		}
	}
	return func(ctx context.Context, s *engine.Session) (string, error) {
		return u.table.Same(ctx, s, u.plan.Table.Database, periods)
	}
}
