package result

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReplicaDelays(t *testing.T) {
	interval := func(elapsed float64, counters map[string]float64) Interval {
		return Interval{Elapsed: elapsed, Seconds: 1, Counters: counters}
	}
	two := &Record{
		Run: Run{Counters: []Counter{{Name: "replica 1/replica_delay_seconds"}, {Name: "replica 1/replica_delay_worst_seconds"}, {Name: "replica 2/replica_delay_seconds"}}},
		Intervals: []Interval{
			interval(1, map[string]float64{"replica 1/replica_delay_seconds": 1, "replica 1/replica_delay_worst_seconds": 3}),
			interval(2, map[string]float64{"replica 1/replica_delay_seconds": 2, "replica 1/replica_delay_worst_seconds": 2}),
			interval(3, nil), // the source stood still
		},
	}
	one := &Record{
		Run:       Run{Counters: []Counter{{Name: "rows_inserted"}, {Name: "replica_delay_seconds"}, {Name: "replica_delay_worst_seconds"}}},
		Intervals: []Interval{interval(1, map[string]float64{"replica_delay_seconds": 0, "replica_delay_worst_seconds": 0})},
	}
	for name, test := range map[string]struct {
		rec  *Record
		want []ReplicaDelay
	}{
		"two, of which one never answered": {two, []ReplicaDelay{{Replica: "replica 1", Mean: 1.5, Worst: 3, At: 1}}},
		"no delay":                         {one, []ReplicaDelay{{}}},
		"no replica":                       {&Record{}, nil},
	} {
		if diff := cmp.Diff(test.want, test.rec.Delays()); diff != "" {
			t.Errorf("%s (-/+):\n%s", name, diff)
		}
	}
}
