package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"
)

// An Undo gives back what apply has taken away when it took a table over.
type Undo struct {
	Serial int64 // orders the records of a table
	What   string
	SQL    []string
}

// takeovers records how takeovers are undone.
type takeovers struct{ *database }

// AddUndo records the statements that give back what apply is about to take away. what names the
// thing taken away. If the table already has a record for what, AddUndo does nothing.
func (s takeovers) AddUndo(ctx context.Context, table, what string, statements []string) error {
	have, err := s.Undos(ctx, table)
	if err != nil {
		return err
	}
	serial := int64(1)
	for _, u := range have {
		if u.What == what {
			return nil
		}
		serial = u.Serial + 1
	}
	text, err := json.Marshal(statements)
	if err != nil {
		return err
	}
	err = s.insert(ctx, s.DB(), "rowmill_undo (table_name, serial, what, statements, at_us)", []any{table, serial, what, string(text), time.Now().UnixMicro()})
	return because("record how the takeover of "+table+" is undone", err)
}

// Undos returns how the takeover of a table is undone, in the order of the records.
func (s takeovers) Undos(ctx context.Context, table string) ([]Undo, error) {
	return list(ctx, s.database, "how the takeover of "+table+" is undone", func(r *sql.Rows, u *Undo) error {
		var text string
		if err := r.Scan(&u.Serial, &u.What, &text); err != nil {
			return err
		}
		return json.Unmarshal([]byte(text), &u.SQL)
	}, "SELECT serial, what, statements FROM rowmill_undo WHERE table_name = ? ORDER BY serial", table)
}

// DropUndo removes the record of u, once u's statements have run.
func (s takeovers) DropUndo(ctx context.Context, table string, u Undo) error {
	return s.run(ctx, s.DB(), "undo "+u.What, "DELETE FROM rowmill_undo WHERE table_name = ? AND serial = ?", table, u.Serial)
}
