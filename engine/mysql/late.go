package mysql

import (
	"fmt"

	"github.com/rowmill/rowmill/engine"
)

// Refuse implements engine.LateWords.
func (d dialect) Refuse(t *engine.Table, _ []string, boundary string) []engine.Trigger {
	name := "rowmill_late_" + t.Name
	return []engine.Trigger{{
		Name: name, Table: t.Name,
		Statements: []string{fmt.Sprintf("CREATE TRIGGER %s BEFORE INSERT ON %s FOR EACH ROW BEGIN IF %s < %s THEN "+
			"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = %s; END IF; END",
			d.Quote(name), d.Quote(t.Name), d.Position(t, "NEW."+d.Quote(t.By)), boundary, quoteText("rowmill: the period of this row is sealed"))},
		Drop: []string{"DROP TRIGGER IF EXISTS " + d.Quote(name)},
	}}
}
