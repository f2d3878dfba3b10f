package result

import (
	"math"
	"slices"
)

// A Scenario is the experiment that a run is part of: what was published of it,
// and what is to be seen in it.
type Scenario struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Story string `json:"story,omitempty"`
	// Run is the name of this run in it, Runs are those of all, in order.
	Run  string   `json:"run"`
	Runs []string `json:"runs"`
	// Scale is what its declared number of rows was multiplied by.
	Scale float64 `json:"scale"`
	// MemoryShare is the memory asked for as a share of the final size of run
	// MemoryOf, FinalBytes that size as it was expected from a sample. 0 where
	// the target's memory isn't the scenario's to set.
	MemoryShare float64 `json:"memory_share,omitempty"`
	MemoryOf    string  `json:"memory_of,omitempty"`
	FinalBytes  int64   `json:"final_bytes,omitempty"`

	Published []Published `json:"published,omitempty"`
	Checks    []Check     `json:"checks,omitempty"`
	// Declaration is the text that all this was read from.
	Declaration string `json:"declaration,omitempty"`
}

// Published is a figure that somebody else has measured.
type Published struct {
	Run    string `json:"run"`
	Figure string `json:"figure"` // see Figures
	// Value is the figure; where a range was published, Low and High are its
	// ends and Value lies in it.
	Value float64 `json:"value"`
	Low   float64 `json:"low,omitempty"`
	High  float64 `json:"high,omitempty"`
	// What it was in words, and Source who published it.
	What   string `json:"what,omitempty"`
	Source string `json:"source"`
}

// A Check is a claim about the shape of the results: that a figure of a run,
// divided by one of the same or another run where Over is set, lies between
// Above and Below.
type Check struct {
	Claim  string   `json:"claim"`
	Figure string   `json:"figure"` // RUN.FIGURE
	Over   string   `json:"over,omitempty"`
	Above  *float64 `json:"above,omitempty"`
	Below  *float64 `json:"below,omitempty"`
}

// A FigureKind is a figure of a run that scenarios can refer to.
type FigureKind struct {
	Name, Unit, Help string
}

// Figures lists the figures of a run that scenarios can refer to. Where a tenth
// of the rows is less than four batches, larger parts stand for tenths; a run
// of less than eight batches has no such figures.
func Figures() []FigureKind {
	return []FigureKind{
		{"mean", "rows/s", "mean rate of the run"},
		{"first", "rows/s", "mean rate over the first tenth of its rows"},
		{"last", "rows/s", "mean rate over the last tenth of its rows"},
		{"min", "rows/s", "mean rate over the slowest tenth of its rows"},
		{"max", "rows/s", "mean rate over the fastest tenth of its rows"},
		{"period-start", "rows/s", "rate over the first fifth of a period, the median of the periods from the second on"},
		{"period-end", "rows/s", "rate over the last fifth of a period, the median of the same periods"},
		{"rows", "rows", "rows inserted"},
		{"bytes-per-row", "bytes/row", "size of the table with its indexes at the end, by its rows"},
	}
}

// Figure returns a figure of the run by its name; NaN where the record doesn't
// have it.
func (r *Record) Figure(name string) float64 {
	c := r.Curve()
	switch name {
	case "mean":
		if n := len(c) - 1; n > 0 {
			return c[n].Rows / c[n].Elapsed
		}
	case "first", "last", "min", "max":
		w := c.Windows(r.parts(c))
		if len(w) < 2 {
			break
		}
		switch name {
		case "first":
			return w[0]
		case "last":
			return w[len(w)-1]
		case "min":
			return slices.Min(w)
		}
		return slices.Max(w)
	case "period-start":
		start, _ := r.periodRates(c)
		return start
	case "period-end":
		_, end := r.periodRates(c)
		return end
	case "rows":
		return c.Rows()
	case "bytes-per-row":
		if r.End != nil && r.End.Size != nil && r.End.Size.PerRow > 0 {
			return r.End.Size.PerRow
		}
	}
	return math.NaN()
}

// partBatches is how many batches of each client a part of the rows has at
// least, so that its rate is wrong by no more than a quarter: rows come a whole
// batch at a time.
const partBatches = 4

// parts returns into how many equal parts the run's rows are cut: tenths, or
// fewer where those would be too few batches.
func (r *Record) parts(c Curve) int {
	batch := max(1, r.Run.Batch) * max(1, r.Run.Writers)
	return min(tenths, int(c.Rows())/(partBatches*batch))
}

// periodShare is the part of a period that its start and its end are: small
// enough to be either, and several intervals long in a run of minutes.
const periodShare = 0.2

// periodRates returns the median rates over the first and the last part of the
// whole periods, without the first one, which begins with an empty table. Rows
// come in the order of the periods.
func (r *Record) periodRates(c Curve) (start, end float64) {
	n := float64(r.Run.PeriodRows)
	if n <= 0 {
		return math.NaN(), math.NaN()
	}
	var starts, ends []float64
	for from := n; from+n <= c.Rows(); from += n {
		starts = append(starts, c.RateBetween(from, from+periodShare*n))
		ends = append(ends, c.RateBetween(from+(1-periodShare)*n, from+n))
	}
	if len(starts) == 0 {
		return math.NaN(), math.NaN()
	}
	return median(starts), median(ends)
}
