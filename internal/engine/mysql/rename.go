package mysql

import "github.com/rowmill/rowmill/internal/engine"

// rename renders engine.Rename: partition names don't contain the table's name.
func (d dialect) rename(s engine.Rename) []string {
	return []string{"RENAME TABLE " + d.Quote(s.Table.Name) + " TO " + d.Quote(s.To)}
}
