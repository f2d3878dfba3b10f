package engine

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// A Doctor is a Definer that finds what slows down or endangers inserts on its server. It reads
// settings, and counters twice, so that nothing that happened long ago is a finding.
type Doctor interface {
	Definer
	// Largest names the largest tables by the server's statistics, in a time that doesn't depend on
	// the number of tables.
	Largest(ctx context.Context, n int) ([]string, error)
	// Examine looks at the server over an interval, and at some tables.
	Examine(ctx context.Context, tables []string, interval time.Duration) ([]Finding, error)
}

// A Finding is something that slows down or endangers inserts, with what it was seen by.
type Finding struct {
	// Code names its kind: "redo-small".
	Code string `json:"code"`
	// Table is the table, "" for the server.
	Table string `json:"table,omitempty"`
	// What says it in a sentence, Evidence what was read.
	What     string `json:"what"`
	Evidence string `json:"evidence"`
	// Fix are the statements or settings that mend it, Cost what they cost.
	Fix  string `json:"fix"`
	Cost string `json:"cost"`
	// Source is where that can be read.
	Source string `json:"source"`
	// Measured reports that it was measured on this server; otherwise its threshold is a rule of
	// thumb, or the value of a setting.
	Measured bool `json:"measured"`
	// Estimate is what mending it gains by what is known; "" is unknown. Gain is what private servers
	// have shown.
	Estimate string `json:"estimate,omitempty"`
	Gain     *Gain  `json:"gain,omitempty"`
	// Trial shows it; nil if nothing does.
	Trial *Trial `json:"-"`
}

// A Trial is how private servers show what mending a finding gains: inserts with it and without.
// Before and After are parameters of their URLs. In the second, the table rolls with Rolls, and the
// values of the column Ascending grow with the time.
type Trial struct {
	Before, After string
	Rolls         bool
	Ascending     string
	// Size is how large what inserts touch anywhere becomes, as a multiple of TrialMemory; 0 is half
	// of it.
	Size float64
}

const (
	// TrialMemory is the memory for pages of a Trial's servers, in bytes, unless it needs more.
	TrialMemory = 64 << 20
	// Outgrown is the Size of a Trial about what has outgrown the memory.
	Outgrown = 3
)

// A Gain is the outcome of a Trial: the rates of its runs in rows a second, with the finding and
// without, what was measured on both sides, and the rows of each run.
type Gain struct {
	Before   []float64 `json:"before_rows_per_second"`
	BeforeOn string    `json:"before_on"`
	After    []float64 `json:"after_rows_per_second"`
	AfterOn  string    `json:"after_on"`
	Rows     int64     `json:"rows"`
}

// Ratio returns how many times as fast the slowest run is without the finding as the fastest with
// it: above 1, the gain is beyond the noise of the runs.
func (g *Gain) Ratio() float64 { return slices.Min(g.After) / slices.Max(g.Before) }

// MoreMemory is the Try of four times the memory for pages.
func MoreMemory(*Vitals) *Trial {
	return &Trial{Before: TrialPages(1), After: TrialPages(4), Size: Outgrown}
}

// TrialPages is the parameter for so many times TrialMemory.
func TrialPages(times int) string { return fmt.Sprintf("memory=%dMiB", times*TrialMemory>>20) }

// RedoTrial is the Trial of a redo log of so many bytes beside a cache: ten times as many. It is as
// large beside that of its servers, and no smaller than least, with which they start. What inserts
// touch fits into the cache: pages are written for the redo log's sake alone.
func RedoTrial(redo, cache, least float64) *Trial {
	const times = 4 // TrialMemory, so that least is small beside it
	with := func(factor float64) string {
		return fmt.Sprintf("%s&redo=%dMiB", TrialPages(times), int64(max(redo/max(cache, 1)*times*TrialMemory, least)*factor)>>20)
	}
	return &Trial{Before: with(1), After: with(10), Size: times / 2}
}

// Vitals are a server's settings, and counters with their growth a second, by the server's names.
type Vitals struct {
	Settings       map[string]string
	Status, Growth map[string]float64
	Seconds        float64
}

// Number returns a setting as a number; 0 if it is none.
func (v *Vitals) Number(setting string) float64 {
	n, _ := strconv.ParseFloat(v.Settings[setting], 64)
	return n
}

// A Check is a rule about a server's vitals.
type Check struct {
	Finding
	// Look returns the evidence; "" if there is nothing to find.
	Look func(v *Vitals) string
	// Try, unless nil, returns the Trial.
	Try func(v *Vitals) *Trial
}

// When returns what Look does: the evidence if it was seen.
func When(seen bool, format string, args ...any) string {
	if !seen {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// OtherValue returns the Try of a setting that is to have another value.
func OtherValue(name, after string) func(v *Vitals) *Trial {
	return func(v *Vitals) *Trial {
		return &Trial{Before: "set=" + name + "=" + v.Settings[name], After: "set=" + name + "=" + after}
	}
}

// Tried returns the check with a Trial.
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

// ReadVitals reads settings once, and status at both ends of an interval.
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
