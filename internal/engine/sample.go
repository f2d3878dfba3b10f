package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/value"
)

// A TableSampler is a Keeper that samples the rows of a table, and tells what the server knows of
// its values.
type TableSampler interface {
	Keeper
	// SampleTable reads rows of a table, from at most the share o.Share of the table's pages. columns
	// are expressions of Words, which are evaluated for each row. fn gets their values as texts, which
	// are valid until the next row. Rows with the same block number are neighbors on disk.
	SampleTable(ctx context.Context, s *Schema, columns []string, o Sampling, fn func(block int, row []sql.NullString)) (*TableSample, error)
}

// Sampling limits a sample.
type Sampling struct {
	Share float64 // of the pages, at most; 1 is no limit
	Rows  int64   // to read, at most, roughly
}

// A TableSample is what a server knows about the sampled table.
type TableSample struct {
	Rows, Pages int64 // of the table, estimated
	// Key is the column in whose order rows are stored; "" for the order of insertion.
	Key     string
	Columns map[string]ColumnStatistics
}

// ColumnStatistics are what the server's statistics say of a column.
type ColumnStatistics struct {
	Distinct float64   // the number of different values; 0 is unknown
	Heavy    []float64 // for each of the most frequent values, the share of the rows that have it
}

// A SamplePart is a table or a partition that stores its rows in the order of a key.
type SamplePart struct {
	From        string // the operand of FROM that reads it by that key
	Rows, Pages int64
}

// SampleRanges reads rows at random places of a key: roughly this many pages for each place.
const (
	rowsFrom = 2 // for a page's rows, which may begin in the middle of a page
	probes   = 3 // to find the value of a column of the key
)

