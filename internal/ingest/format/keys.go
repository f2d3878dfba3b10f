package format

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

var errMissing = errors.New("it is missing")

// beginKeys begins a row whose values are named by keys.
func (p *Parser) beginKeys() {
	p.absent = p.absent[:0]
	p.values = slices.Grow(p.values[:0], len(p.Columns))[:len(p.Columns)]
	p.seen = slices.Grow(p.seen[:0], len(p.Columns))[:len(p.Columns)]
	for i := range p.values {
		p.values[i], p.seen[i] = field{null: true}, false
	}
}

// key returns the column of a key; -1 without an error means that the key is not loaded.
func (p *Parser) key(name string) (int, error) {
	i, known := p.byName[name]
	if !known {
		i = slices.IndexFunc(p.Columns, func(c Column) bool { return strings.EqualFold(c.Name, name) })
	}
	constant := i >= len(p.Columns)-len(p.constants)
	if (i < 0 || constant) && isNamed(p.Format.SkipColumns, name) {
		return -1, nil
	}
	if i < 0 && p.Format.Columns != nil {
		return -1, nil // only the named columns are loaded
	}
	if i < 0 {
		var names []string
		for _, c := range p.Columns {
			names = append(names, c.Name)
		}
		return -1, fmt.Errorf("key %q isn't one of the columns that are loaded, %s (see --columns)", name, strings.Join(names, ", "))
	}
	if constant {
		return -1, fmt.Errorf("it has key %q, which --set gives a value", name)
	}
	if p.seen[i] {
		return -1, fmt.Errorf("it has key %q twice", name)
	}
	p.seen[i] = true
	return i, nil
}

// endKeys gives each column for which the object has no key its default, or NULL. If a column
// without a key must have a value, endKeys returns the column's name. If existing rows are updated,
// they keep their values in columns without a key.
func (p *Parser) endKeys() (string, error) {
	constants := len(p.Columns) - len(p.constants)
	copy(p.values[constants:], p.constants)
	for i, seen := range p.seen[:constants] {
		c := &p.Columns[i]
		switch {
		case seen:
		case i != p.By && (c.Default != "" || c.Auto || c.Null && p.All.Table.Update):
			p.values[i] = field{absent: true}
			p.absentIn(i)
		case i == p.By || !c.Null:
			return c.Name, errMissing
		}
	}
	return "", nil
}
