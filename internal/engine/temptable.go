package engine

import (
	"context"
	"fmt"
)

// A Literal appends a value, given as the server's text, to b as an SQL literal.
type Literal func(b, text []byte) ([]byte, error)

// A TempTable inserts rows, given as texts, into a temporary table.
type TempTable struct {
	// Name and Columns are those of the table. Literals has a function for each column's values.
	Name     string
	Columns  []ResultColumn
	Literals []Literal
	// Insert inserts rows that Append has made. It returns an error if the server has changed a value,
	// or warns about a value.
	Insert func(ctx context.Context, rows []byte) error
}

// Append appends a row, in which nil is NULL, and a comma to the rows for Insert. Several
// goroutines may call it at the same time, each with its own rows.
func (t *TempTable) Append(rows []byte, values [][]byte) ([]byte, error) {
	if len(values) != len(t.Literals) {
		return rows, fmt.Errorf("a row of %s has %d values, and not %d", t.Name, len(values), len(t.Literals))
	}
	var err error
	for i, text := range values {
		sep := byte(',')
		if i == 0 {
			sep = '('
		}
		rows = append(rows, sep)
		if text == nil {
			rows = append(rows, "NULL"...)
		} else if rows, err = t.Literals[i](rows, text); err != nil {
			return rows, fmt.Errorf("column %s: %w", t.Columns[i].Name, err)
		}
	}
	return append(rows, "),"...), nil
}