// SampleRanges implements SampleTable for rows that are stored in the order of a key. From each of
// several places in the key, it reads as many rows as fit on a page. The places are spread over the
// pages of the parts, and evenly over the values of the key.
func SampleRanges(ctx context.Context, db Keeper, s *Schema, parts []SamplePart, key []SchemaColumn, columns []string, o Sampling, fn func(block int, row []sql.NullString)) (*TableSample, error) {
	keys, err := NewKeys(db, key)
	if err != nil {
		return nil, err
	}
	out := &TableSample{Key: key[0].Name, Columns: map[string]ColumnStatistics{}}
	for _, p := range parts {
		out.Rows, out.Pages = out.Rows+p.Rows, out.Pages+p.Pages
	}
	if out.Rows == 0 || out.Pages == 0 {
		return nil, Hinted(errors.New("its statistics say that it is empty"), "a table with rows; if it has some, ANALYZE it")
	}
	perPage := max(out.Rows/out.Pages, 1)
	cost := (rowsFrom + probes*float64(len(key)-1)) * max(float64(out.Pages)/float64(out.Rows), 1)
	if len(parts) > 1 {
		cost += probes
	}
	ranges := max(o.Rows/perPage, 1)
	if o.Share < 1 {
		ranges = min(ranges, int64(o.Share*float64(out.Pages)/cost))
	}
	random := rand.New(rand.NewPCG(1, 2))
	at, before := 0, int64(0)
	var ends [2]string
	for block := range ranges {
		page := (float64(block) + random.Float64()) / float64(ranges) * float64(out.Pages)
		for at < len(parts)-1 && page >= float64(before+parts[at].Pages) {
			before, at, ends = before+parts[at].Pages, at+1, [2]string{}
		}
		from := parts[at].From
		if ends[0] == "" {
			if ends, err = keys.ends(ctx, from, nil); err != nil {
				return nil, err
			}
		}
		place, err := keys.place(ctx, from, ends, (page-float64(before))/float64(parts[at].Pages), random.Float64)
		if err != nil || place == nil {
			return nil, err
		}
		where, args, err := keys.compare(">=", place)
		if err != nil {
			return nil, err
		}
		query := fmt.Sprintf("SELECT %s FROM %s WHERE %s%s LIMIT %d", strings.Join(columns, ", "), from, where, keys.order(""), min(perPage, o.Rows))
		if err := ScanTexts(ctx, db, db.SQL(), len(columns), func(row []sql.NullString) { fn(int(block), row) }, query, args...); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ends returns the least and the greatest value of the key column that follows prefix, among the
// rows whose first key columns have the values of prefix.
func (k *Keys) ends(ctx context.Context, from string, prefix []string) (out [2]string, err error) {
	if out[0], err = k.next(ctx, from, prefix, "", ""); err == nil {
		out[1], err = k.next(ctx, from, prefix, "", " DESC")
	}
	return out, err
}

// next returns the first value, not below least, of the key column that follows prefix, among the
// rows whose first key columns have the values of prefix; "" if there is none. With way " DESC" it
// returns the last value.
func (k *Keys) next(ctx context.Context, from string, prefix []string, least, way string) (out string, err error) {
	p := &Keys{k.db, k.cols[:len(prefix)+1]}
	where, args := "1 = 1", []any(nil)
	for i, text := range prefix {
		place, v, err := k.db.Words().KeyValue(k.cols[i], text)
		if err != nil {
			return "", err
		}
		where, args = where+" AND "+k.quote(k.cols[i].Name)+" = "+place, append(args, v)
	}
	if least != "" {
		place, v, err := k.db.Words().KeyValue(k.cols[len(prefix)], least)
		if err != nil {
			return "", err
		}
		where, args = where+" AND "+k.quote(k.cols[len(prefix)].Name)+" >= "+place, append(args, v)
	}
	q := fmt.Sprintf("SELECT %s FROM %s WHERE %s%s LIMIT 1", k.db.Words().KeyText(k.cols[len(prefix)]), from, where, p.order(way))
	if len(args) > 0 {
		q = k.db.Bind(q)
	}
	err = k.db.SQL().QueryRowContext(ctx, q, args...).Scan(&out)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return out, k.db.Classify(err)
}

// place returns a key to read from: its first column has the value at a share of the way between
// ends, each other column a random value. It returns nil if there are no rows.
func (k *Keys) place(ctx context.Context, from string, ends [2]string, share float64, random func() float64) (place []string, err error) {
	for i, c := range k.cols {
		start, ok := between(c.Type, ends[0], ends[1], share)
		switch {
		case !ok && i == 0 && ends[0] != ends[1]:
			return nil, Hinted(Classed(ErrUnsupported, fmt.Errorf("it is stored by column %s, and values of type %s between two others aren't known", c.Name, c.Native)),
				"a key of numbers, times, texts or bytes, or [values] by hand")
		case !ok:
			start = ends[0]
		}
		if i == len(k.cols)-1 {
			return append(place, start), nil
		}
		if start, err = k.next(ctx, from, place, start, ""); err != nil || start == "" {
			return nil, err
		}
		place, share = append(place, start), random()
		if ends, err = k.ends(ctx, from, place); err != nil {
			return nil, err
		}
	}
	return place, nil
}

// ScanTexts passes the rows of a query to fn as texts, which are valid until the next row.
func ScanTexts(ctx context.Context, db Driver, x Queryer, n int, fn func(row []sql.NullString), query string, args ...any) error {
	row, into := make([]sql.NullString, n), make([]any, n)
	for i := range row {
		into[i] = &row[i]
	}
	return Each(ctx, db, x, func(r *sql.Rows) error {
		err := r.Scan(into...)
		if err == nil {
			fn(row)
		}
		return err
	}, query, args...)
}

// between returns the text of the value at a share of the way between two values, from and to.
func between(t value.Type, from, to string, share float64) (string, bool) {
	on := func(a, b float64) float64 { return a + share*(b-a) }
	switch {
	case t.Numeric():
		a, err := strconv.ParseFloat(from, 64)
		b, failed := strconv.ParseFloat(to, 64)
		digits := t.Scale
		if t.Kind == value.Float {
			digits = -1
		}
		scale := math.Pow10(max(digits, 0))
		return strconv.FormatFloat(math.Floor(on(a, b)*scale)/scale, 'f', digits, 64), err == nil && failed == nil
	case t.Kind == value.Time:
		a, _, err := value.ParseTime([]byte(from), nil)
		b, _, failed := value.ParseTime([]byte(to), nil)
		at := int64(on(float64(a), float64(b)))
		text := string(value.AppendTime(nil, at-at%1e6))
		if t.Logical == value.Date {
			text = text[:len(time.DateOnly)]
		}
		return text, err == nil && failed == nil
	case t.Kind == value.Bytes || t.Logical == value.UUID:
		// Compute with the first hexadecimal digits; the others, and hyphens, stay as they are in from.
		const digits = 12
		first := func(s string) float64 {
			n, _ := strconv.ParseUint((strings.ReplaceAll(s, "-", "") + strings.Repeat("0", digits))[:digits], 16, 64)
			return float64(n)
		}
		out, rest := []byte(from), fmt.Sprintf("%012x", uint64(on(first(from), first(to))))
		for i := range out {
			if out[i] != '-' && rest != "" {
				out[i], rest = rest[0], rest[1:]
			}
		}
		return string(out), true
	case t.Kind == value.Text && t.Logical == value.Plain:
		n := 0
		for n < len(from) && n < len(to) && from[n] == to[n] {
			n++
		}
		const chars = 6
		number := func(s string) (f float64) {
			for i := range chars {
				f *= 256
				if i < len(s) {
					f += float64(s[i])
				}
			}
			return f
		}
		out, at := []byte(strings.ToValidUTF8(from[:n], "")), uint64(on(number(from[n:]), number(to[n:])))
		for i := range chars { // only characters that every collation compares
			c := byte(at >> (8 * (chars - 1 - i)))
			if c < '0' || c > 'z' {
				break
			}
			out = append(out, c)
		}
		return string(out), true
	}
	return "", false
}
