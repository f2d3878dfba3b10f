package sqlite

import (
	"fmt"

	"github.com/rowmill/rowmill/engine"
)

// Refuse implements engine.LateWords.
func (w words) Refuse(t *engine.Table, periods []string, boundary string) []engine.Trigger {
	var out []engine.Trigger
	for _, p := range periods {
		name := "rowmill_late_" + p
		out = append(out, engine.Trigger{
			Name: name, Table: p,
			Statements: []string{fmt.Sprintf("CREATE TRIGGER %s BEFORE INSERT ON %s WHEN %s < %s BEGIN SELECT RAISE(ABORT, 'rowmill: the period of this row is sealed'); END",
				w.Quote(name), w.Quote(p), w.Position(t, "NEW."+w.Quote(t.By)), boundary)},
			Drop: []string{"DROP TRIGGER IF EXISTS " + w.Quote(name)},
		})
	}
	return out
}
