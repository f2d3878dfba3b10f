package rolling

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/tomlfile"
)

// Values describe the rows with which a benchmark fills the table. Nothing else uses them.
type Values struct {
	// RowsPerSecond is how many rows have times of one second; 0 is the benchmark's default.
	RowsPerSecond float64
	// Columns are the columns with a description, in the order of the file.
	Columns []ColumnValues
}

// ColumnValues describe the values of one column; zero fields mean the benchmark's defaults.
type ColumnValues struct {
	// Column is the column's name, Line and Place where its description begins.
	Column      string
	Line, Place int
	Null        float64   // the share of NULLs
	Distinct    int64     // the number of different values
	Heavy       []float64 // the shares of the most frequent values
	Skew        float64   // the exponent of a Zipf distribution
	Order       ValueOrder
	New         float64 // the share of rows with a new key
	Window      int64   // how many rows back a key may come again
	HasRange    bool
	From, To    float64
	Length      [2]int // the least and the most characters or bytes
	Words       []string
}

// Of returns the description of a column; the zero value if it has none.
func (v *Values) Of(column string) ColumnValues {
	if i := slices.IndexFunc(v.Columns, func(c ColumnValues) bool { return c.Column == column }); i >= 0 {
		return v.Columns[i]
	}
	return ColumnValues{}
}

// A ValueOrder says how the values of a column follow the order of the rows.
type ValueOrder int

const (
	// OrderRandom has random values: each row draws one of all values.
	OrderRandom ValueOrder = iota + 1
	// OrderAscending has values that grow with time, such as those of a counter.
	OrderAscending
	// OrderRecent has keys that recur for a while and then never again, such as sessions.
	OrderRecent
)

// String returns the order as written in a declaration.
func (o ValueOrder) String() string { return [...]string{"", "random", "ascending", "recent"}[o] }

// mostHeavy limits the number of values whose frequency is declared: see ColumnValues.Heavy.
const mostHeavy = 1000

// values reads [values], once [table] is read.
func (r *declarationReader) values(root *tomlfile.Value) {
	all := root.Find("values")
	if all == nil {
		return
	}
	if all.Kind != tomlfile.Table {
		r.fail(all, "[values]", "values is %s; want a table", all.What())
		return
	}
	for _, v := range all.In {
		switch {
		case v.Kind == tomlfile.Table:
			r.columnValues(v)
		case v.Key == "rows-per-second":
			r.d.Values.RowsPerSecond = r.number(v, 0.001, 1e9, "rows-per-second = 1000")
		default:
			r.fail(v, fmt.Sprintf("[values.%s], a table with the name of a column, or rows-per-second", v.Key), "unknown key %q in [values]", v.Key)
		}
	}
}

// number reads a number between least and most.
func (r *declarationReader) number(v *tomlfile.Value, least, most float64, example string) float64 {
	if v.Kind != tomlfile.Whole && v.Kind != tomlfile.Number {
		r.fail(v, example, "%s is %s; want a number", v.Key, v.What())
		return least
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(v.Text, "_", ""), 64)
	if v.Kind == tomlfile.Whole {
		var n int64
		n, err = v.Integer()
		f = float64(n)
	}
	if err != nil || !(f >= least && f <= most) {
		r.fail(v, example, "%s = %s; want %v to %v", v.Key, v.Text, least, most)
		return least
	}
	return f
}

func (r *declarationReader) whole(v *tomlfile.Value, least, most int64, example string) int64 {
	n, err := v.Integer()
	switch {
	case v.Kind != tomlfile.Whole:
		r.fail(v, example, "%s is %s; want a whole number", v.Key, v.What())
	case err != nil || n < least || n > most:
		r.fail(v, example, "%s = %s; want %d to %d", v.Key, v.Text, least, most)
	default:
		return n
	}
	return least
}

const (
	mostDistinct = 1 << 48
	mostLength   = 1 << 20
)

