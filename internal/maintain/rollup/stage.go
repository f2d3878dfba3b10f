package rollup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/DataDog/sketches-go/ddsketch/mapping"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A stage is a temporary table in which a level's buckets are computed, with a row for each bucket
// and group. The source's rows are added piece by piece. The server drops the table when the
// connection that created it ends.
type stage struct {
	l     *level
	table engine.TemporaryTable
}

const stageName = "rowmill_stage"

func (w *worker) staged(ctx context.Context, l *level) (*stage, error) {
	if w.stage != nil && w.stage.l == l {
		_, err := w.exec(ctx, w.conn, w.stage.table.Clear)
		return w.stage, err
	}
	st := &stage{l, w.sums.Temporary(stageName, w.creator().tableBody(l))}
	for _, q := range []string{st.table.Drop, st.table.Create} {
		if _, err := w.exec(ctx, w.conn, q); err != nil {
			return nil, fmt.Errorf("make a temporary table: %w", err)
		}
	}
	w.stage = st
	return st, nil
}

// compute fills the stage with a level's rows for the buckets of p, which must be complete, and
// returns the number of these rows. No transaction stays open for longer than one piece.
func (w *worker) compute(ctx context.Context, l *level, p rolling.Period) (rows int64, err error) {
	fail := func(err error) (int64, error) {
		return 0, fmt.Errorf("compute buckets from %s: %w", l.Every.Format(p.From), err)
	}
	st, err := w.staged(ctx, l)
	if err != nil {
		return fail(err)
	}
	bins, err := mapping.NewLogarithmicMapping(Accuracy)
	if err != nil {
		return fail(err)
	}
	sk := &sketches{set: w.Set, st: st, bins: bins, found: map[group][]sketch{}}
	for i := range l.aggs {
		if l.aggs[i].sketched() {
			sk.aggs = append(sk.aggs, &l.aggs[i])
		}
	}
	err = w.sourceOf(l).pieces(ctx, w.conn, p, l.reading, func(where string, args []any) error {
		err := w.read(ctx, func(x execer) error {
			if _, err := w.exec(ctx, x, w.stagePiece(st, where), args...); err != nil {
				return err
			}
			return sk.read(ctx, x, where, args)
		})
		if err == nil && sk.bytes > w.memory {
			err = sk.store(ctx, w.conn)
		}
		return err
	})
	if err == nil {
		err = sk.store(ctx, w.conn)
	}
	if err == nil {
		rows, err = w.number(ctx, w.conn, "SELECT COUNT(*) FROM "+st.table.Name+" WHERE "+w.counted())
	}
	if err != nil {
		return fail(w.db.Classify(err))
	}
	return rows, nil
}

// counted is the condition that a row of a stage has counted raw rows. A row may have only a
// sketch, because counts and sketches come from two statements, between which the raw rows may
// change.
func (s *Set) counted() string { return s.quote(RawRows) + " > 0" }

// stagePiece renders the statement that adds a piece of the source to the stage, and merges it with
// the rows of existing groups.
func (s *Set) stagePiece(st *stage, where string) string {
	var set []string
	mine := func(column string) string { return s.quote(stageName) + "." + s.quote(column) }
	assign := func(column, expr string) { set = append(set, s.quote(column)+" = "+expr) }
	add := func(column string) {
		old, sent := mine(column), s.sums.Sent(column)
		assign(column, fmt.Sprintf("COALESCE(%s + %s, %s, %s)", old, sent, old, sent))
	}
	add(RawRows)
	for i := range st.l.aggs {
		a := &st.l.aggs[i]
		switch a.Func {
		case "count", "sum":
			add(a.Name)
		case "avg":
			add(a.Name + sufN)
			add(a.Name + sufSum)
		case "min", "max":
			beyond := map[string]string{"min": "<", "max": ">"}[a.Func]
			old, sent := mine(a.Name), s.sums.Sent(a.Name)
			assign(a.Name, fmt.Sprintf("CASE WHEN %s IS NULL OR %s %s %s THEN %s ELSE %s END", old, sent, beyond, old, sent, old))
		case "stddev", "variance":
			// The formula merges two parts: Chan, Golub, LeVeque (1979). Each assignment reads only
			// its own column and columns that are assigned later.
			n, mean, m2 := mine(a.Name+sufN), mine(a.Name+sufMean), mine(a.Name+sufM2)
			n2, mean2, m22 := s.sums.Sent(a.Name+sufN), s.sums.Sent(a.Name+sufMean), s.sums.Sent(a.Name+sufM2)
			merged := func(old, sent, both string) string {
				return fmt.Sprintf("CASE WHEN COALESCE(%s, 0) = 0 THEN %s WHEN %s = 0 THEN %s ELSE %s END", n, sent, n2, old, both)
			}
			d := "(" + mean2 + " - " + mean + ")"
			assign(a.Name+sufM2, merged(m2, m22, fmt.Sprintf("%s + %s + %s * %s * %s * %s / (%s + %s)", m2, m22, d, d, n, n2, n, n2)))
			assign(a.Name+sufMean, merged(mean, mean2, fmt.Sprintf("%s + %s * %s / (%s + %s)", mean, d, n2, n, n2)))
			add(a.Name + sufN)
		case "first", "last":
			beyond := map[string]string{"first": "<", "last": ">"}[a.Func]
			v, at := mine(a.Name), mine(a.Name+sufAt)
			v2, at2 := s.sums.Sent(a.Name), s.sums.Sent(a.Name+sufAt)
			assign(a.Name, fmt.Sprintf("CASE WHEN %s IS NULL OR %s %s %s OR %s = %s AND %s %s %s THEN %s ELSE %s END", at, at2, beyond, at, at2, at, v2, beyond, v, v2, v))
			assign(a.Name+sufAt, fmt.Sprintf("CASE WHEN %s IS NULL OR %s %s %s THEN %s ELSE %s END", at, at2, beyond, at, at2, at))
		}
	}
	return fmt.Sprintf("INSERT INTO %s (%s)\n%s%s%s", st.table.Name, s.quote(st.l.stored()...), s.selectRows(st.l, where, false),
		s.sums.OnKey(st.l.key()), strings.Join(set, ", "))
}

