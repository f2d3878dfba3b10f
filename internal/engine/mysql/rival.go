package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

var _ engine.Rivaled = (*DB)(nil)

// Rivals implements engine.Rivaled with the events of the database. An account sees the events of
// databases on which it has the privilege EVENT, and the bodies of its own routines.
func (db *server) Rivals(ctx context.Context, table string) ([]engine.Rival, error) {
	var jobs []engine.Job
	err := engine.Each(ctx, db, db.pool, func(r *sql.Rows) error {
		var name, text, definer string
		err := r.Scan(&name, &text, &definer)
		j := engine.Job{Text: text}
		j.Name = "event " + name
		user, host := definer, "%"
		if at := strings.LastIndexByte(definer, '@'); at >= 0 {
			user, host = definer[:at], definer[at+1:]
		}
		// Without DEFINER, the event would get the account as its definer.
		alter := fmt.Sprintf("ALTER DEFINER = %s@%s EVENT %s ", quoteText(user), quoteText(host), db.dialect.Quote(name))
		j.Off, j.On = []string{alter + "DISABLE"}, []string{alter + "ENABLE"}
		jobs = append(jobs, j)
		return err
	}, "SELECT EVENT_NAME, EVENT_DEFINITION, DEFINER FROM information_schema.EVENTS WHERE EVENT_SCHEMA = DATABASE() AND STATUS = 'ENABLED'")
	if err != nil || len(jobs) == 0 {
		return nil, classify(err)
	}
	routines := map[string]string{}
	err = engine.Each(ctx, db, db.pool, func(r *sql.Rows) error {
		var name string
		var body sql.NullString
		err := r.Scan(&name, &body)
		routines[strings.ToLower(name)] = body.String
		return err
	}, "SELECT ROUTINE_NAME, ROUTINE_DEFINITION FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE()")
	if err != nil {
		return nil, classify(err)
	}
	if len(engine.RivalsOf(jobs, routines, table, nil)) == 0 {
		return nil, nil // the partitions of all tables needn't be read
	}
	others, err := engine.List[string](ctx, db, db.pool, "SELECT DISTINCT TABLE_NAME FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND PARTITION_NAME IS NOT NULL")
	if err != nil {
		return nil, classify(err)
	}
	return engine.RivalsOf(jobs, routines, table, others), nil
}
