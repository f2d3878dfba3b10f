package result

import (
	"math"
	"slices"
)

// A Scenario is the experiment that a run belongs to. It has the published results that the
// experiment repeats, and claims about the shape of the experiment's own results.
type Scenario struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Story string `json:"story,omitempty"`
	// Run is the name of this run in the experiment, Runs are the names of all, in order.
	Run  string   `json:"run"`
	Runs []string `json:"runs"`
	// Scale is the factor by which the declared number of rows was multiplied.
	Scale float64 `json:"scale"`
	// MemoryShare is the memory requested for the server, divided by FinalBytes, the final size of run
	// MemoryOf as estimated from a sample. If MemoryShare is 0, the server's memory is left as it is.
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

// A Check is a claim about the shape of the results: a figure of a run lies between Above and
// Below. If Over is set, the figure is first divided by the figure that Over names.
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

// figureKinds are the figures of a run that scenarios can refer to. A figure is NaN if the record
// doesn't have it. Figures over tenths of the run's rows use fewer, larger parts if a tenth has
// fewer than four batches of each client. They are NaN if there are too few rows for two parts.
var figureKinds = []struct {
	FigureKind
	of func(r *Record, c Curve) float64
}{
	{FigureKind{"mean", "rows/s", "mean rate of the run"}, func(_ *Record, c Curve) float64 {
		return c.Rows() / c[len(c)-1].Elapsed // NaN if the curve has no points
	}},
	{FigureKind{"first", "rows/s", "mean rate over the first tenth of its rows"}, ofTenths(func(w []float64) float64 { return w[0] })},
	{FigureKind{"last", "rows/s", "mean rate over the last tenth of its rows"}, ofTenths(func(w []float64) float64 { return w[len(w)-1] })},
	{FigureKind{"min", "rows/s", "mean rate over the slowest tenth of its rows"}, ofTenths(slices.Min[[]float64])},
	{FigureKind{"max", "rows/s", "mean rate over the fastest tenth of its rows"}, ofTenths(slices.Max[[]float64])},
	{FigureKind{"period-start", "rows/s", "rate over the first fifth of a period, the median of the periods from the second on"},
		func(r *Record, c Curve) float64 { return r.periodRate(c, 0) }},
	{FigureKind{"period-end", "rows/s", "rate over the last fifth of a period, the median of the same periods"},
		func(r *Record, c Curve) float64 { return r.periodRate(c, 1-periodShare) }},
	{FigureKind{"rows", "rows", "rows inserted"}, func(_ *Record, c Curve) float64 { return c.Rows() }},
	{FigureKind{"bytes-per-row", "bytes/row", "size of the table with its indexes at the end, by its rows"}, func(r *Record, _ Curve) float64 {
		if r.End != nil && r.End.Size != nil && r.End.Size.PerRow > 0 {
			return r.End.Size.PerRow
		}
		return math.NaN()
	}},
	{FigureKind{"scan-all", "s", "response time of the query over all partitions, the median"}, func(r *Record, _ Curve) float64 {
		return r.scanSeconds(func(p []ScanPoint) ScanPoint { return p[len(p)-1] })
	}},
	{FigureKind{"scan-one", "s", "response time of the query over one partition, the median"}, func(r *Record, _ Curve) float64 {
		return r.scanSeconds(func(p []ScanPoint) ScanPoint { return p[0] })
	}},
	{FigureKind{"hot-rate", "runs/s", "rate of runs that count in one row"}, func(r *Record, c Curve) float64 {
		if r.Run.HotRow == nil {
			return math.NaN()
		}
		return c.Rows() / c[len(c)-1].Elapsed
	}},
	{FigureKind{"tpcc-orders", "new orders/min", "new orders of bench tpcc"}, ofTPCC(func(r *Record) float64 {
		c := r.Curve()
		return 60 * c.Rows() / c[len(c)-1].Elapsed
	})},
	{FigureKind{"tpcc-response", "ms", "mean response time of a new order"}, ofTPCC(func(r *Record) float64 {
		_, mean, err := r.LeastAndMean(NewOrder)
		if err != nil || mean == 0 {
			return math.NaN()
		}
		return float64(mean) / 1e3
	})},
	{FigureKind{"tpcc-crossing", "share", "share of transactions whose rows are on several nodes"}, ofCrossing(func(c *Crossing) float64 { return c.Measured })},
	{FigureKind{"tpcc-crossing-expected", "share", "what the definition gives for that share"}, ofCrossing(func(c *Crossing) float64 { return c.Expected })},
	{FigureKind{"table-disk", "bytes", "disk that each table adds, from the first measurement to the last"}, ofTables(func(first, last *TablesCost) float64 {
		return float64(last.DiskBytes-first.DiskBytes) / float64(last.Objects-first.Objects)
	})},
	{FigureKind{"table-memory", "bytes", "memory that each table adds, from the first measurement to the last"}, ofTables(func(first, last *TablesCost) float64 {
		return float64(last.PSSBytes-first.PSSBytes) / float64(last.Objects-first.Objects)
	})},
	{FigureKind{"table-create-first", "s", "time of a CREATE up to the first measurement"}, ofTables(func(first, _ *TablesCost) float64 { return first.CreateSeconds })},
	{FigureKind{"table-create-last", "s", "time of a CREATE before the last measurement"}, ofTables(func(_, last *TablesCost) float64 { return last.CreateSeconds })},
	{FigureKind{"disk-requests", "requests/s", "requests of a job of a disk"}, ofDisk(func(d *DiskSummary) float64 { return d.PerSecond })},
	{FigureKind{"disk-bytes", "MB/s", "millions of bytes of its requests"}, ofDisk(func(d *DiskSummary) float64 { return d.BytesPerSecond / 1e6 })},
	// By Little's law, because the queue is always full.
	{FigureKind{"disk-latency", "µs", "mean latency of its requests"}, ofDisk(func(d *DiskSummary) float64 { return 1e6 * float64(d.Depth) / d.PerSecond })},
}

