package plan

import (
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/parse"
)

// noColumn makes a column of the group table behave like the expression whose values it holds, such
// as MIN(y). MariaDB and MySQL convert a constant to the type of the column with which it is
// compared, but not to the type of an expression: if y is a YEAR, 90 would become 1990. So noColumn
// wraps the column in a function that returns the same value: COALESCE, or for a TIME GREATEST,
// because MariaDB's COALESCE loses the sign of a TIME.
func (g *grouped) noColumn(text string, c engine.ResultColumn) string {
	if !g.traits.OperandForm || c.Class != engine.ClassInt && c.Class != engine.ClassTime && c.Temporal != engine.Duration {
		return text
	}
	if c.Temporal == engine.Duration {
		return "GREATEST(" + text + ", " + text + ")"
	}
	return "COALESCE(" + text + ")"
}

// checkOperands refuses an expression over groups if its value depends on whether an operand is an
// expression, as in the query, or a column of the group table, as in the merge.
func (g *grouped) checkOperands(e *parse.Expr, in nameUse, part bool) error {
	if !g.traits.OperandForm {
		return nil
	}
	if !part && e != nil && g.keyOf(e) < 0 && !g.isAggregate(e) {
		if err := g.checkCollations(e, in); err != nil {
			return err
		}
	}
	return parse.Check(e, func(x *parse.Expr) (bool, error) {
		if i := g.keyOf(x); i >= 0 {
			switch {
			case !part && x == e:
			case g.super && g.traits.KeepsOperands:
				return false, refuse(rollupOperand, g.of(x.Span))
			case makesJSON(g.keys[i].expr):
				return false, refuse(mayBeJSON, g.of(x.Span))
			}
			return false, nil
		}
		switch {
		case g.isAggregate(x):
			return false, nil
		case isJSON(x) && !constant(x):
			return false, refuse(mayBeJSON, g.of(x.Span))
		case x.Over != nil && g.quotientWithin(x):
			return false, refuse(windowQuotient, g.of(x.Span))
		case g.traits.NumbersAsTimes && x.Kind == parse.Call && readsTimes[x.Name] && g.within(x, func(c engine.ResultColumn) bool { return c.Class != engine.ClassTime && c.Temporal != engine.Duration }):
			return false, refuse(numberAsTime, g.of(x.Span))
		case g.traits.MistakesDates && x.Kind == parse.Call && (x.Name == "addtime" || x.Name == "subtime") && g.within(x, func(c engine.ResultColumn) bool { return c.Temporal == engine.Date }):
			return false, refuse(dateAsTime, g.of(x.Span))
		case !ofValues(x) && g.hasComputedKey(x):
			return false, refuse(computedKey, g.of(x.Span))
		}
		return true, nil
	})
}

// ofValues reports an operation whose result depends on the values of its operands alone.
func ofValues(e *parse.Expr) bool {
	switch e.Kind {
	case parse.Unary:
		return e.Name == "NOT" || e.Name == "-" || e.Name == "!"
	case parse.Binary:
		return slices.Contains([]string{"AND", "OR", "XOR", "&&", "||", "=", "<>", "!=", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "LIKE"}, e.Name)
	case parse.Call:
		return e.Over != nil || e.Name == "grouping"
	case parse.Between, parse.In, parse.IsTest, parse.Paren, parse.Case, parse.Row, parse.Column, parse.Literal:
		return true
	}
	return false
}

// readsTimes are functions that convert numbers and texts to times.
var readsTimes = engine.WordSet(`
	unix_timestamp adddate addtime date date_add date_format date_sub datediff day dayname dayofmonth dayofweek dayofyear extract hour last_day
	microsecond minute month monthname quarter second subdate subtime time time_format time_to_sec timediff timestamp timestampadd
	timestampdiff to_days to_seconds week weekday weekofyear year yearweek convert_tz`)

