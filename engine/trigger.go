package engine

import (
	"context"
	"database/sql"
)

// A Trigger is how to make one, and how to remove it.
type Trigger struct {
	Name, Table      string
	Statements, Drop []string
}

// ChangeTriggers returns the statements that make the triggers that are wanted
// and missing, or are on a table that was called so before, and remove those
// that are there and not wanted. Have is the query of SumWords.HaveTriggers.
func ChangeTriggers(ctx context.Context, db Keeper, have string, triggers []Trigger, wanted bool) ([]string, error) {
	on := map[string]string{}
	err := Each(ctx, db, db.SQL(), func(r *sql.Rows) error {
		var name, table string
		err := r.Scan(&name, &table)
		on[name] = table
		return err
	}, have)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, t := range triggers {
		table, there := on[t.Name]
		if there && wanted && table == t.Table {
			continue
		}
		if there {
			out = append(out, t.Drop...)
		}
		if wanted {
			out = append(out, t.Statements...)
		}
	}
	return out, nil
}
