package rollup

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain/copier"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A source describes a set of rows, those from which a level is computed or the
// level's own, and how to read them in short statements whatever the size of a
// bucket. A statement that reads a table for minutes blocks changes of its
// partitions, and inserts queue behind such a change.
type source struct {
	s *Set
	// from is a table expression, column the time column; both are quoted.
	from, column string
	// byTime means that an index begins with the column, so that it finds a range
	// of times. Otherwise rows are read in the order of keys.
	byTime bool
	// keys are the columns of the primary key; nil if rows can't be read in its order.
	keys *copier.Keys
}

// sourceOf returns the source from which a level is computed.
func (s *Set) sourceOf(l *level) source {
	if l != nil && l.from != nil {
		return s.levelRows(l.from)
	}
	return s.raw
}

// levelRows returns a level's own rows. Their key begins with the bucket.
func (s *Set) levelRows(l *level) source {
	return source{s: s, from: s.quote(l.Name), column: s.quote(Bucket), byTime: true, keys: l.keys}
}

// rawRows determines how the raw rows can be read.
func (s *Set) rawRows() source {
	out := source{s: s, from: s.quote(s.table.Name), column: s.quote(s.declared.Time)}
	leads := func(columns []string) bool { return len(columns) > 0 && columns[0] == s.declared.Time }
	out.byTime = leads(s.schema.PrimaryKey) || slices.ContainsFunc(s.schema.Indexes, func(x engine.Index) bool { return leads(x.Columns) })
	if s.schema.View {
		// Reading a view in the order of a key would need a sort, and no change
		// of partitions waits for its readers.
		return out
	}
	var cols []engine.SchemaColumn
	for _, name := range s.schema.PrimaryKey {
		if c := s.schema.Column(name); c != nil {
			cols = append(cols, *c)
		}
	}
	if keys, err := copier.NewKeys(s.db, cols); err == nil {
		out.keys = keys
	}
	return out
}

// A pace adapts the number of rows per statement to measured times.
type pace struct {
	rows  int
	most  int
	fixed bool  // by a test
	width int64 // length of the previous range of times, 0 if there is none
}

const (
	// pieceTime is the intended maximum time of a statement: half that of a
	// transaction, as the next statement may be slower.
	pieceTime = goalTime / 2
	// Rows per statement: at first, the minimum, and the maximum for statements
	// that compute and for those that only count.
	firstPiece, leastPiece, mostPiece, mostCounted = 5000, 200, 100000, 1000000
)

func newPace(most int) *pace { return &pace{rows: firstPiece, most: most} }

// learn sets the number of rows of the next statement from the time of one that
// took a number of rows.
func (p *pace) learn(rows int, took time.Duration) {
	if p.fixed || took < pieceTime && rows < p.rows/2 {
		return // too few rows to predict the time of a full piece
	}
	next := float64(p.rows) * float64(pieceTime) / float64(max(took, time.Millisecond))
	next = min(max(next, float64(p.rows)/2), float64(p.rows)*2)
	p.rows = min(max(int(next), leastPiece), p.most)
}

// pieces calls fn with conditions that partition the rows of a period. Each
// condition selects at most the pace's number of rows.
//
// A piece is a range of times. If one instant has more rows than that, or no index
// finds times, it is a range of keys.
func (src source) pieces(ctx context.Context, x state.Exec, p rolling.Period, pc *pace, fn func(where string, args []any) error) error {
	if !src.byTime && src.keys != nil {
		return src.byKeys(ctx, x, p, pc, fn)
	}
	for at := p.From; at < p.To; {
		if err := ctx.Err(); err != nil {
			return err
		}
		to := p.To
		if pc.width > 0 && pc.width < p.To-at {
			to = at + pc.width
		}
		n, err := 0, error(nil)
		for src.byTime {
			if n, err = src.count(ctx, x, rolling.Period{From: at, To: to}, pc.rows+1); err != nil {
				return err
			}
			if n <= pc.rows || to-at <= 1 {
				break
			}
			to = at + (to-at)/2
		}
		piece := rolling.Period{From: at, To: to}
		switch {
		case src.byTime && n == 0:
		case n > pc.rows && src.keys != nil:
			if err := src.byKeys(ctx, x, piece, pc, fn); err != nil {
				return err
			}
		default:
			began := time.Now()
			if err := fn(src.s.between(src.column, piece.From, piece.To), nil); err != nil {
				return err
			}
			pc.learn(n, time.Since(began))
		}
		if pc.width = to - at; n < pc.rows/2 && pc.width < 1<<61 {
			pc.width *= 2
		}
		at = to
	}
	return nil
}

// count counts the rows of a period, up to a maximum.
func (src source) count(ctx context.Context, x state.Exec, p rolling.Period, upTo int) (n int, err error) {
	return src.s.atMost(ctx, x, src.from, src.s.between(src.column, p.From, p.To), nil, upTo)
}

// atMost counts the rows that meet a condition, up to a maximum.
func (s *Set) atMost(ctx context.Context, x state.Exec, from, where string, args []any, upTo int) (n int, err error) {
	q := fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 AS one FROM %s WHERE %s LIMIT %d) q", from, where, upTo)
	if len(args) > 0 {
		q = s.db.Bind(q)
	}
	defer s.reads()()
	if err := x.QueryRowContext(ctx, q, args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("count rows of %s: %w", from, s.db.Classify(err))
	}
	return n, nil
}

// byKeys is pieces in the order of keys.
func (src source) byKeys(ctx context.Context, x state.Exec, p rolling.Period, pc *pace, fn func(where string, args []any) error) error {
	within := src.s.between(src.column, p.From, p.To)
	next := func(after []string) ([]string, error) {
		defer src.s.reads()()
		return src.keys.Nth(ctx, x, src.from, within, after, nil, pc.rows)
	}
	var after []string
	for {
		began := time.Now()
		last, err := next(after)
		if err != nil || last == nil {
			return err
		}
		cond, args, err := src.keys.Range(after, last)
		if err != nil {
			return err
		}
		if err := fn("("+cond+") AND "+within, args); err != nil {
			return err
		}
		pc.learn(pc.rows, time.Since(began))
		after = last
	}
}

// reads calls Reading before a statement that reads raw rows, and returns the
// function to call at its end.
func (s *Set) reads() (end func()) {
	if s.Reading == nil {
		return func() {}
	}
	return s.Reading()
}
