package plan

import (
	"context"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/sqltext"
)

// Rules are the rules of a server that hold for every statement. No method asks the server.
type Rules interface {
	Syntax(engine.State) sqltext.Syntax
	Semantics(engine.State) engine.Semantics
	StateRefusal(engine.State) string
	Capabilities() engine.Capabilities
	Quote(name string) string
	Function(name string, args int) engine.FunctionKind
	Aggregate(engine.AggregateCall) (engine.Recipe, bool)
	Bytes(c engine.ResultColumn, expr string) string
	Ambiguous(c engine.ResultColumn, expr string, use engine.KeyUse) string
	Carry(c engine.ResultColumn, expr string) string
	ClockValue(call string) string
}

// Facts are the planner's knowledge of a server. The methods of Rules don't ask the server. Each of
// the other methods does, so the planner calls it only if the plan depends on the answer.
type Facts interface {
	Rules
	UserFunction(ctx context.Context, text string, names []string) (why string, err error)
	TableParts(ctx context.Context, database, table string) (*engine.TableParts, error)
	DescribeQuery(ctx context.Context, query string) ([]engine.ResultColumn, error)
	ExplainQuery(ctx context.Context, query string) (*engine.QueryPlan, error)
	// Values returns the texts of the first row of a query.
	Values(ctx context.Context, query string) ([]string, error)
}

// SessionFacts returns the facts of a server, asked in a session.
func SessionFacts(r engine.Reader, s *engine.Session) Facts { return &sessionFacts{r, s} }

type sessionFacts struct {
	engine.Reader
	session *engine.Session
}

func (f *sessionFacts) Quote(name string) string { return f.Dialect().Quote(name) }

func (f *sessionFacts) UserFunction(ctx context.Context, text string, names []string) (string, error) {
	return f.Reader.UserFunction(ctx, f.session, text, names)
}

func (f *sessionFacts) TableParts(ctx context.Context, database, table string) (*engine.TableParts, error) {
	return f.Reader.TableParts(ctx, f.session, database, table)
}

func (f *sessionFacts) DescribeQuery(ctx context.Context, query string) ([]engine.ResultColumn, error) {
	return f.Reader.DescribeQuery(ctx, f.session, query)
}

func (f *sessionFacts) ExplainQuery(ctx context.Context, query string) (*engine.QueryPlan, error) {
	return f.Reader.ExplainQuery(ctx, f.session, query)
}

func (f *sessionFacts) Values(ctx context.Context, query string) (values []string, err error) {
	err = f.session.Text(ctx, query, nil, func(row [][]byte) error {
		for _, v := range row {
			values = append(values, string(v))
		}
		return nil
	})
	return values, err
}
