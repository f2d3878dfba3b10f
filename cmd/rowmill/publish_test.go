package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
)

// onStagers runs a test on the servers that have stagings.
func onStagers(t *testing.T, fn func(l *loading)) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, server string) {
		l := newLoading(t, server)
		if _, is := l.db.(engine.Stager); !is {
			t.Skip("it has no stagings yet")
		}
		fn(l)
	})
}

// A published is a file for several periods, and the expected result of loading it.
type published struct {
	text string
	want []string         // the rows that can be loaded
	bad  map[int64]string // those that can't
	dups int
	// later is the other row of the key that two rows have, and either reports that it may be the one
	// that is loaded: several writers send live batches in any order.
	later  string
	either bool
	// there is how many of them are in the table before.
	there int
}

// publishedRows returns a file of n shuffled rows. In hour 1 two rows have one key, in hour 2 the
// server refuses a row, in hour 3 one is invalid, and one lies outside every period that may be
// created.
func publishedRows(n int) published {
	var lines []string
	p := published{bad: map[int64]string{}}
	at := time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC)
	for i := range n {
		hour := i * 6 / n
		ts := at.Add(time.Duration(hour)*time.Hour + time.Duration(i*7%3600)*time.Second).Format("2006-01-02 15:04:05")
		lines = append(lines, fmt.Sprintf("%d,%s,0.5,n%d", i, ts, i%10))
		p.want = append(p.want, fmt.Sprintf("%d %s n%d", i, ts, i%10))
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	again := lines[n/2]
	for _, l := range lines {
		if strings.Contains(l, " 01:") {
			again = l
			break
		}
	}
	more := []struct{ line, bad string }{
		{again[:strings.LastIndex(again, ",")] + ",twice", ""},
		{"99999999999,2026-03-29 02:00:00,0.5,much too long", ""},
		{"x,2026-03-29 03:00:00,0.5,n", "integer"},
		{"-2,2027-03-29 03:00:00,0.5,n", "too far in the future"},
	}
	p.dups = 1
	fields := strings.Split(again, ",")
	p.later = fields[0] + " " + fields[1] + " twice"
	for i, m := range more {
		place := len(lines) - i*len(lines)/4
		lines = slices.Insert(lines, place, m.line)
	}
	for i, l := range lines {
		for _, m := range more {
			if l == m.line && m.line != more[0].line {
				p.bad[int64(i+2)] = m.bad
			}
		}
	}
	p.text = "sensor,ts,value,note\n" + strings.Join(lines, "\n") + "\n"
	return p
}

// TestPublishKilledBeforeItsPeriods: a load dies when batches are recorded and no period is. One
// writer then keeps the first row of a key.
func TestPublishKilledBeforeItsPeriods(t *testing.T) {
	onStagers(t, func(l *loading) {
		p := publishedRows(300)
		l.write("all.csv", p.text)
		const args = "all.csv --lane publish --batch 50 --writers 1"
		l.kill(1, "", args)
		l.has("", "SELECT lower_pos FROM rowmill_publications")
		l.prints(exitFailed, args, "304 rows", "300 inserted, 1 already present")
		p.check(l, "all.csv")
	})
}

// check compares the table, its roll-up, the bad rows and what rowmill knows of the file.
func (p published) check(l *loading, name string) {
	l.Helper()
	got, want := sorted(l.rows()), sorted(p.want)
	if _, is := slices.BinarySearch(got, p.later); is && p.either {
		first, _ := slices.BinarySearch(want, p.later[:strings.LastIndex(p.later, " ")])
		want[first] = p.later
	}
	if !slices.Equal(got, want) {
		l.Errorf("%d rows, want %d:\n%s", len(got), len(want), cmp.Diff(want, got))
	}
	l.refused(name, p.bad)
	l.prints(exitDone, "--list", "loaded  "+figure.Count(p.sent()))
	l.has("", "SELECT lower_pos FROM rowmill_publications")
	l.has("", "SELECT id FROM rowmill_journal")
	l.has(fmt.Sprintf("%d %d %d %d", p.sent(), len(p.want)-p.there, p.dups+p.there, len(p.bad)), "SELECT sent, inserted, duplicate, rejected FROM rowmill_sources WHERE rejected > 0")
	l.tick(loadStart.Add(6 * time.Hour))
	mustPass(l.T, l.run("run", "--once"))
	buckets := map[string]int{}
	for _, row := range p.want {
		at, err := time.Parse(time.DateTime, strings.Join(strings.Fields(row)[1:3], " "))
		must(l, err)
		buckets[at.Truncate(15*time.Minute).Format("2006-01-02 15:04")]++
	}
	level, err := l.db.Describe(l.Context(), "readings_15m")
	must(l, err)
	for _, row := range l.query("SELECT " + l.db.Words().AsText(*level.Column("bucket")) + ", n FROM readings_15m") {
		at, n := row[:len("2006-01-02 15:04")], row[strings.LastIndex(row, " ")+1:]
		if fmt.Sprint(buckets[at]) != n {
			l.Errorf("the roll-up has %s rows at %s, want %d", n, at, buckets[at])
		}
		delete(buckets, at)
	}
	if len(buckets) > 0 {
		l.Errorf("the roll-up lacks %v", buckets)
	}
	l.prints(exitDone, name, "nothing to do")
}

// sent is the number of rows of the file.
func (p published) sent() int { return len(p.want) + len(p.bad) + p.dups }

func sorted(rows []string) []string { return slices.Sorted(slices.Values(rows)) }

// TestPublish publishes a file for six periods, one of which holds rows.
func TestPublish(t *testing.T) {
	onStagers(t, func(l *loading) {
		p := publishedRows(600)
		l.write("all.csv", p.text)
		at := time.Date(2026, 3, 29, 4, 0, 1, 0, time.UTC)
		l.insert(at, 1) // 20 rows of hour 4, of sensors 0 to 2
		l.prints(exitFailed, "all.csv --lane publish", "604 rows", "600 inserted, 1 already present (1 not compared), 3 rejected",
			"publish p20260329_00: 100 rows", "4 periods published, 401 rows", "p20260329_02: live, because", "!p20260329_04")
		for i := range 20 {
			p.want = append(p.want, fmt.Sprintf("%d %s <nil>", i%3, at.Add(time.Duration(i)*time.Second).Format("2006-01-02 15:04:05")))
		}
		if got, want := sorted(l.rows()), sorted(p.want); !slices.Equal(got, want) {
			t.Errorf("%d rows, want %d", len(got), len(want))
		}
		l.refused("all.csv", p.bad)
		l.has("", "SELECT lower_pos FROM rowmill_publications")
		l.has("", "SELECT id FROM rowmill_journal")
		l.prints(exitDone, "all.csv", "nothing to do")
	})
}

// TestSmallFileIsInserted: a publication of rows that fit in memory with their only index takes
// longer than inserts.
func TestSmallFileIsInserted(t *testing.T) {
	onStagers(t, func(l *loading) {
		const rows = 21000
		text := []byte("sensor,ts,value,note,more\n")
		for i := range rows {
			text = fmt.Appendf(text, "%d,2026-03-29 01:00:00,0.5,n,%0200d\n", i, i)
		}
		l.write("a.csv", string(text))
		l.prints(exitDone, "a.csv --skip-columns more --dry-run", "period p20260329_01: 21,000 rows, live, the file is small, and the table has few indexes")
		l.prints(exitDone, "a.csv --skip-columns more --dry-run --lane publish", "period p20260329_01: 21,000 rows, published")
		l.prints(exitDone, "a.csv --skip-columns more", "21,000 inserted", "!published")
		l.hasRows(rows)
	})
}
