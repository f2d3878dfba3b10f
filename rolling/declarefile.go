package rolling

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// A fileValue is one key of a TOML file with its value and its place. For a table it
// holds the table's contents, in the order of the file.
type fileValue struct {
	key          string
	line, column int
	kind         unstable.Kind // String, Integer, Bool, Array, Table, ArrayTable or another
	text         string        // a string's value, a number or a boolean as written
	// content is the place of a string's first character.
	content [2]int
	// in are the keys of a table, the elements of a list, or the tables of an array
	// of tables.
	in []*fileValue
	// inline tables can't be extended.
	inline bool
}

// what returns the name of the value's type for messages.
func (v *fileValue) what() string {
	switch v.kind {
	case unstable.String:
		return "a text"
	case unstable.Integer:
		return "a whole number"
	case unstable.Float:
		return "a number with a fraction"
	case unstable.Bool:
		return "true or false"
	case unstable.Array:
		return "a list"
	case unstable.Table:
		return "a table"
	case unstable.ArrayTable:
		return "a list of tables"
	}
	return "a date or a time"
}

// find returns the value of a key of a table, or nil.
func (v *fileValue) find(key string) *fileValue {
	if v == nil {
		return nil
	}
	for _, c := range v.in {
		if c.key == key {
			return c
		}
	}
	return nil
}

// readFile reads TOML into a tree of its keys.
func readFile(source string, text []byte) (*fileValue, *Error) {
	var all map[string]any
	if err := toml.Unmarshal(text, &all); err != nil {
		e := &Error{Source: source, Line: 1, Column: 1, Text: strings.TrimPrefix(err.Error(), "toml: "), Hint: "the file is to be TOML, see docs/declaration.md"}
		var bad *toml.DecodeError
		if errors.As(err, &bad) {
			e.Line, e.Column = bad.Position()
		}
		return nil, e
	}
	var p unstable.Parser
	p.Reset(text)
	r := treeReader{p: &p, text: text}
	root := &fileValue{kind: unstable.Table, line: 1, column: 1}
	table := root
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = r.table(root, e)
		case unstable.KeyValue:
			r.keyValue(table, e)
		}
	}
	if err := p.Error(); err != nil {
		return nil, &Error{Source: source, Line: 1, Column: 1, Text: err.Error()}
	}
	return root, nil
}

type treeReader struct {
	p    *unstable.Parser
	text []byte
}

// keys returns the parts of an expression's key, each with its place.
func (r treeReader) keys(e *unstable.Node) (out []*fileValue) {
	for it := e.Key(); it.Next(); {
		n := it.Node()
		at := r.p.Shape(n.Raw).Start
		out = append(out, &fileValue{key: string(n.Data), line: at.Line, column: at.Column, kind: unstable.Table})
	}
	return out
}

// under returns the table with the name of step within in, created if it does not
// exist. For an array of tables it returns the last one.
func under(in, step *fileValue) *fileValue {
	at := in.find(step.key)
	if at == nil {
		in.in = append(in.in, step)
		return step
	}
	if at.kind == unstable.ArrayTable && len(at.in) > 0 {
		return at.in[len(at.in)-1]
	}
	return at
}

// table returns the table that a header begins.
func (r treeReader) table(root *fileValue, e *unstable.Node) *fileValue {
	path := r.keys(e)
	at := root
	for _, step := range path[:len(path)-1] {
		at = under(at, step)
	}
	last := path[len(path)-1]
	if e.Kind == unstable.Table {
		found := under(at, last)
		if found != last && len(found.in) == 0 {
			found.line, found.column = last.line, last.column
		}
		return found
	}
	list := at.find(last.key)
	if list == nil {
		list = &fileValue{key: last.key, line: last.line, column: last.column, kind: unstable.ArrayTable}
		at.in = append(at.in, list)
	}
	list.in = append(list.in, last)
	return last
}

func (r treeReader) keyValue(table *fileValue, e *unstable.Node) {
	path := r.keys(e)
	for _, step := range path[:len(path)-1] {
		table = under(table, step)
	}
	last := path[len(path)-1]
	r.value(last, e.Value())
	table.in = append(table.in, last)
}

// value fills in the value of a key.
func (r treeReader) value(v *fileValue, n *unstable.Node) {
	v.kind, v.text = n.Kind, string(n.Data)
	switch n.Kind {
	case unstable.String:
		shape := r.p.Shape(n.Raw)
		raw := string(r.p.Raw(n.Raw))
		v.content = [2]int{shape.Start.Line, shape.Start.Column + 1}
		for _, open := range []string{`'''`, `"""`} {
			if rest, ok := strings.CutPrefix(raw, open); ok {
				v.content[1] += 2
				if strings.HasPrefix(rest, "\n") || strings.HasPrefix(rest, "\r\n") {
					v.content = [2]int{v.content[0] + 1, 1}
				}
			}
		}
	case unstable.InlineTable:
		v.kind, v.inline = unstable.Table, true
		for it := n.Children(); it.Next(); {
			if c := it.Node(); c.Kind == unstable.KeyValue {
				r.keyValue(v, c)
			}
		}
	case unstable.Array:
		for it := n.Children(); it.Next(); {
			c := &fileValue{line: v.line, column: v.column}
			r.value(c, it.Node())
			v.in = append(v.in, c)
		}
	}
}

// integer returns a whole number's value.
func (v *fileValue) integer() (int64, error) {
	return strconv.ParseInt(strings.ReplaceAll(v.text, "_", ""), 0, 64)
}

// nearest returns the known name that is most similar, or "" if none is similar.
func nearest(name string, known []string) string {
	best, least := "", max(1, len(name)/3)
	for _, k := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d <= least {
			if best == "" || d < least {
				best, least = k, d
			}
		}
	}
	return best
}

// distance is the number of letters to change, add, remove, or swap with a neighbour
// to turn one name into the other (optimal string alignment).
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// didYouMean adds the name that was probably intended to a hint.
func didYouMean(name string, known []string) string {
	if n := nearest(name, known); n != "" {
		return fmt.Sprintf("did you mean %s?", n)
	}
	return "one of " + strings.Join(known, ", ")
}
