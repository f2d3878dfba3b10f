package query

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/merge"
	"github.com/rowmill/rowmill/internal/query/plan"
)

// A keyRange is the range of values of a primary key's first column, as integers. A decimal counts
// units of its last digit (1.50 is 150); a time counts microseconds.
type keyRange struct {
	column string // quoted
	table  string // quoted
	null   bool   // the column may be NULL
	class  engine.ResultClass
	scale  int
	layout string // of times

	min, max int64
}

// layouts are the forms of times in results and in literals. The server compares a literal exactly,
// even if it has more digits than the column.
var layouts = []string{"2006-01-02", "2006-01-02 15:04:05.999999"}

// ranges makes pieces of a table without partitions: ranges of its primary key with about the same
// number of rows. If it can't divide the key, it sets p.Whole to the reason, and the query runs
// whole.
func (r *Runner) ranges(ctx context.Context, s *engine.Session, p *plan.Plan, most int) ([]plan.Piece, error) {
	n := r.nodes[0]
	if len(p.Table.PrimaryKey) == 0 {
		p.Whole = "table " + p.Table.Name + " has neither partitions nor a primary key"
		return nil, nil
	}
	fail := func(err error) error { // the whole query needs no ranges
		if plan.Unanswered(ctx, err) {
			return err
		}
		p.Whole = "the server refuses a range of the primary key of " + p.Table.Name + ": " + err.Error()
		return nil
	}
	k, why, err := keyOf(ctx, n.Reader, s, p.Table)
	if err != nil {
		return nil, fail(err)
	}
	if why != "" {
		p.Whole = why
		return nil, nil
	}
	cuts, err := k.cuts(most, func(from, to int64) (int64, error) {
		plan, err := n.ExplainQuery(ctx, s, "SELECT "+k.column+" FROM "+k.table+" WHERE "+k.column+" >= "+k.literal(from)+" AND "+k.column+" < "+k.literal(to))
		if err != nil {
			return 0, err
		}
		if plan.Result > 0 {
			return plan.Result, nil
		}
		return plan.Rows, nil
	})
	if err != nil {
		return nil, fail(err)
	}
	if len(cuts) == 0 {
		p.Whole = "the first column of the primary key of " + p.Table.Name + " has too few values for ranges"
		return nil, nil
	}
	each := int64(-1)
	if p.EstimatedRows >= 0 {
		each = p.EstimatedRows / int64(len(cuts)+1)
	}
	var out []plan.Piece
	for i := range len(cuts) + 1 {
		out = append(out, plan.Piece{Where: k.where(cuts, i), Rows: each})
	}
	return out, nil
}

// keyOf reads the range of the first column of a primary key.
func keyOf(ctx context.Context, reader engine.Reader, s *engine.Session, t *engine.TableParts) (k keyRange, why string, err error) {
	d, name := reader.Dialect(), t.PrimaryKey[0]
	k.column, k.table = d.Quote(name), plan.QuotedName(d, t.Database, t.Name)
	for _, c := range t.Columns {
		if c.Name == name {
			k.null = c.Null
		}
	}
	// Two queries with ORDER BY and LIMIT 1 use the key on every server.
	var ends [2]string
	found := 0
	for i, order := range []string{"", " DESC"} {
		cols, err := reader.DescribeQuery(ctx, s, "SELECT "+k.column+" FROM "+k.table)
		if err != nil {
			return k, "", err
		}
		k.class, k.scale = cols[0].Class, cols[0].Scale
		q := "SELECT " + k.column + " FROM " + k.table + " WHERE " + k.column + " IS NOT NULL ORDER BY " + k.column + order + " LIMIT 1"
		if err := s.Text(ctx, q, nil, func(values [][]byte) error {
			ends[i] = string(values[0])
			found++
			return nil
		}); err != nil {
			return k, "", fmt.Errorf("range of the primary key of %s: %w", t.Name, err)
		}
	}
	if found < 2 {
		return k, "table " + t.Name + " is empty", nil
	}
	ok := false
	if k.min, ok = k.parse(ends[0]); ok {
		k.max, ok = k.parse(ends[1])
	}
	if !ok || k.min > k.max {
		return k, "ranges of column " + name + ", the first of the primary key, aren't certain: only those of signed integers and of decimals that fit into 64 bits, of dates, and of times without fractions of a second are", nil
	}
	return k, "", nil
}

