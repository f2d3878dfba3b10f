package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
)

// cellFlags are the flags that `bench mixed` and `bench points` have in common.
type cellFlags struct {
	command string // "rowmill bench mixed", for messages
	preset  string
	ops     []string
	clients []int
	rows    int64
	seconds float64
	repeat  int
	batch   int
	mix     float64 // share of the clients of OpMixed that select
	points  int
	seed    uint64

	out          string
	reports      reportFlags
	dropExisting bool
	noVerify     bool
}

// defaultSpeedRows fit into any usual cache, so that the matrix shows the cost of
// operations without the disk.
const (
	defaultSpeedRows   = 100_000
	defaultCellSeconds = 10
	minCellSeconds     = 0.2
)

func (f *cellFlags) define(flags *pflag.FlagSet) {
	flags.IntSliceVar(&f.clients, "clients", []int{1, 2, 4, 8, 16}, "numbers of concurrent clients to measure with, `list`")
	f.rows = defaultSpeedRows
	flags.Var(countValue{n: &f.rows}, "rows", "rows that the table is filled with first, such as 100k or 10M")
	flags.Float64Var(&f.seconds, "seconds", defaultCellSeconds, "how long each cell is measured, in `seconds`")
}

func (f *cellFlags) defineOutputs(flags *pflag.FlagSet) {
	flags.Uint64Var(&f.seed, "seed", 1, "`number` that all rows and all selects derive from")
	flags.StringVar(&f.out, "out", "", "write the run records, one for each cell, to this `file`, replacing it (default none)")
	flags.StringVar(&f.reports.html, "html", "", "write an HTML page with charts to this `file` (default none)")
	flags.StringVar(&f.reports.png, "png", "", "write a picture of rates and latencies to this `file` (default none)")
	flags.StringVar(&f.reports.md, "md", "", "write Markdown tables to this `file` (default none)")
	flags.BoolVar(&f.reports.json, "json", false, "print the matrix as JSON instead of text (default false)")
	flags.BoolVar(&f.dropExisting, "drop-existing", false, "drop a table of this name that exists, with all its rows (default false)")
	flags.BoolVar(&f.noVerify, "no-verify", false, "don't read the table back after cells that insert (default false)")
}

func (f *cellFlags) noArguments(args []string) error {
	if len(args) > 0 {
		return usagef(f.command+" --help", "unexpected argument %q: everything is a flag", args[0])
	}
	return nil
}

// check refuses invalid flags before anything is started.
func (f *cellFlags) check(targets []string) error {
	help := f.command + " --help"
	if len(targets) == 0 {
		return usagef(f.command+" --target sqlite:", "--target: name at least one")
	}
	for i, t := range targets {
		if err := target.Check(t); err != nil {
			return usagef(hintOf(err), "--target: %w", err)
		}
		if slices.Contains(targets[:i], t) {
			return usagef(help, "--target %s is given twice", t)
		}
	}
	if len(f.clients) == 0 {
		return usagef("--clients 1,2,4,8", "--clients: name at least one number")
	}
	for i, n := range f.clients {
		switch {
		case n < 1 || n > maxWriters:
			return usagef(help, "--clients %d: want 1 to %d", n, maxWriters)
		case slices.Contains(f.clients[:i], n):
			return usagef(help, "--clients: %d is named twice", n)
		}
	}
	switch {
	case !(f.seconds >= minCellSeconds && f.seconds <= 86400):
		return usagef("--seconds 10", "--seconds %v: want %v to 86400", f.seconds, minCellSeconds)
	case f.repeat < 1:
		return usagef(help, "--repeat %d: want at least 1", f.repeat)
	case f.batch < 1:
		return usagef(help, "--batch %d: want at least 1", f.batch)
	case slices.Equal(f.ops, []string{workload.OpMixed}) && !slices.ContainsFunc(f.clients, func(n int) bool { return n > 1 }):
		return usagef("--clients 2,4,8", "--ops mixed: one client can't insert and select at once")
	}
	return f.checkOutputs()
}

