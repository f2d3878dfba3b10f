package postgres

import (
	"fmt"

	"github.com/rowmill/rowmill/engine"
)

// Refuse implements engine.LateWords.
func (w words) Refuse(t *engine.Table, _ []string, boundary string) []engine.Trigger {
	name := "rowmill_late"
	function := w.d.Quote(name + "_" + t.Name)
	return []engine.Trigger{{
		Name: name, Table: t.Name,
		Statements: []string{
			fmt.Sprintf("CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $rowmill$ BEGIN "+
				"IF %s < %s THEN RAISE EXCEPTION 'rowmill: the period of this row is sealed' USING ERRCODE = 'check_violation'; END IF; RETURN NEW; END $rowmill$",
				function, w.Position(t, "NEW."+w.d.Quote(t.By)), boundary),
			fmt.Sprintf("CREATE TRIGGER %s BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION %s()", w.d.Quote(name), w.d.Quote(t.Name), function),
		},
		Drop: []string{
			fmt.Sprintf("DROP TRIGGER IF EXISTS %s ON %s", w.d.Quote(name), w.d.Quote(t.Name)),
			fmt.Sprintf("DROP FUNCTION IF EXISTS %s()", function),
		},
	}}
}
