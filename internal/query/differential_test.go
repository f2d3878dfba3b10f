package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/merge"
	"github.com/rowmill/rowmill/internal/query/parse"
	"github.com/rowmill/rowmill/internal/query/plan"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestDifferential runs each query of testdata/differential, and random ones, whole and split: the
// answers have to be the same byte for byte.
//
// A query is its text after these lines:
//
//	-- name: what it is about
//	-- on: the kinds of servers that it is for; before the first name: for all of the file
//	-- expect: split, or whole with a part of the reason; "split: usual versions", and "whole: usual versions", expect nothing of others. With a kind, as in
//	   "expect mysql": of this kind alone
//	-- set: setting = value, of the session
//	-- order: numbers of the columns of the answer that ORDER BY fixes, if it isn't total
func TestDifferential(t *testing.T) {
	for _, kind := range []string{"mariadb", "mysql", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := newDifferential(t, kind)
			t.Run("written", func(t *testing.T) { d.written(t) })
			t.Run("generated", func(t *testing.T) { d.generated(t) })
			t.Run("surrounded", func(t *testing.T) { d.surrounded(t) })
		})
	}
}

// A differential compares the answers of one server.
type differential struct {
	kind   string
	reader engine.Reader
	state  engine.State
	idle   chan *comparer
}

// A comparer runs one query at a time.
type comparer struct {
	// split merges in memory where it can, spilled always on the server.
	split, spilled *Runner
	wholes         *pool // sessions of whole queries
}

// comparers is how many queries a server gets at a time.
const comparers = 4

