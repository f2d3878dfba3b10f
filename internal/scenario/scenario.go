// Package scenario reads declarations of whole experiments: their runs, the memory
// and the number of rows of each, the published results to compare them with, and
// the expected shape of the results.
//
// Its input is TOML text, from a file or built in; its output is a Declaration in
// which every run has complete settings and every reference is resolved. Unknown
// keys, invalid values and dangling references are refused, with file, line and
// column. Values known only to an engine or a workload, such as the names of
// presets, are checked by the code that runs the scenario; Declaration.At returns
// their position in the file.
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
	// Rows is the number of rows that each run inserts at scale 1.
	Rows int64
	// Takes is the approximate duration of all runs at scale 1 on two cores; 0 means
	// unknown.
	Takes time.Duration
	// Target is the database, without its memory and durability settings.
	Target     string
	Durability string // "" means the target's default
	// MemoryShare is the server's memory as a share of the final size of run
	// MemoryOf; 0 leaves the target's memory unchanged.
	MemoryShare float64
	MemoryOf    string

	Runs      []Run
	Published []result.Published
	Checks    []result.Check

	// Text is the declaration's source text, Source the name of the file or of the
	// built-in scenario.
	Text, Source string
	at           positions
}

// A Run is one run of an experiment. Its zero values are the defaults of `bench
// insert`.
type Run struct {
	Name, Title    string
	Preset, Layout string
	Method         string
	Writers, Batch int
	Indexes        *int // nil means the preset's default
	// PeriodShare is a period's share of the rows; 0 means that two periods fit into
	// the database's cache.
	PeriodShare float64
	KeepPeriods int
	Rate        float64
	// MaxTime ends the run early; 0 means no limit.
	MaxTime time.Duration
}

//go:embed builtin/*.toml
var builtin embed.FS

// Names lists the built-in scenarios in alphabetical order.
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

// An UnknownError reports a name that is neither built in nor a file.
type UnknownError struct {
	Name string
	Err  error // from opening it as a file
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("no scenario %q: built in are %s; a file of your own ends in .toml", e.Name, strings.Join(Names(), ", "))
}

func (e *UnknownError) Unwrap() error { return e.Err }

// Load reads the built-in scenario of the given name, or a file if the name ends in
// .toml.
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

// Run returns the run with the given name; nil if there is none.
func (d *Declaration) Run(name string) *Run {
	for i := range d.Runs {
		if d.Runs[i].Name == name {
			return &d.Runs[i]
		}
	}
	return nil
}

// At returns the position of a run's setting key, as FILE:LINE:COLUMN. If the run
// doesn't have the setting, it returns that of the defaults.
func (d *Declaration) At(run, key string) string {
	i := slices.IndexFunc(d.Runs, func(r Run) bool { return r.Name == run })
	for _, at := range []string{fmt.Sprintf("run[%d].%s", i, key), "defaults." + key, fmt.Sprintf("run[%d]", i)} {
		if p, ok := d.at[at]; ok {
			return fmt.Sprintf("%s:%d:%d", d.Source, p.Line, p.Column)
		}
	}
	return d.Source
}

// Record returns the part of a run's record that describes the experiment.
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
