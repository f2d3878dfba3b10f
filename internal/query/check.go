package query

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/query/merge"
	"github.com/rowmill/rowmill/internal/query/parse"
	"github.com/rowmill/rowmill/internal/query/plan"
	"github.com/rowmill/rowmill/internal/sqltext"
)

// A Checked is the result of comparing two answers to a statement: run whole, and run in pieces.
type Checked struct {
	Plan *plan.Plan
	// Rows is the number of rows of the whole answer.
	Rows int64
	// Differences are the first differences that were found, and All is the number of all
	// differences. If All is 0, columns and rows are the same.
	Differences []Difference
	All         int64
	// Stopped reports that the comparison ended early, because of too many differences.
	Stopped bool
	// Reordered reports that the rows of the pieces came in another order than those of the whole
	// answer, and that this order also satisfies ORDER BY. Unordered reports that only the leading
	// columns of ORDER BY were checked: those before the first expression or text.
	Reordered, Unordered bool
	// Report says how the pieces were run.
	Report *Report
}

// A Difference is one place where the two answers differ. Values are nil for NULL.
type Difference struct {
	// What is the kind of difference, such as DiffersInValue.
	What string
	// Row is the row's number, from 1, in the answer of the query that was run whole. For an added row
	// it is the number in the answer of the pieces.
	Row    int64
	Column string
	// Whole and Split are the values in the two answers. If a row is in only one of the answers,
	// the value for that answer is a text of the whole row, and the other is nil.
	Whole, Split []byte
}

// Values of Difference.What.
const (
	DiffersInColumn = "column" // of the description of the result
	DiffersInValue  = "value"
	DiffersMissing  = "missing"
	DiffersAdded    = "added"
	DiffersInOrder  = "order"
)

// mostDifferences is the maximum length of Checked.Differences.
const mostDifferences = 20

