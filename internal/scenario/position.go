package scenario

import (
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// A position is a line and a column in a text, both counted from 1.
type position struct{ Line, Column int }

// positions maps the keys of a declaration to their positions: "memory.share",
// "run[1].layout", "run[1]".
type positions map[string]position

// positionsOf finds all keys of a text that was parsed without an error.
func positionsOf(text []byte) (positions, error) {
	out := positions{}
	var p unstable.Parser
	p.Reset(text)
	table, elements := "", map[string]int{}
	for p.NextExpression() {
		e := p.Expression()
		name, at := keyOf(&p, e)
		switch e.Kind {
		case unstable.Table:
			table = name + "."
			out[name] = at
		case unstable.ArrayTable:
			element := fmt.Sprintf("%s[%d]", name, elements[name])
			elements[name]++
			table = element + "."
			out[element] = at
		case unstable.KeyValue:
			out.add(&p, table+name, at, e.Value())
		}
	}
	return out, p.Error()
}

// add records a key and, if its value is an inline table, the keys in it.
func (ps positions) add(p *unstable.Parser, key string, at position, value *unstable.Node) {
	ps[key] = at
	if value.Kind != unstable.InlineTable {
		return
	}
	for it := value.Children(); it.Next(); {
		if n := it.Node(); n.Kind == unstable.KeyValue {
			name, at := keyOf(p, n)
			ps.add(p, key+"."+name, at, n.Value())
		}
	}
}

// keyOf returns the key of an expression and its position.
func keyOf(p *unstable.Parser, e *unstable.Node) (string, position) {
	if e.Kind != unstable.Table && e.Kind != unstable.ArrayTable && e.Kind != unstable.KeyValue {
		return "", position{}
	}
	var parts []string
	var at position
	for it := e.Key(); it.Next(); {
		n := it.Node()
		if len(parts) == 0 {
			start := p.Shape(n.Raw).Start
			at = position{start.Line, start.Column}
		}
		parts = append(parts, string(n.Data))
	}
	return strings.Join(parts, "."), at
}
