package sqlite

import "github.com/rowmill/rowmill/internal/engine"

// renameTable renders engine.Rename. If other views or triggers refer to the
// table, the connection needs PRAGMA legacy_alter_table = ON before the
// transaction.
func (d dialect) renameTable(s engine.Rename) ([]string, error) {
	if len(s.Have) == 0 {
		return []string{d.rename(s.Table.Name, s.To)}, nil
	}
	to := *s.Table
	to.Name = s.To
	out := []string{"DROP VIEW " + d.Quote(s.Table.Name)}
	for _, p := range s.Have {
		out = append(out, d.rename(store(s.Table, p), store(&to, p)))
	}
	out = append(out, "UPDATE rowmill_periods SET table_name = "+quoteText(s.To)+" WHERE table_name = "+quoteText(s.Table.Name))
	return append(out, d.layout(&to, s.Have)...), nil
}