// ofDisk makes a figure of `bench disk`; NaN for other runs.
func ofDisk(figure func(d *DiskSummary) float64) func(*Record, Curve) float64 {
	return func(r *Record, _ Curve) float64 {
		if s := r.Summary(); s.Disk != nil && s.Disk.PerSecond > 0 {
			return figure(s.Disk)
		}
		return math.NaN()
	}
}

// ofTPCC makes a figure of `bench tpcc`; NaN for other runs.
func ofTPCC(figure func(r *Record) float64) func(*Record, Curve) float64 {
	return func(r *Record, c Curve) float64 {
		if r.Run.TPCC == nil || len(c) == 0 {
			return math.NaN()
		}
		return figure(r)
	}
}

func ofCrossing(figure func(c *Crossing) float64) func(*Record, Curve) float64 {
	return ofTPCC(func(r *Record) float64 {
		if r.End == nil || r.End.Crossing == nil {
			return math.NaN()
		}
		return figure(r.End.Crossing)
	})
}

// ofTables makes a figure from the first and the last cost while `bench tables` created tables.
func ofTables(figure func(first, last *TablesCost) float64) func(*Record, Curve) float64 {
	return func(r *Record, _ Curve) float64 {
		all := slices.DeleteFunc(r.TablesCosts(), func(c TablesCost) bool { return c.Phase != TablesCreated })
		if n := len(all); n > 1 {
			return figure(&all[0], &all[n-1])
		}
		return math.NaN()
	}
}

// Figures lists the figures of a run that scenarios can refer to.
func Figures() (out []FigureKind) {
	for _, k := range figureKinds {
		out = append(out, k.FigureKind)
	}
	return out
}

// Figure returns a figure of the run by name; NaN if the record doesn't have it.
func (r *Record) Figure(name string) float64 {
	for _, k := range figureKinds {
		if k.Name == name {
			return k.of(r, r.Curve())
		}
	}
	return math.NaN()
}

// ofTenths makes a figure from the rates over tenths, or larger parts, of the rows.
func ofTenths(figure func(rates []float64) float64) func(*Record, Curve) float64 {
	return func(r *Record, c Curve) float64 {
		if w := c.Windows(r.Run.Parts(c, tenths)); len(w) > 1 {
			return figure(w)
		}
		return math.NaN()
	}
}

// partBatches is the least number of batches of each client in a part of the rows. Rows arrive in
// whole batches: of four batches, one too many or too few changes a part's rate by a quarter.
const partBatches = 4

// Parts returns the number of equal parts, at most n, into which the run's rows can be divided; 0
// if they are too few for one.
func (r *Run) Parts(c Curve, n int) int {
	return min(n, int(c.Rows())/(partBatches*max(1, r.Batch)*max(1, r.Writers)))
}

// periodShare: the first fifth of a period counts as its start, the last fifth as its end.
const periodShare = 0.2

// periodRate returns the median, over all complete periods, of the rate over one fifth of the
// period. The fifth begins at the share `at` of the period. The first period is left out, because
// the table begins empty. It assumes that rows fill the periods in order.
func (r *Record) periodRate(c Curve, at float64) float64 {
	n := float64(r.Run.PeriodRows)
	if n <= 0 {
		return math.NaN()
	}
	var rates []float64
	for from := n; from+n <= c.Rows(); from += n {
		rates = append(rates, c.RateBetween(from+at*n, from+(at+periodShare)*n))
	}
	if len(rates) == 0 {
		return math.NaN()
	}
	return median(rates)
}
