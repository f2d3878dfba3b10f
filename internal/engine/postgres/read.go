package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/rowmill/rowmill/internal/engine"
)

// readSettings prepare a session for reading, without changing answers: texts are UTF-8, temporary
// tables can be made, and the server doesn't end a session whose transaction is idle.
var readSettings = []string{
	"SET client_encoding = 'UTF8'", "SET default_transaction_isolation = 'read committed'", "SET default_transaction_read_only = off",
	"SET default_transaction_deferrable = off", "SET idle_in_transaction_session_timeout = 0",
}

// A reader implements engine.Reader, for queries in pieces.
type reader struct{ *server }

func (db reader) ReadSession(ctx context.Context, st engine.State) (*engine.Session, error) {
	words := sessionWords()
	words.Text, words.Describe, words.SetAll = text, describe, setAll
	return engine.OpenSession(ctx, db, db.reads, words, st)
}

// text is engine.SessionWords.Text.
func text(ctx context.Context, conn any, query string, head func([]engine.ResultColumn) error, row func([][]byte) error) (end engine.TextEnd, err error) {
	end.Warnings = -1
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c := conn.(*stdlib.Conn).Conn().PgConn()
	r := c.ExecParams(ctx, query, nil, nil, nil, nil)
	if fields := r.FieldDescriptions(); fields != nil {
		err = head(columnsOf(c, fields))
	}
	for err == nil && r.NextRow() {
		err = row(r.Values())
	}
	if err != nil {
		stop() // otherwise, Close would read the rest of the result
	}
	tag, closed := r.Close()
	if err == nil {
		err = closed
	}
	if !tag.Select() {
		end.Affected = tag.RowsAffected()
	}
	return end, err
}

// describe is engine.SessionWords.Describe.
func describe(ctx context.Context, conn any, query string) ([]engine.ResultColumn, error) {
	c := conn.(*stdlib.Conn).Conn().PgConn()
	d, err := c.Prepare(ctx, "", query, nil)
	if err != nil {
		return nil, err
	}
	if n := len(d.ParamOIDs); n > 0 {
		return nil, fmt.Errorf("the query has %d parameters", n)
	}
	cols := columnsOf(c, d.Fields)
	for i, f := range d.Fields { // without a length, equal values may have different numbers of blanks
		cols[i].Folded = f.DataTypeOID == charType && f.TypeModifier < 0
	}
	return cols, nil
}

// stateSettings are the settings of a session that can change an answer, in the order in which they
// are set.
var stateSettings = []string{
	"standard_conforming_strings", "backslash_quote", "search_path", "role", "datestyle", "intervalstyle", "timezone", "timezone_abbreviations",
	"extra_float_digits", "bytea_output", "lc_monetary", "lc_numeric", "lc_time", "default_text_search_config",
	"xmlbinary", "xmloption", "transform_null_equals", "array_nulls", "row_security", "gin_fuzzy_search_limit", "quote_all_identifiers", "statement_timeout",
}

// plainName matches a name in quotes that doesn't need them.
var plainName = regexp.MustCompile(`"([a-z_][a-z0-9_]*)"`)

func (db reader) ReadState(ctx context.Context, s *engine.Session) (engine.State, error) {
	st := make(engine.State, len(stateSettings))
	list := make([]string, len(stateSettings))
	for i, name := range stateSettings {
		st[i].Name = name
		list[i] = "pg_catalog.current_setting(" + quoteText(name) + ")"
	}
	err := s.Text(ctx, "SELECT "+strings.Join(list, ", "), nil, func(values [][]byte) error {
		for i, v := range values {
			if st[i].Value = string(v); st[i].Name == "default_text_search_config" {
				st[i].Value = plainName.ReplaceAllString(st[i].Value, "$1") // the server adds quotes if quote_all_identifiers is on
			}
		}
		return nil
	})
	return st, engine.About(ctx, err, "read the settings of a session")
}

// setAll is engine.SessionWords.SetAll.
func setAll(st, from engine.State) ([]string, error) {
	if st = st.Changed(from); len(st) == 0 {
		return nil, nil
	}
	list := make([]string, len(st))
	for i, x := range st {
		list[i] = "pg_catalog.set_config(" + escaped(x.Name) + ", " + escaped(x.Value) + ", false)"
	}
	return []string{"SELECT " + strings.Join(list, ", ")}, nil
}

// escaped renders a literal that doesn't depend on standard_conforming_strings and backslash_quote.
func escaped(s string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(s) + "'"
}

// Freeze implements engine.Reader. It can freeze nothing: now() is the time at which a transaction
// began, which can't be set.
func (db reader) Freeze(context.Context, *engine.Session) (engine.State, error) { return nil, nil }

