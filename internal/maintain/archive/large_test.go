package archive

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/rowmill/rowmill/internal/tabular"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestRowGroups: a period of several row groups, limited by rows or by bytes,
// reads back complete, sorted, and in the expected groups.
func TestRowGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t, open(t, "sqlite"), "CREATE TABLE big (id INT NOT NULL, ts DATETIME NOT NULL, body TEXT, PRIMARY KEY (id, ts))")
	group := int64(5000)
	if testdb.Nightly() {
		group = tabular.GroupRows
	}
	rows := group*2 + group/3
	w.how.groups = group
	w.exec(fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO ", rows) +
		w.db.Words().From(w.table, w.part()) + " SELECT i * 7919 % 1000003, '2026-11-20 00:00:01', 'row ' || i FROM n")
	f := w.write()
	if got := groupsOf(t, f.Path); !slices.Equal(got, []int64{group, group, group / 3}) {
		t.Errorf("row groups of %v rows, want %d", got, group)
	}
	last := int64(-1)
	_, err := read(t.Context(), f.Path, func(_ *Info, row parquet.Row) error {
		if row[0].Int64() <= last {
			return fmt.Errorf("key %d after %d", row[0].Int64(), last)
		}
		last = row[0].Int64()
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if back, err := Verify(t.Context(), f.Path); err != nil || back.Rows != rows || back.Sum != f.Sum {
		t.Errorf("%+v, %v", back, err)
	}
}

func groupsOf(t *testing.T, path string) (rows []int64) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	i := Info{}
	p, err := i.open(f)
	must(t, err)
	for _, g := range p.RowGroups() {
		rows = append(rows, g.NumRows())
	}
	return rows
}

// TestMemory: a period many times the size of a row group is written, verified
// and restored in memory that doesn't grow with the period.
func TestMemory(t *testing.T) {
	// 200 kB each.
	rows, group := 300, int64(4<<20)
	if testdb.Nightly() {
		rows, group = 1500, tabular.GroupBytes
	}
	w := newWorld(t, open(t, "sqlite"), "CREATE TABLE big (id INT NOT NULL, ts DATETIME NOT NULL, body BLOB, PRIMARY KEY (id, ts))")
	w.how.bytes = group
	for range rows / 100 {
		w.exec("INSERT INTO " + w.db.Words().From(w.table, w.part()) +
			" WITH RECURSIVE n(i) AS (SELECT (SELECT COUNT(*) FROM " + w.db.Words().From(w.table, w.part()) + ") UNION ALL SELECT i + 1 FROM n LIMIT 100)" +
			" SELECT i, '2026-11-20 00:00:01', randomblob(200000) FROM n")
	}
	// Measure live memory, not uncollected garbage.
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	var peak atomic.Uint64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapInuse))
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	f := w.roundTrip()
	close(stop)
	<-done
	used := max(peak.Load(), before.HeapInuse) - before.HeapInuse
	// A group in compressed and in uncompressed form, batches, and uncollected
	// garbage: less than the file, and far less than the rows.
	if limit := uint64(3*group) + 80<<20; uint64(f.Bytes) < limit || used > limit {
		t.Errorf("%d bytes were written with %d bytes of memory, of which %d are allowed", f.Bytes, used, limit)
	}
	if n := len(groupsOf(t, f.Path)); n < 4 {
		t.Errorf("%d row groups", n)
	}
	t.Logf("%d MB in a file, %d MB of memory at most", f.Bytes>>20, used>>20)
}

// TestNotANumber: NaN and infinities of a column of doubles are restored, and the
// file claims no bounds for it.
func TestNotANumber(t *testing.T) {
	t.Parallel()
	w := newWorld(t, open(t, "postgres"), "CREATE TABLE odd (id INT NOT NULL, ts TIMESTAMP NOT NULL, d DOUBLE PRECISION, f REAL, big NUMERIC(30,2), PRIMARY KEY (id, ts))")
	var rows []string
	for i, v := range []string{"NaN", "Infinity", "-Infinity", "-0", "1e308", "1"} {
		f := strings.Replace(v, "1e308", "1e38", 1)
		rows = append(rows, fmt.Sprintf("(%d, '2026-11-20 00:00:01', '%s', '%s', %d.05)", i, v, f, i-3))
	}
	w.exec("INSERT INTO odd VALUES " + strings.Join(rows, ", "))
	f := w.roundTrip()
	if d, r, big := w.form(f, "d"), w.form(f, "f"), w.form(f, "big"); d != formDouble || r != formFloat || big != formDecimal {
		t.Errorf("written as %s, %s and %s", d, r, big)
	}
	file, err := os.Open(f.Path)
	must(t, err)
	defer file.Close()
	i := Info{}
	p, err := i.open(file)
	must(t, err)
	for n, c := range p.Metadata().RowGroups[0].Columns {
		s, name := c.MetaData.Statistics, i.columns[n].Name
		claims := len(s.MinValue) > 0 || len(s.MaxValue) > 0 || len(s.Min) > 0 || c.ColumnIndexLength > 0
		if want := name == "id" || name == "ts"; claims != want {
			t.Errorf("column %s claims bounds: %v, %+v", name, claims, s)
		}
	}
}
