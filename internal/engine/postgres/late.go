package postgres

import (
	"fmt"

	"github.com/rowmill/rowmill/internal/engine"
)

// Refuse implements engine.LateWords.
func (w words) Refuse(t *engine.Table, _ []string, boundary string) []engine.Trigger {
	name := "rowmill_late"
	body := fmt.Sprintf(" BEGIN IF %s < %s THEN RAISE EXCEPTION 'rowmill: the period of this row is sealed' USING ERRCODE = 'check_violation'; END IF; RETURN NEW; END ",
		w.Position(t, "NEW."+w.d.Quote(t.By)), boundary)
	return []engine.Trigger{w.trigger(t, name, "BEFORE INSERT ON "+w.d.Quote(t.Name)+" FOR EACH ROW", body)}
}

// trigger renders a trigger with its own function. The function is SECURITY
// DEFINER, so any account that may write rows may run it. Replace replaces only
// the function, which takes no lock on the table.
func (w words) trigger(t *engine.Table, name, when, body string) engine.Trigger {
	function := w.d.Quote(name + "_" + t.Name)
	define := fmt.Sprintf("CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $rowmill$%s$rowmill$", function, body)
	return engine.Trigger{
		Name: t.Name + "." + name, Table: t.Name, Body: body,
		Statements: []string{
			define,
			fmt.Sprintf("CREATE TRIGGER %s %s EXECUTE FUNCTION %s()", w.d.Quote(name), when, function),
		},
		Replace: []string{define},
		Drop: []string{
			fmt.Sprintf("DROP TRIGGER IF EXISTS %s ON %s", w.d.Quote(name), w.d.Quote(t.Name)),
			fmt.Sprintf("DROP FUNCTION IF EXISTS %s()", function),
		},
	}
}
