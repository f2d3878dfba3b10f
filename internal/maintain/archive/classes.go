package archive

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// checkClasses refuses SQLite values whose storage class can't be restored from their
// text: in SQLite any value may have any class, whatever the column's type is.
// Inserting a text converts it according to the column's affinity, which restores the
// original class, except for bytes in a column of another type and for columns
// without an affinity.
func checkClasses(ctx context.Context, r *reader) error {
	var wrong []string
	for _, c := range r.columns {
		class := "typeof(" + r.quote(c) + ")"
		switch {
		case c.Kind == engine.KindBytes:
			wrong = append(wrong, class+" NOT IN ('blob', 'null')")
		case c.Kind == engine.KindOther && (c.Native == "" || strings.EqualFold(c.Native, "any")):
			wrong = append(wrong, class+" NOT IN ('text', 'null')")
		default:
			wrong = append(wrong, class+" = 'blob'")
		}
	}
	list := make([]string, len(wrong))
	for i, w := range wrong {
		list[i] = "MAX(" + w + ")"
	}
	var names []string
	// SQLite limits the depth of expressions, so each condition is a column of its
	// own.
	rows, err := r.db.SQL().QueryContext(ctx, "SELECT "+strings.Join(list, ", ")+" FROM "+r.from+" AS r")
	if err != nil {
		return r.db.Classify(err)
	}
	found := make([]sql.NullInt64, len(list))
	into := make([]any, len(list))
	for i := range found {
		into[i] = &found[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return errors.Join(err, rows.Close())
		}
		for i, n := range found {
			if n.Int64 != 0 {
				names = append(names, r.columns[i].Name)
			}
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return r.db.Classify(err)
	}
	if len(names) > 0 {
		return engine.Hinted(fmt.Errorf("column %s has values of another storage class than its type's, which a file can't give back", strings.Join(names, ", ")),
			"UPDATE with CAST to the column's type")
	}
	return nil
}
