package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

func (db *reader) MergeState(st engine.State) engine.State { return st }

// Carry implements engine.Reader. In SQLite, each value has a type of its own. The value's usual
// text doesn't tell this type, and has too few digits of a binary fraction. So Carry's expression
// returns a text that begins with a letter for the type.
func (db *reader) Carry(c engine.ResultColumn, expr string) string {
	if c.Class == engine.ClassInt || c.Class == engine.ClassBytes {
		return ""
	}
	return strings.ReplaceAll("CASE typeof($1) WHEN 'integer' THEN 'i' || $1 WHEN 'text' THEN 't' || $1 WHEN 'null' THEN NULL ELSE rowmill_carry($1) END", "$1", expr)
}

// carried implements the SQL function rowmill_carry for binary fractions and blobs. It returns
// bytes, because drivers may cut texts at a zero byte. The SQL doesn't call it for NULL, because
// drivers pass both NULL and an empty blob as a nil slice.
func carried(v any) any {
	switch v := v.(type) {
	case float64:
		return strconv.AppendUint([]byte("f"), math.Float64bits(v), 16)
	case []byte:
		return append([]byte("b"), v...)
	}
	return nil
}

// uncarried returns the value from which Carry made a text. letter is the text's first character.
func uncarried(letter byte, text []byte) (any, error) {
	switch letter {
	case 'i':
		return strconv.ParseInt(string(text), 10, 64)
	case 'f':
		bits, err := strconv.ParseUint(string(text), 16, 64)
		return math.Float64frombits(bits), err
	case 't':
		return string(text), nil
	case 'b':
		return append(make([]byte, 0, len(text)), text...), nil // not nil, which is NULL
	}
	return nil, fmt.Errorf("%q is no type", letter)
}

// declaredType matches types of columns that can be declared again as they are.
var declaredType = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*( [A-Z_][A-Z0-9_]*)*( ?\([0-9]+(, ?[0-9]+)?\))?$`)

// TempTable implements engine.Reader. If the query's column is a column of a table, the temporary
// table's column has the same declared type, and so the affinity by which SQLite compares values.
// If the query's column is an expression, the temporary table's column has no type. Values are
// inserted as bound parameters.
func (db *reader) TempTable(ctx context.Context, s *engine.Session, name, query string, cols []engine.ResultColumn) (*engine.TempTable, error) {
	fail := func(err error) (*engine.TempTable, error) {
		return nil, fmt.Errorf("create temporary table %s: %w", name, err)
	}
	list := cols
	for _, c := range cols {
		if !c.Carried && db.Carry(c, "") != "" {
			return fail(engine.Classed(engine.ErrUnsupported, fmt.Errorf("column %s: the texts of its values don't tell their types", c.Name)))
		}
	}
	if cols == nil {
		var err error
		if list, err = s.Describe(ctx, query); err != nil {
			return fail(err)
		}
	}
	table := "temp." + dialect{}.Quote(name)
	defs := make([]string, len(list))
	for i, c := range list {
		if c.Native != "" && !declaredType.MatchString(c.Native) {
			return fail(engine.Classed(engine.ErrUnsupported, fmt.Errorf("column %s: its type is %s", c.Name, c.Native)))
		}
		defs[i] = strings.TrimSpace(dialect{}.Quote(c.Name) + " " + c.Native)
	}
	if _, err := s.Exec(ctx, "CREATE TEMP TABLE "+dialect{}.Quote(name)+" ("+strings.Join(defs, ", ")+")"); err != nil {
		return fail(err)
	}
	have, err := s.Describe(ctx, "SELECT * FROM "+table)
	if err != nil {
		return fail(err)
	}
	for i, c := range have {
		if len(have) != len(list) || c.Native != list[i].Native {
			return fail(engine.Classed(engine.ErrUnsupported, fmt.Errorf("column %s: a column can't have its type %s", list[i].Name, list[i].Native)))
		}
	}
	literals := make([]engine.Literal, len(list))
	for i, c := range list {
		literals[i] = boundLiteral(c)
	}
	return &engine.TempTable{
		Name: name, Columns: list, Literals: literals,
		Insert: func(ctx context.Context, rows []byte) error { return insertBound(ctx, s, table, len(list), rows) },
	}, nil
}

// boundLiteral returns the function that appends a value for insertBound: the letter of its type,
// the number of its bytes, and the bytes.
func boundLiteral(c engine.ResultColumn) engine.Literal {
	letter := byte('t')
	switch {
	case c.Class == engine.ClassInt:
		letter = 'i'
	case c.Native == "BLOB":
		letter = 'b'
	}
	return func(b, text []byte) ([]byte, error) {
		letter := letter
		if c.Carried {
			if len(text) == 0 {
				return b, errors.New("a value has no type")
			}
			letter, text = text[0], text[1:]
		}
		if letter == 'i' {
			if _, err := strconv.ParseInt(string(text), 10, 64); err != nil {
				return b, fmt.Errorf("%q is no integer", text)
			}
		}
		return append(binary.AppendUvarint(append(b, letter), uint64(len(text))), text...), nil
	}
}

// mostBound is the number of values of one INSERT, below SQLite's lowest limit in use.
const mostBound = 900

// insertBound inserts rows that TempTable.Append has encoded. Before each value there is a
// separator of one byte, and after each row two bytes. A value is NULL, or as boundLiteral appends
// it.
func insertBound(ctx context.Context, s *engine.Session, table string, columns int, rows []byte) error {
	var args []any
	flush := func() error {
		n := len(args) / columns
		if n == 0 {
			return nil
		}
		row := "(" + strings.TrimSuffix(strings.Repeat("?, ", columns), ", ") + ")"
		changed, err := s.Exec(ctx, "INSERT INTO "+table+" VALUES "+strings.TrimSuffix(strings.Repeat(row+", ", n), ", "), args...)
		if err == nil && changed != int64(n) {
			err = fmt.Errorf("insert into %s: %d of %d rows", table, changed, n)
		}
		args = args[:0]
		return err
	}
	for len(rows) > 0 {
		for range columns {
			letter := rows[1]
			rows = rows[2:]
			if letter == 'N' {
				args, rows = append(args, nil), rows[len("ULL"):]
				continue
			}
			n, used := binary.Uvarint(rows)
			v, err := uncarried(letter, rows[used:used+int(n)])
			if err != nil {
				return fmt.Errorf("insert into %s: %w", table, err)
			}
			args, rows = append(args, v), rows[used+int(n):]
		}
		if rows = rows[2:]; len(args)+columns > mostBound {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}
