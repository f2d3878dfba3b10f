package maintain

import "github.com/rowmill/rowmill/rolling"

// SetPeriod sets the period of a table declared with "auto", before anything is
// planned.
func (t *Table) SetPeriod(g rolling.Grid) error {
	found := *t.Declared
	found.Period = g
	table := *t.Table
	table.Grid = g
	t.Declared, t.Table = &found, &table
	return t.openLevels()
}
