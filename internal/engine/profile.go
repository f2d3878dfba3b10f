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

	"github.com/rowmill/rowmill/internal/value"
)

// A Profiler is a Keeper that tells what it knows of a table's values, and samples its rows.
type Profiler interface {
	Keeper
	// Profile returns the statistics that the server has already. It reads no rows.
	Profile(ctx context.Context, s *Schema) (*Profile, error)
	// SampleRows reads columns, given as expressions, of rows on at most a share of the table's
	// pages, and passes them on as text. Rows of one block are neighbors on disk. It completes the
	// profile with the number of rows, if that is unknown.
	SampleRows(ctx context.Context, s *Schema, p *Profile, columns []string, share float64, fn func(block int, row []sql.NullString)) error
}

// A Profile is what a server knows of a table.
type Profile struct {
	Rows, Pages int64 // estimates; 0 is unknown
	// Clustered is the column by which rows of a sample are neighbors, so that a sample has all
	// rows of some of its values; "" if it is the order of insertion.
	Clustered string
	Columns   map[string]ColumnProfile
}

// A ColumnProfile is what a server knows of a column.
type ColumnProfile struct {
	Distinct float64   // the number of different values; 0 is unknown
	Heavy    []float64 // the shares of the most frequent values, without the values
}

// SampleRanges implements SampleRows for a table that is stored in the order of its primary key, or
// of the key given: it reads a page's rows from each of some random keys on.
func SampleRanges(ctx context.Context, db Keeper, s *Schema, p *Profile, key SchemaColumn, columns []string, share float64, fn func(block int, row []sql.NullString)) error {
	if p.Pages == 0 || p.Rows == 0 {
		return Hinted(fmt.Errorf("sample %s: its size is unknown", s.Name), "ANALYZE TABLE, as the owner")
	}
	by, table := db.Dialect().Quote(key.Name), db.Dialect().Quote(s.Name)
	ends := make([]string, 2)
	for i, f := range []string{"", " DESC"} {
		q := fmt.Sprintf("SELECT %s FROM %s ORDER BY %s%s LIMIT 1", db.Words().KeyText(key), table, by, f)
		if err := db.SQL().QueryRowContext(ctx, q).Scan(&ends[i]); err != nil {
			if errors.Is(err, sql.ErrNoRows) {
				return nil
			}
			return db.Classify(err)
		}
	}
	// A range may begin in the middle of a page and end in the next one.
	ranges := max(int(share*float64(p.Pages)/2), 1)
	rows := max(p.Rows/p.Pages, 1)
	random := rand.New(rand.NewPCG(1, 2))
	q := fmt.Sprintf("SELECT %s FROM %s WHERE %s >= ", strings.Join(columns, ", "), table, by)
	for block := range ranges {
		start, err := between(key.Type, ends[0], ends[1], random.Float64())
		if err != nil {
			return fmt.Errorf("sample %s by its key column %s (%s): %w", s.Name, key.Name, key.Native, err)
		}
		place, bound, err := db.Words().KeyValue(key, start)
		if err != nil {
			return err
		}
		err = Each(ctx, db, db.SQL(), scanTexts(len(columns), func(row []sql.NullString) { fn(block, row) }),
			fmt.Sprintf("%s%s ORDER BY %s LIMIT %d", q, place, by, rows), bound)
		if err != nil {
			return err
		}
	}
	return nil
}

// scanTexts returns a function that scans rows of n texts; they are valid until the next one.
func scanTexts(n int, fn func(row []sql.NullString)) func(*sql.Rows) error {
	row, into := make([]sql.NullString, n), make([]any, n)
	for i := range row {
		into[i] = &row[i]
	}
	return func(r *sql.Rows) error {
		err := r.Scan(into...)
		if err == nil {
			fn(row)
		}
		return err
	}
}

// ScanTexts passes the rows of a query to fn as texts.
func ScanTexts(ctx context.Context, db Keeper, n int, fn func(row []sql.NullString), query string, args ...any) error {
	return Each(ctx, db, db.SQL(), scanTexts(n, fn), query, args...)
}

// between returns a value at a share of the way from one value to another.
func between(t value.Type, from, to string, share float64) (string, error) {
	switch {
	case t.Kind == value.Int || t.Kind == value.Decimal && t.Scale == 0:
		a, err := strconv.ParseFloat(from, 64)
		b, failed := strconv.ParseFloat(to, 64)
		return strconv.FormatFloat(math.Floor(a+share*(b-a)), 'f', 0, 64), errors.Join(err, failed)
	case t.Kind == value.Time:
		a, _, err := value.ParseTime([]byte(from), nil)
		b, _, failed := value.ParseTime([]byte(to), nil)
		at := a + int64(share*float64(b-a))
		return string(value.AppendTime(nil, at-at%1e6)), errors.Join(err, failed)
	case t.Kind == value.Text && t.Logical == value.Plain || t.Logical == value.UUID:
		n := 0
		for n < len(from) && n < len(to) && from[n] == to[n] {
			n++
		}
		a, b := digits256(from[n:]), digits256(to[n:])
		at := uint64(a + share*(b-a))
		out := []byte(from[:n])
		for i := range 6 {
			// Letters and digits, whatever lies between them.
			c := byte(at >> (8 * (5 - i)))
			if c < '0' || c > 'z' || t.Logical == value.UUID && !strings.ContainsRune("0123456789abcdef", rune(c)) {
				break
			}
			out = append(out, c)
		}
		return string(out), nil
	}
	return "", Classed(ErrUnsupported, errors.New("keys of this type can't be drawn"))
}

// digits256 reads the first six bytes as a number.
func digits256(s string) (f float64) {
	for i := range 6 {
		f *= 256
		if i < len(s) {
			f += float64(s[i])
		}
	}
	return f
}