// Check runs a statement whole and in pieces, in one snapshot, and compares the two answers byte
// for byte. It keeps the whole answer in memory; an answer of more than Options.Memory is an error.
//
// Without ORDER BY, the order of rows is ignored. With ORDER BY, the columns of the answer that
// ORDER BY names must have the same values in the same order.
func (r *Runner) Check(ctx context.Context, p *plan.Plan) (*Checked, error) {
	c := &Checked{Plan: p, Report: &Report{Plan: p}}
	if p.Whole != "" || len(p.Pieces) == 0 {
		return c, nil
	}
	if p.Clock {
		return nil, engine.Hinted(errors.New("check: the query has the current time, which is another in each of the two answers"), "a literal in its place")
	}
	x, err := r.begin(ctx, p, nil, c.Report)
	if why := rerunReason(err); why != "" && ctx.Err() == nil {
		c.Report.Rerun = why
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	whole := &kept{most: r.memory()}
	err = x.asWhole(whole)
	var got *compared
	if err == nil {
		got = &compared{whole: whole, checked: c, left: map[uint64][]int{}}
		got.order, c.Unordered = orderColumns(p.Text, r.nodes[0].Syntax(p.State), whole.cols)
		err = x.answer(got)
	}
	if c.Stopped = errors.Is(err, errStopComparing); c.Stopped {
		err = nil
		x.cancel(errStopComparing)
	}
	err = errors.Join(err, x.end())
	c.Rows = int64(len(whole.rows))
	if why := rerunReason(err); why != "" && got != nil && ctx.Err() == nil { // the statement run whole has an answer
		c.Report.Rerun = why
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	got.finish()
	return c, nil
}

// asWhole runs the statement whole, in the first of the sessions for pieces, so that the whole
// statement and the pieces see the same snapshot. If the pieces run on other servers, asWhole uses
// a session of the head.
func (x *execution) asWhole(sink Sink) error {
	run, n := x.runs[0], x.r.nodes[0]
	if run.node == n {
		return run.sessions[0].Text(x.ctx, x.p.Text, sink.Columns, sink.Row)
	}
	s, err := n.pieces.get(x.ctx, x.state)
	if err != nil {
		return err
	}
	err = s.Text(x.ctx, x.p.Text, sink.Columns, sink.Row)
	return errors.Join(err, n.pieces.put(x.ctx, s))
}

// kept is a Sink that keeps an answer in memory.
type kept struct {
	cols []engine.ResultColumn
	rows [][]byte // see merge.AppendRow
	size int64
	most int64
}

func (k *kept) Columns(cols []engine.ResultColumn) error {
	k.cols = slices.Clone(cols)
	return nil
}

func (k *kept) Row(values [][]byte) error {
	row := merge.AppendRow(nil, values)
	k.rows = append(k.rows, row)
	if k.size += int64(len(row)) + 48; k.size > k.most {
		return engine.Hinted(fmt.Errorf("the answer needs more than %s to be kept for the comparison", figure.Bytes(k.most)), "--memory with more, or a LIMIT in the query")
	}
	return nil
}

// compared is a Sink that compares the answer of the pieces with the whole answer, which was kept.
// It compares the rows at the same places until two differ. From there on, it searches the whole
// answer for each row of the pieces.
type compared struct {
	whole   *kept
	checked *Checked
	// order are the columns that ORDER BY names; nil if they aren't known.
	order []int

	n       int // rows so far
	buf     []byte
	seed    maphash.Seed
	differs bool             // rows at the same place have differed: rows are searched
	left    map[uint64][]int // rows of whole that are not found yet, by hash
	used    []bool
	extra   []extraRow
	values  [2][][]byte
}

// An extraRow is a row of the pieces that is missing in the whole answer.
type extraRow struct {
	at  int
	row []byte
}

func (c *compared) add(d Difference) {
	c.checked.All++
	if len(c.checked.Differences) < mostDifferences {
		d.Whole, d.Split = bytes.Clone(d.Whole), bytes.Clone(d.Split)
		c.checked.Differences = append(c.checked.Differences, d)
	}
}

func (c *compared) Columns(cols []engine.ResultColumn) error {
	for i := range max(len(cols), len(c.whole.cols)) {
		text := func(list []engine.ResultColumn) []byte {
			if i >= len(list) {
				return nil
			}
			k := list[i]
			return fmt.Appendf(nil, "%s %s scale %d unsigned %v", k.Name, k.Native, k.Scale, k.Unsigned)
		}
		if a, b := text(c.whole.cols), text(cols); !bytes.Equal(a, b) {
			c.add(Difference{What: DiffersInColumn, Column: fmt.Sprint(i + 1), Whole: a, Split: b})
		}
	}
	if len(cols) != len(c.whole.cols) {
		return errStopComparing
	}
	c.values = [2][][]byte{make([][]byte, len(cols)), make([][]byte, len(cols))}
	c.used = make([]bool, len(c.whole.rows))
	c.seed = maphash.MakeSeed()
	return nil
}

// errStopComparing ends a comparison early: other columns, or too many differing rows.
var errStopComparing = errors.New("the answers have different numbers of columns")

func (c *compared) Row(values [][]byte) error {
	at := c.n
	c.n++
	c.buf = merge.AppendRow(c.buf[:0], values)
	if !c.differs {
		if at < len(c.whole.rows) && bytes.Equal(c.whole.rows[at], c.buf) {
			c.used[at] = true
			return nil
		}
		c.differs = true
		for i := at; i < len(c.whole.rows); i++ {
			h := maphash.Bytes(c.seed, c.whole.rows[i])
			c.left[h] = append(c.left[h], i)
		}
	}
	if c.order != nil && at < len(c.whole.rows) {
		c.compareOrder(at, values)
	}
	h := maphash.Bytes(c.seed, c.buf)
	for k, i := range c.left[h] {
		if bytes.Equal(c.whole.rows[i], c.buf) {
			c.used[i] = true
			c.checked.Reordered = c.checked.Reordered || i != at
			c.left[h] = slices.Delete(c.left[h], k, k+1)
			return nil
		}
	}
	c.extra = append(c.extra, extraRow{at, bytes.Clone(c.buf)})
	if len(c.extra) > maxExtra {
		return errStopComparing
	}
	return nil
}

// orderColumns returns the leading columns of ORDER BY whose order can be checked. It omits the
// first column that is an expression or a text, and all after it: a collation may leave the order
// of texts open. more reports that there are such columns.
func orderColumns(text string, syntax sqltext.Syntax, cols []engine.ResultColumn) (out []int, more bool) {
	q, err := parse.Parse(text, syntax)
	if err != nil {
		return nil, false
	}
	for _, o := range q.OrderBy {
		at := -1
		switch e := parse.Bare(o.Expr); {
		case e.Kind == parse.Literal:
			if n, err := strconv.Atoi(e.Of(text)); err == nil && n <= len(cols) {
				at = n - 1
			}
		case e.Kind == parse.Column && len(e.Names) == 1:
			same := func(c engine.ResultColumn) bool { return strings.EqualFold(c.Name, e.Names[0]) }
			if at = slices.IndexFunc(cols, same); at >= 0 && slices.ContainsFunc(cols[at+1:], same) {
				at = -1
			}
		}
		if at < 0 || cols[at].Class == engine.ClassOther || cols[at].Class == engine.ClassText {
			return out, true
		}
		out = append(out, at)
	}
	return out, false
}

// maxExtra is the number of extra rows at which the comparison ends.
const maxExtra = 10_000

// compareOrder compares the order columns of a row with those of the whole answer's row at the same
// place.
func (c *compared) compareOrder(at int, values [][]byte) {
	merge.NextRow(c.whole.rows[at], c.values[0])
	for _, i := range c.order {
		if a := c.values[0][i]; !sortsAlike(c.whole.cols[i], a, values[i]) {
			c.add(Difference{What: DiffersInOrder, Row: int64(at) + 1, Column: c.whole.cols[i].Name, Whole: a, Split: values[i]})
			return
		}
	}
}

// sortsAlike reports whether two values of a column are equal for ORDER BY, such as 1.5 and 1.50,
// 0 and 0.000, or 0 and -0.
func sortsAlike(c engine.ResultColumn, a, b []byte) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	if c.Class == engine.ClassDecimal {
		a, b = []byte(figure.TrimZeros(string(a))), []byte(figure.TrimZeros(string(b)))
	}
	if c.Class == engine.ClassFloat && bytes.Equal(bytes.TrimPrefix(a, []byte("-")), bytes.TrimPrefix(b, []byte("-"))) {
		return bytes.Equal(a, b) || len(bytes.Trim(a, "-0.")) == 0
	}
	return bytes.Equal(a, b)
}

// finish pairs the rows that only the whole answer has with the rows that only the pieces have:
// first with first, second with second, and so on.
func (c *compared) finish() {
	var missing []int
	for i, is := range c.used {
		if !is {
			missing = append(missing, i)
		}
	}
	// If the answers have different rows, another order of rows isn't reported.
	if len(missing) > 0 || len(c.extra) > 0 {
		c.checked.Differences = slices.DeleteFunc(c.checked.Differences, func(d Difference) bool { return d.What == DiffersInOrder })
		c.checked.All = int64(len(c.checked.Differences))
	}
	if c.checked.Stopped { // the rows after that were not compared
		missing = missing[:min(len(missing), len(c.extra))]
	}
	for n := 0; n < len(missing) || n < len(c.extra); n++ {
		switch {
		case n >= len(c.extra):
			c.add(Difference{What: DiffersMissing, Row: int64(missing[n]) + 1, Whole: c.text(c.whole.rows[missing[n]])})
		case n >= len(missing):
			c.add(Difference{What: DiffersAdded, Row: int64(c.extra[n].at) + 1, Split: c.text(c.extra[n].row)})
		default:
			c.pair(missing[n], c.extra[n].row)
		}
	}
}

// pair adds a difference for each value in which two rows differ.
func (c *compared) pair(at int, row []byte) {
	merge.NextRow(c.whole.rows[at], c.values[0])
	merge.NextRow(row, c.values[1])
	for i, a := range c.values[0] {
		if b := c.values[1][i]; !bytes.Equal(a, b) || (a == nil) != (b == nil) {
			c.add(Difference{What: DiffersInValue, Row: int64(at) + 1, Column: c.whole.cols[i].Name, Whole: a, Split: b})
		}
	}
}

// text returns a row as one text.
func (c *compared) text(row []byte) []byte {
	merge.NextRow(row, c.values[0])
	var out []byte
	for i, v := range c.values[0] {
		if i > 0 {
			out = append(out, ", "...)
		}
		if v == nil {
			out = append(out, "NULL"...)
		} else {
			out = append(out, v...)
		}
	}
	return out
}

// Same reports whether the answers are the same.
func (c *Checked) Same() bool { return c.All == 0 }

// Text writes the result as lines for people.
func (c *Checked) Text(w io.Writer) error {
	var b strings.Builder
	switch {
	case c.Report.Rerun != "":
		fmt.Fprintf(&b, "nothing to compare: the query would be run again whole, because %s\n", c.Report.Rerun)
	case c.Plan.Whole != "":
		fmt.Fprintf(&b, "nothing to compare: the query is not split: %s\n", c.Plan.Whole)
	case c.Same():
		fmt.Fprintf(&b, "the same: %s of %s, whole and from %s\n", figure.Plural(c.Rows, "row"), figure.Plural(len(c.Plan.Columns), "column"), figure.Plural(len(c.Plan.Pieces), "piece"))
		if c.Reordered {
			if c.Unordered {
				b.WriteString("in another order: whether ORDER BY permits it is not compared, as it sorts by an expression or a text\n")
			} else {
				b.WriteString("in another order, which the query leaves open\n")
			}
		}
	default:
		more := ""
		if c.Stopped {
			more = "at least "
		}
		fmt.Fprintf(&b, "DIFFERENT: %s%s\n", more, figure.Plural(c.All, "difference"))
		for _, d := range c.Differences {
			b.WriteString("  " + d.text() + "\n")
		}
		if n := c.All - int64(len(c.Differences)); n > 0 {
			fmt.Fprintf(&b, "  and %s more\n", figure.Count(n))
		}
	}
	if !c.Same() || c.Report.Proof == "" {
		for _, warning := range c.Report.Warnings {
			fmt.Fprintf(&b, "warning: %s\n", warning)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (d Difference) text() string {
	switch d.What {
	case DiffersInColumn:
		return fmt.Sprintf("column %s: whole %s, split %s", d.Column, quoted(d.Whole), quoted(d.Split))
	case DiffersMissing:
		return fmt.Sprintf("row %d: only in the whole answer: %s", d.Row, quoted(d.Whole))
	case DiffersAdded:
		return fmt.Sprintf("row %d: only in the split answer: %s", d.Row, quoted(d.Split))
	case DiffersInOrder:
		return fmt.Sprintf("row %d, column %s, in the order: whole %s, split %s", d.Row, d.Column, quoted(d.Whole), quoted(d.Split))
	}
	return fmt.Sprintf("row %d, column %s: whole %s, split %s", d.Row, d.Column, quoted(d.Whole), quoted(d.Split))
}

// quoted returns a value in quotes, with escapes for unprintable characters, or NULL.
func quoted(v []byte) string {
	const most = 200
	switch {
	case v == nil:
		return "NULL"
	case len(v) > most:
		return strconv.Quote(string(v[:most])) + fmt.Sprintf("... (%d bytes)", len(v))
	}
	return strconv.Quote(string(v))
}

// CheckedFormat is the format of a Checked as JSON.
const CheckedFormat = "rowmill.check/1"

// MarshalJSON implements json.Marshaler.
func (c *Checked) MarshalJSON() ([]byte, error) {
	type difference struct {
		What   string  `json:"what"`
		Row    int64   `json:"row,omitempty"`
		Column string  `json:"column,omitempty"`
		Whole  *string `json:"whole"`
		Split  *string `json:"split"`
	}
	text := func(v []byte) *string {
		if v == nil {
			return nil
		}
		s := string(v)
		return &s
	}
	out := struct {
		Format      string       `json:"format"`
		Statement   string       `json:"statement"`
		Same        bool         `json:"same"`
		Compared    bool         `json:"compared"`
		Reordered   bool         `json:"reordered,omitempty"`
		Unordered   bool         `json:"order_not_compared,omitempty"`
		Why         string       `json:"why,omitempty"`
		Rows        int64        `json:"rows"`
		Pieces      int          `json:"pieces"`
		Differences int64        `json:"differences"`
		First       []difference `json:"first_differences"`
		Snapshot    string       `json:"snapshot"`
		Warnings    []string     `json:"warnings,omitempty"`
	}{CheckedFormat, c.Plan.Text, c.Same(), true, c.Reordered, c.Reordered && c.Unordered, cmp.Or(c.Plan.Whole, c.Report.Rerun), c.Rows, len(c.Plan.Pieces), c.All, []difference{}, c.Report.Proof, c.Report.Warnings}
	out.Compared = out.Why == ""
	for _, d := range c.Differences {
		out.First = append(out.First, difference{d.What, d.Row, d.Column, text(d.Whole), text(d.Split)})
	}
	return json.Marshal(out)
}