func (r *declarationReader) columnValues(at *tomlfile.Value) {
	c := ColumnValues{Column: at.Key, Line: at.Line, Place: at.Column}
	if def := r.d.Definition; def != nil {
		found := def.Column(at.Key)
		if found == nil {
			r.fail(at, tomlfile.DidYouMean(at.Key, r.columns), "[values.%s]: %s has no column %q", at.Key, def.Name, at.Key)
			return
		}
		c.Column = found.Name
		if found.Generated {
			r.fail(at, "leave it out", "column %s is computed by the server: no row brings a value", found.Name)
		}
		if found.Name == r.d.Time {
			r.fail(at, "rows-per-second under [values]", "column %s is the one by which the table rolls: its values follow from the rows' order", found.Name)
		}
	}
	if r.d.Values.Of(c.Column).Column != "" {
		r.fail(at, "one of them", "there are two descriptions of column %s", c.Column)
	}
	before := len(r.errs)
	for _, v := range at.In {
		switch v.Key {
		case "null":
			c.Null = r.number(v, 0, 1, "null = 0.05, the share of rows")
		case "distinct":
			c.Distinct = r.whole(v, 1, mostDistinct, "distinct = 100000")
		case "skew":
			c.Skew = r.number(v, 0, 10, "skew = 0.8, the exponent of a Zipf distribution")
		case "new":
			c.New = r.number(v, 1e-6, 1, "new = 0.1, the share of rows with a new key")
		case "window":
			c.Window = r.whole(v, 1, mostDistinct, "window = 20000, in rows")
		case "from":
			c.From, c.HasRange = r.number(v, -math.MaxInt64, math.MaxInt64, "from = 0"), true
		case "to":
			c.To, c.HasRange = r.number(v, -math.MaxInt64, math.MaxInt64, "to = 1000"), true
		case "order":
			c.Order = r.valueOrder(v)
		case "heavy":
			c.Heavy = r.heavy(v)
		case "length":
			c.Length = r.lengths(v)
		case "words":
			c.Words = r.words(v)
		default:
			r.fail(v, tomlfile.DidYouMean(v.Key, declarationKeys["values"][1:]), "unknown key %q in [values.%s]", v.Key, at.Key)
		}
	}
	if len(r.errs) == before {
		r.togetherIn(at, &c)
	}
	r.d.Values.Columns = append(r.d.Values.Columns, c)
}

// togetherIn refuses keys of a column's values that contradict each other.
func (r *declarationReader) togetherIn(at *tomlfile.Value, c *ColumnValues) {
	only := func(ok bool, hint, with string, keys ...string) {
		for _, key := range keys {
			if v := at.Find(key); v != nil && !ok {
				r.fail(v, hint, "%s goes only with %s", key, with)
			}
		}
	}
	random := c.Order == 0 || c.Order == OrderRandom
	only(!random, `order = "recent"`, `order = "ascending" or "recent"`, "new", "window")
	only(random, "leave it out", `order = "random"`, "distinct", "heavy", "skew", "words")
	only(c.Skew == 0, "one of them", "no skew", "heavy")
	only(c.Words == nil, "leave it out", "no words", "from", "to", "length", "distinct")
	if c.HasRange && (at.Find("from") == nil || at.Find("to") == nil || c.From > c.To) {
		v := at.Find("from")
		if v == nil || at.Find("to") != nil {
			v = at.Find("to")
		}
		r.fail(v, "from = 0 and to = 1000", "a range has from and to, the first not above the second")
	}
	if n := int64(len(c.Heavy)); c.Distinct > 0 && n > c.Distinct {
		r.fail(at.Find("heavy"), "a greater distinct", "heavy has %d values, and distinct is %d", n, c.Distinct)
	}
}

func (r *declarationReader) valueOrder(v *tomlfile.Value) ValueOrder {
	for _, o := range []ValueOrder{OrderRandom, OrderAscending, OrderRecent} {
		if v.Kind == tomlfile.Text && v.Text == o.String() {
			return o
		}
	}
	r.fail(v, `"random", "ascending" or "recent"`, "order is %s; want an order of values", cmp.Or(strconv.Quote(v.Text), v.What()))
	return 0
}