// within reports whether an expression has an aggregate with a result for which is returns true.
func (g *grouped) within(e *parse.Expr, is func(engine.ResultColumn) bool) bool {
	found := false
	parse.Walk(e, func(x *parse.Expr) bool {
		if g.isAggregate(x) {
			found = found || is(g.aggregateOf(x).result)
			return false
		}
		return !found && g.keyOf(x) < 0
	})
	return found
}

// hasComputedKey reports an expression with a key that isn't a column.
func (g *grouped) hasComputedKey(e *parse.Expr) bool {
	found := false
	parse.Walk(e, func(x *parse.Expr) bool {
		i := g.keyOf(x)
		found = found || i >= 0 && parse.Bare(g.keys[i].expr).Kind != parse.Column
		return !found && i < 0 && !g.isAggregate(x)
	})
	return found
}

// makesJSON reports whether an expression, or a part of it, returns JSON.
func makesJSON(e *parse.Expr) bool {
	return parse.Any(e, func(x *parse.Expr) bool {
		return isJSON(x) || x.Kind == parse.Binary && strings.HasPrefix(x.Name, "->")
	})
}

// isJSON reports a function or a cast that returns JSON.
func isJSON(e *parse.Expr) bool {
	switch e.Kind {
	case parse.Call:
		return strings.HasPrefix(e.Name, "json_")
	case parse.Cast:
		return strings.EqualFold(strings.TrimSpace(e.Type), "json")
	}
	return false
}

// quotientWithin reports a division or an average within a window function or its window.
func (g *grouped) quotientWithin(e *parse.Expr) bool {
	list := e.Args
	if o, err := g.windowOf(e); err == nil {
		list = append(o.Exprs(), e.Args...)
	}
	return slices.ContainsFunc(list, func(e *parse.Expr) bool {
		return parse.Any(e, func(x *parse.Expr) bool { return isDivision(x) || x.Kind == parse.Call && x.Name == "avg" })
	})
}

// checkCollations refuses an expression that combines several texts of the groups, if one of the
// texts is computed. In the merge, a computed text is a column, and a column's collation takes
// precedence over the collation of an expression.
func (g *grouped) checkCollations(e *parse.Expr, in nameUse) error {
	texts := map[any]bool{} // keys and aggregates
	computed, named := false, namesCollation(e)
	var visit func(e *parse.Expr, in nameUse) error
	visit = func(e *parse.Expr, in nameUse) error {
		return parse.Check(e, func(x *parse.Expr) (bool, error) {
			r, err := g.resolve(x, in)
			switch i := g.keyOf(x); {
			case err != nil:
				return false, err
			case r != nil:
				return false, visit(r, inItems)
			case i >= 0:
				if k := g.keys[i]; hasCollation(k.col) {
					texts[k] = true
					if parse.Bare(k.expr).Kind != parse.Column {
						computed, named = true, named || namesCollation(k.expr)
					}
				}
				return false, nil
			case g.isAggregate(x):
				if a := g.aggregateOf(x); hasCollation(a.result) {
					texts[a], computed = true, true
				}
				return false, nil
			}
			return true, nil
		})
	}
	err := visit(e, in)
	switch {
	case err != nil || !computed:
		return err
	case named:
		return refuse(namedCollation, g.of(e.Span))
	case len(texts) > 1:
		return refuse(severalTexts, g.of(e.Span))
	}
	return nil
}

// hasCollation reports a column of characters or bytes that isn't a duration.
func hasCollation(c engine.ResultColumn) bool {
	return (c.Class == engine.ClassText || c.Class == engine.ClassBytes) && c.Temporal != engine.Duration
}

// namesCollation reports an expression that names a collation or a character set, or has bytes.
func namesCollation(e *parse.Expr) bool {
	return parse.Any(e, func(x *parse.Expr) bool {
		switch x.Kind {
		case parse.Collate, parse.Cast:
			return true
		case parse.Unary:
			return x.Name == "BINARY"
		case parse.Literal:
			return slices.ContainsFunc([]string{"_", "x'", "b'", "n'", "0x", "0b"}, func(mark string) bool {
				return strings.HasPrefix(strings.ToLower(x.Name), mark)
			})
		}
		return false
	})
}
