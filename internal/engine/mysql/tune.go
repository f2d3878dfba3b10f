package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
)

// variable returns the name of a system variable, in the server's form. Names can't be
// bound, and a quoted name would be an expression.
func variable(name string) (string, error) {
	name = strings.ReplaceAll(strings.ToLower(name), "-", "_")
	for part := range strings.SplitSeq(name, ".") { // structured variables have two
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz_0123456789") != "" || part[0] <= '9' {
			return "", errors.New("that is not a name of a system variable")
		}
	}
	return name, nil
}

// variableValue renders the value of a variable: a number without quotes.
func variableValue(value string) string {
	digits := strings.TrimPrefix(value, "-")
	if _, err := strconv.ParseFloat(value, 64); err == nil && strings.Trim(digits, "0123456789.") == "" {
		return value
	}
	return quoteText(value)
}

// tuneTimeout limits the time of changing a setting: for some, such as the size of
// a buffer pool, the server first moves memory.
const tuneTimeout = 30 * time.Second

// Error numbers of the server about variables.
const (
	errVariableType     = 1232
	errVariableReadOnly = 1238
	errSessionVariable  = 1228 // a session variable without a global value
)

// Tune implements engine.Tuner with SET GLOBAL.
func (db *DB) Tune(ctx context.Context, name, value string) (engine.Tuning, error) {
	if err := ctx.Err(); err != nil {
		return engine.Tuning{}, err
	}
	fail := func(err error) (engine.Tuning, error) {
		return engine.Tuning{}, fmt.Errorf("set %s=%s: %w", name, value, err)
	}
	known, err := variable(name)
	if err != nil {
		return fail(err)
	}
	name = known
	// An interrupted statement may have been executed.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tuneTimeout)
	defer cancel()
	before, err := db.setting(ctx, name)
	if err != nil {
		return fail(err)
	}
	undo := func(ctx context.Context) error {
		if err := db.setGlobal(ctx, name, before); err != nil {
			return fmt.Errorf("set %s=%s as it was: %w", name, before, err)
		}
		return nil
	}
	err = db.setGlobal(ctx, name, value)
	var refused *mysql.MySQLError
	if errors.As(err, &refused) {
		return fail(err)
	}
	var now string
	if err == nil {
		now, err = db.setting(ctx, name)
	}
	if err != nil {
		return fail(errors.Join(err, undo(context.WithoutCancel(ctx))))
	}
	return engine.Tuning{Before: before, Now: now, Undo: undo}, nil
}

// setting reads a global variable.
func (db *DB) setting(ctx context.Context, name string) (string, error) {
	var v sql.NullString
	if err := db.pool.QueryRowContext(ctx, "SELECT @@GLOBAL."+name).Scan(&v); err != nil {
		return "", settingError(err)
	}
	if !v.Valid {
		return "", engine.Classed(engine.ErrUnsupported, errors.New("its value is NULL, which can't be set again"))
	}
	return v.String, nil
}

// setGlobal sets a variable: a number as a number, or as text if the variable's
// type is text.
func (db *DB) setGlobal(ctx context.Context, name, value string) error {
	text := variableValue(value)
	_, err := db.pool.ExecContext(ctx, "SET GLOBAL "+name+" = "+text)
	var server *mysql.MySQLError
	if errors.As(err, &server) && server.Number == errVariableType && text == value {
		_, err = db.pool.ExecContext(ctx, "SET GLOBAL "+name+" = "+quoteText(value))
	}
	return settingError(err)
}

// settingError classifies the errors of variables that can't be set on a running
// server.
func settingError(err error) error {
	var server *mysql.MySQLError
	if errors.As(err, &server) {
		switch server.Number {
		case errVariableReadOnly, errSessionVariable:
			return engine.Classed(engine.ErrUnsupported, err)
		}
	}
	return classify(err)
}
