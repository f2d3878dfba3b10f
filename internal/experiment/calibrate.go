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

// calibrated are the numbers of partitions with which a table is measured, calibrateConnections that of connections.
var calibrated = []int{200, 800}

const (
	calibrateConnections = 20
	calibrateSteps       = 4
)

// A Calibration is what open partitions of a table cost, measured on private servers.
type Calibration struct {
	engine.OpenCost
	// Server is the version, Add the time of adding one partition against their number, in seconds.
	Server string
	Add    statistics.Line
	From   string
}

// Calibrate measures a declared table, which rolls, on private servers of the same kind as the table's own.
func (e *Env) Calibrate(ctx context.Context, kind string, t *engine.Table) (*Calibration, error) {
	url, err := target.PrivateLike(kind)
	if err != nil {
		return nil, err
	}
	var recs []result.Record
	for _, n := range calibrated {
		e.Show.Note(fmt.Sprintf("calibrating: %d partitions on a private server", n))
		s := &Spec{Workload: Tables, Targets: []string{url}, Layouts: []string{workload.Plain}, Repeat: 1, Interval: Duration(1e9),
			Tables: &TablesSpec{Tables: 1, Partitions: n, Connections: calibrateConnections, Open: 1}}
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

// calibration solves for the costs: memory with so many connections that have all partitions of a table open is a plane over the number of
// partitions and their product with that of connections.
func calibration(recs []result.Record) (*Calibration, bool) {
	var partitions, shared, each, perConnection []float64
	var at, add []float64
	for i := range recs {
		run, costs := &recs[i].Run, recs[i].TablesCosts()
		fits := map[string]statistics.Line{}
		for _, f := range statistics.TablesFits(costs) {
			if f.Figure == "pss_bytes" {
				fits[f.Phase] = f.Line
			}
		}
		idle, held := fits[result.TablesIdle], fits[result.TablesHeld]
		if idle.Points == 0 || held.Points == 0 {
			return nil, false
		}
		// While connections open the table, all of them exist.
		partitions = append(partitions, float64(run.Tables.Objects()))
		shared = append(shared, held.Fixed-idle.Slope*float64(run.Tables.Connections)-float64(run.CacheBytes))
		each, perConnection = append(each, held.Slope), append(perConnection, idle.Slope)
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
	slope := func(y []float64) float64 { return (y[n] - y[0]) / (partitions[n] - partitions[0]) }
	c := &Calibration{Server: run.ServerVersion}
	c.Partition, c.Each = slope(shared), slope(each)
	c.Base = shared[0] - c.Partition*partitions[0]
	mean, _ := statistics.MeanVariance(perConnection)
	c.Connection = mean + each[0] - c.Each*partitions[0]
	c.Add, _ = statistics.FitLine(at, add)
	c.From = fmt.Sprintf("--calibrate: this table with %.0f and %.0f partitions on up to %d connections of a private %s %s", partitions[0], partitions[n], run.Tables.Connections, run.Engine, run.ServerVersion)
	return c, true
}