// parse returns a value of the column, given as text, as an integer.
func (k *keyRange) parse(text string) (int64, bool) {
	switch k.class {
	case engine.ClassInt:
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil
	case engine.ClassDecimal:
		n, _, large, ok := merge.ParseNumber([]byte(text), k.scale)
		return n, ok && !large && k.scale >= 0
	case engine.ClassTime:
		for _, layout := range layouts {
			if at, err := time.Parse(layout, text); err == nil {
				k.layout = layout
				return at.UnixMicro(), true
			}
		}
	}
	return 0, false
}

// literal returns an integer as a literal of the column's type.
func (k *keyRange) literal(n int64) string {
	if k.class == engine.ClassTime {
		return "'" + time.UnixMicro(n).UTC().Format(k.layout) + "'"
	}
	if k.class == engine.ClassInt {
		return strconv.FormatInt(n, 10)
	}
	return string(merge.AppendNumber(nil, n, k.scale))
}

// where returns the condition of piece i: keys from one cut (included) to the next (excluded). The
// first and last piece have no outer bound, so each row is in exactly one piece, even if it is
// inserted meanwhile.
func (k *keyRange) where(cuts []int64, i int) string {
	var list []string
	if i > 0 {
		list = append(list, k.column+" >= "+k.literal(cuts[i-1]))
	}
	if i < len(cuts) {
		list = append(list, k.column+" < "+k.literal(cuts[i]))
	}
	where := strings.Join(list, " AND ")
	if i == 0 && k.null {
		where += " OR " + k.column + " IS NULL"
	}
	return where
}

// The search for a cut asks for at most maxProbes estimates, one for each bit of the key. It ends
// when the piece up to the cut has its share of the rows, give or take 1/tolerance. Evenly
// distributed values need one estimate.
const (
	maxProbes = 64
	tolerance = 4
)

// unit is the smallest difference of two cuts whose literals differ: for dates, a day.
func (k *keyRange) unit() int64 {
	if k.layout == layouts[0] {
		return 24 * 3600 * 1e6
	}
	return 1
}

// cuts returns up to most-1 ascending values that divide the rows about evenly, by the server's
// estimates. Where an estimate is below 0, which means unknown, the values are equidistant.
func (k *keyRange) cuts(most int, estimate func(from, to int64) (int64, error)) (out []int64, err error) {
	lo, hi := k.min, k.max
	span := uint64(hi) - uint64(lo) // at most 2^64 - 1
	if span/uint64(k.unit()) < 1 {
		return nil, nil
	}
	end := hi
	if hi < 1<<63-1-k.unit() {
		end = hi + k.unit()
	}
	total, err := estimate(lo, end)
	if err != nil {
		return nil, err
	}
	// at divides [from, to) into equal parts, as many as of, and returns the end of part number share.
	at := func(from, to int64, share, of uint64) int64 {
		width := uint64(to) - uint64(from)
		q, rem := width/of, width%of
		v := int64(uint64(from) + q*share + rem*share/of)
		return v - mod(v, k.unit())
	}
	from := lo
	for piece := 1; piece < most; piece++ {
		cut := at(from, end, 1, uint64(most-piece+1))
		if want := total / int64(most); total > int64(most) {
			low, high := from, end
			for range maxProbes {
				if cut <= low || cut >= high {
					break
				}
				got, err := estimate(from, cut)
				if err != nil {
					return nil, err
				}
				if got < 0 || got >= want-want/tolerance && got <= want+want/tolerance {
					break
				}
				if got < want {
					low = cut
				} else {
					high = cut
				}
				cut = at(low, high, 1, 2)
			}
		}
		if cut <= from || cut > hi {
			continue
		}
		out = append(out, cut)
		from = cut
	}
	return out, nil
}

// mod is the remainder that is never negative.
func mod(n, d int64) int64 { return ((n % d) + d) % d }
