package lane

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestPace simulates servers, and checks that the size of batches settles where it should.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		name        string
		took        func(rows int) time.Duration
		least, most int // of the size after 200 batches
	}{
		{"each transaction costs 5 ms", func(rows int) time.Duration { return 5*time.Millisecond + time.Duration(rows)*time.Microsecond }, 20000, 40000},
		{"nothing is gained", func(rows int) time.Duration { return time.Duration(rows) * time.Microsecond }, 5000, 10000},
		{"rows are slow", func(rows int) time.Duration { return time.Duration(rows) * 100 * time.Microsecond }, 625, 2000},
		{"everything is slow", func(rows int) time.Duration { return time.Second }, 625, 625},
	} {
		p := newPace(5000)
		for range 200 {
			rows := p.limit()
			p.sent(int64(rows), c.took(rows), false)
		}
		if n := p.limit(); n < c.least || n > c.most {
			t.Errorf("%s: %d rows, want %d to %d", c.name, n, c.least, c.most)
		}
	}
	p := newPace(5000)
	for range 20 {
		p.sent(10, 5*time.Millisecond, false) // too few to say anything
	}
	if n := p.limit(); n != 5000 {
		t.Errorf("after small batches: %d rows", n)
	}
	p.sent(5000, 5*time.Millisecond, true)
	if n := p.limit(); n != 2500 {
		t.Errorf("after a deadlock: %d rows", n)
	}
}

// TestPaceOfOptions: batches of a number of rows that was asked for don't adapt.
func TestPaceOfOptions(t *testing.T) {
	db := testdb.Open(t, "sqlite").(engine.Keeper)
	for rows, want := range map[int]int{0: 2 * DefaultRows, 100: 100} {
		l, err := New(&Sending{DB: db, Reading: format.Reading{Table: &engine.Table{Name: "readings"}}, Bad: filepath.Join(t.TempDir(), "bad"), Rows: rows}, nil)
		must(t, err)
		l.pace.sent(int64(l.pace.limit()), time.Millisecond, false)
		if n := l.pace.limit(); n != want {
			t.Errorf("with %d rows asked for, batches have %d, want %d", rows, n, want)
		}
	}
}
