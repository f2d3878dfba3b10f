//go:build unix

package postgres_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/engine/postgres"
)

func openDB(t testing.TB) engine.DB { return open(t) }

func BenchmarkInsert(b *testing.B) { enginetest.BenchInsert(b, openDB) }

func BenchmarkFind(b *testing.B) { enginetest.BenchFind(b, openDB, nil) }

// BenchmarkSocket compares a batch sent by the driver with one sent by this package's
// own messages.
func BenchmarkSocket(b *testing.B) {
	for _, batch := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("postgres/batch=%d/driver", batch), func(b *testing.B) {
			db := open(b)
			must(b, db.Apply(b.Context(), engine.CreateTable{Table: enginetest.BenchTable()}))
			w, err := postgres.NewDriverWriter(b.Context(), db, enginetest.BenchTable())
			must(b, err)
			defer w.Close()
			enginetest.BenchBatches(b, w, batch)
		})
		b.Run(fmt.Sprintf("postgres/batch=%d/messages", batch), func(b *testing.B) { enginetest.BenchWriter(b, open(b), engine.Multi, batch, nil) })
	}
}

// copyData loads each element of lines by COPY.
func copyData(b *testing.B, db engine.DB, table, columns string, lines [][]byte) {
	c, err := db.(*postgres.DB).Dial(b.Context())
	must(b, err)
	defer c.Close(b.Context())
	for _, text := range lines {
		_, err := c.CopyFrom(b.Context(), bytes.NewReader(text), fmt.Sprintf("COPY %s (%s) FROM STDIN", table, columns))
		must(b, err)
	}
}

func openStager(t testing.TB) engine.Stager { return open(t) }

// BenchmarkStage fills a table with three secondary indexes, by a staging, and by COPY and
// CREATE INDEX alone, which is the ceiling.
func BenchmarkStage(b *testing.B) { enginetest.BenchStage(b, openStager, copyData) }

// BenchmarkLoader inserts rows with new keys, by a loader and by COPY alone.
func BenchmarkLoader(b *testing.B) { enginetest.BenchLoader(b, openStager, copyData) }