// StateRefusal implements engine.Reader. The driver reads only texts in UTF-8.
func (db reader) StateRefusal(st engine.State) string {
	// Abbreviations of time zones, which the other styles have, may be read as those of other zones.
	if v := st.Get("datestyle"); v != "" && !strings.HasPrefix(strings.ToUpper(v), "ISO") {
		return "the session writes times in a style that may not be read as it was written: datestyle is " + v
	}
	if v := st.Get("extra_float_digits"); v != "" {
		if n, err := strconv.Atoi(v); err != nil || n < 1 {
			return "the session writes binary fractions without all of their digits: extra_float_digits is " + v
		}
	}
	if v := st.Get("array_nulls"); v == "off" {
		return "the session writes NULL in an array, and reads it as a text: array_nulls is off"
	}
	for i, schema := range strings.Split(st.Get("search_path"), ",") {
		if i > 0 && strings.Trim(schema, ` "`) == "pg_catalog" {
			return "search_path of the session has a schema before pg_catalog, whose functions and operators come first"
		}
	}
	return ""
}

func (db reader) Cores() int {
	if db.info.DataDir == "" {
		return 0
	}
	return runtime.NumCPU()
}

// A sqlType is a type of results by its OID: its name, and what may be done with its texts.
type sqlType struct {
	name  string
	class engine.ResultClass
}

// sqlTypes are the types that rowmill knows. A value of any other type is a text that only the
// server compares. A numeric without a precision has as many digits as each value needs.
var sqlTypes = map[uint32]sqlType{
	16: {"boolean", engine.ClassBytes}, 17: {"bytea", engine.ClassBytes}, 19: {"name", engine.ClassText}, 2950: {"uuid", engine.ClassBytes},
	21: {"smallint", engine.ClassInt}, 23: {"integer", engine.ClassInt}, 20: {"bigint", engine.ClassInt}, 26: {"oid", engine.ClassInt},
	1700: {"numeric", engine.ClassDecimal}, 700: {"real", engine.ClassFloat}, 701: {"double precision", engine.ClassFloat},
	1082: {"date", engine.ClassTime}, 1083: {"time", engine.ClassTime}, 1114: {"timestamp", engine.ClassTime}, 1184: {"timestamptz", engine.ClassTime},
	25: {"text", engine.ClassText}, 1043: {"varchar", engine.ClassText}, charType: {"char", engine.ClassText},
	1186: {"interval", engine.ClassText}, 1266: {"timetz", engine.ClassText}, 114: {"json", engine.ClassText}, 3802: {"jsonb", engine.ClassText},
	1560: {"bit", engine.ClassText}, 1562: {"varbit", engine.ClassText}, 705: {"unknown", engine.ClassText},
}

// charType is the identifier of CHAR.
const charType = 1042

// columnsOf describes the columns of a result.
func columnsOf(c *pgconn.PgConn, fields []pgconn.FieldDescription) []engine.ResultColumn {
	cols := make([]engine.ResultColumn, len(fields))
	for i, f := range fields {
		t, ok := sqlTypes[f.DataTypeOID]
		if !ok {
			t = sqlType{fmt.Sprintf("type %d", f.DataTypeOID), engine.ClassText}
		}
		cols[i] = engine.ResultColumn{Name: f.Name, Native: t.name, Class: t.class, AllDigits: t.class == engine.ClassFloat}
		switch f.DataTypeOID {
		case 17:
			cols[i].Binary, cols[i].Hex = true, true
		case 26:
			cols[i].Unsigned = true
		case 1700:
			if cols[i].Scale = -1; f.TypeModifier >= 4 {
				digits := f.TypeModifier - 4
				cols[i].Precision = int(digits >> 16)
				cols[i].Scale = int((digits&0x7ff)^1024) - 1024 // a signed number of 11 bits
			}
		}
	}
	return cols
}

// DescribeQuery implements engine.Reader. It describes dates and instants as ClassText, whose
// values only the server compares, if their texts don't sort like the values in this session. Texts
// of dates sort like the values only in the ISO style; for texts of instants, the session's offset
// from UTC must also never change.
func (db reader) DescribeQuery(ctx context.Context, s *engine.Session, query string) ([]engine.ResultColumn, error) {
	cols, err := s.Describe(ctx, query)
	if err != nil {
		return nil, err
	}
	need := map[string]string{}
	for _, c := range cols {
		switch {
		case c.Hex:
			need["bytea_output"] = ""
		case c.Class == engine.ClassTime:
			need["datestyle"], need["timezone"] = "", ""
		}
	}
	for name := range need {
		if need[name], err = s.State(ctx, name); err != nil {
			return nil, err
		}
	}
	folding, err := foldingCollations(ctx, s, cols)
	if err != nil {
		return nil, err
	}
	for i := range cols {
		c := &cols[i]
		c.Folded = c.Folded || folding && c.Class == engine.ClassText
		switch {
		case c.Hex && need["bytea_output"] != "hex":
			c.Hex, c.Class = false, engine.ClassText
		case c.Class != engine.ClassTime || c.Native == "time":
		case !strings.HasPrefix(need["datestyle"], "ISO"), c.Native == "timestamptz" && !fixedZone(need["timezone"]):
			c.Class = engine.ClassText
		}
	}
	return cols, nil
}

