package series

import (
	"fmt"
	"testing"
)

// TestTimeOfFastRun: the points of a run of 2 ms stay where they were; those at one moment differ.
func TestTimeOfFastRun(t *testing.T) {
	t.Parallel()
	var a Axis
	for _, at := range []float64{0.000256, 0.000274, 0.000274, 0.002044, 1e12, 1e12} {
		a = a.add(at)
	}
	if got := fmt.Sprint(a[:4]); got != "[0.000256 0.000274 0.000275 0.002044]" || a[5] <= a[4] || a[5] > 1e12+1 {
		t.Errorf("%v", a)
	}
}
