//go:build unix

package postgres_test

import (
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
