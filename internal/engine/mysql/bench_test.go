//go:build unix

package mysql_test

import (
	"fmt"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/internal/testdb"
)

func openMariaDB(t testing.TB) engine.DB { return testdb.Open(t, "mariadb") }

func BenchmarkInsert(b *testing.B) { enginetest.BenchInsert(b, openMariaDB) }

// BenchmarkFind reads by the engine's own packets, and by the driver.
func BenchmarkFind(b *testing.B) {
	enginetest.BenchFind(b, openMariaDB, nil)
	b.Run("driver", func(b *testing.B) { enginetest.BenchFind(b, openMariaDB, mysql.UseDriver) })
}

// BenchmarkSocket compares the ways in which a batch can be sent: by the driver or by
// this package's own packets, on an ordinary socket or on one whose thread blocks.
func BenchmarkSocket(b *testing.B) {
	for _, kind := range []string{"mariadb", "mysql"} {
		for _, batch := range []int{1, 10, 100} {
			for _, way := range []struct {
				name             string
				driver, blocking bool
			}{{"driver", true, false}, {"driver,blocking", true, true}, {"packets", false, false}, {"packets,blocking", false, true}} {
				b.Run(fmt.Sprintf("%s/batch=%d/%s", kind, batch, way.name), func(b *testing.B) {
					enginetest.BenchWriter(b, testdb.Open(b, kind), engine.Multi, batch, func(w engine.Writer) { mysql.SendBy(w, way.driver, way.blocking) })
				})
			}
		}
	}
}
