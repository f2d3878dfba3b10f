package rolling

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Errors are all errors of a declaration, in the order of its lines.
type Errors []*Error

// Error returns one line per error, and one with the next step.
func (es Errors) Error() string {
	var b strings.Builder
	for i, e := range es {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.Error())
		if e.Hint != "" {
			b.WriteString("\n  Try: " + e.Hint)
		}
	}
	return b.String()
}

// Unwrap returns the individual errors.
func (es Errors) Unwrap() []error {
	out := make([]error, len(es))
	for i, e := range es {
		out[i] = e
	}
	return out
}

// ParseDeclaration reads and checks the declaration of a rolling table, TOML as
// described in docs/declaration.md; source is its name in errors. The error is an
// Errors with all mistakes found.
func ParseDeclaration(source string, text []byte) (*Declaration, error) {
	return ParseDeclarationFor(source, text, "")
}

// ParseDeclarationFor is ParseDeclaration with a target that replaces the file's, or
// supplies a missing one. Without any target, the checks that depend on the kind of
// server are omitted.
func ParseDeclarationFor(source string, text []byte, target string) (*Declaration, error) {
	root, bad := readFile(source, text)
	if bad != nil {
		return nil, Errors{bad}
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
	family family
	// instead is a target that replaces the file's.
	instead string
	// create is the key of the definition.
	create *fileValue
	// columns are the names of the table's columns.
	columns []string
	// Keys of the file, nil if missing.
	name, timeKey, every, keep, ahead, after, merge *fileValue
}

// A family is a group of servers with the same rules.
type family string

const (
	mysqlFamily    family = "MySQL and MariaDB"
	postgresFamily family = "PostgreSQL"
	sqliteFamily   family = "SQLite"
)

// fail records an error at a value.
func (r *declarationReader) fail(at *fileValue, hint, format string, args ...any) {
	r.errs = append(r.errs, &Error{r.source, at.line, at.column, fmt.Sprintf(format, args...), hint})
}

func (r *declarationReader) warn(at *fileValue, format string, args ...any) {
	r.d.Warnings = append(r.d.Warnings, fmt.Sprintf("%s:%d: ", r.source, at.line)+fmt.Sprintf(format, args...))
}

// failDefinition records an error at a line of the definition.
func (r *declarationReader) failDefinition(line, column int, hint, format string, args ...any) {
	r.errs = append(r.errs, r.inDefinition(&Error{Line: line, Column: column, Text: fmt.Sprintf(format, args...), Hint: hint}))
}

// inDefinition converts an error's place in the definition, which counts from its
// first line, to the place in the file.
func (r *declarationReader) inDefinition(e *Error) *Error {
	out := *e
	out.Source = r.source
	if e.Line <= 1 {
		out.Column = max(e.Column, 1) + r.create.content[1] - 1
	}
	out.Line = r.create.content[0] + max(e.Line, 1) - 1
	return &out
}

// declarationKeys are the keys of each table of the file.
var declarationKeys = map[string][]string{
	"":       {"table", "period", "seal", "rollup"},
	"table":  {"name", "target", "create", "time", "epoch", "exact"},
	"period": {"every", "rows", "ahead", "keep", "late"},
	"seal":   {"after", "compress", "merge", "archive"},
	"rollup": {"name", "from", "every", "by", "select", "keep"},
}

// known refuses keys that a table of the file doesn't have.
func (r *declarationReader) known(table string, v *fileValue) {
	if v == nil {
		return
	}
	keys := declarationKeys[table]
	for _, c := range v.in {
		if slices.Contains(keys, c.key) {
			continue
		}
		hint := didYouMean(c.key, keys)
		for _, other := range []string{"seal", "period", "table"} {
			if other != table && slices.Contains(declarationKeys[other], c.key) {
				hint = fmt.Sprintf("it belongs under [%s]", other)
			}
		}
		in := ""
		if table != "" {
			in = " in [" + table + "]"
		}
		r.fail(c, hint, "unknown key %q%s", c.key, in)
	}
}

// section returns a table of the file, or nil.
func (r *declarationReader) section(root *fileValue, name string) *fileValue {
	v := root.find(name)
	if v == nil {
		return nil
	}
	if v.kind != unstable.Table {
		r.fail(v, "["+name+"]", "%s is %s; want one table", name, v.what())
		return nil
	}
	r.known(name, v)
	return v
}

// text returns a key's text, and the key; nil if it is missing or not a text.
func (r *declarationReader) text(table *fileValue, key, example string) (string, *fileValue) {
	v := table.find(key)
	if v == nil {
		return "", nil
	}
	if v.kind != unstable.String {
		r.fail(v, fmt.Sprintf("%s = %q", key, example), "%s is %s; want a text in quotes", key, v.what())
		return "", nil
	}
	if strings.ContainsRune(v.text, 0) {
		r.fail(v, "leave it out", "%s has a zero byte", key)
		return "", nil
	}
	return v.text, v
}

// must is text for a required key.
func (r *declarationReader) must(table *fileValue, section, key, example string) (string, *fileValue) {
	if table.find(key) == nil {
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

func (r *declarationReader) truth(table *fileValue, key string) (bool, *fileValue) {
	v := table.find(key)
	if v == nil {
		return false, nil
	}
	if v.kind != unstable.Bool {
		r.fail(v, key+" = true", "%s is %s; want true or false, without quotes", key, v.what())
		return false, nil
	}
	return v.text == "true", v
}

const lengthForms = "30s, 15m, 2h, 1d, 1w, 1mo or 1y"

// length reads a length of time, or of rows for a sequence.
func (r *declarationReader) length(table *fileValue, key string) (Grid, *fileValue) {
	example := "2d"
	if r.d.Period.Axis() == Sequence {
		example = "2000000 rows"
	}
	text, v := r.text(table, key, example)
	if v == nil {
		return Grid{}, nil
	}
	g, err := Parse(text)
	forms := lengthForms
	if r.d.Period.Axis() == Sequence {
		forms = `a number of rows, "2000000 rows"`
	}
	switch {
	case err != nil && strings.Contains(err.Error(), "at most"):
		r.fail(v, "leave it out to have no limit", "%s = %q is more than 1000 years", key, text)
	case err != nil:
		r.fail(v, forms, "%s = %q is no length", key, text)
	case g.Axis() != r.d.Period.Axis() && g.Axis() == Sequence:
		r.fail(v, forms, "%s = %q counts rows, and the table rolls by time", key, text)
	case g.Axis() != r.d.Period.Axis():
		r.fail(v, forms, "%s = %q is a time, and the table rolls by rows", key, text)
	default:
		return g, v
	}
	return Grid{}, nil
}

func (r *declarationReader) file(root *fileValue) {
	r.known("", root)
	table := r.section(root, "table")
	if table == nil {
		if root.find("table") == nil {
			r.fail(root, "[table] with name, target, create and time", "there is no [table]")
		}
		return
	}
	r.target(table)
	// The period is read before the definition: the permitted columns depend on its
	// axis.
	period := r.section(root, "period")
	if period == nil && root.find("period") == nil {
		r.fail(table, `[period] with every = "auto", ahead and keep`, "there is no [period]")
	}
	r.period(period)
	r.table(table)
	seal := r.section(root, "seal")
	r.seal(seal)
	r.defaults()
	r.counts(period)
	r.rollups(root.find("rollup"))
	r.names()
}

func (r *declarationReader) target(table *fileValue) {
	text, v := r.text(table, "target", "mysql://ingest@db1:3306/metrics")
	if r.instead != "" {
		text, v = r.instead, table
	}
	if v == nil {
		return
	}
	scheme, rest, ok := strings.Cut(text, ":")
	const passwordForms = "?password-file=FILE, or MYSQL_PWD and ~/.my.cnf, PGPASSWORD and ~/.pgpass"
	const forms = "mysql://USER@HOST:PORT/DB, mariadb://..., postgres://..., sqlite:PATH"
	if HoldsPassword(text) {
		r.fail(v, passwordForms, "target holds a password, which would be stored and printed")
		return
	}
	if !ok {
		r.fail(v, forms, "target has no scheme")
		return
	}
	scheme = strings.ToLower(scheme)
	kind := scheme
	if kind == "sandbox" {
		kind, _, _ = strings.Cut(rest, "?")
	}
	switch kind {
	case "mysql", "mariadb":
		r.family = mysqlFamily
	case "postgres", "postgresql":
		r.family = postgresFamily
	case "sqlite":
		r.family = sqliteFamily
		if path, _, _ := strings.Cut(rest, "?"); path == "" {
			r.fail(v, "sqlite:PATH", "target %q names no file, and a temporary one isn't kept", text)
			return
		}
	case "null":
		r.fail(v, forms, "target null: stores nothing")
		return
	default:
		r.fail(v, forms, "target has an unknown scheme, %q", scheme)
		return
	}
	if strings.HasPrefix(rest, "//") {
		u, err := url.Parse(text)
		if err != nil {
			// The parser's error repeats the text, which may contain a password.
			r.fail(v, forms, "target of scheme %s is no URL", scheme)
			return
		}
		if _, has := u.User.Password(); has {
			r.fail(v, passwordForms, "target of scheme %s holds a password, which would be stored and printed", scheme)
			return
		}
	}
	r.d.Target = text
}

func (r *declarationReader) period(period *fileValue) {
	if period == nil {
		return
	}
	every, rows := period.find("every"), period.find("rows")
	switch {
	case every != nil && rows != nil:
		r.fail(rows, "every for an axis of time, rows for a sequence", "a period has either every or rows")
	case every == nil && rows == nil:
		r.fail(period, `every = "auto", every = "2h", or rows = 500000 for a sequence`, "[period] has neither every nor rows")
	case rows != nil:
		r.every = rows
		n, err := rows.integer()
		if rows.kind != unstable.Integer {
			r.fail(rows, "rows = 500000", "rows is %s; want a whole number", rows.what())
			return
		}
		if err != nil || n < 1 {
			r.fail(rows, "rows = 500000", "rows = %s; want at least 1", rows.text)
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
			r.fail(v, `"merge" lets late rows in, "reject" has their INSERT fail`, "late = %q is no policy", text)
		}
	}
	var g Grid
	if g, r.ahead = r.length(period, "ahead"); r.ahead != nil {
		r.d.Ahead = g.Span()
	}
	if g, r.keep = r.length(period, "keep"); r.keep != nil {
		r.d.Keep = g.Span()
	}
}

// everyOf reads the period of an axis of time.
func (r *declarationReader) everyOf(period *fileValue) {
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
	case err != nil && strings.Contains(err.Error(), "at most"):
		r.fail(v, "a shorter one", "every = %q is more than 1000 years", text)
	case err != nil:
		r.fail(v, `"auto", `+lengthForms, "every = %q is no period", text)
	case g.Axis() == Sequence:
		r.fail(v, fmt.Sprintf("rows = %d", g.step), "every = %q counts rows", text)
	default:
		r.d.Period = g
	}
}

func (r *declarationReader) seal(seal *fileValue) {
	if seal == nil {
		return
	}
	r.d.Seal.Compress, _ = r.truth(seal, "compress")
	if r.d.Seal.Compress && r.family == sqliteFamily {
		r.warn(seal.find("compress"), "SQLite has no compression: sealed periods are only sorted")
	}
	var g Grid
	if g, r.after = r.length(seal, "after"); r.after != nil {
		r.d.Seal.After = g.Span()
	}
	if g, r.merge = r.length(seal, "merge"); r.merge != nil {
		r.d.Seal.Merge = g
		if p := r.d.Period; p.Valid() && (!p.Divides(g) || p == g) {
			r.fail(r.merge, "a multiple of the period, such as "+multiple(p), "merge = %q isn't made of several whole periods of %s", g, p)
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
	if r.after != nil && r.keep != nil && r.d.Keep.Length() < r.d.Seal.After.Length() {
		r.fail(r.keep, fmt.Sprintf("keep = %q or longer", r.d.Seal.After), "keep = %q ends before a period is sealed, %s after its end", r.d.Keep, r.d.Seal.After)
	}
}

// multiple returns, as an example, a period that is a multiple of the given one.
func multiple(g Grid) string {
	for _, text := range []string{"1h", "1d", "1w", "1mo", "1y"} {
		if long, _ := Parse(text); g.Divides(long) && long != g {
			return text
		}
	}
	g.step, g.months = g.step*10, g.months*10
	return g.String()
}

// defaults fills in omitted keys.
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

// epochs are the units that an integer may count.
var epochs = map[string]time.Duration{"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond}
