package result

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// A Scan is the query of a run of `bench scan`, and the way in which the run asks it.
type Scan struct {
	// Way is one of the Ways.
	Way string `json:"way"`
	// Partitions is the number of partitions of the table, TableRows its rows.
	Partitions int   `json:"partitions"`
	TableRows  int64 `json:"table_rows"`
	// Sessions is the number of sessions that read; Ways are all ways of the experiment.
	Sessions int      `json:"sessions"`
	Ways     []string `json:"ways"`
	// Query is the query over all partitions.
	Query string `json:"query"`
	// Whole says why the query isn't split by partitions; "" if it is.
	Whole string `json:"whole,omitempty"`
}

// Ways of a Scan.
const (
	// ScanSerial asks the server over one connection, like any client.
	ScanSerial = "serial"
	// ScanParallel splits the query in rowmill's own process.
	ScanParallel = "parallel"
	// ScanServe asks `rowmill serve`, over a client's connection.
	ScanServe = "serve"
)

// ScanWays returns the ways in order.
func ScanWays() []string { return []string{ScanSerial, ScanParallel, ScanServe} }

// A ScanSummary is a run of `bench scan`, with its response times.
type ScanSummary struct {
	Scan
	Points []ScanPoint `json:"points"`
}

// ScanEvent is Event.What for a query of a Scan. Event.Object is the number of partitions queried.
const ScanEvent = "scan"

// A ScanPoint is the response time of the query over some partitions.
type ScanPoint struct {
	Partitions int `json:"partitions"`
	// Seconds is the median of Times, Low and High are the extremes.
	Seconds float64 `json:"seconds"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Times   int     `json:"times"`
}

// ScanPoints returns the response times of runs of a Scan by the number of partitions.
func ScanPoints(recs ...*Record) []ScanPoint {
	times := map[int][]float64{}
	for _, r := range recs {
		for i := range r.Intervals {
			for _, e := range r.Intervals[i].Events {
				if n, err := strconv.Atoi(e.Object); err == nil && e.What == ScanEvent {
					times[n] = append(times[n], e.Seconds)
				}
			}
		}
	}
	var out []ScanPoint
	for n, all := range times {
		out = append(out, ScanPoint{Partitions: n, Seconds: median(all), Low: slices.Min(all), High: slices.Max(all), Times: len(all)})
	}
	slices.SortFunc(out, func(a, b ScanPoint) int { return cmp.Compare(a.Partitions, b.Partitions) })
	return out
}

// scanSeconds returns the Seconds of the point that which() chooses; NaN if there is at most one.
func (r *Record) scanSeconds(which func([]ScanPoint) ScanPoint) float64 {
	if points := ScanPoints(r); len(points) > 1 {
		return which(points).Seconds
	}
	return math.NaN()
}