func (l *level) stored() []string {
	names := append(l.key(), RawRows)
	for i := range l.aggs {
		for _, suffix := range l.aggs[i].suffixes() {
			names = append(names, l.aggs[i].Name+suffix)
		}
	}
	return names
}

// readable returns an expression for each column of a level's table. The expressions refer to the
// columns of the stage. Columns that are derived from others are computed here, after all rows are
// in the stage.
func (s *Set) readable(l *level) []string {
	var out []string
	for _, name := range append(l.key(), RawRows) {
		out = append(out, s.quote(name))
	}
	for i := range l.aggs {
		a := &l.aggs[i]
		for j, suffix := range a.suffixes() {
			x := s.quote(a.Name + suffix)
			n := "NULLIF(" + s.quote(a.Name+sufN) + ", 0)"
			switch {
			case j > 0:
			case a.Func == "avg":
				x = s.sums.AsDouble(s.quote(a.Name+sufSum)) + " / " + n
			case a.Func == "variance":
				x = s.quote(a.Name+sufM2) + " / " + n
			case a.Func == "stddev":
				x = s.sums.SquareRoot(s.quote(a.Name+sufM2) + " / " + n)
			}
			out = append(out, x)
		}
	}
	return out
}

// errSealed means that buckets were sealed while they were computed. Their raw rows may have been
// removed, so the buckets are not replaced.
var errSealed = errors.New("sealed while it was computed")

// publish replaces the level's buckets of p with the buckets in the stage. rows is the number of
// rows of the stage. Many rows take several transactions, each for a range of groups; last is
// called in the final one. The buckets stay stale until the end, so that live views ignore them.
func (w *worker) publish(ctx context.Context, l *level, p rolling.Period, rows int64, last func(*transaction) error) error {
	own := w.between(w.quote(Bucket), p.From, p.To)
	var after []string
	for more := true; more; {
		began, took := time.Now(), int64(0)
		until, err := w.chunk(ctx, l, own, after, rows)
		if err != nil {
			return fmt.Errorf("replace buckets: %w", err)
		}
		more = until != nil
		cond, args, err := l.keys.Range(after, until)
		if err != nil {
			return err
		}
		err = w.tx(ctx, func(tx *transaction) error {
			m := tx.marks[l.Name]
			if p.From < m.sealedTo {
				return errSealed
			}
			if p.To > m.watermark {
				return fmt.Errorf("bucket %s was taken back while it was computed", l.Every.Format(p.From))
			}
			if took, err = w.replace(ctx, tx, l, own, cond, args); err != nil || more {
				return err
			}
			return last(tx)
		})
		if err != nil {
			return err
		}
		rows -= took
		l.writing.learn(int(took), time.Since(began))
		after = until
	}
	return nil
}

// replace replaces the rows whose keys meet a condition, and returns the number of rows inserted.
func (w *worker) replace(ctx context.Context, tx *transaction, l *level, own, cond string, args []any) (int64, error) {
	if _, err := w.exec(ctx, tx, fmt.Sprintf("DELETE FROM %s WHERE %s AND %s", w.quote(l.Name), own, cond), args...); err != nil {
		return 0, fmt.Errorf("replace buckets: %w", err)
	}
	n, err := w.exec(ctx, tx, fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s WHERE %s AND %s", w.quote(l.Name), w.quote(l.stored()...),
		strings.Join(w.readable(l), ", "), w.stage.table.Name, w.counted(), cond), args...)
	if err != nil {
		return 0, fmt.Errorf("replace buckets: %w", err)
	}
	return n, nil
}

// chunk returns the last key that the next transaction replaces, so that the transaction neither
// inserts nor deletes more rows than one transaction may. It returns nil if the transaction may
// replace all remaining rows.
func (w *worker) chunk(ctx context.Context, l *level, own string, after []string, left int64) (until []string, err error) {
	n := l.writing.rows
	if left > int64(n) {
		if until, err = l.keys.Nth(ctx, w.conn, w.stage.table.Name, w.counted(), after, nil, n); err != nil {
			return nil, err
		}
	}
	cond, args, err := l.keys.Range(after, until)
	if err != nil {
		return nil, err
	}
	old, err := w.atMost(ctx, w.conn, w.quote(l.Name), own+" AND "+cond, args, n+1)
	if err == nil && old > n {
		until, err = l.keys.Nth(ctx, w.conn, w.quote(l.Name), own, after, nil, n)
	}
	return until, err
}

