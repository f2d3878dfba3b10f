package rolling

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/tomlfile"
)

type level struct {
	Rollup
	at, everyAt *tomlfile.Value
}

func (r *declarationReader) rollups(list *tomlfile.Value) {
	if list == nil {
		return
	}
	if list.Kind != tomlfile.Tables {
		r.fail(list, "[[rollup]]", "rollup is %s; each level is a table of a list", list.What())
		return
	}
	if r.d.Period.Axis() == Sequence {
		r.fail(list.In[0], "leave it out, or roll by a column of time", "a table that rolls by rows has no roll-ups: a bucket is a length of time")
		return
	}
	var levels []level
	for _, v := range list.In {
		r.known("rollup", v)
		l := level{Rollup: Rollup{Line: v.Line}, at: v}
		l.Name, _ = r.must(v, "[[rollup]]", "name", "readings_1h")
		r.levelEvery(&l)
		r.levelFrom(&l, levels)
		var source *level
		for i := range levels {
			if levels[i].Name == l.From && l.From != "" {
				source = &levels[i]
			}
		}
		r.levelBy(&l, source)
		r.levelSelect(&l, source)
		r.levelKeep(&l, source)
		levels = append(levels, l)
		r.d.Rollups = append(r.d.Rollups, l.Rollup)
	}
}

func (r *declarationReader) levelEvery(l *level) {
	text, v := r.must(l.at, "[[rollup]]", "every", "1h")
	if v == nil {
		return
	}
	l.everyAt = v
	g, err := Parse(text)
	if err != nil || g.Axis() == Sequence {
		r.fail(v, lengthForms, "every = %q is not a length of a bucket", text)
		return
	}
	if r.d.WholeDays() && !dayGrid.Divides(g) {
		r.fail(v, `every = "1d" or longer`, "every = %q is shorter than the resolution of column %s: whole days", g, r.d.Time)
	}
	l.Every = g
}

func (r *declarationReader) levelFrom(l *level, before []level) {
	text, v := r.text(l.at, "from", "readings_1h")
	if v == nil {
		return
	}
	l.From = text
	var names []string
	for _, o := range before {
		names = append(names, o.Name)
		if o.Name != text {
			continue
		}
		switch {
		case !l.Every.Valid() || !o.Every.Valid():
		case l.Every == o.Every:
			r.fail(l.everyAt, "every = "+strconv.Quote(multiple(o.Every)), "every = %q is that of its source %s: nothing is left to aggregate", l.Every, text)
		case !o.Every.Divides(l.Every):
			r.fail(l.everyAt, "a multiple, such as "+multiple(o.Every), "a bucket of %s isn't made of whole buckets of %s, those of its source %s", l.Every, o.Every, text)
		}
		return
	}
	hint := tomlfile.DidYouMean(text, names)
	if len(names) == 0 || text == r.d.Name {
		hint = "leave from out: a level without it is made from the table"
	}
	r.fail(v, hint, "from = %q is not a level above this one", text)
}

func (r *declarationReader) texts(table *tomlfile.Value, key string) ([]string, bool) {
	v := table.Find(key)
	if v == nil {
		return nil, false
	}
	if v.Kind != tomlfile.List || slices.ContainsFunc(v.In, func(e *tomlfile.Value) bool { return e.Kind != tomlfile.Text }) {
		r.fail(v, key+` = ["sensor"]`, "%s is %s; want a list of quoted strings", key, v.What())
		return nil, false
	}
	out := []string{}
	for _, e := range v.In {
		out = append(out, e.Text)
	}
	return out, true
}

