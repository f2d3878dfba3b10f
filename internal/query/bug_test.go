package query

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/plan"
	"github.com/rowmill/rowmill/internal/testdb"
)

// A buggy reader panics in one of its methods.
type buggy struct {
	engine.Reader
	in string
}

func (b *buggy) panics(in string) {
	if b.in == in {
		panic("a bug in " + in)
	}
}

func (b *buggy) PartFrom(t *engine.TableParts, parts []string) string {
	if slices.ContainsFunc(parts, func(p string) bool { return strings.HasSuffix(strings.Trim(p, `"`), "p8") }) {
		b.panics("PartFrom")
	}
	return b.Reader.PartFrom(t, parts)
}

func (b *buggy) Freeze(ctx context.Context, s *engine.Session) (engine.State, error) {
	b.panics("Freeze")
	return b.Reader.Freeze(ctx, s)
}

func (b *buggy) OneSnapshot(ctx context.Context, s []*engine.Session, tables []string, lock bool) (string, error) {
	b.panics("OneSnapshot")
	return b.Reader.OneSnapshot(ctx, s, tables, lock)
}

func (b *buggy) TempTable(ctx context.Context, s *engine.Session, name, q string, cols []engine.ResultColumn) (*engine.TempTable, error) {
	b.panics("TempTable")
	return b.Reader.TempTable(ctx, s, name, q, cols)
}

func (b *buggy) ReadSession(ctx context.Context, st engine.State) (*engine.Session, error) {
	b.panics("ReadSession")
	return b.Reader.ReadSession(ctx, st)
}

func (b *buggy) ExplainQuery(ctx context.Context, s *engine.Session, q string) (*engine.QueryPlan, error) {
	b.panics("ExplainQuery")
	return b.Reader.ExplainQuery(ctx, s, q)
}

// A buggySink panics at its first row.
type buggySink struct{ rowsSink }

func (*buggySink) Row([][]byte) error { panic("a bug in Row") }

// TestBugEndsOneQuery panics in every goroutine that works for a query: the query has an error,
// what runs for it on the server ends, its sessions aren't used again, and the next query is
// answered.
func TestBugEndsOneQuery(t *testing.T) {
	testdb.OnKinds(t, servers, func(t *testing.T, kind string) {
		f := newFixture(t, kind)
		b := &buggy{Reader: f.Reader}
		r := New(b, Options{Parallel: 2})
		sleeps := func(p *plan.Plan) *plan.Plan {
			for i := range len(p.Pieces) - 1 {
				p.Pieces[i] = plan.Piece{Where: f.sleep}
			}
			p.Pieces[len(p.Pieces)-1].Rows = 1 << 30 // it begins among the first, but for a concatenation
			if p.Merge.Kind == plan.Concatenate {
				p.Pieces[0], p.Pieces[4] = p.Pieces[4], p.Pieces[0]
			}
			return p
		}
		whole := &plan.Plan{Statement: plan.Statement{Text: "SELECT id FROM t", State: f.state}, Whole: "to see"}
		shifted := func(p *plan.Plan) *plan.Plan { p.Keys = 9; return p } // no row has as many columns
		for _, c := range []struct {
			in   string
			plan *plan.Plan
			sink Sink
		}{
			{"PartFrom", sleeps(f.concatenated()), nil}, {"PartFrom", sleeps(f.inMemory()), nil},
			{"Freeze", f.inMemory(), nil}, {"OneSnapshot", f.concatenated(), nil}, {"TempTable", f.onServer(), nil},
			{"Row", f.concatenated(), &buggySink{}}, {"Row", f.inMemory(), &buggySink{}}, {"Row", f.onServer(), &buggySink{}}, {"Row", whole, &buggySink{}},
			{"out of range", shifted(f.inMemory()), nil},
		} {
			b.in = c.in
			if c.sink == nil {
				c.sink = &rowsSink{}
			}
			_, err := r.Run(within(t), c.plan, c.sink)
			bug, ok := errors.AsType[*engine.Bug](err)
			if !ok || !strings.Contains(err.Error(), c.in) || !strings.Contains(string(bug.Stack), "panic") {
				t.Errorf("%s: error %v", c.in, err)
			}
			b.in = ""
			f.idle()
		}
		b.in = "ReadSession" // of several sessions at once
		if _, err := r.nodes[0].pieces.getAll(within(t), f.state, 2); !isBug(err) {
			t.Errorf("open sessions: %v", err)
		}
		b.in = "ExplainQuery"
		if _, err := r.Plan(within(t), "SELECT COUNT(*) FROM t", f.state); !isBug(err) {
			t.Errorf("plan: %v", err)
		}
		b.in = ""
		for _, p := range []*plan.Plan{f.concatenated(), f.inMemory(), f.onServer()} {
			f.same(r, p, false)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}
