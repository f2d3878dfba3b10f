package sqlite

import (
	"fmt"

	"github.com/rowmill/rowmill/internal/engine"
)

// Refuse implements engine.LateWords.
func (w words) Refuse(t *engine.Table, periods []string, boundary string) []engine.Trigger {
	var out []engine.Trigger
	for _, p := range periods {
		out = append(out, w.trigger("rowmill_late_"+p, p, fmt.Sprintf("BEFORE INSERT ON %s WHEN %s < %s BEGIN SELECT RAISE(ABORT, 'rowmill: the period of this row is sealed'); END",
			w.Quote(p), w.Position(t, "NEW."+w.Quote(t.By)), boundary)))
	}
	return out
}

// trigger returns a trigger whose Body is its whole CREATE statement.
func (w words) trigger(name, table, text string) engine.Trigger {
	q := "CREATE TRIGGER " + w.Quote(name) + " " + text
	return engine.Trigger{Name: name, Table: table, Body: q, Statements: []string{q}, Drop: []string{"DROP TRIGGER IF EXISTS " + w.Quote(name)}}
}