// keysOf returns the columns by whose order a level's rows are processed: the bucket, and the group
// columns, except those that the server doesn't sort by their values.
func (s *Set) keysOf(l *level) (*engine.Keys, error) {
	bucket := *s.schema.Column(s.declared.Time)
	bucket.Name = Bucket
	cols := []engine.SchemaColumn{bucket}
	for _, c := range l.by {
		if _, err := engine.NewKeys(s.db, []engine.SchemaColumn{c}); err == nil {
			cols = append(cols, c)
		}
	}
	return engine.NewKeys(s.db, cols)
}

// A source is a set of rows: those from which a level is computed, or the level's own rows. It says
// how to read them in short statements, whatever the size of a bucket. A statement that reads a
// table for minutes would block changes of its partitions, and inserts queue behind such a change.
type source struct {
	s *Set
	// from is a table expression, column the time column; both are quoted.
	from, column string
	// byTime means that an index begins with the column. Otherwise rows are read in the order of keys.
	byTime bool
	// keys are the columns of the primary key; nil if rows can't be read in its order.
	keys *engine.Keys
}

func (s *Set) sourceOf(l *level) source {
	if l.from != nil {
		return s.levelRows(l.from)
	}
	return s.raw
}

func (s *Set) levelRows(l *level) source {
	return source{s: s, from: s.quote(l.Name), column: s.quote(Bucket), byTime: true, keys: l.keys}
}

func (s *Set) rawRows() source {
	out := source{s: s, from: s.quote(s.table.Name), column: s.quote(s.declared.Time)}
	leads := func(columns []string) bool { return len(columns) > 0 && columns[0] == s.declared.Time }
	out.byTime = leads(s.schema.PrimaryKey) || slices.ContainsFunc(s.schema.Indexes, func(x engine.Index) bool { return leads(x.Columns) })
	if s.schema.View {
		// A view is not read in the order of a key, because that would need a sort. Short
		// statements aren't necessary, either: no change of partitions waits for statements that
		// read a view.
		return out
	}
	var cols []engine.SchemaColumn
	for _, name := range s.schema.PrimaryKey {
		if c := s.schema.Column(name); c != nil {
			cols = append(cols, *c)
		}
	}
	if keys, err := engine.NewKeys(s.db, cols); err == nil {
		out.keys = keys
	}
	return out
}

type pace struct {
	rows  int
	most  int
	fixed bool  // a test has set rows, which never changes
	width int64 // length of the previous range of times, 0 if there is none
}

const (
	// pieceTime is half the time of a transaction, because the next statement may be slower.
	pieceTime = goalTime / 2
	// The number of rows per statement: firstPiece at first, at least leastPiece, and at most
	// mostPiece for a statement that computes or mostCounted for one that only counts.
	firstPiece, leastPiece, mostPiece, mostCounted = 5000, 200, 100000, 1000000
)

func newPace(most int) *pace { return &pace{rows: firstPiece, most: most} }

// learn sets the next statement's number of rows, from the last statement's number and its time.
func (p *pace) learn(rows int, took time.Duration) {
	if p.fixed || took < pieceTime && rows < p.rows/2 {
		return // too few rows to predict the time of a full piece
	}
	next := float64(p.rows) * float64(pieceTime) / float64(max(took, time.Millisecond))
	next = min(max(next, float64(p.rows)/2), float64(p.rows)*2)
	p.rows = min(max(int(next), leastPiece), p.most)
}

// pieces calls fn with conditions that partition the rows of a period. Each condition selects at
// most the pace's number of rows: a range of times or, if one time has more rows or no index begins
// with the time, a range of keys.
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
			if n, err = src.s.atMost(ctx, x, src.from, src.s.between(src.column, at, to), nil, pc.rows+1); err != nil {
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

func (s *Set) atMost(ctx context.Context, x state.Exec, from, where string, args []any, upTo int) (int, error) {
	defer s.reads()()
	n, err := s.number(ctx, x, fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 AS one FROM %s WHERE %s LIMIT %d) q", from, where, upTo), args...)
	if err != nil {
		return 0, fmt.Errorf("count rows of %s: %w", from, err)
	}
	return int(n), nil
}

func (src source) byKeys(ctx context.Context, x state.Exec, p rolling.Period, pc *pace, fn func(where string, args []any) error) error {
	within := src.s.between(src.column, p.From, p.To)
	var after []string
	for {
		began := time.Now()
		end := src.s.reads()
		last, err := src.keys.Nth(ctx, x, src.from, within, after, nil, pc.rows)
		if end(); err != nil || last == nil {
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

// reads calls Reading, and returns the function to call at the end of the statement.
func (s *Set) reads() (end func()) {
	if s.Reading == nil {
		return func() {}
	}
	return s.Reading()
}