func (f *cellFlags) checkOutputs() error {
	for _, o := range append(f.reports.outputs(), output{flag: "--out", path: f.out}) {
		if o.path == "" || o.path == "-" {
			continue
		}
		if st, err := os.Stat(filepath.Dir(o.path)); err != nil || !st.IsDir() {
			return usagef("mkdir -p "+filepath.Dir(o.path), "%s %s: there is no folder %s", o.flag, o.path, filepath.Dir(o.path))
		}
		if o.flag != "--out" && f.out != "" && filepath.Clean(f.out) == filepath.Clean(o.path) {
			return usagef("give each its own file", "--out and %s can't both be %s", o.flag, o.path)
		}
	}
	if f.out == "-" {
		return usagef("--out /dev/stdout", "--out -: the record can't share standard output with the matrix")
	}
	return f.reports.check(f.command)
}

// options returns the options of the workload on a target.
func (f *cellFlags) options() workload.MixedOptions {
	return workload.MixedOptions{Preset: f.preset, Seed: f.seed, Rows: f.rows, Batch: f.batch, Points: f.points}
}

// tryOut lets the workload check its options before anything is started.
func (f *cellFlags) tryOut(targets []string) error {
	for _, t := range targets {
		db, err := target.Dry(t)
		if err != nil {
			return usagef(hintOf(err), "--target: %w", err)
		}
		opt := f.options()
		opt.Rows = min(opt.Rows, workload.MaxMixedRows+1)
		if err := workload.CheckMixed(db, opt); err != nil {
			return usagef(f.command+" --help", "%w", err)
		}
	}
	return nil
}

// interval returns the interval between figures of a cell: a tenth of its duration, at
// least 50 ms and at most a second.
func (f *cellFlags) interval() time.Duration {
	d := time.Duration(f.seconds * float64(time.Second))
	return min(max(d/10, 50*time.Millisecond), time.Second)
}

// readers returns how many clients of a mixed operation select: at least one selects,
// and at least one inserts.
func (f *cellFlags) readers(clients int) int {
	return min(max(int(math.Round(f.mix/100*float64(clients))), 1), clients-1)
}

// config returns the configuration for an operation of a workload.
func (f *cellFlags) config(m *workload.Mixed, op string, clients, turn int) (bench.Workload, bench.Config, error) {
	cfg := bench.Config{Operation: op, Clients: clients, Batch: 1, MaxTime: time.Duration(f.seconds * float64(time.Second))}
	if op == workload.OpInsert || op == workload.OpMixed {
		cfg.Operation, cfg.Batch = workload.OpInsert, f.batch
	}
	w, err := m.Clients(cfg.Operation, turn)
	if err != nil {
		return nil, cfg, err
	}
	if op == workload.OpMixed {
		read, err := m.Clients(workload.OpSelectPK, turn)
		if err != nil {
			return nil, cfg, err
		}
		n := f.readers(clients)
		cfg.Clients = clients - n
		cfg.Beside = []bench.Load{{Operation: workload.OpSelectPK, Clients: n, Batch: 1, Client: read}}
	}
	return w, cfg, nil
}

// parseSettings parses the two settings of --set: one value of the flag with a comma
// between them, or two values.
func parseSettings(given []string) ([]target.Setting, error) {
	const try = "--set innodb_adaptive_hash_index=OFF,innodb_adaptive_hash_index=ON"
	if len(given) == 1 {
		given = strings.Split(given[0], ",")
	}
	if len(given) != 2 {
		return nil, usagef(try, "--set takes two settings to compare, not %d; where a value has a comma, give --set twice", len(given))
	}
	var out []target.Setting
	for _, text := range given {
		name, value, ok := strings.Cut(text, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, usagef(try, "--set: %q is not NAME=VALUE", text)
		}
		out = append(out, target.Setting{Name: name, Value: value})
	}
	if out[0] == out[1] {
		return nil, usagef(try, "--set: both settings are %s", out[0])
	}
	return out, nil
}
