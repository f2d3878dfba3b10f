//go:build unix

package mysql_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	driver "github.com/go-sql-driver/mysql"

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

// loadData loads each element of lines by LOAD DATA LOCAL.
func loadData(b *testing.B, db engine.DB, table, columns string, lines [][]byte) {
	conn, err := db.(*mysql.DB).Pool().Conn(b.Context())
	must(b, err)
	defer conn.Close()
	driver.RegisterReaderHandler("bare", func() io.Reader {
		next := bytes.NewReader(lines[0])
		lines = lines[1:]
		return next
	})
	defer driver.DeregisterReaderHandler("bare")
	for len(lines) > 0 {
		_, err := conn.ExecContext(b.Context(), fmt.Sprintf("LOAD DATA LOCAL INFILE 'Reader::bare' INTO TABLE %s CHARACTER SET utf8mb4 (%s)", table, columns))
		must(b, err)
	}
}

func openStager(kind string) func(testing.TB) engine.Stager {
	return func(t testing.TB) engine.Stager { return testdb.Open(t, kind).(engine.Stager) }
}

// BenchmarkStage fills a table with three secondary indexes, by a staging and by LOAD DATA
// and ADD INDEX alone. The ceiling is the latter.
func BenchmarkStage(b *testing.B) {
	for _, kind := range []string{"mariadb", "mysql"} {
		b.Run(kind, func(b *testing.B) { enginetest.BenchStage(b, openStager(kind), loadData) })
	}
}

// BenchmarkLoader inserts rows with new keys, by a loader and by LOAD DATA alone.
func BenchmarkLoader(b *testing.B) {
	for _, kind := range []string{"mariadb", "mysql"} {
		b.Run(kind, func(b *testing.B) { enginetest.BenchLoader(b, openStager(kind), loadData) })
	}
}
