//go:build linux

package testdb_test

import (
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

func TestOpen(t *testing.T) {
	for kind, want := range map[string]engine.Info{
		"null":            {Engine: "null"},
		"sqlite":          {Engine: "sqlite", Durability: "none"},
		"mariadb":         {Engine: "mariadb", Storage: "InnoDB", Durability: "none"},
		"mariadb-rocksdb": {Engine: "mariadb", Storage: "ROCKSDB", Durability: "none"},
		"mysql":           {Engine: "mysql", Storage: "InnoDB", Durability: "none"},
		"postgres":        {Engine: "postgres", Storage: "heap", Durability: "none"},
	} {
		t.Run(kind, func(t *testing.T) {
			table := &engine.Table{Name: "t", Columns: []engine.Column{{Name: "id", Type: engine.Int64}}, PrimaryKey: []string{"id"}}
			for range 2 { // each is empty and separate
				db := testdb.Open(t, kind)
				got := db.Info()
				if got.Engine != want.Engine || got.Storage != want.Storage || got.Durability != want.Durability {
					t.Errorf("opened %+v, want %+v", got, want)
				}
				if err := db.Apply(t.Context(), engine.CreateTable{Table: table}); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	if a, b := testdb.Target(t, "sqlite"), testdb.Target(t, "sqlite"); a.Path == b.Path {
		t.Errorf("%s twice", a.Path)
	}
}
