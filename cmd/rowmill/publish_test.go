package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
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
}

// publishedRows returns a file of n shuffled rows. In hour 1 two rows have one key, in hour 2
// the server refuses a row, in hour 3 one is invalid, and one lies outside every period that may be created.
func publishedRows(n int) published {
	var lines []string
	p := published{bad: map[int64]string{}}
	at := time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC)
	for i := range n {
		hour := i * 6 / n
		ts := at.Add(time.Duration(hour)*time.Hour + time.Duration(i%3600)*time.Second).Format("2006-01-02 15:04:05")
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

// check compares the table, its roll-up, the bad rows and what rowmill knows of the file.
func (p published) check(l *loading, name string) {
	l.Helper()
	if got, want := sorted(l.rows()), sorted(p.want); !slices.Equal(got, want) {
		l.Errorf("%d rows, want %d", len(got), len(want))
	}
	l.refused(name, p.bad)
	l.prints(exitDone, "--list", "loaded  "+figure.Count(p.sent()))
	l.has("", "SELECT lower_pos FROM rowmill_publications")
	l.has("", "SELECT id FROM rowmill_journal")
	l.tick(loadStart.Add(6 * time.Hour))
	mustPass(l.T, l.run("run", "--once"))
	l.has(fmt.Sprint(len(p.want)), "SELECT SUM(n) FROM readings_15m")
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
			"period p20260329_00: published, 100 rows", "p20260329_02: live, because", "!p20260329_04")
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

// TestPublishKilled kills rowmill load at random points. Then every row must be in the
// table once, and the roll-ups must have all of them.
func TestPublishKilled(t *testing.T) {
	onStagers(t, func(l *loading) {
		kills, most := 0, 8
		if testdb.Nightly() {
			most = 60
		}
		r := rand.New(rand.NewPCG(3, uint64(len(l.server))))
		p := publishedRows(600)
		const args = "all.csv --lane publish --batch 100 --parallel 2"
		for kills < most {
			l.write("all.csv", p.text)
			for kills < most && l.killed(1+r.IntN(20), "", args) {
				kills++
			}
			l.loads(anyCode, "Finished true", args)
			p.check(l, "all.csv")
			l = newLoading(t, l.server)
		}
	})
}

// TestLoadBesideKilledServer kills the loader, its server, or both at random times, in both
// lanes. Then every row must be in the table once, and the roll-ups must have all of them.
func TestLoadBesideKilledServer(t *testing.T) {
	testdb.SkipUnlessNightly(t, "TestPublishKilled and TestKillServer")
	const kills = 20
	for _, server := range testdb.Kinds(t, servers...) {
		for _, lane := range []string{"live", "publish"} {
			t.Run(server+" "+lane, func(t *testing.T) {
				t.Parallel()
				private, err := sandbox.Start(t.Context(), sandbox.Options{Kind: server, Memory: 64 << 20, Redo: 64 << 20, Root: t.TempDir()}, nil)
				must(t, err)
				t.Cleanup(func() {
					if err := private.Stop(context.Background()); err != nil {
						t.Error(err)
					}
				})
				l := newLoadingAt(t, server, private.Target())
				p := publishedRows(30000)
				l.write("all.csv", p.text)
				r := rand.New(rand.NewPCG(5, uint64(len(server+lane))))
				args := "all.csv --batch 500 --retry 60s --lane " + lane
				took := 4 * time.Second
				for n, finished := 0, 0; n < kills || finished == 0; {
					c := l.command(0, args)
					var said bytes.Buffer
					c.Stdout, c.Stderr = &said, &said
					began := time.Now()
					must(t, c.Start())
					ended := make(chan error, 1)
					go func() { ended <- c.Wait() }()
					select {
					case <-ended:
					case <-time.After(time.Duration(r.Int64N(int64(took)))):
						victim := r.IntN(3)
						if n >= kills {
							victim = -1
						}
						if victim == 0 || victim == 2 {
							must(t, c.Process.Kill())
						}
						if victim > 0 {
							private.Kill()
							must(t, private.Restart(t.Context()))
						}
						if victim >= 0 {
							n++
						}
						<-ended
					}
					if code := c.ProcessState.ExitCode(); code == exitDone || code == exitFailed && strings.Contains(said.String(), "couldn't be loaded") {
						if victimless := time.Since(began); victimless < took {
							took = max(victimless, 200*time.Millisecond)
						}
						finished++
						l.loads(exitDone, "Finished true", args)
						p.check(l, "all.csv")
						must(t, l.db.Apply(t.Context(), engine.DropTable{Table: l.table, Views: []string{"readings_15m_live"}}))
						must(t, os.Remove(filepath.Join(l.dir, "all.csv.bad.jsonl")))
						l.tick(loadStart)
						mustPass(t, l.run("apply", "--yes"))
					} else if code >= 0 && !strings.Contains(said.String(), "not reachable") {
						t.Logf("exit %d: %.500s", code, said.String())
					}
					if t.Failed() {
						t.Fatalf("after %d kills", n)
					}
				}
			})
		}
	}
}
