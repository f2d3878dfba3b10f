package result

import "strings"

// Names of a replica's delays in Interval.Counters, in seconds. If there are several replicas, the
// replica's name comes first: "replica 2/replica_delay_seconds".
const (
	FigureDelay      = "replica_delay_seconds"
	FigureDelayWorst = "replica_delay_worst_seconds"
)

// ReplicaDelay is how far a replica was behind its source during a run.
type ReplicaDelay struct {
	// Replica is its name, such as "replica 2"; "" if there is only one.
	Replica string `json:"replica,omitempty"`
	// Mean is the mean delay over the run, Worst the longest. At is the end of Worst's interval.
	Mean  float64 `json:"mean_seconds"`
	Worst float64 `json:"worst_seconds"`
	At    float64 `json:"at_seconds"`
}

// Delays returns the delay of each replica, in the order of the header.
func (r *Record) Delays() (out []ReplicaDelay) {
	for _, c := range r.Run.Counters {
		name, ok := strings.CutSuffix(c.Name, FigureDelay)
		if !ok {
			continue
		}
		d, seconds := ReplicaDelay{Replica: strings.TrimSuffix(name, "/")}, 0.0
		for _, iv := range r.Intervals {
			if mean, ok := iv.Counters[c.Name]; ok {
				d.Mean += mean * iv.Seconds
				seconds += iv.Seconds
			}
			if worst := iv.Counters[name+FigureDelayWorst]; worst > d.Worst {
				d.Worst, d.At = worst, iv.Elapsed
			}
		}
		if seconds > 0 {
			d.Mean /= seconds
			out = append(out, d)
		}
	}
	return out
}
