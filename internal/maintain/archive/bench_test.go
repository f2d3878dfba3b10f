package archive

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkArchive writes, verifies and restores a period of 200,000 rows with
// four columns in SQLite, in rows per second.
func BenchmarkArchive(b *testing.B) {
	const rows = 200_000
	w := newWorld(b, open(b, "sqlite"), readings)
	for i := 0; i < rows; i += 500 {
		var values []string
		for j := i; j < i+500; j++ {
			values = append(values, fmt.Sprintf("(%d, '2026-11-20 %02d:%02d:%02d', %d.25, 'note %d')", j, j/3600%24, j/60%60, j%60, j*7919%1000003, j%1000))
		}
		w.exec("INSERT INTO readings VALUES " + strings.Join(values, ", "))
	}
	per := func(b *testing.B) { b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s") }
	dir := b.TempDir()
	f := w.write()
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			w.dir = filepath.Join(dir, fmt.Sprint(i))
			f = w.write()
		}
		per(b)
		b.ReportMetric(float64(f.Bytes)/rows, "bytes/row")
	})
	b.Run("verify", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if _, err := Verify(b.Context(), f.Path); err != nil {
				b.Fatal(err)
			}
		}
		per(b)
	})
	b.Run("restore", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			w.exec("DROP TABLE IF EXISTS back")
			w.template("back")
			if _, err := Restore(b.Context(), w.db, w.table, w.s, f.Path, "back", nil); err != nil {
				b.Fatal(err)
			}
		}
		per(b)
	})
}
