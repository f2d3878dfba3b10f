package statistics

import (
	"slices"
	"time"

	"github.com/rowmill/rowmill/result"
)

// Separate returns the sides in the order in which they were made, if all runs of one side were
// made before the runs of the other. Both are "" if the sides alternated, or if the order is
// unknown.
func Separate(pairs [][2]*result.Record) (first, second string) {
	var begun [2][]time.Time
	for _, p := range pairs {
		for side, r := range p {
			begun[side] = append(begun[side], r.Run.Started)
		}
	}
	before := func(a, b int) bool {
		return slices.MaxFunc(begun[a], time.Time.Compare).Before(slices.MinFunc(begun[b], time.Time.Compare))
	}
	switch {
	case len(pairs) < 2 || slices.ContainsFunc(slices.Concat(begun[0], begun[1]), time.Time.IsZero):
	case before(0, 1):
		return "A", "B"
	case before(1, 0):
		return "B", "A"
	}
	return "", ""
}
