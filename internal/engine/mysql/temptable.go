package mysql

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// refusingModes are the modes in sql_mode with which the server refuses or replaces some values.
// They are removed from the merge's sql_mode, because tables may have such values from sessions
// with another mode. EMPTY_STRING_IS_NULL would also change the empty text.
var refusingModes = []string{"STRICT_TRANS_TABLES", "STRICT_ALL_TABLES", "TRADITIONAL", "NO_ZERO_IN_DATE", "NO_ZERO_DATE",
	"ERROR_FOR_DIVISION_BY_ZERO", "EMPTY_STRING_IS_NULL", "ALLOW_INVALID_DATES"}

func (db *reader) Carry(engine.ResultColumn, string) string { return "" }

func (db *reader) MergeState(st engine.State) engine.State {
	out := slices.Clone(st)
	for i, x := range out {
		if x.Name != "sql_mode" {
			continue
		}
		modes := slices.DeleteFunc(strings.Split(strings.ToUpper(x.Value), ","), func(m string) bool {
			return m == "" || slices.Contains(refusingModes, m)
		})
		out[i].Value = strings.Join(append(modes, "ALLOW_INVALID_DATES"), ",")
	}
	return out
}

// TempTable implements engine.Reader. It takes the columns' types from the query with LIMIT 0,
// which the server optimizes but doesn't execute. Rows are inserted as literals.
func (db *reader) TempTable(ctx context.Context, s *engine.Session, name, query string, cols []engine.ResultColumn) (*engine.TempTable, error) {
	literals := make([]engine.Literal, len(cols))
	for i, c := range cols {
		var why string
		if literals[i], why = literalOf(c); why != "" {
			return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("create temporary table %s: column %s: %s", name, c.Name, why))
		}
	}
	if err := unlogged(ctx, s); err != nil {
		return nil, fmt.Errorf("create temporary table %s: %w", name, err)
	}
	quoted := dialect{}.Quote(name)
	// The statement must not wait for an ALTER TABLE, which itself waits for the query's pieces.
	if err := s.SetStates(ctx, waitForTables); err != nil {
		return nil, fmt.Errorf("create temporary table %s: %w", name, err)
	}
	// With REPEATABLE READ, MySQL locks the first row of the query even if it reads no rows, and waits
	// for a session that has changed that row. SET TRANSACTION applies only to the next statement.
	if _, err := s.Exec(ctx, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"); err != nil {
		return nil, fmt.Errorf("create temporary table %s: %w", name, err)
	}
	if err := s.Text(ctx, "CREATE TEMPORARY TABLE "+quoted+" ENGINE=InnoDB AS SELECT * FROM ("+query+") AS rowmill_rows LIMIT 0", nil, noRow); err != nil {
		return nil, fmt.Errorf("create temporary table %s: %w", name, err)
	}
	return &engine.TempTable{
		Name: name, Columns: cols, Literals: literals,
		Insert: func(ctx context.Context, rows []byte) error {
			statement := "INSERT INTO " + quoted + " VALUES " + string(bytes.TrimSuffix(rows, []byte(",")))
			if most := db.packet.Load(); most > 0 && int64(len(statement)) >= most {
				return engine.Classed(engine.ErrUnsupported, fmt.Errorf("a row as text has %d bytes, and max_allowed_packet is %d", len(statement), most))
			}
			if err := s.Text(ctx, statement, nil, noRow); err != nil {
				return err
			}
			if n := s.TextEnd().Warnings; n != 0 {
				return fmt.Errorf("insert into %s: %d warnings", name, n)
			}
			return nil
		},
	}, nil
}

// unlogged makes sure that the statements of a session's temporary tables aren't written to the
// binary log, where replicas would execute them. Such statements are logged in the formats
// STATEMENT and MIXED, of which MIXED is MariaDB's default.
func unlogged(ctx context.Context, s *engine.Session) error {
	logged := false
	// A version without the setting logs only rows, and no rows of temporary tables.
	_ = s.Text(ctx, "SELECT 1 FROM DUAL WHERE @@GLOBAL.log_bin AND @@SESSION.sql_log_bin AND @@SESSION.binlog_format <> 'ROW' LIMIT 1", nil,
		func([][]byte) error { logged = true; return nil })
	if !logged || ctx.Err() != nil {
		return ctx.Err()
	}
	if _, err := s.Exec(ctx, "SET SESSION sql_log_bin = 0"); err != nil {
		return engine.Hinted(engine.Classed(engine.ErrUnsupported, fmt.Errorf("replicas would execute its statements, because binlog_format isn't ROW: %w", err)),
			"GRANT BINLOG ADMIN to the account, or binlog_format = ROW on the server")
	}
	return nil
}

func noRow([][]byte) error { return nil }

// literalOf returns a function that appends a value of a column, given in the server's text, as a
// literal. If the server might read the literal as another value, literalOf returns the reason
// instead, as refusal.
func literalOf(c engine.ResultColumn) (literal engine.Literal, refusal string) {
	switch {
	case c.Native == "NULL":
		return quotedLiteral, ""
	case c.Class == engine.ClassOther:
		return nil, "a " + c.Native + " can't be made from its text"
	case c.Class == engine.ClassFloat && !c.AllDigits:
		return nil, "the text of a " + c.Native + " doesn't have all digits"
	case c.Class == engine.ClassFloat:
		return floatLiteral, ""
	case c.Class == engine.ClassInt, c.Class == engine.ClassDecimal:
		return numericLiteral, ""
	case c.Temporal == engine.Date || c.Temporal == engine.DateTime:
		return dateLiteral, ""
	case c.Binary:
		return hexLiteral, ""
	}
	return quotedLiteral, ""
}

func numericLiteral(b, text []byte) ([]byte, error) {
	for _, c := range text {
		if (c < '0' || c > '9') && c != '-' && c != '.' && c != 'e' && c != '+' {
			return b, fmt.Errorf("%q is no number", text)
		}
	}
	if len(text) == 0 {
		return b, errors.New("a number without digits")
	}
	return append(b, text...), nil
}

// floatLiteral refuses -0, because the literal -0 is 0.
func floatLiteral(b, text []byte) ([]byte, error) {
	if string(text) == "-0" {
		return b, errors.New("-0 would become 0")
	}
	return numericLiteral(b, text)
}

// dateLiteral refuses dates with a zero month or day. If the session's mode forbids such dates, the
// server compares their literals in another way.
func dateLiteral(b, text []byte) ([]byte, error) {
	if len(text) >= len("0000-00-00") && (string(text[5:7]) == "00" || string(text[8:10]) == "00") {
		return b, fmt.Errorf("%s is a date with zeros, which some modes forbid", text)
	}
	return quotedLiteral(b, text)
}

func hexLiteral(b, text []byte) ([]byte, error) {
	b = append(b, "X'"...)
	b = hex.AppendEncode(b, text)
	return append(b, '\''), nil
}

// quotedLiteral is a literal that doesn't depend on whether a backslash escapes.
func quotedLiteral(b, text []byte) ([]byte, error) {
	if bytes.IndexByte(text, '\\') >= 0 {
		return hexLiteral(append(b, "_utf8mb4 "...), text)
	}
	b = append(b, '\'')
	for rest := text; ; {
		i := bytes.IndexByte(rest, '\'')
		if i < 0 {
			return append(append(b, rest...), '\''), nil
		}
		b = append(append(b, rest[:i+1]...), '\'')
		rest = rest[i+1:]
	}
}