// list reads the elements of a list; where they are is not known, so an error names the list.
func (r *declarationReader) list(v *tomlfile.Value, example string) []*tomlfile.Value {
	if v.Kind != tomlfile.List || len(v.In) == 0 {
		r.fail(v, example, "%s is %s; want a list that is not empty", v.Key, v.What())
		return nil
	}
	for _, e := range v.In {
		e.Key = v.Key
	}
	return v.In
}

func (r *declarationReader) heavy(v *tomlfile.Value) (out []float64) {
	const example = "heavy = [0.2, 0.1], the shares of the most frequent values"
	sum := 0.0
	for _, e := range r.list(v, example) {
		f := r.number(e, 0, 1, example)
		out, sum = append(out, f), sum+f
	}
	if sum > 1+1e-9 || len(out) > mostHeavy {
		r.fail(v, example, "heavy has %d shares of together %.3g; want at most %d, of at most 1", len(out), sum, mostHeavy)
	}
	return out
}

func (r *declarationReader) lengths(v *tomlfile.Value) (out [2]int) {
	const example = "length = [10, 20], the least and the most characters"
	list := r.list(v, example)
	if list != nil && len(list) != 2 {
		r.fail(v, example, "length has %d numbers; want two", len(list))
		return out
	}
	for i, e := range list {
		out[i] = int(r.whole(e, 0, mostLength, example))
	}
	if list != nil && (out[0] > out[1] || out[1] == 0) {
		r.fail(v, example, "length = [%d, %d]; want the least first, and the most above 0", out[0], out[1])
	}
	return out
}

func (r *declarationReader) words(v *tomlfile.Value) (out []string) {
	const example = `words = ["new", "paid"]`
	for _, e := range r.list(v, example) {
		if e.Kind != tomlfile.Text || strings.ContainsRune(e.Text, 0) {
			r.fail(v, example, "words has %s; want quoted strings", e.What())
			return nil
		}
		if slices.Contains(out, e.Text) {
			r.fail(v, example, "words has one twice")
			return nil
		}
		out = append(out, e.Text)
	}
	return out
}

// TOML returns the description as the section of a declaration.
func (v *Values) TOML() string {
	var b strings.Builder
	b.WriteString("[values]\n")
	if v.RowsPerSecond > 0 {
		fmt.Fprintf(&b, "rows-per-second = %s\n", figure(v.RowsPerSecond))
	}
	for _, c := range v.Columns {
		name := c.Name()
		fmt.Fprintf(&b, "\n[values.%s]\n", name)
		for _, k := range []struct {
			key   string
			given bool
			value string
		}{
			{"null", c.Null > 0, figure(c.Null)},
			{"distinct", c.Distinct > 0, strconv.FormatInt(c.Distinct, 10)},
			{"skew", c.Skew > 0, figure(c.Skew)},
			{"order", c.Order > 0, strconv.Quote(c.Order.String())},
			{"new", c.New > 0, figure(c.New)},
			{"window", c.Window > 0, strconv.FormatInt(c.Window, 10)},
			{"from", c.HasRange, figure(c.From)},
			{"to", c.HasRange, figure(c.To)},
			{"length", c.Length[1] > 0, fmt.Sprintf("[%d, %d]", c.Length[0], c.Length[1])},
			{"heavy", len(c.Heavy) > 0, "[" + join(c.Heavy, figure) + "]"},
			{"words", len(c.Words) > 0, "[" + join(c.Words, tomlText) + "]"},
		} {
			if k.given {
				fmt.Fprintf(&b, "%s = %s\n", k.key, k.value)
			}
		}
	}
	return b.String()
}

// Name returns the column's name as a key.
func (c *ColumnValues) Name() string {
	if badName(c.Column, len(c.Column)) == "" {
		return c.Column
	}
	return tomlText(c.Column)
}

func join[T any](list []T, text func(T) string) string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = text(v)
	}
	return strings.Join(out, ", ")
}

// figure returns a number with the digits that a description needs.
func figure(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1<<62 {
		return strconv.FormatInt(int64(f), 10)
	}
	text := strconv.FormatFloat(f, 'g', 5, 64)
	if !strings.Contains(text, ".") {
		text = strings.Replace(text, "e", ".0e", 1)
	}
	return text
}
