package document

import (
	"fmt"
	"math"
	"slices"

	"github.com/rowmill/rowmill/internal/figure"
)

// clockSteps are the distances of ticks on an axis of time, in seconds.
var clockSteps = []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800}

// ClockTicks returns up to a dozen ticks at round times, for an axis in seconds. If elapsed is set,
// the ticks show the time since the axis's start, else the time of day; with the day, if the axis
// spans several days.
func ClockTicks(from, to float64, elapsed bool) (out []Tick) {
	const day = 86400
	step := clockSteps[len(clockSteps)-1]
	if i := slices.IndexFunc(clockSteps, func(s float64) bool { return (to-from)/s <= 12 }); i >= 0 {
		step = clockSteps[i]
	}
	for at := math.Ceil(from/step) * step; at <= to; at += step {
		label := figure.Clock(at)
		if !elapsed {
			d := math.Floor(at / day)
			n := int(at - d*day)
			label = fmt.Sprintf("%02d:%02d", n/3600, n/60%60)
			if step < 60 {
				label += fmt.Sprintf(":%02d", n%60)
			}
			if to > day*1.5 || from < 0 { // days must be distinguished
				label = fmt.Sprintf("day %d %s", int(d)+1, label)
			}
		}
		out = append(out, Tick{At: at, Label: label})
	}
	return out
}