// foldingCollations reports whether texts of the columns may be equal although they differ: whether
// a column is a text, and the database has collations that make different texts equal. The columns'
// own collations are unknown, because a result doesn't have them.
func foldingCollations(ctx context.Context, s *engine.Session, cols []engine.ResultColumn) (folding bool, err error) {
	if !slices.ContainsFunc(cols, func(c engine.ResultColumn) bool { return c.Class == engine.ClassText }) {
		return false, nil
	}
	err = s.Text(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_collation WHERE NOT collisdeterministic)", nil, func(v [][]byte) error {
		folding = string(v[0]) == "t"
		return nil
	})
	return folding, err
}

// fixedZone reports whether a time zone is UTC.
func fixedZone(zone string) bool {
	return slices.Contains([]string{"UTC", "GMT", "ETC/UTC", "ETC/GMT", "UCT", "ZULU"}, strings.ToUpper(zone))
}

// OneSnapshot implements engine.Reader: the first session shares its snapshot with the others.
//
// If a transaction truncates or creates a table after the snapshot and then fills it, the table is
// empty in the snapshot. So OneSnapshot first locks all tables against such changes, as a statement
// locks its own tables.
func (db reader) OneSnapshot(ctx context.Context, sessions []*engine.Session, tables []string, _ bool) (proof string, err error) {
	rollback := func() {
		for _, s := range sessions {
			_ = s.Rollback(context.WithoutCancel(ctx)) // the first error is returned
		}
	}
	defer func() {
		if err != nil {
			rollback()
		}
	}()
	for end := time.Now().Add(engine.WaitForTables); ; {
		proof, err = db.snapshot(ctx, sessions, tables)
		if !errors.Is(err, engine.ErrLockTimeout) || ctx.Err() != nil || time.Now().After(end) {
			return proof, err
		}
		rollback() // so that a statement which waits to alter a table can go on
		if err := engine.Sleep(ctx, lockPause); err != nil {
			return "", err
		}
	}
}

// lockPause is the time between two attempts to lock the tables.
const lockPause = 20 * time.Millisecond

// waitForTables limits how long a session waits for a lock on a table.
var waitForTables = engine.State{{Name: "lock_timeout", Value: strconv.FormatInt(engine.WaitForTables.Milliseconds(), 10)}}

// snapshot is one attempt of OneSnapshot. Only the first session waits for its locks. Another
// session might have to wait for a statement that itself waits for the first session.
func (db reader) snapshot(ctx context.Context, sessions []*engine.Session, tables []string) (proof string, err error) {
	lock := func(s *engine.Session, how string) error {
		if len(tables) == 0 {
			return nil
		}
		_, err := s.Exec(ctx, "LOCK TABLE "+strings.Join(tables, ", ")+" IN ACCESS SHARE MODE"+how)
		if err == nil || ctx.Err() != nil || errors.Is(err, engine.ErrLockTimeout) || errors.Is(err, engine.ErrConnectionLost) {
			return err
		}
		return engine.Classed(engine.ErrUnsupported, err) // a materialized view, or a privilege for some columns only
	}
	first := sessions[0]
	if err := first.SetStates(ctx, waitForTables); err != nil { // nothing is sent if the session has this limit
		return "", err
	}
	if err := first.Begin(ctx, engine.Transaction{Isolation: sql.LevelRepeatableRead, ReadOnly: true}); err != nil {
		return "", err
	}
	if err := lock(first, ""); err != nil {
		return "", err
	}
	if len(sessions) == 1 {
		return "one session reads all rows", nil
	}
	name, err := first.Snapshot(ctx)
	if err != nil {
		return "", err
	}
	for _, s := range sessions[1:] {
		if err := s.Begin(ctx, engine.Transaction{ReadOnly: true, Snapshot: name}); err != nil {
			return "", err
		}
		if err := lock(s, " NOWAIT"); err != nil {
			return "", err
		}
	}
	return "all sessions share the exported snapshot " + name, nil
}
