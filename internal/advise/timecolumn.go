package advise

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/value"
)

// sampledRows are enough rows to tell an order from chance: if 2,000 rows are in no order, 46 to
// 54% of them have a larger value than the row before.
const sampledRows = 2000

// Conditions on the values of a time column.
const (
	earliest = 946684800 // 2000-01-01: integers before it are no times
	follows  = 0.9       // share of ascending pairs: from it on, a column follows the order in which rows are stored
)

// A Candidate is a column by which a table may roll, with the reasons for it.
type Candidate struct {
	Column string
	// Unit is what an integer counts since 1970: "s", "ms" or "us"; "" for a time.
	Unit string
	// Reasons are for the owner, the strongest first.
	Reasons []string
	// From and To are the first and the last of the sampled times; zero without rows.
	From, To time.Time
	score    float64
}

// A sampled is a column with the values of some rows.
type sampled struct {
	engine.SchemaColumn
	values       []float64 // times in microseconds, or integers; NaN for NULL and for anything else
	nulls, wrong int
	distinct     map[string]bool // the different values; nil if there are more than mostDistinct
	sevens       int             // number of UUIDs of version 7
	fours        int             // number of UUIDs of version 4
}

// mostDistinct is the maximum number of different values in a column by which a roll-up groups.
const mostDistinct = 200

func (c *sampled) add(v sql.NullString) {
	if !v.Valid {
		c.nulls++
		c.values = append(c.values, math.NaN())
		return
	}
	if c.distinct != nil {
		if c.distinct[v.String] = true; len(c.distinct) > mostDistinct {
			c.distinct = nil
		}
	}
	n, ok := math.NaN(), false
	switch {
	case c.Kind == value.Int:
		i, err := strconv.ParseInt(v.String, 10, 64)
		n, ok = float64(i), err == nil
	case c.Kind == value.Time || c.Kind == value.Text:
		us, _, err := value.ParseTime([]byte(v.String), time.UTC)
		n, ok = float64(us), err == nil
	}
	if !ok {
		c.wrong++
		n = math.NaN()
	}
	if len(v.String) == 36 && strings.Count(v.String, "-") == 4 {
		switch v.String[14] {
		case '7':
			c.sevens++
		case '4':
			c.fours++
		}
	}
	c.values = append(c.values, n)
}

// order compares each sampled row with the row before it, and leaves out pairs of equal values. It
// returns the share of pairs whose second value is larger, and the number of pairs.
func (c *sampled) order() (share float64, of int) {
	up, last := 0, math.NaN()
	for _, v := range c.values {
		if !math.IsNaN(v) && !math.IsNaN(last) && v != last {
			if of++; v > last {
				up++
			}
		}
		if !math.IsNaN(v) {
			last = v
		}
	}
	return float64(up) / float64(max(of, 1)), of
}