func newDifferential(t *testing.T, kind string) *differential {
	t.Helper()
	ctx := context.Background()
	d := &differential{kind: kind, reader: testdb.Open(t, kind).(engine.Reader)}
	s, err := d.reader.ReadSession(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d.state, err = d.reader.ReadState(ctx, s); err != nil {
		t.Fatal(err)
	}
	dialect := "mysql"
	if kind == "postgres" {
		dialect = kind
	}
	text, err := os.ReadFile(filepath.Join("testdata", "differential", "schema."+dialect+".sql"))
	if err != nil {
		t.Fatal(err)
	}
	for statement := range strings.SplitSeq(string(text), ";\n") {
		_, rest, marked := strings.Cut("\n"+statement, "\n-- on: ")
		if on, _, _ := strings.Cut(rest, "\n"); strings.TrimSpace(statement) == "" || marked && !slices.Contains(strings.Fields(on), kind) {
			continue
		}
		if err := s.Text(ctx, statement, nil, func([][]byte) error { return nil }); err != nil {
			t.Fatalf("%v in:\n%s", err, statement)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	d.compareOn(t, 3)
	return d
}

// compareOn opens what runs queries, each in pieces on a number of sessions. The end of the test
// closes it.
func (d *differential) compareOn(t *testing.T, parallel int) {
	d.idle = make(chan *comparer, comparers)
	for range comparers {
		o := Options{Parallel: parallel, Always: true, NoCache: true, NoRollups: true}
		c := &comparer{split: New(d.reader, o), wholes: &pool{reader: d.reader, most: 2}}
		o.Parallel, o.Memory = 2, 1
		c.spilled = New(d.reader, o)
		d.idle <- c
		t.Cleanup(func() {
			if err := errors.Join(c.split.Close(), c.spilled.Close(), c.wholes.close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A written query is one of testdata/differential.
type written struct {
	file, name, text string
	on               []string
	expect           string
	expects          map[string]string // by kind, in place of expect
	settings         engine.State
	order            []int
}

// readWritten reads the queries for a kind of server.
func readWritten(t *testing.T, kind string) (out []written) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "differential", "*.sql"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no queries: %v", err)
	}
	for _, file := range files {
		if strings.HasPrefix(filepath.Base(file), "schema.") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		head, rest, _ := strings.Cut("\n"+string(text), "\n-- name: ")
		var all written
		for line := range strings.SplitSeq(head, "\n") {
			all.line(line)
		}
		for part := range strings.SplitSeq(rest, "\n-- name: ") {
			q := written{file: strings.TrimSuffix(filepath.Base(file), ".sql"), on: all.on, expects: map[string]string{}}
			q.name, part, _ = strings.Cut(part, "\n")
			for {
				line, after, _ := strings.Cut(part, "\n")
				if !q.line(line) {
					break
				}
				part = after
			}
			q.expect = cmp.Or(q.expects[kind], q.expect)
			q.text = strings.TrimSuffix(strings.TrimSpace(part), ";")
			if (q.on == nil || slices.Contains(q.on, kind)) && q.turn(kind) {
				out = append(out, q)
			}
		}
	}
	return out
}

// turn reports whether a query's turn is on a kind of server: outside of the nightly run, what is
// for several kinds runs on one of them.
func (q *written) turn(kind string) bool {
	kinds := q.on
	if kinds == nil {
		kinds = []string{"mariadb", "mysql", "postgres"}
	}
	h := fnv.New32a()
	h.Write([]byte(q.file + "/" + q.name))
	return testdb.Nightly() || kinds[h.Sum32()%uint32(len(kinds))] == kind
}

// line reads a line before the text of a query. It returns false if it is of the text.
func (q *written) line(line string) bool {
	key, value, ok := strings.Cut(strings.TrimPrefix(line, "-- "), ": ")
	if !ok || !strings.HasPrefix(line, "-- ") {
		return false
	}
	switch key {
	case "on":
		q.on = strings.Fields(value)
	case "expect":
		q.expect = value
	case "set":
		name, v, _ := strings.Cut(value, " = ")
		q.settings = append(q.settings, engine.Setting{Name: name, Value: v})
	case "order":
		for _, f := range strings.Fields(value) {
			n, err := strconv.Atoi(f)
			if err != nil {
				panic(err) // in a file of ours
			}
			q.order = append(q.order, n-1)
		}
	default:
		kind, ok := strings.CutPrefix(key, "expect ")
		if ok {
			q.expects[kind] = value
		}
		return ok
	}
	return true
}

// leastSplit is the least part of the written queries that has to be split.
const leastSplit = 0.64

func (d *differential) written(t *testing.T) {
	queries := readWritten(t, d.kind)
	var tally tally
	t.Run("query", func(t *testing.T) {
		for _, q := range queries {
			t.Run(q.file+"/"+q.name, func(t *testing.T) {
				t.Parallel()
				how, err := d.compare(context.Background(), q.text, q.settings, q.order)
				if err != nil {
					t.Fatalf("%v\n%s", err, q.text)
				}
				tally.add(how)
				split := how.whole == ""
				switch want, reason, _ := strings.Cut(q.expect, ": "); {
				case reason == "usual versions" && os.Getenv(testdb.VersionsVariable) != "":
				case want == "split" && !split:
					t.Errorf("it isn't split: %s\n%s", how.whole, q.text)
				case want == "whole" && (split || reason != "usual versions" && !strings.Contains(how.whole, reason)):
					t.Errorf("it is split, or whole for another reason than %q: %q\n%s", reason, how.whole, q.text)
				}
			})
		}
	})
	t.Logf("%s, written: %s", d.kind, &tally)
	// A run of some of the queries doesn't have to, nor of those whose turn it is.
	if n := tally.queries(); n == len(queries) && testdb.Nightly() && float64(tally.split) < leastSplit*float64(n) {
		t.Errorf("%d of %d queries are split: want at least %.0f%%", tally.split, n, leastSplit*100)
	}
}

// A how says how a query was answered.
type how struct {
	whole string // why it wasn't split; "" if it was
	merge string
	// failed is that both are the same error.
	failed bool
}

// A tally counts how queries were answered.
type tally struct {
	mu     sync.Mutex
	split  int
	failed int
	merges map[string]int
	whole  map[string]int
}

func (c *tally) add(h how) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.whole == nil {
		c.merges, c.whole = map[string]int{}, map[string]int{}
	}
	if h.failed {
		c.failed++
	}
	if h.whole != "" {
		c.whole[shortened(h.whole)]++
		return
	}
	c.split++
	c.merges[h.merge]++
}

// copied are the parts of a reason that are copied from the query.
var copied = regexp.MustCompile(`\(.*\)|\b\w+\.\w+\b|(CASE|EXTRACT).* END\b|(groups|sorts) by [^,]*,| AS \w+|: read .*|: EXPLAIN.*|: column .*|: create .*|: SELECT.*`)

// shortened leaves out what differs between queries that are whole for the same reason.
func shortened(reason string) string { return copied.ReplaceAllString(reason, "…") }

func (c *tally) queries() int {
	n := c.split
	for _, w := range c.whole {
		n += w
	}
	return n
}

// mostReasons is how many reasons for whole queries are printed.
const mostReasons = 40

func (c *tally) String() string {
	var b strings.Builder
	n := c.queries()
	fmt.Fprintf(&b, "%d queries, %d with an error; %d (%.0f%%) split: %v; the others whole:", n, c.failed, c.split, 100*float64(c.split)/float64(max(1, n)), c.merges)
	for i, why := range slices.SortedFunc(maps.Keys(c.whole), func(x, y string) int { return c.whole[y] - c.whole[x] }) {
		if i == mostReasons {
			fmt.Fprintf(&b, "\n%6d other reasons", len(c.whole)-i)
			break
		}
		fmt.Fprintf(&b, "\n%6d  %s", c.whole[why], why)
	}
	return b.String()
}

// An answer is what a server answers.
type answer struct {
	kept
	err error
}

func newAnswer() *answer { return &answer{kept: kept{most: DefaultMemory}} }

// errUnstable is of a query to which the server itself has several answers.
var errUnstable = errors.New("the server gives different answers to it: the query is not fit for a comparison")

// compare runs a query whole and split. Its error says what differs.
func (d *differential) compare(ctx context.Context, text string, settings engine.State, order []int) (how, error) {
	c := <-d.idle
	defer func() { d.idle <- c }()
	st := slices.Clone(d.state)
	for _, x := range settings {
		if i := slices.IndexFunc(st, func(s engine.Setting) bool { return strings.EqualFold(s.Name, x.Name) }); i >= 0 {
			st[i] = x
		} else {
			st = append(st, x)
		}
	}
	whole := c.whole(ctx, text, st)
	ordered := order != nil || d.ordered(text, st)
	h, split, err := runSplit(ctx, c.split, text, st)
	if err != nil {
		return h, err
	}
	if diff := differ(whole, split, ordered, order); diff != "" {
		for range 3 {
			if again := c.whole(ctx, text, st); differ(whole, again, ordered, order) != "" {
				return h, fmt.Errorf("%w: %s", errUnstable, diff)
			}
		}
		return h, fmt.Errorf("whole and split (%s%s) differ: %s", h.merge, h.whole, diff)
	}
	h.failed = whole.err != nil
	if h.merge != inMemory || spill(text)%4 != 0 {
		return h, nil
	}
	h2, spilled, err := runSplit(ctx, c.spilled, text, st)
	if err != nil {
		return h, err
	}
	if diff := differ(whole, spilled, ordered, order); diff != "" {
		return h, fmt.Errorf("whole and split with little memory (%s%s) differ: %s", h2.merge, h2.whole, diff)
	}
	return h, nil
}

const inMemory = "in memory"

// spill chooses queries by their text.
func spill(text string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text))
	return h.Sum32()
}

func (c *comparer) whole(ctx context.Context, text string, st engine.State) *answer {
	a := newAnswer()
	s, err := c.wholes.get(ctx, st)
	if err != nil {
		a.err = err
		return a
	}
	a.err = s.Text(ctx, text, a.Columns, a.Row)
	if strings.Contains(text, "@") || strings.Contains(strings.ToLower(text), "lock") { // a variable, or a lock, would stay
		a.err = errors.Join(a.err, s.Close())
	} else if err := c.wholes.put(ctx, s); err != nil {
		a.err = errors.Join(a.err, err)
	}
	return a
}

// runSplit answers a query by a Runner.
func runSplit(ctx context.Context, r *Runner, text string, st engine.State) (how, *answer, error) {
	a := newAnswer()
	p, err := r.Plan(ctx, text, st)
	if err != nil {
		a.err = err
		return how{whole: "the server refuses it"}, a, nil
	}
	report, err := r.Run(ctx, p, a)
	a.err = err
	h := how{whole: p.Whole}
	switch {
	case p.Whole != "":
	case report.Rerun != "":
		h.whole = "run again: " + report.Rerun
	case p.Merge.Kind == plan.Concatenate:
		h.merge = "concatenated"
	case report.Server:
		h.merge = "on the server"
	default:
		h.merge = inMemory
	}
	if err == nil && report.Rows != int64(len(a.rows)) {
		return h, a, fmt.Errorf("%d rows reported of %d", report.Rows, len(a.rows))
	}
	return h, a, nil
}

// ordered reports whether a query has an ORDER BY of its own. What the parser doesn't know is run
// whole in any case.
func (d *differential) ordered(text string, st engine.State) bool {
	q, err := parse.Parse(text, d.reader.Syntax(st))
	return err == nil && len(q.OrderBy) > 0
}

// serverError is the server's own part of an error's text.
var serverError = regexp.MustCompile(`(Error \d+ \(\w+\): |ERROR: )(?s:.*)`)

// differ returns how two answers differ, by the code of Check; "" if they are the same. If the rows
// are ordered by some columns, only these have an order.
func differ(want, got *answer, ordered bool, order []int) string {
	if want.err != nil || got.err != nil {
		if want.err == nil || got.err == nil {
			return fmt.Sprintf("error %v, and %v", want.err, got.err)
		}
		if w, g := serverError.FindString(want.err.Error()), serverError.FindString(got.err.Error()); w != g || w == "" {
			return fmt.Sprintf("error %v, and %v", want.err, got.err)
		}
		return ""
	}
	checked := &Checked{Plan: &plan.Plan{}, Report: &Report{}}
	c := &compared{whole: &want.kept, checked: checked, order: order, left: map[uint64][]int{}}
	err := c.Columns(got.cols)
	values := make([][]byte, len(got.cols))
	for _, row := range got.rows {
		if err != nil {
			return err.Error()
		}
		merge.NextRow(row, values)
		err = c.Row(values)
	}
	c.finish()
	for _, d := range checked.Differences {
		return fmt.Sprintf("%s (%d differences)", d.text(), checked.All)
	}
	if ordered && order == nil && checked.Reordered {
		return "in the order of the rows"
	}
	for i, w := range want.cols {
		if g := got.cols[i]; charset(w) != charset(g) {
			return fmt.Sprintf("column %d, %s: character set %d, and %d", i+1, w.Native, charset(w), charset(g))
		}
	}
	return ""
}

// binaryCharset is the number of bytes without characters.
const binaryCharset = 63

// charset tells bytes from characters by the packet of a column of a result of MariaDB or MySQL;
// numbers and times have none.
func charset(c engine.ResultColumn) int {
	p := c.Packet
	if c.Class != engine.ClassText && c.Class != engine.ClassBytes || c.Native == "TIME" {
		return 0
	}
	for i := 0; i < 6 && len(p) > 0; i++ { // names, of fewer than 251 bytes
		p = p[min(len(p), 1+int(p[0])):]
	}
	if len(p) < 3 {
		return 0
	}
	if id := int(p[1]) | int(p[2])<<8; id == binaryCharset {
		return id
	}
	return 0 // that of the session's, in one of its collations
}