func (r *declarationReader) levelBy(l *level, source *level) {
	by, given := r.texts(l.at, "by")
	if source != nil && !given {
		l.By = slices.Clone(source.By)
		return
	}
	v := l.at.Find("by")
	known, where := r.columns, r.d.Name
	if source != nil {
		known, where = source.By, "by of "+source.Name
	}
	for _, name := range by {
		found := r.column(name, known)
		switch {
		case len(known) == 0 && source == nil: // the definition can't be read
		case found == "":
			hint := tomlfile.DidYouMean(name, known)
			if len(known) == 0 {
				hint = "leave it out"
			}
			r.fail(v, hint, "by names %q, which isn't in %s", name, where)
			continue
		case r.sameName(found, r.d.Time):
			r.fail(v, "leave it out", "by names %s: each bucket has its time anyway", found)
		case slices.Contains(l.By, found):
			r.fail(v, "leave one out", "by names %s twice", found)
		default:
			if source == nil {
				r.groupable(v, found)
			}
			name = found
		}
		l.By = append(l.By, name)
	}
}

// groupable refuses columns whose values can't be part of a roll-up's key.
func (r *declarationReader) groupable(at *tomlfile.Value, name string) {
	c := r.d.Definition.Column(name)
	first := firstWord(c.Type)
	long := strings.Contains(first, "text") || strings.Contains(first, "blob") || first == "json"
	switch {
	case reservedColumn(name):
		r.fail(at, "another name for the table's column", "by names %s, which is a column that each roll-up has for itself", name)
	case !c.NotNull:
		r.fail(at, fmt.Sprintf("NOT NULL in create, or by a generated column such as COALESCE(%s, ...)", name), "by names %s, which can be NULL and can't be part of a key then", name)
	case slices.Contains([]string{"float", "double", "real", "float4", "float8"}, first):
		r.fail(at, "a column of integers or decimals", "by names %s of type %q: whether two binary fractions are equal depends on rounding", name, c.Type)
	case r.shortKeys && long:
		r.fail(at, "a VARCHAR", "by names %s of type %q, which can't be part of a key", name, c.Type)
	}
}

// reservedColumn reports whether a roll-up has, or may have, an internal column of that name.
func reservedColumn(name string) bool {
	name = strings.ToLower(name)
	return name == "bucket" || name == "raw_rows" || partOfAggregate.MatchString(name)
}

// partOfAggregate matches the columns from which an aggregate is merged.
var partOfAggregate = regexp.MustCompile(`__(n|sum|mean|m2|at|hll|dd)$`)

