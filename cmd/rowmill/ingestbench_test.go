package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/ingest"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/ingest/receive"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/rolling"
)

// BenchmarkIngest measures requests of eight clients at a time until they are on disk,
// without the database. The ceiling is the disk: about eight requests share a sync.
func BenchmarkIngest(b *testing.B) {
	dir := b.TempDir()
	file, url := filepath.Join(dir, "readings.toml"), "sqlite:"+filepath.Join(dir, "x.db")
	text := strings.Replace(filled(loadDeclaration, url, dir), "$FLOAT", "DOUBLE", 1)
	writeFile(b, file, text)
	if s := rowmill(b.Context(), "apply", file, "--yes"); s.code != exitDone {
		b.Fatal(s.stderr)
	}
	d, err := rolling.ParseDeclaration(file, []byte(text))
	must(b, err)
	db := openKeeper(b, url)
	table, err := maintain.Open(b.Context(), db, d, nil)
	must(b, err)
	for _, rows := range []int{1, 100, 5000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			in, err := ingest.OpenInbox(b.Context(), ingest.Options{Spool: filepath.Join(b.TempDir(), "spool"), SpoolBytes: 64 << 30,
				Sending: lane.Sending{DB: db, Reading: format.Reading{Table: table.Table, Schema: table.Schema}, Bad: filepath.Join(dir, "bad")}})
			must(b, err)
			defer in.Close()
			h := receive.New(receive.Options{Tables: map[string]*ingest.Inbox{"readings": in}})
			var body strings.Builder
			body.WriteString("sensor,ts,value,note\n")
			for n := range rows {
				fmt.Fprintf(&body, "%d,%s,%d.5,ok\n", n, at(n), n)
			}
			b.SetBytes(int64(body.Len()))
			b.SetParallelism(4) // clients per processor
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					w := httptest.NewRecorder()
					h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/write/readings?format=csv", strings.NewReader(body.String())))
					if w.Code != http.StatusAccepted {
						b.Error(w.Code, w.Body)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
			b.ReportMetric(float64(b.N*rows)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
