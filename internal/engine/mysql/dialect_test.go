package mysql

import (
	"slices"
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
	plain, keyed, withoutKey := purchases(), purchases(), batch()
	keyed.ServerKey, withoutKey.Columns = "id", withoutKey.Columns[1:]
	queries := enginetest.Queries(t, purchases)
	settle := queries[len(queries)-1:]
	inserts := enginetest.Inserts(plain, batch(), engine.Multi, engine.Single, engine.Prepared, engine.Load)
	connect := []engine.Step{engine.Connect{}, engine.Connect{Maintenance: true}}
	enginetest.RunRenderings(t, slices.Concat(enginetest.Standard(t, mariadb, "", purchases), enginetest.Standard(t, mysql8, "-mysql", purchases), []enginetest.Rendering{
		{Name: "sessions", Dialect: mariadb, Steps: connect},
		{Name: "sessions-mysql", Dialect: mysql8, Steps: connect},
		{Name: "plain-rocksdb", Dialect: rocks, Steps: []engine.Step{engine.CreateTable{Table: plain}, engine.Measure{Table: plain}, engine.Sample{Tables: []*engine.Table{plain}}}},
		{Name: "queries", Dialect: mariadb, Steps: queries},
		{Name: "settle-mysql", Dialect: mysql8, Steps: settle},
		{Name: "settle-rocksdb", Dialect: rocks, Steps: settle},
		{Name: "insert", Dialect: mariadb, Steps: append(inserts, enginetest.Inserts(keyed, withoutKey, engine.Multi, engine.Prepared, engine.Load)...)},
	}), enginetest.Refused(t, purchases, batch()))
}
