package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/rowmill/rowmill/internal/engine"
)

// readOnlyDefault is the setting under which a transaction can't create a temporary table.
const readOnlyDefault = "default_transaction_read_only"

func (db reader) Carry(engine.ResultColumn, string) string { return "" }

func (db reader) MergeState(st engine.State) engine.State {
	out := slices.DeleteFunc(slices.Clone(st), func(x engine.Setting) bool { return x.Name == readOnlyDefault })
	return append(out, engine.Setting{Name: readOnlyDefault, Value: "off"})
}

// TempTable implements engine.Reader. Values are inserted as texts, which the server converts.
func (db reader) TempTable(ctx context.Context, s *engine.Session, name, query string, cols []engine.ResultColumn) (*engine.TempTable, error) {
	literals := make([]engine.Literal, len(cols))
	for i, c := range cols {
		literals[i] = escapedLiteral
		why := ""
		switch c.Class {
		case engine.ClassOther:
			why = "a " + c.Native + " can't be made from its text"
		case engine.ClassFloat:
			digits, err := s.State(ctx, "extra_float_digits")
			if err != nil {
				return nil, err
			}
			if n, err := strconv.Atoi(digits); err != nil || n < 1 {
				why = "with extra_float_digits = " + digits + ", the text of a " + c.Native + " doesn't have all digits"
			}
		}
		if why != "" {
			return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("create temporary table %s: column %s: %s", name, c.Name, why))
		}
	}
	// CREATE must not wait long: the statement in its way may itself wait for the query's pieces.
	if err := s.SetStates(ctx, waitForTables); err != nil {
		return nil, fmt.Errorf("create temporary table %s: %w", name, err)
	}
	quoted := "pg_temp." + db.dialect.Quote(name)
	if _, err := s.Exec(ctx, "CREATE TEMPORARY TABLE "+db.dialect.Quote(name)+" AS SELECT * FROM ("+query+") AS rowmill_rows WITH NO DATA"); err != nil {
		return nil, fmt.Errorf("create temporary table %s: %w", name, err)
	}
	return &engine.TempTable{
		Name: name, Columns: cols, Literals: literals,
		Insert: func(ctx context.Context, rows []byte) error {
			_, err := s.Exec(ctx, "INSERT INTO "+quoted+" VALUES "+string(bytes.TrimSuffix(rows, []byte(","))))
			return err
		},
	}, nil
}

// escapedLiteral appends text to b as a literal of the type unknown. The literal's meaning doesn't
// depend on standard_conforming_strings.
func escapedLiteral(b, text []byte) ([]byte, error) {
	b = append(b, "E'"...)
	for _, c := range text {
		if c == '\'' || c == '\\' {
			b = append(b, c)
		}
		b = append(b, c)
	}
	return append(b, '\''), nil
}