func firstWord(native string) string {
	words := strings.FieldsFunc(strings.ToLower(native), func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') })
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

// column returns a known name in its own spelling, or "".
func (r *declarationReader) column(name string, known []string) string {
	if slices.Contains(known, name) {
		return name
	}
	for _, k := range known {
		if r.sameName(k, name) {
			return k
		}
	}
	return ""
}

func (r *declarationReader) levelSelect(l *level, source *level) {
	v := l.at.Find("select")
	const example = `select = { n = "count(*)", mean = "avg(value)" }`
	switch {
	case v == nil && l.From != "":
		if source != nil {
			l.Select = slices.Clone(source.Select)
		}
		return
	case v == nil:
		r.fail(l.at, example, "[[rollup]] has no select")
		return
	case v.Kind != tomlfile.Table:
		r.fail(v, example, "select is %s; want a table of names and aggregates", v.What())
		return
	case len(v.In) == 0:
		r.fail(v, example, "select is empty")
		return
	}
	var names []string
	for _, c := range v.In {
		if c.Kind != tomlfile.Text {
			r.fail(c, c.Key+` = "avg(value)"`, "%s is %s; want an aggregate as a quoted string", c.Key, c.What())
			continue
		}
		a, hint, err := parseAggregate(c.Text)
		if err != nil {
			r.fail(c, hint, "%s = %q: %v", c.Key, c.Text, err)
			continue
		}
		a.Name = c.Key
		same := func(name string) bool { return strings.EqualFold(name, a.Name) }
		switch why := badName(a.Name, maxColumnName); {
		case why != "":
			r.fail(c, "letters, digits and _", "%q can't be a column: %s", a.Name, why)
		case slices.ContainsFunc(names, same):
			r.fail(c, "another name", "there are two columns %s, as case doesn't count", a.Name)
		case slices.ContainsFunc(l.By, same):
			r.fail(c, "another name, such as "+a.Name+"_"+a.Func, "there is a column %s already, from by", a.Name)
		case reservedColumn(a.Name):
			r.fail(c, "another name", "column %s is one that each roll-up has for itself, or the end of its name is", a.Name)
		default:
			names = append(names, a.Name)
			if r.aggregateOf(c, &a) && (source == nil || r.sameAs(c, a, source)) {
				l.Select = append(l.Select, a)
			}
		}
	}
}

func (r *declarationReader) aggregateOf(at *tomlfile.Value, a *Aggregate) bool {
	if a.Column == "" || len(r.columns) == 0 {
		return true
	}
	found := r.column(a.Column, r.columns)
	if found == "" {
		r.fail(at, tomlfile.DidYouMean(a.Column, r.columns), "%s = %q: %s has no column %s", at.Key, at.Text, r.d.Name, a.Column)
		return false
	}
	a.Column = found
	numeric := slices.Contains([]string{"sum", "avg", "stddev", "variance", "percentile"}, a.Func)
	native := r.d.Definition.Column(found).Type
	if numeric && slices.Contains(textTypes, firstWord(native)) {
		r.fail(at, "a column of numbers; count, min, max, first, last and distinct take any", "%s = %q: column %s of type %q holds no numbers", at.Key, at.Text, found, native)
		return false
	}
	return true
}

// textTypes hold no numbers on any server.
var textTypes = []string{
	"char", "varchar", "character", "text", "tinytext", "mediumtext", "longtext", "nchar", "nvarchar", "clob", "enum", "set",
	"blob", "tinyblob", "mediumblob", "longblob", "binary", "varbinary", "bytea", "json", "jsonb", "uuid", "date", "datetime",
	"timestamp", "timestamptz", "time", "inet", "inet4", "inet6", "cidr", "boolean", "bool",
}

// sameAs checks that a level's source has an aggregate, or the parts to compute it from: stddev and
// variance have the same parts, a sketch serves every percentile, and rows are always counted.
func (r *declarationReader) sameAs(at *tomlfile.Value, a Aggregate, source *level) bool {
	parts := func(fn string) string {
		if fn == "variance" {
			return "stddev"
		}
		return fn
	}
	if a.Func == "count" && a.Column == "" {
		return true
	}
	var have []string
	for _, s := range source.Select {
		if parts(s.Func) == parts(a.Func) && s.Column == a.Column {
			return true
		}
		have = append(have, fmt.Sprintf("%s = %q", s.Name, s))
	}
	r.fail(at, "select it there too, or leave select out to have "+strings.Join(have, ", "), "%s = %q can't be made from %s, which doesn't have it", a.Name, a, source.Name)
	return false
}

func (r *declarationReader) levelKeep(l *level, source *level) {
	var v *tomlfile.Value
	l.Keep, v = r.span(l.at, "keep")
	if !l.Every.Valid() {
		return
	}
	if v != nil && l.Keep.Length() < l.Every.Span().Length() {
		r.fail(v, fmt.Sprintf("keep = %q or longer", l.Every), "keep = %q is shorter than a bucket of %s", l.Keep, l.Every)
	}
	from, keep := r.d.Name, r.d.Keep
	if source != nil {
		from, keep = source.Name, source.Keep
	}
	if !keep.IsZero() && keep.Length() < l.Every.Span().Length() {
		r.fail(l.everyAt, fmt.Sprintf("a shorter bucket, or keep = %q or longer for %s", l.Every, from), "a bucket of %s never has all its rows: %s keeps %s", l.Every, from, keep)
	}
}

var aggregates = []string{"count", "sum", "avg", "min", "max", "stddev", "variance", "first", "last", "distinct", "percentile"}

// insteadOf says which of rowmill's aggregates to use in place of an aggregate that has another
// name in other systems, or that rowmill can't compute, such as a median.
var insteadOf = map[string]string{
	"mean": "avg", "average": "avg", "std": "stddev", "stddev_samp": "stddev", "stddev_pop": "stddev", "var": "variance", "var_samp": "variance",
	"var_pop": "variance", "total": "sum", "approx_count_distinct": "distinct", "uniq": "distinct", "count_distinct": "distinct",
	"median": "percentile", "quantile": "percentile", "percentile_cont": "percentile", "first_value": "first", "last_value": "last",
}

var (
	aggregateForm = regexp.MustCompile(`^\s*([A-Za-z_][A-Za-z0-9_]*)\s*\((.*)\)\s*$`)
	distinctForm  = regexp.MustCompile(`(?i)^\s*distinct\s+(.+)$`)
)

// parseAggregate reads count(*), avg(value), percentile(value, 99).
func parseAggregate(text string) (a Aggregate, hint string, err error) {
	m := aggregateForm.FindStringSubmatch(text)
	if m == nil {
		return a, "count(*), avg(value), percentile(value, 99)", fmt.Errorf("this is not an aggregate")
	}
	a.Func = strings.ToLower(m[1])
	args := m[2]
	if d := distinctForm.FindStringSubmatch(args); d != nil {
		return a, "distinct(" + strings.TrimSpace(d[1]) + "), an estimate", fmt.Errorf("aggregates of distinct values can't be computed from those of parts")
	}
	column, percent, two := args, "", false
	if i := strings.LastIndexByte(args, ','); i >= 0 {
		column, percent, two = args[:i], strings.TrimSpace(args[i+1:]), true
	}
	column = unquoteName(strings.TrimSpace(column))
	if !slices.Contains(aggregates, a.Func) {
		hint = tomlfile.DidYouMean(a.Func, aggregates)
		if is := insteadOf[a.Func]; is == "percentile" {
			hint = fmt.Sprintf("percentile(%s, 50)", column)
		} else if is != "" {
			hint = fmt.Sprintf("%s(%s)", is, column)
		}
		return a, hint, fmt.Errorf("there is no aggregate %s", a.Func)
	}
	switch {
	case a.Func == "percentile":
		a.Percent, err = strconv.ParseFloat(percent, 64)
		if !two || err != nil || !(a.Percent > 0 && a.Percent < 100) {
			return a, fmt.Sprintf("percentile(%s, 99)", column), fmt.Errorf("want which percentile, above 0 and below 100")
		}
	case two:
		return a, fmt.Sprintf("%s(%s)", a.Func, column), fmt.Errorf("%s takes one column", a.Func)
	case column == "*" && a.Func == "count":
		return a, "", nil
	case column == "*":
		return a, a.Func + "(value)", fmt.Errorf("%s takes a column", a.Func)
	}
	if column == "" || strings.ContainsAny(column, "()+*/'\";") {
		return a, "a column that the table has, or a generated one", fmt.Errorf("want the name of a column, not %q", column)
	}
	a.Column = column
	return a, "", nil
}

func unquoteName(s string) string {
	for _, q := range []string{`"`, "`"} {
		if len(s) > 2 && strings.HasPrefix(s, q) && strings.HasSuffix(s, q) {
			return strings.ReplaceAll(s[1:len(s)-1], q+q, q)
		}
	}
	return s
}

// String returns the aggregate as a declaration has it, "percentile(value, 99)".
func (a Aggregate) String() string {
	switch {
	case a.Column == "":
		return a.Func + "(*)"
	case a.Func == "percentile":
		return fmt.Sprintf("percentile(%s, %s)", a.Column, strconv.FormatFloat(a.Percent, 'f', -1, 64))
	}
	return fmt.Sprintf("%s(%s)", a.Func, a.Column)
}