func (c *sampled) bounds() (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, v := range c.values {
		if !math.IsNaN(v) {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	return lo, hi
}

// perSecond has the units in which integers count time since 1970, and how many make a second.
var perSecond = map[string]float64{"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}

// unit returns the unit in which all values are times between 2000 and ten years from now; "" if
// there is no such unit.
func (c *sampled) unit(now time.Time) string {
	lo, hi := c.bounds()
	for name, n := range perSecond { // at most one unit fits
		if lo >= earliest*n && hi <= float64(now.AddDate(10, 0, 0).Unix())*n {
			return name
		}
	}
	return ""
}

// sample reads some rows of a table, with only the columns that may serve as the table's time or as
// the group of a roll-up.
func sample(ctx context.Context, db engine.Definer, s *engine.Schema) (out []*sampled, of *engine.TableSample, err error) {
	var list []string
	for _, c := range s.Columns {
		if c.Generated || c.Array || c.Kind == value.Bytes || c.Kind == value.Text && c.Length > 255 {
			continue
		}
		out = append(out, &sampled{SchemaColumn: c, distinct: map[string]bool{}})
		list = append(list, db.Words().AsText(c))
	}
	sampler, ok := db.(engine.TableSampler)
	if !ok || len(out) == 0 {
		return out, nil, errors.New("this server draws no samples")
	}
	of, err = sampler.SampleTable(ctx, s, list, engine.Sampling{Share: 1, Rows: sampledRows}, func(_ int, row []sql.NullString) {
		for i, c := range out {
			c.add(row[i])
		}
	})
	return out, of, err
}

// candidates returns the columns by which the table may roll, the likeliest first. For each column
// whose times can't be used yet, unusable says what is missing.
func candidates(s *engine.Schema, columns []*sampled, now time.Time) (out []Candidate, unusable []string) {
	for _, c := range columns {
		if c.sevens > 0 && c.sevens == len(c.values)-c.nulls {
			unusable = append(unusable, fmt.Sprintf("column %s has UUIDs of version 7, which begin with the time: rowmill needs it in a column of its own, such as a time with DEFAULT CURRENT_TIMESTAMP", c.Name))
		}
		if a := candidate(s, c, now); a == nil {
			continue
		} else if a.Unit == "ns" {
			unusable = append(unusable, fmt.Sprintf("column %s counts nanoseconds since 1970, and periods have bounds in s, ms or us", c.Name))
		} else {
			out = append(out, *a)
		}
	}
	slices.SortStableFunc(out, func(a, b Candidate) int { return cmp.Compare(b.score, a.score) })
	return out, unusable
}

func candidate(s *engine.Schema, c *sampled, now time.Time) *Candidate {
	a := &Candidate{Column: c.Name}
	add := func(score float64, reason string) {
		a.score += score
		a.Reasons = append(a.Reasons, reason)
	}
	rows := len(c.values)
	known := rows - c.nulls
	named := slices.ContainsFunc([]string{"time", "_at", "date", "clock", "created", "stamp"}, func(w string) bool { return strings.Contains(strings.ToLower(c.Name), w) }) ||
		slices.Contains([]string{"at", "ts", "t", "when"}, strings.ToLower(c.Name))
	share, of := c.order()
	switch {
	case c.Logical == value.Date, c.Kind == value.Time:
	case c.Kind == value.Text:
		if known == 0 || c.wrong > 0 {
			return nil
		}
	case c.Kind == value.Int && known > 0:
		if a.Unit = c.unit(now); a.Unit == "" || !named && (of < 100 || share < follows) {
			return nil
		}
		add(-1, "it counts "+map[string]string{"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}[a.Unit]+" since 1970 in each sampled row")
	default:
		return nil
	}
	if of >= 20 {
		text := fmt.Sprintf("it grows from row to row, as stored, in %.0f%% of %s sampled", 100*share, figure.Plural(rows, "row"))
		add(4*(share-0.5), text)
	}
	if slices.Contains(s.PrimaryKey, c.Name) {
		add(2, "it is in the primary key")
	}
	for _, ix := range s.Indexes {
		if len(ix.Columns) > 0 && ix.Columns[0] == c.Name {
			add(0.5, "index "+ix.Name+" begins with it")
			break
		}
	}
	switch {
	case c.nulls > 0:
		add(-3, fmt.Sprintf("it is NULL in %s of %s sampled, which no period takes: UPDATE them first", figure.Count(c.nulls), figure.Plural(rows, "row")))
	case !c.Null:
		add(0.5, "it is NOT NULL")
	}
	if named {
		a.score += 0.3
	}
	if c.Logical == value.Date {
		a.score -= 0.2
	}
	if known > c.wrong {
		lo, hi := c.bounds()
		if a.Unit != "" {
			scale := 1e6 / perSecond[a.Unit]
			lo, hi = lo*scale, hi*scale
		}
		day := func(us float64) string { return time.UnixMicro(int64(us)).UTC().Format(time.DateOnly) }
		a.From, a.To = time.UnixMicro(int64(lo)).UTC(), time.UnixMicro(int64(hi)).UTC()
		a.Reasons = append(a.Reasons, fmt.Sprintf("sampled rows are from %s to %s", day(lo), day(hi)))
		if hi > float64(now.AddDate(0, 0, 2).UnixMicro()) {
			add(-1, "some of them lie in the future")
		}
	}
	return a
}
