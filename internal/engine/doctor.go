package engine

import (
	"context"
	"strconv"
	"time"
)

// A Doctor is a Definer that finds what slows down or endangers inserts on its server. It reads settings, and counters
// twice, so that nothing that happened long ago is a finding.
type Doctor interface {
	Definer
	// Largest names the largest tables by the server's statistics, in a time that doesn't depend on the number of tables.
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
	// Measured reports that it was measured on this server; otherwise its threshold is a rule of thumb, or the value of a setting.
	Measured bool `json:"measured"`
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
}

// RunChecks returns the findings of checks.
func RunChecks(v *Vitals, checks []Check) (out []Finding) {
	for _, c := range checks {
		if seen := c.Look(v); seen != "" {
			c.Finding.Evidence = seen
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
