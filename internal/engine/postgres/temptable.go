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

// MergeRefusal implements engine.Reader.
func (db *DB) MergeRefusal() string { return "" }

// MergeState implements engine.Reader.
func (db *DB) MergeState(st engine.State) engine.State {
	out := slices.DeleteFunc(slices.Clone(st), func(x engine.Setting) bool { return x.Name == readOnlyDefault })
	return append(out, engine.Setting{Name: readOnlyDefault, Value: "off"})
}

// TempTable implements engine.Reader. Values are inserted as their types' own texts.
func (db *DB) TempTable(ctx context.Context, s *engine.Session, name, query string, cols []engine.ResultColumn) (*engine.TempTable, error) {
	for _, c := range cols {
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
	quoted := "pg_temp." + db.dialect.Quote(name)
	if _, err := s.Exec(ctx, "CREATE TEMPORARY TABLE "+db.dialect.Quote(name)+" AS SELECT * FROM ("+query+") AS rowmill_rows WITH NO DATA"); err != nil {
		return nil, fmt.Errorf("create temporary table %s: %w", name, err)
	}
	return &engine.TempTable{
		Append: func(rows []byte, values [][]byte) ([]byte, error) {
			if len(values) != len(cols) {
				return rows, fmt.Errorf("a row of %s has %d values, and not %d", name, len(values), len(cols))
			}
			for i, text := range values {
				sep := byte(',')
				if i == 0 {
					sep = '('
				}
				rows = append(rows, sep)
				if text == nil {
					rows = append(rows, "NULL"...)
				} else {
					rows = appendEscaped(rows, text)
				}
			}
			return append(rows, "),"...), nil
		},
		Insert: func(ctx context.Context, rows []byte) error {
			_, err := s.Exec(ctx, "INSERT INTO "+quoted+" VALUES "+string(bytes.TrimSuffix(rows, []byte(","))))
			return err
		},
	}, nil
}

// appendEscaped appends a literal of unknown type, which has the same meaning whatever standard_conforming_strings is.
func appendEscaped(b, text []byte) []byte {
	b = append(b, "E'"...)
	for _, c := range text {
		if c == '\'' || c == '\\' {
			b = append(b, c)
		}
		b = append(b, c)
	}
	return append(b, '\'')
}
