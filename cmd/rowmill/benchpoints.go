package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

func (a *app) benchPointsCommand() *cobra.Command {
	f := cellFlags{command: "rowmill bench points", preset: "sbtest", ops: []string{workload.OpPoints}, batch: 1}
	var url string
	var set []string
	var yes bool
	c := &cobra.Command{
		Use:   "points",
		Short: "Measure selects of N random points of an index, before and after a server's setting",
		Long: "Measure selects of N random values of an indexed column, WHERE k IN (...), at 1 to N\n" +
			"concurrent clients: all clients go through the same index at once, which shows what\n" +
			"they contend for. Every select's rows are counted.\n\n" +
			"With --set, two settings of the server are compared: both are measured in turn,\n" +
			"again and again, and the ratio is given with the interval in which it lies with\n" +
			"95% confidence. A setting that can be changed while the server runs is set for each\n" +
			"cell, and set back after it, also on Ctrl-C: SET GLOBAL on MariaDB and MySQL, ALTER\n" +
			"SYSTEM and a reload on PostgreSQL. Whoever else uses the server has it meanwhile, so\n" +
			"that on a server that isn't private it says what it will do, and asks. For one that\n" +
			"is only taken at the start, each value gets a private server. On SQLite a setting is\n" +
			"an option of the target, such as cache=1MB.\n\n" +
			"On the server it creates the table sbtest1 and fills it. One that exists is refused,\n" +
			"unless --drop-existing is given.\n\n" +
			"Ctrl-C ends it and reports what was measured.",
		Example: "  rowmill bench points --target 'sandbox:mariadb?memory=256MB' \\\n" +
			"      --set innodb_adaptive_hash_index=OFF,innodb_adaptive_hash_index=ON\n" +
			"  rowmill bench points --set cache=100KB,cache=64MB --seconds 5",
		Args: func(_ *cobra.Command, args []string) error { return f.noArguments(args) },
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("repeat") && len(set) > 0 {
				f.repeat = defaultSetRepeats
			}
			return a.benchPoints(c.Context(), f, url, set, yes)
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&url, "target", target.Default, target.Help+"\n`URL`")
	intVar(flags, &f.points, "points", 10, "values that one select asks for, `N`")
	flags.StringArrayVar(&set, "set", nil, "compare two settings of the server, `NAME=VALUE,NAME=VALUE` (default none)")
	f.define(flags)
	intVar(flags, &f.repeat, "repeat", 1, fmt.Sprintf("measure each cell `N` times, in turn; with --set %d by default", defaultSetRepeats))
	flags.BoolVar(&yes, "yes", false, "don't ask before settings of a server that isn't private are changed (default false)")
	f.defineOutputs(flags)
	return c
}

// defaultSetRepeats is how often two settings are measured: a confidence interval from
// five pairs is a third wider than one from very many.
const defaultSetRepeats = 5

func (a *app) benchPoints(ctx context.Context, f cellFlags, url string, set []string, yes bool) error {
	if f.points < 1 {
		return usagef("--points 10", "--points %d: want at least 1", f.points)
	}
	if err := f.check([]string{url}); err != nil {
		return err
	}
	var settings []target.Setting
	if len(set) > 0 {
		var err error
		if settings, err = parseSettings(set); err != nil {
			return err
		}
	}
	if err := f.tryOut([]string{url}); err != nil {
		return err
	}
	s := &speedTest{f: f, name: "points", args: a.args, show: newCellProgress(a.stderr)}
	if settings == nil {
		return a.speedTest(ctx, s, func(ctx context.Context) error {
			db, err := s.open(ctx, url)
			s.contenders = []contender{{db: db}}
			return err
		})
	}
	switch {
	case !target.Stores(url):
		return usagef("--target 'sandbox:mariadb?memory=64MB'", "--set: the null engine has no settings")
	case target.SetByOptions(url) && target.Place(url) != "":
		return usagef("--target sqlite:", "--set: on SQLite each value gets a temporary file of its own, not %s", url)
	case target.SetByOptions(url):
		for _, setting := range settings {
			if _, err := target.WithSetting(url, setting); err != nil {
				hint := hintOf(err)
				if hint == "" {
					hint = "--set cache=1MB,cache=64MB"
				}
				return usagef(hint, "--set: %w", err)
			}
		}
		return a.speedTest(ctx, s, func(ctx context.Context) error { return s.openStarted(ctx, url, settings) })
	case !target.Private(url):
		if err := a.confirm(ctx, setPlan(url, settings), yes); err != nil {
			return err
		}
	}
	return a.speedTest(ctx, s, func(ctx context.Context) error { return s.openTuned(ctx, url, settings) })
}

// setPlan describes what --set does to a server that others may use.
func setPlan(url string, settings []target.Setting) string {
	return fmt.Sprintf("Changes settings of the whole server for each measurement, and sets them back after it:\n\n"+
		"  %s\n  %s\n     on %s\n\n"+
		"! Whoever else uses the server has them meanwhile. A rowmill that is killed (SIGKILL)\n"+
		"  leaves the last one as it is.\n", settings[0], settings[1], url)
}

// sides names the two settings.
var sides = []string{"A", "B"}

// openTuned opens one server whose settings are changed for each cell. If a private
// server's settings can't be changed at run time, it opens two that are started with
// them.
func (s *speedTest) openTuned(ctx context.Context, url string, settings []target.Setting) error {
	db, err := s.open(ctx, url)
	if err != nil {
		return err
	}
	s.contenders = nil
	for i, setting := range settings {
		c := contender{db: db, side: sides[i], setting: setting, how: result.SettingRunning}
		undo, err := c.apply(ctx, &result.Speed{})
		if err == nil {
			err = undo()
		}
		if errors.Is(err, engine.ErrUnsupported) {
			if db.Server() == nil {
				return engine.Hinted(err, "a private server for each value: --target sandbox:%s", db.Info().Engine)
			}
			s.show.Note(fmt.Sprintf("%v: each value gets a server of its own", err))
			if err := s.close(); err != nil {
				return err
			}
			return s.openStarted(ctx, url, settings)
		}
		if err != nil {
			return err
		}
		s.contenders = append(s.contenders, c)
	}
	return nil
}

// openStarted opens a database for each setting, on a server that is started with it.
func (s *speedTest) openStarted(ctx context.Context, url string, settings []target.Setting) error {
	s.contenders = nil
	for i, setting := range settings {
		text, err := target.WithSetting(url, setting)
		if err != nil {
			return fmt.Errorf("--set: %w", err)
		}
		db, err := s.open(ctx, text)
		if err != nil {
			return err
		}
		s.contenders = append(s.contenders, contender{db: db, side: sides[i], setting: setting, how: result.SettingStarted})
	}
	return nil
}
