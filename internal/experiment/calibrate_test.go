package experiment

import (
	"math"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/result"
)

// madeUpCache is the memory for pages of a made-up server.
const madeUpCache = 8 << 20

// madeUp is the record of a run of `bench tables` on a server of which each figure is known. It
// takes jump once, when 12 connections have the table open.
func madeUp(cost engine.OpenCost, idle, jump float64, partitions, connections int) result.Record {
	run := result.Run{Database: result.Database{Engine: "mariadb", ServerVersion: "10.11", CacheBytes: madeUpCache}, Benchmark: result.Benchmark{Tables: &result.Tables{Tables: 1, Partitions: partitions, Connections: connections, Held: 1}}}
	var all []result.TablesCost
	for n := partitions / 4; n <= partitions; n += partitions / 4 {
		all = append(all, result.TablesCost{Phase: result.TablesCreated, Objects: n, PSSBytes: 1 << 20, AddSeconds: 0.001 + 1e-5*float64(n)})
	}
	open := madeUpCache + cost.Base + cost.Partition*float64(partitions)
	for n := 2; n <= connections; n += 2 {
		all = append(all, result.TablesCost{Phase: result.TablesIdle, Connections: n, PSSBytes: int64(open + idle*float64(n))})
	}
	for n := 2; n <= connections; n += 2 { // all connections exist by then
		more := float64(n) * (cost.Connection - idle + cost.Each*float64(partitions))
		if n >= 12 {
			more += jump
		}
		all = append(all, result.TablesCost{Phase: result.TablesHeld, Opened: partitions, Connections: n, PSSBytes: int64(open + idle*float64(connections) + more)})
	}
	return result.Record{Run: run, End: &result.End{Costs: all}}
}

// TestCalibration: what a server pays is found again from runs with two numbers of partitions, also
// where a few connections add more than the rest.
func TestCalibration(t *testing.T) {
	for name, want := range map[string]engine.OpenCost{
		"shared":          {Base: 75 << 20, Connection: 180 << 10, Partition: 38 << 10, Each: 1 << 10},
		"by connection":   {Base: 42 << 20, Connection: 1200 << 10, Partition: 0, Each: 26 << 10},
		"both, no base":   {Base: 0, Connection: 90 << 10, Partition: 22 << 10, Each: 7.4 * (1 << 10)},
		"jump":            {Base: 75 << 20, Connection: 180 << 10, Partition: 38 << 10, Each: 1 << 10},
		"none that grows": {Base: 10 << 20, Connection: 100 << 10},
	} {
		jump := 0.0
		if name == "jump" {
			jump = 30 << 20
		}
		c, ok := calibration([]result.Record{madeUp(want, 60<<10, jump, 200, 50), madeUp(want, 60<<10, jump, 800, 50)})
		want.Base += jump
		if !ok {
			t.Errorf("%s: no figures", name)
			continue
		}
		for _, f := range []struct {
			what      string
			got, want float64
		}{{"base", c.Base, want.Base}, {"connection", c.Connection, want.Connection}, {"partition", c.Partition, want.Partition}, {"each", c.Each, want.Each},
			{"predicted", c.At(2000, 50), want.At(2000, 50)}, {"adding one to 2,000", c.Add.At(2000), 0.021}} {
			if math.Abs(f.got-f.want) > 1e-4*math.Abs(f.want)+1 { // sizes are whole bytes
				t.Errorf("%s: %s is %.6g, want %.6g", name, f.what, f.got, f.want)
			}
		}
	}
}

// TestCalibrationRefuses: one size, or a run that was cut off, tells nothing.
func TestCalibrationRefuses(t *testing.T) {
	cost := engine.OpenCost{Base: 1 << 20, Partition: 1 << 10}
	small, large := madeUp(cost, 1<<10, 0, 200, 20), madeUp(cost, 1<<10, 0, 800, 20)
	cut := madeUp(cost, 1<<10, 0, 800, 20)
	cut.End.Costs = cut.End.Costs[:6]
	for name, recs := range map[string][]result.Record{"none": nil, "one": {small}, "one size": {large, large}, "cut off": {small, cut}} {
		if c, ok := calibration(recs); ok {
			t.Errorf("%s: %+v", name, c)
		}
	}
}
