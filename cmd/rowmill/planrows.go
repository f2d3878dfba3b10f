package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// perStatement is the number of rows per INSERT: a few hundred, limited so that every
// server accepts the number of placeholders.
func (s *sample) perStatement() int {
	return max(1, min(500, 30000/max(1, len(s.schema.Names()))))
}

// insert adds rows. A value is bound, unless it is a literal, which is inserted as SQL
// text.
func (s *sample) insert(ctx context.Context, into string, columns []string, rows [][]any) error {
	if len(rows) == 0 {
		return nil
	}
	quote := s.db.Dialect().Quote
	quoted := make([]string, len(columns))
	for i, c := range columns {
		quoted[i] = quote(c)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "INSERT INTO %s (%s) %sVALUES ", quote(into), strings.Join(quoted, ", "), s.overriding())
	var args []any
	for i, row := range rows {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteByte('(')
		for j, v := range row {
			if j > 0 {
				b.WriteString(", ")
			}
			if l, ok := v.(literal); ok {
				b.WriteString(string(l))
				continue
			}
			b.WriteByte('?')
			args = append(args, v)
		}
		b.WriteByte(')')
	}
	began := time.Now()
	if _, err := s.db.SQL().ExecContext(ctx, s.db.Bind(b.String()), args...); err != nil {
		return s.db.Classify(err)
	}
	s.took += time.Since(began)
	s.loaded += len(rows)
	return nil
}

// A literal is a value as SQL text.
type literal string

