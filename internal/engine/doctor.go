package engine

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// A Doctor is a Definer that finds what slows down or endangers inserts on its server. It compares
// two readings of the counters, so that it reports nothing that happened long ago.
type Doctor interface {
	Definer
	// Largest names the n largest tables by the server's statistics.
	Largest(ctx context.Context, n int) ([]string, error)
	// Examine looks for findings in the given tables, and in the server during an interval.
	Examine(ctx context.Context, tables []string, interval time.Duration) ([]Finding, error)
}

// A Finding is something that slows down or endangers inserts, with the evidence for it.
type Finding struct {
	// Code names the kind of finding, such as "redo-small".
	Code string `json:"code"`
	// Table is the table that the finding is about, "" for the whole server.
	Table string `json:"table,omitempty"`
	// What describes the finding in a sentence. Evidence is what was read.
	What     string `json:"what"`
	Evidence string `json:"evidence"`
	// Fix has the statements or settings that remove the problem, Cost what they cost.
	Fix  string `json:"fix"`
	Cost string `json:"cost"`
	// Source is the document that describes the problem.
	Source string `json:"source"`
	// Measured reports that the problem was measured on this server. Otherwise the threshold is a rule
	// of thumb, or the finding is the value of a setting.
	Measured bool `json:"measured"`
	// Estimate is the known gain of the fix, "" if it is unknown. Gain is what Trial has measured.
	Estimate string `json:"estimate,omitempty"`
	Gain     *Gain  `json:"gain,omitempty"`
	// Trial measures the gain of the fix; nil if no trial can.
	Trial *Trial `json:"-"`
}

// A Trial compares inserts into a private server with the problem and one with the fix. Before and
// After are the parameters of their URLs. On the server with the fix, the table rolls if Rolls is
// true, and the values of the column Ascending, if any, grow with the time.
type Trial struct {
	Before, After string
	Rolls         bool
	Ascending     string
	// Size is the final size of the pages into which inserts go at random, as a multiple of
	// TrialMemory; 0 means 0.5.
	Size float64
}

const (
	// TrialMemory is the memory for pages of a Trial's servers, in bytes, unless the Trial sets more.
	TrialMemory = 64 << 20
	// Outgrown is the Size of a Trial whose pages no longer fit into the memory.
	Outgrown = 3
)

// A Gain is the outcome of a Trial. Before has the rates of its runs with the problem, After of its
// runs with the fix, in rows a second. BeforeOn and AfterOn describe the table and the server. Rows
// is the number of rows of the largest run.
type Gain struct {
	Before   []float64 `json:"before_rows_per_second"`
	BeforeOn string    `json:"before_on"`
	After    []float64 `json:"after_rows_per_second"`
	AfterOn  string    `json:"after_on"`
	Rows     int64     `json:"rows"`
}

// Ratio is the rate of the slowest run with the fix, divided by the rate of the fastest run with
// the problem. Above 1, the gain is larger than the noise of the runs.
func (g *Gain) Ratio() float64 { return slices.Min(g.After) / slices.Max(g.Before) }

// MoreMemory is a Check's Try. Its Trial compares TrialMemory for pages with four times as much.
func MoreMemory(*Vitals) *Trial {
	return &Trial{Before: TrialPages(1), After: TrialPages(4), Size: Outgrown}
}

// TrialPages is the URL parameter for a multiple of TrialMemory, such as memory=64MiB.
func TrialPages(times int) string { return fmt.Sprintf("memory=%dMiB", times*TrialMemory>>20) }

// RedoTrial returns a Trial that compares a redo log with one ten times as large. redo and cache
// are the sizes of the log and the cache on the examined server. The smaller log of the trial has
// the same ratio to the trial's cache, but at least the size least. All pages fit into the cache:
// they are written only if the log is full.
func RedoTrial(redo, cache, least float64) *Trial {
	const times = 4 // the trial's cache, in TrialMemory: so large that least is small beside it
	with := func(factor float64) string {
		return fmt.Sprintf("%s&redo=%dMiB", TrialPages(times), int64(max(redo/max(cache, 1)*times*TrialMemory, least)*factor)>>20)
	}
	return &Trial{Before: with(1), After: with(10), Size: times / 2}
}

// Vitals are a server's settings, its counters, and their growth per second, by the server's names.
type Vitals struct {
	Settings       map[string]string
	Status, Growth map[string]float64
	Seconds        float64
}

// Number returns a setting as a number; 0 if its value isn't a number.
func (v *Vitals) Number(setting string) float64 {
	n, _ := strconv.ParseFloat(v.Settings[setting], 64)
	return n
}

// A Check is a rule about a server's vitals.
type Check struct {
	Finding
	// Look returns the evidence for the finding; "" if the server doesn't have the problem.
	Look func(v *Vitals) string
	// Try, unless nil, returns the finding's Trial.
	Try func(v *Vitals) *Trial
}

// When formats the evidence that a Check.Look returns; "" if seen is false.
func When(seen bool, format string, args ...any) string {
	if !seen {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// OtherValue is a Check's Try for a setting that should have the value after.
func OtherValue(name, after string) func(v *Vitals) *Trial {
	return func(v *Vitals) *Trial {
		return &Trial{Before: "set=" + name + "=" + v.Settings[name], After: "set=" + name + "=" + after}
	}
}

// Tried returns the check with a Try.
func (c Check) Tried(try func(v *Vitals) *Trial) Check {
	c.Try = try
	return c
}

// RunChecks returns the findings of checks.
func RunChecks(v *Vitals, checks []Check) (out []Finding) {
	for _, c := range checks {
		if seen := c.Look(v); seen != "" {
			c.Finding.Evidence = seen
			if c.Try != nil {
				c.Trial = c.Try(v)
			}
			out = append(out, c.Finding)
		}
	}
	return out
}

// ReadVitals reads the settings once, and the status at the beginning and the end of an interval.
func ReadVitals(ctx context.Context, interval time.Duration, settings func() (map[string]string, error), status func() (map[string]float64, error)) (*Vitals, error) {
	v := &Vitals{Growth: map[string]float64{}}
	began, err := time.Now(), error(nil)
	before, err := status()
	if err == nil {
		v.Settings, err = settings()
	}
	if err == nil {
		err = Sleep(ctx, interval)
	}
	if err == nil {
		v.Status, err = status()
	}
	if err != nil {
		return nil, err
	}
	v.Seconds = time.Since(began).Seconds()
	for name, n := range v.Status {
		v.Growth[name] = max(0, n-before[name]) / v.Seconds
	}
	return v, nil
}
