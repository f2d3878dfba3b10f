package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// autoConf is the file that ALTER SYSTEM writes.
const autoConf = "postgresql.auto.conf"

// Tune implements engine.Tuner with ALTER SYSTEM and a reload. No other way
// works for every setting that does not require a restart, regardless of its
// context. Undo restores the entry in the file.
func (db *DB) Tune(ctx context.Context, name, value string) (engine.Tuning, error) {
	fail := func(err error) (engine.Tuning, error) {
		return engine.Tuning{}, fmt.Errorf("set %s=%s: %w", name, value, err)
	}
	unsupported := func(format string, args ...any) (engine.Tuning, error) {
		return fail(engine.Classed(engine.ErrUnsupported, fmt.Errorf(format, args...)))
	}
	if err := ctx.Err(); err != nil {
		return engine.Tuning{}, err
	}
	// An interrupted statement may still have taken effect.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tuneTimeout)
	defer cancel()
	rows, err := db.query(ctx, "SELECT name, current_setting(name), context, source FROM pg_settings WHERE name = lower("+quoteText(name)+")")
	if err != nil {
		return fail(err)
	}
	if len(rows) == 0 {
		return fail(errors.New("the server has no such setting"))
	}
	name = string(rows[0][0])
	before, scope, source := string(rows[0][1]), string(rows[0][2]), string(rows[0][3])
	switch {
	case scope == "internal":
		return unsupported("it can't be set")
	case scope == "postmaster":
		return unsupported("it takes effect only at server start")
	case source == "command line":
		return unsupported("it was given on the server's command line, which takes precedence")
	}
	rows, err = db.query(ctx, "SELECT setting FROM pg_file_settings WHERE name = "+quoteText(name)+
		" AND sourcefile LIKE '%"+autoConf+"' ORDER BY seqno DESC LIMIT 1")
	if err != nil {
		return fail(err)
	}
	quoted := make([]string, 0, 2) // the name of an extension's setting has a prefix
	for part := range strings.SplitSeq(name, ".") {
		quoted = append(quoted, db.dialect.Quote(part))
	}
	system := "ALTER SYSTEM SET " + strings.Join(quoted, ".") + " = "
	back := "ALTER SYSTEM RESET " + strings.Join(quoted, ".")
	if len(rows) > 0 {
		back = system + quoteText(string(rows[0][0]))
	}
	undo := func(ctx context.Context) error {
		if err := db.reconfigure(ctx, back); err != nil {
			return fmt.Errorf("set %s=%s as it was: %w", name, before, err)
		}
		return nil
	}
	if err := db.reconfigure(ctx, system+quoteText(value)); err != nil {
		return fail(errors.Join(err, undo(context.WithoutCancel(ctx))))
	}
	now, err := db.anew(ctx, "SELECT current_setting(name), source FROM pg_settings WHERE name = "+quoteText(name))
	if err == nil && now[1] != "configuration file" {
		err = engine.Classed(engine.ErrUnsupported, fmt.Errorf("new connections get it from another source: %s", now[1]))
	}
	if err != nil {
		return fail(errors.Join(err, undo(context.WithoutCancel(ctx))))
	}
	return engine.Tuning{Before: before, Now: now[0], Undo: undo}, nil
}

// tuneTimeout bounds the change of a setting.
const tuneTimeout = 30 * time.Second

// reloadWait is how long to wait for a reload. The postmaster completes it
// within milliseconds, unless the machine is very busy.
const reloadWait = 10 * time.Second

// reconfigure runs a statement that writes the server's configuration, and
// returns once new connections have read it.
func (db *DB) reconfigure(ctx context.Context, statement string) error {
	const loaded = "SELECT pg_conf_load_time()"
	before, err := db.anew(ctx, loaded)
	if err != nil {
		return err
	}
	if _, err := db.query(ctx, statement); err != nil {
		return err
	}
	if _, err := db.query(ctx, "SELECT pg_reload_conf()"); err != nil {
		return err
	}
	for end := time.Now().Add(reloadWait); time.Now().Before(end); {
		if now, err := db.anew(ctx, loaded); err != nil || now[0] != before[0] {
			return err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("the server has not reloaded its configuration within %v", reloadWait)
}

// anew runs a query that returns one row on a new connection.
func (db *DB) anew(ctx context.Context, q string) ([]string, error) {
	c, err := db.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer discard(c)
	results, err := c.Exec(ctx, q).ReadAll()
	if err != nil {
		return nil, classifyIn(ctx, err)
	}
	if len(results) != 1 || len(results[0].Rows) != 1 {
		return nil, fmt.Errorf("%s: no row", q)
	}
	var out []string
	for _, v := range results[0].Rows[0] {
		out = append(out, string(v))
	}
	return out, nil
}