// copyLive copies rows of the existing table. Of a rolling table, it copies rows of
// the newest period that has enough of them.
func (s *sample) copyLive(ctx context.Context, into string) error {
	var columns, exprs []string
	quote, words := s.db.Dialect().Quote, s.db.Words()
	for _, name := range s.schema.Names() {
		c := s.live.Column(name)
		if c == nil || c.Generated {
			continue // the column gets its default
		}
		columns = append(columns, name)
		if c.Kind == engine.KindTime || c.Kind == engine.KindOther {
			exprs = append(exprs, words.AsText(*c))
		} else {
			exprs = append(exprs, quote(name))
		}
	}
	from, err := s.liveSource(ctx)
	if err != nil || from == "" || len(columns) == 0 {
		return err
	}
	// A separate statement and connection: the copy must not lock the rows.
	rows, err := s.db.SQL().QueryContext(ctx, fmt.Sprintf("SELECT %s FROM %s LIMIT %d", strings.Join(exprs, ", "), from, s.rows))
	if err != nil {
		return fmt.Errorf("read rows of %s: %w", s.table.Name, s.db.Classify(err))
	}
	defer rows.Close()
	s.source = "rows of the live table"
	var batch [][]any
	flush := func() error {
		err := s.insert(ctx, into, columns, batch)
		batch = batch[:0]
		if err != nil {
			return fmt.Errorf("copy rows of %s: %w", s.table.Name, err)
		}
		return nil
	}
	for rows.Next() {
		row := make([]any, len(columns))
		to := make([]any, len(columns))
		for i := range row {
			to[i] = &row[i]
		}
		if err := rows.Scan(to...); err != nil {
			return fmt.Errorf("read rows of %s: %w", s.table.Name, s.db.Classify(err))
		}
		for i, v := range row {
			if p, ok := v.([]byte); ok {
				if row[i] = slices.Clone(p); s.live.Column(columns[i]).Kind != engine.KindBytes {
					row[i] = string(p)
				}
			}
		}
		if batch = append(batch, row); len(batch) == s.perStatement() {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read rows of %s: %w", s.table.Name, s.db.Classify(err))
	}
	return flush()
}

// liveSource returns the source of the rows to copy: the table, or the newest period
// with enough rows. If no period has enough, it is the one with the most rows.
func (s *sample) liveSource(ctx context.Context) (string, error) {
	if !s.live.Partitioned && !s.live.View {
		return s.db.Dialect().Quote(s.table.Name), nil
	}
	t := *s.table
	if !t.Grid.Valid() {
		t.Grid, _ = rolling.Parse("1d")
	}
	parts, err := s.db.Catalog().Partitions(ctx, &t)
	if err != nil {
		return "", err
	}
	sizes, err := s.db.PeriodSizes(ctx, &t)
	if err != nil {
		return "", err
	}
	best := ""
	var most int64
	for _, p := range slices.Backward(parts) {
		n := sizes[p.Name].Rows
		if n > most {
			best, most = s.db.Words().From(&t, p), n
		}
		if n >= int64(s.rows) {
			break
		}
	}
	return best, nil
}

// makeUp fills the scratch table with generated rows in the order of time. Key columns
// get values from their whole range, other columns numbers and words.
func (s *sample) makeUp(ctx context.Context, into string) error {
	s.source = "made-up rows"
	t := *s.table
	if !t.Grid.Valid() {
		t.Grid, _ = rolling.Parse("1d")
	}
	g := &rowMaker{s: s, table: &t, random: rand.New(rand.NewPCG(1, 2)), step: 1000}
	if s.rate > 0 {
		g.step = int64(max(1, 1e6/s.rate))
	}
	columns, err := g.prepare()
	if err != nil {
		return engine.Hinted(err, "put some %d rows into the table first, or --row-bytes N", fewestLive)
	}
	var batch [][]any
	for i := range s.rows {
		if batch = append(batch, g.row(int64(i))); len(batch) == s.perStatement() || i == s.rows-1 {
			if err := s.insert(ctx, into, columns, batch); err != nil {
				return engine.Hinted(fmt.Errorf("insert made-up rows: %w", err), "put some %d rows into the table first, or --row-bytes N", fewestLive)
			}
			batch = batch[:0]
		}
	}
	return nil
}

// A rowMaker generates rows.
type rowMaker struct {
	s      *sample
	table  *engine.Table
	random *rand.Rand
	makers []func(i int64) any
	// start and step are the position of the first row and the distance between rows.
	start, step int64
}

// prepare chooses the generator of each column.
func (g *rowMaker) prepare() ([]string, error) {
	schema := g.s.schema
	keys := append([][]string{schema.PrimaryKey}, schema.Unique...)
	keyed := map[string]bool{}
	for _, k := range keys {
		for _, c := range k {
			keyed[c] = true
		}
	}
	capacity := map[string]int64{}
	var columns []string
	for _, name := range schema.Names() {
		c := *schema.Column(name)
		if strings.EqualFold(name, g.table.By) {
			columns = append(columns, name)
			g.makers = append(g.makers, g.position)
			continue
		}
		make, n := g.maker(c, keyed[name])
		if make == nil {
			if c.Null || c.Default != "" || c.Auto {
				continue // the server fills in the column
			}
			return nil, fmt.Errorf("column %s of type %s: no values of it can be made up", name, c.Native)
		}
		capacity[name] = n
		columns = append(columns, name)
		g.makers = append(g.makers, make)
	}
	g.spread(keys, capacity)
	return columns, nil
}

// spread sets the distance between rows so that no two rows have the same key.
func (g *rowMaker) spread(keys [][]string, capacity map[string]int64) {
	if g.table.Grid.Axis() == rolling.Sequence {
		g.start, g.step = 1, 1
		return
	}
	unit := int64(1e6) // a time column may be limited to whole seconds
	by := g.s.schema.Column(g.table.By)
	if by != nil && strings.HasPrefix(strings.ToLower(by.Native), "date") && !strings.HasPrefix(strings.ToLower(by.Native), "datetime") {
		unit = 86400e6
	}
	for _, k := range keys {
		if len(k) == 0 {
			continue
		}
		most := int64(1)
		for _, c := range k {
			most = max(most, capacity[c])
		}
		g.step = max(g.step, (unit+most-1)/most)
	}
	now := rolling.Position(time.Now())
	// A TIMESTAMP can't hold earlier times.
	g.start = max(now-g.step*int64(g.s.rows), rolling.Position(time.Date(1971, 1, 1, 0, 0, 0, 0, time.UTC)))
	g.start -= g.start % unit
}

func (g *rowMaker) position(i int64) any {
	return literal(g.s.db.Words().Literal(g.table, g.start+i*g.step))
}

func (g *rowMaker) row(i int64) []any {
	out := make([]any, len(g.makers))
	for j, m := range g.makers {
		out[j] = m(i)
	}
	return out
}

var sizeOf = regexp.MustCompile(`\((\d+)(?:\s*,\s*(\d+))?\)`)

// maker returns a function that generates values of a column, and the number of
// consecutive values that differ. The function is nil if the type is not supported.
// Key columns get values from their whole range.
func (g *rowMaker) maker(c engine.SchemaColumn, keyed bool) (func(i int64) any, int64) {
	native := strings.ToLower(c.Native)
	first := strings.FieldsFunc(native+" ", func(r rune) bool { return r == ' ' || r == '(' })[0]
	size, scale := 0, 0
	if m := sizeOf.FindStringSubmatch(native); m != nil {
		size, _ = strconv.Atoi(m[1])
		scale, _ = strconv.Atoi(m[2])
	}
	r := g.random
	if m, n, ok := g.special(first, native); ok {
		return m, n
	}
	switch c.Kind {
	case engine.KindInt:
		bits := intBits(first)
		if keyed {
			return func(i int64) any { return permuted(i, bits) }, 1 << bits
		}
		return func(int64) any { return r.Int64N(1 << min(bits, 20)) }, 1
	case engine.KindFloat:
		return func(int64) any { return float64(r.IntN(1_000_000)) / 100 }, 1
	case engine.KindDecimal:
		if size == 0 {
			size, scale = 9, 2
		}
		digits := min(size-scale, 9)
		whole := int64(1)
		for range digits {
			whole *= 10
		}
		return func(i int64) any {
			text := strconv.FormatInt(r.Int64N(whole), 10)
			if keyed {
				text = strconv.FormatInt(i%whole, 10)
			}
			if scale > 0 {
				text += fmt.Sprintf(".%0*d", scale, r.IntN(10))
			}
			return text
		}, whole
	case engine.KindTime:
		return func(i int64) any {
			at := rolling.Instant(g.start + i*g.step).Truncate(time.Second)
			if first == "date" {
				return at.Format(time.DateOnly)
			}
			return at.Format(time.DateTime)
		}, 1
	case engine.KindText:
		return g.words(first, size, keyed)
	case engine.KindBytes:
		n := 32
		if size > 0 {
			n = max(1, min(n, size/2))
		}
		if first == "binary" {
			n = max(1, size)
		}
		return func(i int64) any {
			p := make([]byte, n)
			for j := range p {
				p[j] = byte(r.Uint32())
			}
			return p
		}, 1 << min(8*n, 40)
	}
	return nil, 0
}

// special generates values of types with a syntax of their own.
func (g *rowMaker) special(first, native string) (func(i int64) any, int64, bool) {
	r := g.random
	switch {
	case strings.HasSuffix(native, "]"):
		return func(int64) any { return "{}" }, 1, true
	case first == "bool" || first == "boolean":
		return func(i int64) any { return i%2 == 0 }, 2, true
	case first == "uuid":
		return func(int64) any {
			var p [16]byte
			for j := range p {
				p[j] = byte(r.Uint32())
			}
			h := hex.EncodeToString(p[:])
			return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
		}, 1 << 40, true
	case first == "json" || first == "jsonb":
		return func(i int64) any { return fmt.Sprintf(`{"id": %d, "note": "%s"}`, r.IntN(1_000_000), text(r, 24)) }, 1, true
	case first == "enum" || first == "set":
		if _, rest, ok := strings.Cut(native, "'"); ok {
			if value, _, ok := strings.Cut(rest, "'"); ok {
				return func(int64) any { return value }, 1, true
			}
		}
	case first == "year":
		return func(int64) any { return 2026 }, 1, true
	case first == "time":
		return func(i int64) any { return fmt.Sprintf("%02d:%02d:%02d", i/3600%24, i/60%60, i%60) }, 1, true
	case first == "inet" || first == "inet4":
		return func(int64) any { return fmt.Sprintf("10.%d.%d.%d", r.IntN(256), r.IntN(256), r.IntN(256)) }, 1, true
	}
	return nil, 0, false
}

// words generates texts of half the column's maximum length, up to 40 characters.
// Fixed-length columns are filled completely.
func (g *rowMaker) words(first string, size int, keyed bool) (func(i int64) any, int64) {
	n := 40
	if size > 0 {
		n = max(1, min(n, size/2))
	}
	if strings.HasPrefix(first, "char") && size > 0 || first == "bpchar" {
		n = max(1, size)
	}
	if !keyed {
		return func(int64) any { return text(g.random, n) }, 1
	}
	// In a key, the text begins with a permuted number of up to 8 characters.
	letters := min(max(n, size/2, 1), 8)
	if size > 0 {
		letters = min(letters, size)
	}
	bits := uint(letters * 5) // base 32 encodes five bits per character
	return func(i int64) any {
		t := strconv.FormatInt(permuted(i, bits), 32)
		t = strings.Repeat("0", letters-len(t)) + t
		return t + text(g.random, n)[:max(0, n-letters)]
	}, 1 << bits
}

// intBits returns the number of bits of an integer type that are used.
func intBits(first string) uint {
	switch first {
	case "tinyint":
		return 6
	case "smallint", "int2":
		return 14
	case "mediumint":
		return 22
	}
	return 30
}

// permuted maps the numbers below 2^bits to a permutation in which neighbours are far
// apart. The factor is odd and so has an inverse modulo a power of two.
func permuted(i int64, bits uint) int64 {
	return int64(uint64(i) * 0x9E3779B1 & (1<<bits - 1))
}

var vocabulary = strings.Fields("alpha bravo charlie delta echo foxtrot golf hotel india juliett kilo lima mike november oscar papa quebec romeo sierra tango uniform victor whiskey xray yankee zulu")

// text returns words, cut to n characters in all.
func text(r *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(vocabulary[r.IntN(len(vocabulary))])
		b.WriteByte(' ')
	}
	return b.String()[:n]
}
