package main

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest"
)

func TestProgressOfLoad(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		p    ingest.Progress
		dry  bool
		want string
	}{
		"nothing yet": {p: ingest.Progress{Size: 4 << 20, Elapsed: time.Second}, want: "0 rows, 0 rows/s, 0% of 4 MiB loaded"},
		"a quarter": {p: ingest.Progress{Rows: 1000, Bytes: 1 << 20, Size: 4 << 20, Sent: 1 << 20, Sending: 10 * time.Second, Elapsed: 12 * time.Second},
			want: "1,000 rows, 100 rows/s, 25% of 4 MiB loaded, 30s left"},
		"three quarters, half of them before": {p: ingest.Progress{Rows: 1000, Bytes: 3 << 20, Size: 4 << 20, Sent: 1 << 20, Sending: 10 * time.Second, Elapsed: 60 * time.Second},
			want: "1,000 rows, 100 rows/s, 75% of 4 MiB loaded, 10s left"},
		"all but a little": {p: ingest.Progress{Rows: 1000, Bytes: 4<<20 - 1, Size: 4 << 20, Sent: 4<<20 - 1, Sending: 10 * time.Second, Elapsed: 10 * time.Second},
			want: "1,000 rows, 100 rows/s, 99% of 4 MiB loaded, 0s left"},
		"all of a dry run":     {p: ingest.Progress{Rows: 10, Bytes: 5 << 20, Size: 4 << 20, Sent: 5 << 20, Sending: 2 * time.Second, Elapsed: 2 * time.Second}, dry: true, want: "10 rows, 5 rows/s, 100% of 4 MiB checked"},
		"a stream, in a spool": {p: ingest.Progress{Rows: 10, Waiting: 1 << 20, Full: 3 * time.Second, Elapsed: 2 * time.Second}, want: "10 rows, 5 rows/s, 1 MiB in the spool, which is full: the sender has been waiting for 3s"},
	} {
		if got := c.p.Text(c.dry); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestLoadProgressIsWhatIsAcknowledged checks that progress is measured by the rows
// that the server has acknowledged, not by those read: a file in memory is read in an
// instant.
func TestLoadProgressIsWhatIsAcknowledged(t *testing.T) {
	t.Parallel()
	f := loadRows(0, 3000, false)
	// A file is decompressed at most 4 KiB ahead of the rows, which is a quarter of
	// this file.
	for name, most := range map[string]float64{"day.csv": 0.25, "day.csv.gz": 0.5} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLoading(t, "sqlite")
			text := f.text
			if name != "day.csv" {
				text = pack(t, name, text)
			}
			path := l.write(name, text)
			db := &gated{Keeper: l.db, stands: make(chan bool), open: make(chan bool)}
			o := l.options(db)
			o.Rows, o.Writers, o.Every = 300, 1, 5*time.Millisecond
			seen := make(chan ingest.Progress, 1)
			o.Progress = func(p ingest.Progress) {
				select {
				case <-seen:
				default:
				}
				seen <- p
			}
			done := make(chan error, 1)
			go func() {
				_, err := ingest.File(t.Context(), o, path)
				done <- err
			}()
			select {
			case err := <-done:
				t.Fatal(err)
			case <-db.stands:
			}
			// Two batches of ten are committed. The first report may be older.
			var p ingest.Progress
			for range 3 {
				p = <-seen
			}
			if share := float64(p.Bytes) / float64(p.Size); p.Rows != 600 || share < 0.15 || share > most || p.Sent != p.Bytes || p.Sending <= 0 {
				t.Errorf("%+v, %.2f of the file; two tenths are committed", p, share)
			}
			if line := p.Text(false); !strings.Contains(line, "loaded") || strings.Contains(line, "100%") {
				t.Errorf("it says %s", line)
			}
			close(db.open)
			for err := error(nil); ; {
				select {
				case err = <-done:
				case <-seen:
					continue
				}
				if err != nil {
					t.Error(err)
				}
				break
			}
		})
	}
}

// A gated database accepts two batches, and further ones once it is opened.
type gated struct {
	engine.Keeper
	batches      atomic.Int64
	stands, open chan bool
}

func (g *gated) Loader(ctx context.Context) (engine.Loader, error) {
	l, err := g.Keeper.Loader(ctx)
	return &gatedLoader{l, g}, err
}

type gatedLoader struct {
	engine.Loader
	db *gated
}

func (l *gatedLoader) Begin(ctx context.Context) error {
	if n := l.db.batches.Add(1); n == 3 {
		close(l.db.stands)
		<-l.db.open
	}
	return l.Loader.Begin(ctx)
}
