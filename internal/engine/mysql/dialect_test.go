package mysql

import (
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
)

// purchases has a column of each type.
func purchases() *engine.Table {
	t := enginetest.Purchases("note's `name`")
	t.Indexes = append(t.Indexes, engine.Index{Name: "a`b", Columns: []string{"note's `name`"}})
	return t
}

func batch() *engine.Batch { return enginetest.PurchasesBatch("it's \\ \x00 \t😀") }

func TestRender(t *testing.T) {
	mariadb, mysql8 := dialect{mariadb: true, storage: "InnoDB"}, dialect{storage: "InnoDB", remembers: true}
	rocks := dialect{mariadb: true, storage: "ROCKSDB"}
	plain := purchases()
	byRows, byTime := enginetest.Roll(t, purchases(), "1000 rows", "id"), enginetest.Roll(t, purchases(), "2h", "at")
	rows, times := enginetest.Periods(t, byRows.Grid, 0), enginetest.Periods(t, byTime.Grid, enginetest.Noon)
	keyed := purchases()
	keyed.ServerKey = "id"
	finds := enginetest.Queries(plain)
	finds = append(finds, engine.Find{Table: byRows, Index: "market", On: []string{"price"}, Limit: 5}, engine.Delete{Table: byTime, By: "at"},
		engine.CreateIndexes{Table: byRows, Indexes: byRows.Indexes, Partitions: rows}, engine.Settle{Tables: []*engine.Table{plain, byRows}})
	withoutKey := batch()
	withoutKey.Columns = withoutKey.Columns[1:]
	enginetest.RunRenderings(t, []enginetest.Rendering{
		{Name: "sessions", Dialect: mariadb, Steps: []engine.Step{engine.Connect{}, engine.Connect{Maintenance: true}}},
		{Name: "sessions-mysql", Dialect: mysql8, Steps: []engine.Step{engine.Connect{}, engine.Connect{Maintenance: true}}},
		{Name: "plain", Dialect: mariadb, Steps: []engine.Step{engine.CreateTable{Table: plain}, engine.Inspect{Table: plain}, engine.Select{Table: plain},
			engine.Measure{Table: plain}, engine.Sample{Tables: []*engine.Table{plain}}, engine.DropTable{Table: plain}}},
		{Name: "plain-rocksdb", Dialect: rocks, Steps: []engine.Step{engine.CreateTable{Table: plain}, engine.Measure{Table: plain}, engine.Sample{Tables: []*engine.Table{plain}}}},
		{Name: "plain-mysql", Dialect: mysql8, Steps: []engine.Step{engine.CreateTable{Table: plain}, engine.Inspect{Table: plain}, engine.Select{Table: plain},
			engine.Measure{Table: plain}, engine.Sample{Tables: []*engine.Table{plain}}, engine.DropTable{Table: plain}}},
		{Name: "rolling-rows", Dialect: mariadb, Steps: []engine.Step{engine.CreateTable{Table: byRows, Partitions: rows[:2]}, engine.CreatePartitions{Table: byRows, Have: rows[:2], New: rows[2:]},
			engine.DropPartition{Table: byRows, Have: rows, Drop: rows[0]}, engine.Select{Table: byRows, Partition: &rows[1]}, engine.DropTable{Table: byRows, Partitions: rows}}},
		{Name: "rolling-rows-mysql", Dialect: mysql8, Steps: []engine.Step{engine.CreateTable{Table: byRows, Partitions: rows[:2]}, engine.CreatePartitions{Table: byRows, Have: rows[:2], New: rows[2:]},
			engine.DropPartition{Table: byRows, Have: rows, Drop: rows[0]}, engine.Select{Table: byRows, Partition: &rows[1]}, engine.DropTable{Table: byRows, Partitions: rows}}},
		{Name: "rolling-time", Dialect: mariadb, Steps: []engine.Step{engine.CreateTable{Table: byTime, Partitions: times[:1]}, engine.CreatePartitions{Table: byTime, Have: times[:1], New: times[1:]},
			engine.DropPartition{Table: byTime, Have: times, Drop: times[0]}}},
		{Name: "rolling-time-mysql", Dialect: mysql8, Steps: []engine.Step{engine.CreateTable{Table: byTime, Partitions: times[:1]}, engine.CreatePartitions{Table: byTime, Have: times[:1], New: times[1:]},
			engine.DropPartition{Table: byTime, Have: times, Drop: times[0]}}},
		{Name: "queries", Dialect: mariadb, Steps: finds},
		{Name: "settle-mysql", Dialect: mysql8, Steps: finds[len(finds)-1:]},
		{Name: "settle-rocksdb", Dialect: rocks, Steps: finds[len(finds)-1:]},
		{Name: "insert", Dialect: mariadb, Steps: []engine.Step{engine.Insert{Table: plain, Method: engine.Multi, Batch: batch()}, engine.Insert{Table: plain, Method: engine.Single, Batch: batch()},
			engine.Insert{Table: plain, Method: engine.Prepared, Batch: batch()}, engine.Insert{Table: plain, Method: engine.Load, Batch: batch()},
			engine.Insert{Table: keyed, Method: engine.Multi, Batch: withoutKey}, engine.Insert{Table: keyed, Method: engine.Prepared, Batch: withoutKey},
			engine.Insert{Table: keyed, Method: engine.Load, Batch: withoutKey}}},
	}, map[string]engine.Step{
		"no partitions":  engine.CreateTable{Table: byRows},
		"invalid table":  engine.CreateTable{Table: &engine.Table{Name: "x"}},
		"unknown index":  engine.Find{Table: plain, Index: "nix", On: []string{"id"}},
		"unknown column": engine.Delete{Table: plain, By: "nix"},
		"no index":       engine.CreateIndexes{Table: plain},
		"unknown method": engine.Insert{Table: plain, Method: "pigeon", Batch: batch()},
	})
}
