// Package tomlfile reads a TOML file into a tree that knows the place of each key, for messages
// such as "file.toml:7:3: unknown key". It serves the declarations of tables and of experiments.
package tomlfile

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// A Place is a line and a column, both counted from 1.
type Place struct{ Line, Column int }

// A Kind is the type of a value.
type Kind = unstable.Kind

// Kinds of values. Others are dates and times.
const (
	Text   = unstable.String
	Whole  = unstable.Integer
	Number = unstable.Float
	Bool   = unstable.Bool
	List   = unstable.Array
	Table  = unstable.Table
	Tables = unstable.ArrayTable // [[name]]
)

// A Value is one key of a file with its value and its place.
type Value struct {
	Key string
	Place
	Kind Kind
	// Text is the contents of a quoted text, or a number or a boolean as written. Content is the
	// place of the first character after the opening quote.
	Text    string
	Content Place
	// In are the keys of a table in the order of the file, the elements of a list, or
	// the tables of an array of tables.
	In []*Value
}

// An Error is a mistake in the syntax of a file.
type Error struct {
	Place
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Text) }

// What returns the name of the value's type for messages.
func (v *Value) What() string {
	switch v.Kind {
	case Text:
		return "a text"
	case Whole:
		return "a whole number"
	case Number:
		return "a number with a fraction"
	case Bool:
		return "true or false"
	case List:
		return "a list"
	case Table:
		return "a table"
	case Tables:
		return "a list of tables"
	}
	return "a date or a time"
}

// Find returns the value of a key of a table, or nil.
func (v *Value) Find(key string) *Value {
	if v == nil {
		return nil
	}
	for _, c := range v.In {
		if c.Key == key {
			return c
		}
	}
	return nil
}

// Parse reads a file; the result is the table of its top level.
func Parse(text []byte) (*Value, error) {
	var all map[string]any
	if err := toml.Unmarshal(text, &all); err != nil {
		e := &Error{Place{1, 1}, strings.TrimPrefix(err.Error(), "toml: ")}
		var bad *toml.DecodeError
		if errors.As(err, &bad) {
			e.Line, e.Column = bad.Position()
		}
		return nil, e
	}
	var p unstable.Parser
	p.Reset(text)
	r := treeReader{p: &p}
	root := &Value{Kind: Table, Place: Place{1, 1}}
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
		return nil, &Error{Place{1, 1}, err.Error()}
	}
	return root, nil
}

type treeReader struct {
	p *unstable.Parser
}

func (r treeReader) keys(e *unstable.Node) (out []*Value) {
	for it := e.Key(); it.Next(); {
		n := it.Node()
		at := r.p.Shape(n.Raw).Start
		out = append(out, &Value{Key: string(n.Data), Place: Place{at.Line, at.Column}, Kind: Table})
	}
	return out
}

// under finds the table named step.Key in the table in, and returns it. If there is none, it adds
// step to in and returns step. If the name is that of an array of tables, it returns the array's
// last table.
func under(in, step *Value) *Value {
	at := in.Find(step.Key)
	if at == nil {
		in.In = append(in.In, step)
		return step
	}
	if at.Kind == Tables && len(at.In) > 0 {
		return at.In[len(at.In)-1]
	}
	return at
}

func (r treeReader) table(root *Value, e *unstable.Node) *Value {
	path := r.keys(e)
	at := root
	for _, step := range path[:len(path)-1] {
		at = under(at, step)
	}
	last := path[len(path)-1]
	if e.Kind == unstable.Table {
		found := under(at, last)
		if found != last && len(found.In) == 0 {
			found.Place = last.Place
		}
		return found
	}
	list := at.Find(last.Key)
	if list == nil {
		list = &Value{Key: last.Key, Place: last.Place, Kind: Tables}
		at.In = append(at.In, list)
	}
	list.In = append(list.In, last)
	return last
}

func (r treeReader) keyValue(table *Value, e *unstable.Node) {
	path := r.keys(e)
	for _, step := range path[:len(path)-1] {
		table = under(table, step)
	}
	last := path[len(path)-1]
	r.value(last, e.Value())
	table.In = append(table.In, last)
}

func (r treeReader) value(v *Value, n *unstable.Node) {
	v.Kind, v.Text = n.Kind, string(n.Data)
	switch n.Kind {
	case unstable.String:
		shape := r.p.Shape(n.Raw)
		raw := string(r.p.Raw(n.Raw))
		v.Content = Place{shape.Start.Line, shape.Start.Column + 1}
		for _, open := range []string{`'''`, `"""`} {
			if rest, ok := strings.CutPrefix(raw, open); ok {
				v.Content.Column += 2
				if strings.HasPrefix(rest, "\n") || strings.HasPrefix(rest, "\r\n") {
					v.Content = Place{v.Content.Line + 1, 1}
				}
			}
		}
	case unstable.InlineTable:
		v.Kind = Table
		for it := n.Children(); it.Next(); {
			if c := it.Node(); c.Kind == unstable.KeyValue {
				r.keyValue(v, c)
			}
		}
	case unstable.Array:
		for it := n.Children(); it.Next(); {
			c := &Value{Place: v.Place}
			r.value(c, it.Node())
			v.In = append(v.In, c)
		}
	}
}

// Integer returns a whole number's value.
func (v *Value) Integer() (int64, error) {
	return strconv.ParseInt(strings.ReplaceAll(v.Text, "_", ""), 0, 64)
}

// Nearest returns the known name that is most similar, or "" if none is similar.
func Nearest(name string, known []string) string {
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

// DidYouMean returns a hint: the name that was probably intended, or all known names.
func DidYouMean(name string, known []string) string {
	if n := Nearest(name, known); n != "" {
		return fmt.Sprintf("did you mean %s?", n)
	}
	return "one of " + strings.Join(known, ", ")
}
