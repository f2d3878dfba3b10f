package query

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/plan"
	"github.com/rowmill/rowmill/internal/sqltext"
)

// A fact is what a server has said: a value as JSON, or an error.
type fact struct {
	Value   json.RawMessage `json:",omitempty"`
	Error   string          `json:",omitempty"`
	NoTable bool            `json:",omitempty"`
}

// recordedFacts are the answers that the planner gets, by question. With asks, they are those of a
// server, and are recorded; without, the test needs no server, and a question without an answer is
// an error.
type recordedFacts struct {
	t    *testing.T
	asks plan.Facts

	mu      sync.Mutex
	Answers map[string]fact
}

// factsFile is the location of the answers of a kind of server.
func factsFile(kind string) string { return filepath.Join("testdata", "split", kind+".facts.json") }

func readFacts(t *testing.T, kind string) *recordedFacts {
	t.Helper()
	f := &recordedFacts{t: t}
	text, err := os.ReadFile(factsFile(kind))
	if err == nil {
		err = json.Unmarshal(text, &f.Answers)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *recordedFacts) write(kind string) error {
	text, err := json.MarshalIndent(f.Answers, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(factsFile(kind), append(text, '\n'), 0o644)
}

// ask returns the answer to a question, which has a name and arguments.
func ask[T any](f *recordedFacts, server func() (T, error), question ...any) (value T, err error) {
	key, err := json.Marshal(question)
	if err != nil {
		f.t.Error(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asks != nil {
		value, err = server()
		if err != nil {
			f.Answers[string(key)] = fact{Error: err.Error(), NoTable: errors.Is(err, engine.ErrNoTable)}
			return value, err
		}
		text, err := json.Marshal(value)
		f.Answers[string(key)] = fact{Value: text}
		return value, err
	}
	a, known := f.Answers[string(key)]
	switch {
	case !known:
		f.t.Errorf("%s: not recorded: run TestSplitWritesPlans with -update", key)
	case a.NoTable:
		err = engine.Classed(engine.ErrNoTable, errors.New(a.Error))
	case a.Error != "":
		err = errors.New(a.Error)
	default:
		err = json.Unmarshal(a.Value, &value)
	}
	return value, err
}

// rule is ask for what needs no server.
func rule[T any](f *recordedFacts, server func() T, question ...any) T {
	value, err := ask(f, func() (T, error) { return server(), nil }, question...)
	if err != nil {
		f.t.Error(err)
	}
	return value
}

func (f *recordedFacts) Syntax(st engine.State) sqltext.Syntax {
	return rule(f, func() sqltext.Syntax { return f.asks.Syntax(st) }, "syntax")
}

func (f *recordedFacts) Semantics(st engine.State) engine.Semantics {
	var exact func(engine.SchemaColumn) bool
	s := rule(f, func() engine.Semantics {
		s := f.asks.Semantics(st)
		exact = s.ExactText
		return s
	}, "semantics")
	if has := rule(f, func() bool { return exact != nil }, "semantics", "exact text"); has {
		s.ExactText = func(c engine.SchemaColumn) bool {
			return rule(f, func() bool { return exact(c) }, "exact text", c.Collation)
		}
	}
	return s
}

func (f *recordedFacts) StateRefusal(st engine.State) string {
	return rule(f, func() string { return f.asks.StateRefusal(st) }, "state")
}

func (f *recordedFacts) Capabilities() engine.Capabilities {
	return rule(f, func() engine.Capabilities { return f.asks.Capabilities() }, "capabilities")
}

func (f *recordedFacts) Quote(name string) string {
	return rule(f, func() string { return f.asks.Quote(name) }, "quote", name)
}

func (f *recordedFacts) Function(name string, args int) engine.FunctionKind {
	return rule(f, func() engine.FunctionKind { return f.asks.Function(name, args) }, "function", name, args)
}

func (f *recordedFacts) Aggregate(c engine.AggregateCall) (engine.Recipe, bool) {
	type recipe struct {
		Recipe engine.Recipe
		OK     bool
	}
	r := rule(f, func() (r recipe) {
		r.Recipe, r.OK = f.asks.Aggregate(c)
		return r
	}, "aggregate", c)
	return r.Recipe, r.OK
}

func (f *recordedFacts) Bytes(c engine.ResultColumn, expr string) string {
	return rule(f, func() string { return f.asks.Bytes(c, expr) }, "bytes", c, expr)
}

func (f *recordedFacts) Ambiguous(c engine.ResultColumn, expr string, use engine.KeyUse) string {
	return rule(f, func() string { return f.asks.Ambiguous(c, expr, use) }, "ambiguous", c, expr, use)
}

func (f *recordedFacts) Carry(c engine.ResultColumn, expr string) string {
	return rule(f, func() string { return f.asks.Carry(c, expr) }, "carry", c, expr)
}

func (f *recordedFacts) ClockValue(call string) string {
	return rule(f, func() string { return f.asks.ClockValue(call) }, "clock", call)
}

func (f *recordedFacts) UserFunction(ctx context.Context, text string, names []string) (string, error) {
	return ask(f, func() (string, error) { return f.asks.UserFunction(ctx, text, names) }, "user function", text)
}

func (f *recordedFacts) TableParts(ctx context.Context, database, table string) (*engine.TableParts, error) {
	return ask(f, func() (*engine.TableParts, error) { return f.asks.TableParts(ctx, database, table) }, "table", database, table)
}

func (f *recordedFacts) DescribeQuery(ctx context.Context, query string) ([]engine.ResultColumn, error) {
	return ask(f, func() ([]engine.ResultColumn, error) { return f.asks.DescribeQuery(ctx, query) }, "describe", query)
}

func (f *recordedFacts) ExplainQuery(ctx context.Context, query string) (*engine.QueryPlan, error) {
	return ask(f, func() (*engine.QueryPlan, error) { return f.asks.ExplainQuery(ctx, query) }, "explain", query)
}

func (f *recordedFacts) Values(ctx context.Context, query string) ([]string, error) {
	return ask(f, func() ([]string, error) { return f.asks.Values(ctx, query) }, "values", query)
}
