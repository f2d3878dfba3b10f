package monitor

import (
	"time"

	"github.com/rowmill/rowmill/internal/maintain"
)

// Limits of a history: half an hour with a look every 10 seconds. A page of the monitor that is
// open in a browser causes more looks. A look within minGap of the previous one is not kept,
// because it would shorten the half hour.
const (
	keepSamples = 180
	minGap      = 5 * time.Second
	// rateOver is the averaging time of a rate: a server's estimates of row counts grow in steps.
	rateOver = 30 * time.Second
)

// A point is what the history keeps of one look.
type point struct {
	at time.Time
	// rows counts the rows inserted since the first point, into periods that take inserts.
	rows int64
}

// A sample is the rate of inserts at a time.
type sample struct {
	At   time.Time
	Rate float64 // rows per second
}

// A history contains the latest looks, oldest first.
type history struct {
	points []point
	rows   map[string]int64 // row counts of the periods that take inserts, by name
}

// takesInserts reports whether the row count of a period in this state grows only because of
// inserts. In other states it also changes because rows are counted, merged or dropped.
func takesInserts(state string) bool {
	return state == "ahead" || state == "open" || state == "closing"
}

func (h *history) add(at time.Time, s *maintain.Status) {
	rows := map[string]int64{}
	var delta int64
	for _, p := range s.Periods {
		if !takesInserts(p.State) {
			continue
		}
		rows[p.Name] = p.Rows
		if before, known := h.rows[p.Name]; known {
			delta += p.Rows - before
		} else if h.rows != nil {
			delta += p.Rows // the period was created since the previous look
		}
	}
	n := len(h.points)
	switch {
	case n == 0:
		h.points = append(h.points, point{at, 0})
	case at.Sub(h.points[n-1].at) < minGap && n > 1:
		return // h.rows stays: the next look is compared with these row counts
	default:
		h.points = append(h.points, point{at, h.points[n-1].rows + delta})
	}
	h.rows = rows
	if len(h.points) > keepSamples {
		h.points = h.points[len(h.points)-keepSamples:]
	}
}

// samples returns the rate at each point; the first point has the rate of the second.
func (h *history) samples() []sample {
	var out []sample
	from := 0
	for i := 1; i < len(h.points); i++ {
		for from < i-1 && h.points[i].at.Sub(h.points[from+1].at) >= rateOver {
			from++
		}
		d := h.points[i].at.Sub(h.points[from].at).Seconds()
		if d <= 0 {
			continue
		}
		// Estimates may fall when the server updates its statistics.
		rate := max(float64(h.points[i].rows-h.points[from].rows)/d, 0)
		if len(out) == 0 {
			out = append(out, sample{h.points[0].at, rate})
		}
		out = append(out, sample{h.points[i].at, rate})
	}
	return out
}
