package experiment

import (
	"context"
	"fmt"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/statistics"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// calibrated are the numbers of partitions with which a table is measured.
var calibrated = []int{200, 800}

// Calibrate makes as many connections as its caller asks for, within these limits. Memory doesn't
// grow evenly with connections: MySQL 8.0 takes some 30 MiB at once when about ten connections have
// a table open, however many partitions it has.
const (
	leastConnections, mostConnections = 10, 50
	calibrateSteps                    = 4
)

// A Calibration is what open partitions of a table cost, measured on private servers.
type Calibration struct {
	engine.OpenCost
	// Add is the time in seconds for adding one partition, as a function of the number of partitions
	// that exist. From says how the costs were measured.
	Add  statistics.Line
	From string
}

// Calibrate measures a declared rolling table on private servers of the same kind as the table's
// own, to predict the memory of the given number of connections.
func (e *Env) Calibrate(ctx context.Context, kind string, t *engine.Table, connections int) (*Calibration, error) {
	connections = min(max(connections, leastConnections), mostConnections)
	url, err := target.PrivateLike(kind)
	if err != nil {
		return nil, err
	}
	var recs []result.Record
	for _, n := range calibrated {
		e.Show.Note(fmt.Sprintf("calibrating: %d partitions on a private server", n))
		s := &Spec{Workload: Tables, Targets: []string{url}, Layouts: []string{workload.Plain}, Repeat: 1, Interval: Duration(1e9),
			WorkloadSpecs: WorkloadSpecs{Tables: &TablesSpec{Tables: 1, Partitions: n, Connections: connections, Open: 1}}}
		err := s.Validate()
		var made []result.Record
		if err == nil {
			made, err = e.tablesRun(ctx, s, &Trial{Spec: s, Whole: s, calibrates: t})
		}
		if err != nil {
			return nil, fmt.Errorf("calibrate: %w", err)
		}
		recs = append(recs, made...)
	}
	c, ok := calibration(recs)
	if !ok {
		return nil, fmt.Errorf("calibrate: too few figures were measured")
	}
	return c, nil
}

// calibration computes the costs from runs with two numbers of partitions; ok is false if figures
// are missing. The cost of a partition is the slope of memory between the two runs. The cost of one
// more connection is the slope of memory over the last half of the connections.
func calibration(recs []result.Record) (*Calibration, bool) {
	var partitions, memory, each, idle, at, add []float64
	for i := range recs {
		run, costs := &recs[i].Run, recs[i].TablesCosts()
		var last int64
		slope := func(phase string) bool {
			var x, y []float64
			for _, c := range costs {
				if c.Phase == phase && 2*c.Connections >= run.Tables.Connections {
					x, y, last = append(x, float64(c.Connections)), append(y, float64(c.PSSBytes)), c.PSSBytes
				}
			}
			line, ok := statistics.FitLine(x, y)
			if phase == result.TablesIdle {
				idle = append(idle, line.Slope)
			} else {
				each = append(each, line.Slope)
			}
			return ok && int(x[len(x)-1]) == run.Tables.Connections
		}
		if !slope(result.TablesIdle) || !slope(result.TablesHeld) {
			return nil, false
		}
		partitions, memory = append(partitions, float64(run.Tables.Objects())), append(memory, float64(last-run.CacheBytes))
		for _, c := range costs {
			if c.AddSeconds > 0 {
				at, add = append(at, float64(c.Objects)), append(add, c.AddSeconds)
			}
		}
	}
	if len(recs) < 2 || partitions[0] == partitions[len(recs)-1] {
		return nil, false
	}
	n, run := len(recs)-1, &recs[0].Run
	perPartition := func(y []float64) float64 { return (y[n] - y[0]) / (partitions[n] - partitions[0]) }
	connections := float64(run.Tables.Connections)
	c := &Calibration{}
	c.Each = perPartition(each)
	c.Partition = perPartition(memory) - connections*c.Each
	mean, _ := statistics.MeanVariance(idle) // idle has the connections' own memory, which each lacks
	c.Connection = mean + each[0] - c.Each*partitions[0]
	c.Base = memory[0] - connections*c.Connection - partitions[0]*(c.Partition+connections*c.Each)
	c.Add, _ = statistics.FitLine(at, add)
	c.From = fmt.Sprintf("--calibrate: this table with %.0f and %.0f partitions on up to %d connections of a private %s %s", partitions[0], partitions[n], run.Tables.Connections, run.Engine, run.ServerVersion)
	return c, true
}
