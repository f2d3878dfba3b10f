package mysql

import (
	"fmt"

	"github.com/rowmill/rowmill/internal/engine"
)

// Refuse implements engine.LateWords.
func (d dialect) Refuse(t *engine.Table, _ []string, boundary string) []engine.Trigger {
	body := fmt.Sprintf("BEGIN IF %s < %s THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = %s; END IF; END",
		d.Position(t, "NEW."+d.Quote(t.By)), boundary, quoteText("rowmill: the period of this row is sealed"))
	return []engine.Trigger{d.trigger(t, "rowmill_late_"+t.Name, "BEFORE INSERT", body)}
}
