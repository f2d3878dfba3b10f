package result

import (
	"math"
	"slices"
)

// A Scenario is the experiment that a run belongs to: its published results, and the
// expected shape of its own.
type Scenario struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Story string `json:"story,omitempty"`
	// Run is the name of this run in the experiment, Runs are the names of all, in
	// order.
	Run  string   `json:"run"`
	Runs []string `json:"runs"`
	// Scale is the factor by which the declared number of rows was multiplied.
	Scale float64 `json:"scale"`
	// MemoryShare is the requested memory as a share of the final size of run MemoryOf,
	// which a sample estimates as FinalBytes; 0 leaves the target's memory alone.
	MemoryShare float64 `json:"memory_share,omitempty"`
	MemoryOf    string  `json:"memory_of,omitempty"`
	FinalBytes  int64   `json:"final_bytes,omitempty"`

	Published []Published `json:"published,omitempty"`
	Checks    []Check     `json:"checks,omitempty"`
	// Declaration is the text of the declaration.
	Declaration string `json:"declaration,omitempty"`
}

// Published is a figure published by somebody else.
type Published struct {
	Run    string `json:"run"`
	Figure string `json:"figure"` // see Figures
	// Value lies between Low and High if a range was published.
	Value float64 `json:"value"`
	Low   float64 `json:"low,omitempty"`
	High  float64 `json:"high,omitempty"`
	// What describes the figure in words, Source is the publication.
	What   string `json:"what,omitempty"`
	Source string `json:"source"`
}

// A Check is a claim about the shape of the results: a figure of a run, divided by
// Over if that is set, lies between Above and Below.
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

// Figures lists the figures of a run that scenarios can refer to. Tenths of less than
// four batches become larger parts; a run of less than eight batches has none.
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

// Figure returns a figure of the run by name; NaN if the record doesn't have it.
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

// partBatches is the minimum number of batches of each client per part of the rows,
// which arrive in whole batches: it limits the error of a part's rate to a quarter.
const partBatches = 4

// parts returns the number of equal parts into which the run's rows are divided:
// ten, or fewer if tenths would contain too few batches.
func (r *Record) parts(c Curve) int {
	batch := max(1, r.Run.Batch) * max(1, r.Run.Writers)
	return min(tenths, int(c.Rows())/(partBatches*batch))
}

// periodShare is the share of a period that counts as its start, and as its end.
const periodShare = 0.2

// periodRates returns the median rates over the first and the last part of the complete
// periods, which rows fill in order, without the first, whose table begins empty.
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
