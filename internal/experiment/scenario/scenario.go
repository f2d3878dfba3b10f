// Package scenario reads scenarios: experiments that are declared in TOML, with published figures,
// and the expected shape of the results. Some scenarios are built in.
//
//	d, err := scenario.Load(ctx, "ec2-2012") // or a file of the user's, "mine.toml"
package scenario

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/textfile"
	"github.com/rowmill/rowmill/internal/tomlfile"
	"github.com/rowmill/rowmill/result"
)

// These constants say what the runs of a scenario do. Each except Inserts is also the name of the
// section that asks for such runs.
const (
	Inserts = ""
	Scan    = "scan"   // ways of one partition scan
	Tables  = "tables" // create as many tables as there are rows
	HotRow  = "hotrow" // count in one row as often as there are rows
	Disk    = "disk"   // jobs of bench disk, on a file in the folder Target
	TPCC    = "tpcc"   // transactions of bench tpcc
)

// A Declaration is a scenario: a list of runs, the published figures to compare them with, and the
// expected shape of the results.
type Declaration struct {
	Name, Title, Story string
	// Does is what the runs do, one of the constants above.
	Does string
	// Rows is the number of rows that each run inserts at scale 1.
	Rows int64
	// Takes is the approximate duration of all runs at scale 1 on two cores; 0 means unknown.
	Takes time.Duration
	// Target is the database, without its memory and durability settings.
	Target     string
	Durability string // "" means the target's default
	// MemoryShare is the server's memory as a share of the final size of run MemoryOf; 0 leaves the
	// target's memory unchanged.
	MemoryShare float64
	MemoryOf    string

	// Partitions and Step are for Scan, Connections and Open for Tables, Cache for HotRow, FileBytes
	// (at scale 1) for Disk, and Warehouses and Terminals for TPCC. Time is how long a job of Disk, or
	// a run of TPCC, takes.
	Partitions, Step      int
	Connections, Open     int
	Cache                 time.Duration
	FileBytes             int64
	Warehouses, Terminals int
	Time                  time.Duration

	Runs      []Run
	Published []result.Published
	Checks    []result.Check

	// Text is the declaration's source text, Source the name of the file or of the built-in scenario.
	Text, Source string
	root         *tomlfile.Value
}

// A Run is one run of a scenario. A field that its kind of run lacks is zero.
type Run struct {
	Name, Title string

	Preset, Layout, Method      string
	Writers, Batch, KeepPeriods int
	Indexes                     *int
	// PeriodShare is the share of the run's rows that one period holds; 0 lets two periods fit into
	// the database's cache.
	PeriodShare float64
	Rate        float64 // rows per second; 0 is as fast as possible
	MaxTime     time.Duration

	// Way is the way of asking in a Scan, or of counting in a HotRow, which has Clients clients.
	Way     string
	Clients int
	// Set, in runs of Tables, is a setting of the private server. Option, in runs of TPCC, is an
	// option in the target's URL. Both have the form NAME=VALUE.
	Set, Option string
	Job         result.Disk
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

// Load reads the built-in scenario of the given name, or a file if the name ends in .toml.
func Load(ctx context.Context, name string) (*Declaration, error) {
	if slices.Contains(Names(), name) {
		text, err := builtin.ReadFile("builtin/" + name + ".toml")
		if err != nil {
			return nil, err
		}
		return Parse(name+".toml", text)
	}
	own, err := "a file of your own ends in .toml", fs.ErrNotExist
	var text []byte
	if strings.HasSuffix(name, ".toml") {
		own = "and there is no such file"
		text, err = textfile.Read(ctx, name)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, engine.Hinted(fmt.Errorf("no scenario %q: built in are %s; %s", name, strings.Join(Names(), ", "), own), "rowmill bench scenario --list")
	case err != nil:
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

// At returns the place of a run, as FILE:LINE:COLUMN.
func (d *Declaration) At(run string) string {
	i := slices.IndexFunc(d.Runs, func(r Run) bool { return r.Name == run })
	at := d.root.Find("run").In[i]
	return fmt.Sprintf("%s:%d:%d", d.Source, at.Line, at.Column)
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

// Amount describes the work of a run at a scale, e.g. "2,000 rows".
func (d *Declaration) Amount(scale float64) string {
	n := int64(math.Round(float64(d.Rows) * scale))
	switch d.Does {
	case Tables:
		return figure.Plural(n, "table")
	case HotRow:
		return figure.Plural(n, "fan")
	case Disk:
		return fmt.Sprintf("requests for %v to a file of %s", d.Time, figure.Bytes(scale*float64(d.FileBytes)))
	case TPCC:
		return fmt.Sprintf("%v of transactions on %s, with %s of their rows,", d.Time, figure.Plural(d.Warehouses, "warehouse"), figure.Percent(scale))
	}
	return figure.Plural(n, "row")
}

// Explain describes the scenario to users: what it shows, its runs, and how long they take.
func (d *Declaration) Explain() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\n", d.Name, d.Title)
	for line := range strings.SplitSeq(d.Story, "\n") {
		fmt.Fprintln(&b, strings.TrimRight("  "+line, " "))
	}
	fmt.Fprintln(&b)
	width := 0
	for _, r := range d.Runs {
		width = max(width, len(r.Name))
	}
	for _, r := range d.Runs {
		fmt.Fprintf(&b, "  %-*s  %s\n", width, r.Name, r.Title)
	}
	fmt.Fprintf(&b, "\n  At scale 1 %s a run on %s, about %s on 2 cores.\n", d.Amount(1), d.Target, figure.Duration(d.Takes.Seconds()))
	return b.String()
}
