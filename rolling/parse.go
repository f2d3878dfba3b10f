package rolling

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/tomlfile"
)

// ParseDeclaration reads and checks the declaration of a rolling table: TOML as in
// docs/declaration.md. source is the declaration's name in errors. The error is an Errors with all
// mistakes.
func ParseDeclaration(source string, text []byte) (*Declaration, error) {
	return ParseDeclarationFor(source, text, "")
}

// ParseDeclarationFor is ParseDeclaration with a target that replaces the target in the file, or
// supplies a missing one. Without any target, checks that depend on the kind of server are omitted.
func ParseDeclarationFor(source string, text []byte, target string) (*Declaration, error) {
	root, err := tomlfile.Parse(text)
	var bad *tomlfile.Error
	if errors.As(err, &bad) {
		return nil, Errors{{source, bad.Line, bad.Column, bad.Text, "the file must be TOML, see docs/declaration.md"}}
	}
	r := declarationReader{source: source, instead: target, d: &Declaration{Source: source, Text: string(text)}}
	r.file(root)
	if len(r.errs) > 0 {
		slices.SortStableFunc(r.errs, func(a, b *Error) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
		return nil, slices.CompactFunc(r.errs, func(a, b *Error) bool { return *a == *b })
	}
	return r.d, nil
}

// A declarationReader checks a file and collects its errors.
type declarationReader struct {
	source string
	errs   Errors
	d      *Declaration
	dialect
	instead string // replaces the target as written
	written string
	create  *tomlfile.Value
	columns []string
	// Keys of the file, nil if missing.
	name, timeKey, every, keep *tomlfile.Value
}

func (r *declarationReader) fail(at *tomlfile.Value, hint, format string, args ...any) {
	r.errs = append(r.errs, &Error{r.source, at.Line, at.Column, fmt.Sprintf(format, args...), hint})
}

func (r *declarationReader) warn(at *tomlfile.Value, format string, args ...any) {
	r.d.Warnings = append(r.d.Warnings, fmt.Sprintf("%s:%d: ", r.source, at.Line)+fmt.Sprintf(format, args...))
}

func (r *declarationReader) failDefinition(line, column int, hint, format string, args ...any) {
	r.errs = append(r.errs, r.inDefinition(&Error{Line: line, Column: column, Text: fmt.Sprintf(format, args...), Hint: hint}))
}

// inDefinition converts an error's place in the definition to the place in the file.
func (r *declarationReader) inDefinition(e *Error) *Error {
	out := *e
	out.Source = r.source
	if e.Line <= 1 {
		out.Column = max(e.Column, 1) + r.create.Content.Column - 1
	}
	out.Line = r.create.Content.Line + max(e.Line, 1) - 1
	return &out
}

// declarationKeys are the keys of each table of the file.
var declarationKeys = map[string][]string{
	"":       {"table", "period", "seal", "shards", "values", "rollup"},
	"table":  {"name", "target", "create", "time", "epoch", "exact"},
	"period": {"every", "rows", "from", "ahead", "keep", "late"},
	"seal":   {"after", "compress", "merge", "archive"},
	"shards": {"by", "every", "nodes"},
	"values": {"rows-per-second", "null", "distinct", "heavy", "skew", "order", "new", "window", "from", "to", "length", "words"}, // all but the first are keys of a column
	"rollup": {"name", "from", "every", "by", "select", "keep"},
}

func (r *declarationReader) known(table string, v *tomlfile.Value) {
	if v == nil {
		return
	}
	keys := declarationKeys[table]
	for _, c := range v.In {
		if slices.Contains(keys, c.Key) {
			continue
		}
		hint := tomlfile.DidYouMean(c.Key, keys)
		for _, other := range []string{"seal", "period", "table"} {
			if other != table && slices.Contains(declarationKeys[other], c.Key) {
				hint = fmt.Sprintf("it belongs under [%s]", other)
			}
		}
		in := ""
		if table != "" {
			in = " in [" + table + "]"
		}
		r.fail(c, hint, "unknown key %q%s", c.Key, in)
	}
}

func (r *declarationReader) section(root *tomlfile.Value, name string) *tomlfile.Value {
	v := root.Find(name)
	if v == nil {
		return nil
	}
	if v.Kind != tomlfile.Table {
		r.fail(v, "["+name+"]", "%s is %s; want one table", name, v.What())
		return nil
	}
	r.known(name, v)
	return v
}

// text returns the text of a key, and the key itself; nil if it is missing or has another type.
func (r *declarationReader) text(table *tomlfile.Value, key, example string) (string, *tomlfile.Value) {
	v := table.Find(key)
	if v == nil {
		return "", nil
	}
	if v.Kind != tomlfile.Text {
		r.fail(v, fmt.Sprintf("%s = %q", key, example), "%s is %s; want a quoted string", key, v.What())
		return "", nil
	}
	if strings.ContainsRune(v.Text, 0) {
		r.fail(v, "leave it out", "%s has a zero byte", key)
		return "", nil
	}
	return v.Text, v
}

// must is text for a required key.
func (r *declarationReader) must(table *tomlfile.Value, section, key, example string) (string, *tomlfile.Value) {
	if table.Find(key) == nil {
		r.fail(table, fmt.Sprintf("%s = %q", key, example), "%s has no %s", section, key)
		return "", nil
	}
	text, v := r.text(table, key, example)
	if v != nil && strings.TrimSpace(text) == "" {
		r.fail(v, fmt.Sprintf("%s = %q", key, example), "%s is empty", key)
		return "", nil
	}
	return text, v
}

func (r *declarationReader) truth(table *tomlfile.Value, key string) (bool, *tomlfile.Value) {
	v := table.Find(key)
	if v == nil {
		return false, nil
	}
	if v.Kind != tomlfile.Bool {
		r.fail(v, key+" = true", "%s is %s; want true or false, without quotes", key, v.What())
		return false, nil
	}
	return v.Text == "true", v
}

const lengthForms = "30s, 15m, 2h, 1d, 1w, 1mo or 1y"

// length reads a length of time, or of rows for a sequence.
func (r *declarationReader) length(table *tomlfile.Value, key string) (Grid, *tomlfile.Value) {
	example := "2d"
	if r.d.Period.Axis() == Sequence {
		example = "2000000 rows"
	}
	text, v := r.text(table, key, example)
	if v == nil {
		return Grid{}, nil
	}
	g, err := Parse(text)
	forms, axis := lengthForms, "time"
	if r.d.Period.Axis() == Sequence {
		forms, axis = `a number of rows, "2000000 rows"`, "rows"
	}
	switch {
	case err != nil:
		r.fail(v, forms, "%s = %q is not a length of at most 1000 years", key, text)
	case g.Axis() != r.d.Period.Axis():
		r.fail(v, forms, "%s = %q has another unit than the table, which rolls by %s", key, text, axis)
	default:
		return g, v
	}
	return Grid{}, nil
}

func (r *declarationReader) span(table *tomlfile.Value, key string) (Span, *tomlfile.Value) {
	g, v := r.length(table, key)
	if v == nil {
		return Span{}, nil
	}
	return g.Span(), v
}

func (r *declarationReader) file(root *tomlfile.Value) {
	r.known("", root)
	table := r.section(root, "table")
	if table == nil {
		if root.Find("table") == nil {
			r.fail(root, "[table] with name, target, create and time", "there is no [table]")
		}
		return
	}
	r.target(table)
	// The period is read before the definition: the permitted columns depend on its axis.
	period := r.section(root, "period")
	if period == nil && root.Find("period") == nil {
		r.fail(table, `[period] with every = "auto", ahead and keep`, "there is no [period]")
	}
	r.period(period)
	r.table(table)
	r.seal(r.section(root, "seal"))
	r.defaults()
	r.counts(period)
	r.rollups(root.Find("rollup"))
	r.shards(r.section(root, "shards"))
	r.values(root)
	r.names()
}

func (r *declarationReader) target(table *tomlfile.Value) {
	text, v := r.text(table, "target", targetExample)
	r.written = text
	if r.instead != "" {
		defer func(file string) { r.source = file }(r.source)
		text, v, r.source = r.instead, new(tomlfile.Value), "--target"
	}
	if v == nil {
		return
	}
	scheme, rest, ok := strings.Cut(text, ":")
	if anyPassword(text) {
		r.fail(v, passwordForms, "target holds a password, which would be stored and printed")
		return
	}
	if !ok {
		r.fail(v, targetForms, "target has no scheme")
		return
	}
	d := dialectOf(text)
	switch path, _, _ := strings.Cut(rest, "?"); {
	case d == nil && strings.EqualFold(scheme, "null"):
		r.fail(v, targetForms, "target null: stores nothing")
		return
	case d == nil:
		r.fail(v, targetForms, "target has an unknown scheme, %q", strings.ToLower(scheme))
		return
	case d.file && path == "":
		r.dialect = *d
		r.fail(v, d.schemes[0]+":PATH", "target %q names no file, and a temporary one isn't kept", text)
		return
	}
	r.dialect = *d
	if _, err := url.Parse(text); err != nil && strings.HasPrefix(rest, "//") {
		// The parser's error repeats the text, which may contain a password.
		r.fail(v, targetForms, "target of scheme %s is not a URL", strings.ToLower(scheme))
		return
	}
	r.d.Target = text
}

func (r *declarationReader) period(period *tomlfile.Value) {
	if period == nil {
		return
	}
	every, rows := period.Find("every"), period.Find("rows")
	switch {
	case every != nil && rows != nil:
		r.fail(rows, "every for an axis of time, rows for a sequence", "a period has either every or rows")
	case every == nil && rows == nil:
		r.fail(period, `every = "auto", every = "2h", or rows = 500000 for a sequence`, "[period] has neither every nor rows")
	case rows != nil:
		r.every = rows
		n, err := rows.Integer()
		if rows.Kind != tomlfile.Whole {
			r.fail(rows, "rows = 500000", "rows is %s; want a whole number", rows.What())
			return
		}
		if err != nil || n < 1 {
			r.fail(rows, "rows = 500000", "rows = %s; want at least 1", rows.Text)
			return
		}
		r.d.Period, _ = EveryRows(n)
	default:
		r.everyOf(period)
	}
	if text, v := r.text(period, "late", "merge"); v != nil {
		switch text {
		case "merge":
		case "reject":
			r.d.Late = LateReject
		default:
			r.fail(v, `"merge" lets late rows in, "reject" has their INSERT fail`, "late = %q is not a policy", text)
		}
	}
	r.from(period)
	r.d.Ahead, _ = r.span(period, "ahead")
	r.d.Keep, r.keep = r.span(period, "keep")
}

// from reads the time from which the table has periods, in UTC.
func (r *declarationReader) from(period *tomlfile.Value) {
	const example = "2013-01-01"
	text, v := r.text(period, "from", example)
	if v == nil {
		return
	}
	if r.d.Period.Axis() == Sequence {
		r.fail(v, "leave it out: a sequence begins at 0", "from = %q is a time, and the table rolls by rows", text)
		return
	}
	pos, err := r.d.Period.ParsePosition(text)
	if err == nil && pos >= MinTime && pos < MaxTime && pos%second == 0 {
		r.d.From = Instant(pos)
		return
	}
	r.fail(v, fmt.Sprintf("from = %q, or %q", example, "2013-01-01 06:00:00"), "from = %q is not a time in UTC of the years 1000 to 9999", text)
}

func (r *declarationReader) everyOf(period *tomlfile.Value) {
	text, v := r.text(period, "every", "2h")
	if r.every = v; v == nil {
		return
	}
	if text == "auto" {
		r.d.Auto = true
		return
	}
	g, err := Parse(text)
	switch {
	case err != nil:
		r.fail(v, `"auto", `+lengthForms, "every = %q is not a period of at most 1000 years", text)
	case g.Axis() == Sequence:
		r.fail(v, fmt.Sprintf("rows = %d", g.step), "every = %q counts rows", text)
	default:
		r.d.Period = g
	}
}

func (r *declarationReader) seal(seal *tomlfile.Value) {
	if seal == nil {
		return
	}
	r.d.Seal.Compress, _ = r.truth(seal, "compress")
	if r.d.Seal.Compress && r.noCompression {
		r.warn(seal.Find("compress"), "%s has no compression: sealed periods are only sorted", r.servers)
	}
	var after *tomlfile.Value
	r.d.Seal.After, after = r.span(seal, "after")
	if g, v := r.length(seal, "merge"); v != nil {
		r.d.Seal.Merge = g
		if p := r.d.Period; p.Valid() && (!p.Divides(g) || p == g) {
			r.fail(v, "a multiple of the period, such as "+multiple(p), "merge = %q isn't made of several whole periods of %s", g, p)
		}
	}
	if text, v := r.text(seal, "archive", "archive/readings"); v != nil {
		switch {
		case strings.TrimSpace(text) == "":
			r.fail(v, `archive = "archive/readings", or leave it out`, "archive is empty")
		case strings.Contains(text, "://"):
			r.fail(v, "a directory, which may be one that is mounted", "archive = %q is a URL", text)
		default:
			r.d.Seal.Archive = text
		}
	}
	if after != nil && r.keep != nil && r.d.Keep.Length() < r.d.Seal.After.Length() {
		r.fail(r.keep, fmt.Sprintf("keep = %q or longer", r.d.Seal.After), "keep = %q ends before a period is sealed, %s after its end", r.d.Keep, r.d.Seal.After)
	}
}

// multiple returns, as an example, a multiple of a period.
func multiple(g Grid) string {
	for _, text := range []string{"1h", "1d", "1w", "1mo", "1y"} {
		if long, _ := Parse(text); g.Divides(long) && long != g {
			return text
		}
	}
	g.step, g.months = g.step*10, g.months*10
	return g.String()
}

func (r *declarationReader) defaults() {
	d := r.d
	one := Span{Micros: 3600 * second} // if the period is not known yet
	if d.Period.Valid() {
		one = d.Period.Span()
	}
	if d.Ahead.IsZero() {
		d.Ahead = Span{Micros: 2 * one.Micros, Months: 2 * one.Months, Rows: 2 * one.Rows}
		if one.Rows > MaxSequence/2 {
			d.Ahead.Rows = MaxSequence
		}
		if one.Rows == 0 && d.Ahead.Length() < day {
			d.Ahead = Span{Micros: day}
		}
	}
	if d.Seal.After.IsZero() {
		if d.Seal.After = one; one.Rows == 0 && one.Length() > day {
			d.Seal.After = Span{Micros: day}
		}
		if k := d.Keep.Length(); k > 0 && k < d.Seal.After.Length() {
			d.Seal.After = d.Keep
		}
	}
}

var epochs = map[string]time.Duration{"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond}

// More periods than that get a warning: each costs memory per open table, and time to plan queries.
const manyPeriods = 1000

func (r *declarationReader) counts(period *tomlfile.Value) {
	d := r.d
	if !d.Period.Valid() || period == nil {
		return
	}
	p := max(d.Period.Span().Length(), 1)
	if r.keep != nil && d.Keep.Length() < p {
		r.fail(r.keep, fmt.Sprintf("keep = %q or longer", d.Period), "keep = %q is shorter than a period of %s", d.Keep, d.Period)
		return
	}
	limit, why := r.mostPeriods, r.why
	// ahead counts the periods created ahead, the open period, and a period that retention is about to
	// drop. recent is the part of the retained time that is in single periods; old counts the merged
	// periods.
	ahead := d.Ahead.Length()/p + 2
	recent, old := d.Keep.Length(), int64(0)
	if d.Seal.Merge.Valid() {
		long := max(d.Seal.Merge.Span().Length(), 1)
		if single := d.Seal.After.Length() + long; recent > single {
			old, recent = (recent-single)/long+1, single
		}
	}
	n := ahead + recent/p + 1 + old
	at, what := r.every, fmt.Sprintf("%d, as keep = %q and ahead = %q in periods of %s", n, d.Keep, d.Ahead, d.Period)
	if d.Keep.IsZero() {
		what = fmt.Sprintf("%d, as ahead = %q in periods of %s", n, d.Ahead, d.Period)
	}
	hint := "a longer period, or a shorter keep"
	if !d.Seal.Merge.Valid() && !d.Keep.IsZero() {
		hint = fmt.Sprintf("a longer period, a shorter keep, or merge = %q under [seal]", multiple(d.Period))
	}
	switch {
	case limit > 0 && n > limit:
		r.fail(at, hint, "too many periods: %s; %s", what, why)
	case n > manyPeriods:
		r.warn(at, "many periods: %s; each costs memory in every connection that has the table open, and a query without a bound on %s looks at all of them; take %s", what, d.Time, hint)
	case d.Keep.IsZero() && d.Period.Axis() == Time && limit > 0:
		// Without retention, the number of periods grows: say when it exceeds the limit.
		long := p
		if d.Seal.Merge.Valid() {
			long = max(d.Seal.Merge.Span().Length(), 1)
		}
		if years := float64(limit-n) * float64(long) / float64(365*day); years < 10 {
			r.warn(at, "without keep the table exceeds the limit of periods after %.1f years: %s", years, why)
		}
	}
}

// Lengths of names, in bytes.
const (
	// maxColumnName leaves room for the suffixes of a roll-up's columns.
	maxColumnName = 48
	// maxPeriodTable leaves room for _p20261120_183015_250000 in PostgreSQL's 63 bytes.
	maxPeriodTable = 63 - 25
	// maxName leaves room in the 64 characters of other servers for _late, _live and the like.
	maxName = 50
)

func badName(name string, limit int) string {
	switch {
	case len(name) > limit:
		return fmt.Sprintf("it has %d bytes, and at most %d leave room for the suffixes of further names", len(name), limit)
	case strings.HasPrefix(strings.ToLower(name), "rowmill_"):
		return "rowmill_ begins the names of rowmill's own tables and columns"
	}
	for i, c := range []byte(name) {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return fmt.Sprintf("it has %q", c)
		}
	}
	return ""
}

func (r *declarationReader) names() {
	taken := map[string]string{}
	take := func(at *tomlfile.Value, name, what string) {
		key := strings.ToLower(name)
		if other, ok := taken[key]; ok {
			if what == other {
				r.fail(at, "another name", "there are two of the name %s", name)
			} else {
				r.fail(at, "another name", "%s is also %s", name, other)
			}
			return
		}
		taken[key] = what
	}
	limit := cmp.Or(r.longestName, maxName)
	if r.name != nil && r.d.Name != "" {
		long := len(r.d.Name) > limit
		if why := badName(r.d.Name, limit); long || strings.Contains(why, "rowmill_") {
			r.fail(r.name, "another name", "a table that rolls can't be called %q: %s", r.d.Name, why)
		}
		take(r.name, r.d.Name, "the table")
		take(r.name, r.d.Name+"_late", "the table of "+r.d.Name+"'s late rows")
	}
	for i := range r.d.Rollups {
		l := &r.d.Rollups[i]
		if l.Name == "" {
			continue
		}
		at := &tomlfile.Value{Place: tomlfile.Place{Line: l.Line, Column: 1}}
		if why := badName(l.Name, limit); why != "" {
			r.fail(at, "another name: letters, digits and _", "a level can't be called %q: %s", l.Name, why)
		}
		take(at, l.Name, "a level")
		take(at, l.Name+"_live", "the view of a level")
	}
}
