package parse_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/parse"
	"github.com/rowmill/rowmill/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// A dialect is what random expressions are made of. A # in an operator stands for an operand.
type dialect struct {
	mode               string
	operands           string
	prefixes, operator string
}

var dialects = map[string][]dialect{
	"sqlite":  {{"", "1,2,3,5,7,0,12", "-,~,NOT ", "OR #,AND #,= #,== #,<> #,!= #,IS #,IS NOT #,< #,<= #,> #,>= #,| #,& #,<< #,>> #,+ #,- #,* #,/ #,% #,|| #,LIKE #,NOT LIKE #,GLOB #,IN (# ; #),BETWEEN # AND #,NOT BETWEEN # AND #,IS NULL,ISNULL,NOTNULL"}},
	"mariadb": {{"", "1,2,3,5,7,0,12", "-,~,!,NOT ", loose + ",SOUNDS LIKE #"}, {"PIPES_AS_CONCAT", "1,2,3,5,7,0,12", "-,~,!,NOT ", loose}},
	"mysql":   {{"", "1,2,3,5,7,0,12", "-,~,!,NOT ", loose}, {"PIPES_AS_CONCAT", "1,2,3,5,7,0,12", "-,~,!,NOT ", loose}},
	"postgres": {{"", "1,2,3,5,7,0,12", "-,~,+", "+ #,- #,* #,/ #,% #,^ #,| #,& #,<< #,>> #,# #,|| #"},
		{"", "true,false,NULL::bool", "NOT ", "OR #,AND #,= #,<> #,IS TRUE,IS NOT FALSE,IS NULL,ISNULL,IS DISTINCT FROM #,< #,>= #,IN (# ; #),NOT IN (# ; #),BETWEEN # AND #"}},
}

const loose = "OR #,XOR #,AND #,&& #,|| #,= #,<=> #,>= #,> #,<= #,< #,<> #,!= #,| #,& #,<< #,>> #,+ #,- #,* #,/ #,DIV #,% #,MOD #,^ #,LIKE #,NOT LIKE #,REGEXP #,IN (# ; #),BETWEEN # AND #,NOT BETWEEN # AND #,IS NULL,IS NOT TRUE"

// expression returns a random expression.
func (d dialect) expression(r *rand.Rand) string {
	pick := func(list string) string { all := strings.Split(list, ","); return all[r.IntN(len(all))] }
	operand := func() string {
		if r.IntN(5) == 0 && !strings.HasPrefix(d.prefixes, "NOT") {
			return strings.TrimPrefix(pick(d.prefixes), "NOT ") + pick(d.operands)
		}
		return pick(d.operands)
	}
	e := operand()
	if strings.Contains(d.prefixes, "NOT") && r.IntN(4) == 0 {
		e = "NOT " + e
	}
	for range 1 + r.IntN(4) {
		op := pick(d.operator)
		if op == "# #" {
			e += " # " + operand()
			continue
		}
		parts := strings.Split(op, "#")
		e += " " + parts[0]
		for _, p := range parts[1:] {
			e += operand() + p
		}
	}
	return strings.ReplaceAll(e, ";", ",")
}

// parenthesized writes an expression with all the parentheses that its tree stands for.
func parenthesized(text string, e *parse.Expr) string {
	if len(e.Args) == 0 {
		return e.Of(text)
	}
	var b strings.Builder
	at := e.From
	for _, a := range e.Args {
		b.WriteString(text[at:a.From] + "(" + parenthesized(text, a) + ")")
		at = a.To
	}
	return b.String() + text[at:e.To]
}

// TestPrecedence checks on the servers that operators bind as the parser has it: with all
// parentheses written, random expressions have the same values.
func TestPrecedence(t *testing.T) {
	number := 400
	if testdb.Nightly() {
		number = 6000
	}
	testdb.OnKinds(t, []string{"sqlite", "mariadb", "mysql", "postgres"}, func(t *testing.T, kind string) {
		db := testdb.Open(t, kind).(engine.Reader)
		for _, d := range dialects[kind] {
			ctx := context.Background()
			conn, err := db.SQL().Conn(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
			}()
			if strings.HasPrefix(d.prefixes, "-,~,!") {
				if _, err := conn.ExecContext(ctx, "SET sql_mode = '"+d.mode+"'"); err != nil {
					t.Fatal(err)
				}
			}
			syntax := db.Syntax(engine.State{{Name: "sql_mode", Value: d.mode}, {Name: "standard_conforming_strings", Value: "on"}})
			value := func(e string) (string, error) {
				var v sql.NullString
				err := conn.QueryRowContext(ctx, "SELECT "+e).Scan(&v)
				return fmt.Sprint(v), err
			}
			r := rand.New(rand.NewPCG(1, 2))
			compared, failed := 0, 0
			for range number {
				text := d.expression(r)
				q, err := parse.Parse("SELECT "+text, syntax)
				if err != nil {
					continue // such as LIKE after LIKE
				}
				want, err := value(text)
				if err != nil {
					continue // such as a condition where a number is required
				}
				compared++
				full := parenthesized("SELECT "+text, q.Body.Items[0].Expr)
				if got, err := value(full); (err != nil || got != want) && failed < 10 {
					failed++
					t.Errorf("%s%s is %s; %s is %s, %v", text, d.mode, want, full, got, err)
				}
			}
			if compared < number/2 {
				t.Errorf("only %d of %d expressions were compared", compared, number)
			}
		}
	})
}
