// Package scenario reads declarations of whole experiments: which runs are
// made, with how much memory for how many rows, what somebody else has
// published of them, and which shape is to be seen.
//
// In goes TOML text, a file's or one of those built in; out comes a
// Declaration in which every run has its settings complete and every reference
// leads somewhere. Keys that it doesn't know, values that can't be and
// references to nothing are refused, with file, line and column. What only an
// engine or a workload knows, such as the names of presets, is checked by who
// runs it; Declaration.At tells where in the file it stands.
//
//	d, err := scenario.Load(ctx, "ec2-2012")
package scenario

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/result"

	"github.com/rowmill/rowmill/internal/textfile"
)

// A Declaration is an experiment.
type Declaration struct {
	Name, Title, Story string
	// Rows is how many each run inserts at scale 1.
	Rows int64
	// Takes is about how long all runs take at scale 1 on two cores; 0 is
	// unknown.
	Takes time.Duration
	// Target is the database, without its memory and durability.
	Target     string
	Durability string // "" is the target's default
	// MemoryShare is the server's memory as a share of the final size of run
	// MemoryOf; 0 leaves the memory as the target has it.
	MemoryShare float64
	MemoryOf    string

	Runs      []Run
	Published []result.Published
	Checks    []result.Check

	// Text is what it was read from, Source the file's name or the built-in
	// scenario's.
	Text, Source string
	at           positions
}

// A Run is one run of an experiment. Zero values are those of `bench insert`.
type Run struct {
	Name, Title    string
	Preset, Layout string
	Method         string
	Writers, Batch int
	Indexes        *int // nil is the preset's default
	// PeriodShare is a period's share of the rows; 0 fits two periods into the
	// database's cache.
	PeriodShare float64
	KeepPeriods int
	Rate        float64
	// MaxTime ends the run early; 0 is no limit.
	MaxTime time.Duration
}

//go:embed builtin/*.toml
var builtin embed.FS

// Names lists the scenarios that are built in, in alphabetical order.
func Names() []string {
	files, err := fs.Glob(builtin, "builtin/*.toml")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(path.Base(f), ".toml")
	}
	return files
}

// An UnknownError is about a name that is neither built in nor a file.
type UnknownError struct {
	Name string
	Err  error // of opening it as a file
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("no scenario %q: built in are %s; a file of your own ends in .toml", e.Name, strings.Join(Names(), ", "))
}

func (e *UnknownError) Unwrap() error { return e.Err }

// Load reads the scenario of a name, or a file whose name ends in .toml.
func Load(ctx context.Context, name string) (*Declaration, error) {
	if slices.Contains(Names(), name) {
		text, err := builtin.ReadFile("builtin/" + name + ".toml")
		if err != nil {
			return nil, err
		}
		return Parse(name+".toml", text)
	}
	if !strings.HasSuffix(name, ".toml") {
		return nil, &UnknownError{Name: name}
	}
	text, err := textfile.Read(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &UnknownError{Name: name, Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("read scenario: %w", err)
	}
	return Parse(name, text)
}

// Run returns the run of a name; nil where there is none.
func (d *Declaration) Run(name string) *Run {
	for i := range d.Runs {
		if d.Runs[i].Name == name {
			return &d.Runs[i]
		}
	}
	return nil
}

// At returns where a run is declared, as FILE:LINE:COLUMN; key is one of its
// settings, and where the run doesn't have it, the defaults' is meant.
func (d *Declaration) At(run, key string) string {
	i := slices.IndexFunc(d.Runs, func(r Run) bool { return r.Name == run })
	for _, at := range []string{fmt.Sprintf("run[%d].%s", i, key), "defaults." + key, fmt.Sprintf("run[%d]", i)} {
		if p, ok := d.at[at]; ok {
			return fmt.Sprintf("%s:%d:%d", d.Source, p.Line, p.Column)
		}
	}
	return d.Source
}

// Record returns what a run's record holds of the experiment.
func (d *Declaration) Record(run string, scale float64, finalBytes int64) *result.Scenario {
	s := &result.Scenario{
		Name: d.Name, Title: d.Title, Story: d.Story, Run: run, Scale: scale,
		MemoryShare: d.MemoryShare, MemoryOf: d.MemoryOf, FinalBytes: finalBytes,
		Published: d.Published, Checks: d.Checks, Declaration: d.Text,
	}
	for _, r := range d.Runs {
		s.Runs = append(s.Runs, r.Name)
	}
	return s
}
