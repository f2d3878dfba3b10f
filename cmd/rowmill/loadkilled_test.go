package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
)

// privateServer starts a small server that the test may kill.
func privateServer(t *testing.T, kind string) *sandbox.Server {
	t.Helper()
	s, err := sandbox.Start(t.Context(), sandbox.Options{Kind: kind, Memory: 64 << 20, Redo: 64 << 20, Root: t.TempDir()}, nil)
	must(t, err)
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// disturbed runs command and, unless it has ended by then, calls fn after a time. It must end
// within two minutes more.
func (l *loading) disturbed(n int, args string, after time.Duration, fn func(*os.Process)) session {
	l.Helper()
	c := l.command(n, args)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	must(l, c.Start())
	defer c.Process.Kill()
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case <-ended:
	case <-time.After(after):
		fn(c.Process)
		select {
		case <-ended:
		case <-time.After(2 * time.Minute):
			_ = c.Process.Signal(syscall.SIGQUIT)
			<-ended
			l.Fatalf("load %s hangs:\n%s", args, stderr.String())
		}
	}
	return session{c.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// killedLanes are the lanes whose loads TestTrapLoadKilled kills. If half is set, the table has
// half of the file's rows before, in periods that are over.
var killedLanes = []struct {
	name, args string
	half       bool
}{
	{"live", "--lane live --batch 50", false},
	{"publish", "--lane publish --batch 100 --parallel 2", false},
	{"merge", "--lane merge --batch 100 --parallel 2", true},
}

// TestTrapLoadKilled kills the loader, its server, or both, in each lane: the loader at a random
// point of its changes or at a random time, the server at a random time or with the loader. The
// load is repeated until it is done. Then every row must be in the table once, also by the counts
// of the ledger, and the roll-ups must have all of them.
func TestTrapLoadKilled(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, server string) {
		kills, seed := 2, uint64(5) // ten on two databases
		var private *sandbox.Server
		url, victims := "", 1
		if server == "sqlite" {
			url = testdb.Target(t, server).String()
		} else {
			private = privateServer(t, server)
			url, victims = private.Target(), 3
		}
		if testdb.Nightly() {
			kills, seed = 60, rand.Uint64()
		}
		for i, lane := range killedLanes {
			t.Run(lane.name, func(t *testing.T) {
				l := newLoadingAt(t, server, url)
				if _, is := l.db.Words().(engine.MergeWords); !is && lane.half {
					t.Skip("its periods can't be merged with rows")
				}
				l.killedUntil(kills, victims, lane.args+" --retry 60s", lane.half, rand.New(rand.NewPCG(seed, uint64(i))), private)
			})
		}
	})
}

// killedUntil loads files until there were so many kills, of the first of the victims loader,
// server, and both, and the last file is loaded. With half, half of its rows are there before.
func (l *loading) killedUntil(kills, victims int, args string, half bool, r *rand.Rand, private *sandbox.Server) {
	l.Helper()
	restart := func() {
		private.Kill()
		must(l, private.Restart(l.Context()))
	}
	p, took, done, finished := publishedRows(1500), time.Second, map[int]int{}, 0
	var history []string // of the present file
	defer func() {
		if l.Failed() {
			l.Logf("after %v kills:\n%s", done, strings.Join(history, "\n"))
		}
	}()
	l.write("all.csv", p.text)
	if half {
		p.there = len(p.want) / 2
		l.halfThere(p)
	}
	for n := 0; n < kills || len(history) > 0; {
		victim, point, at := -1, 0, 2*time.Minute
		if n < kills {
			victim, at = r.IntN(victims), time.Duration(r.Int64N(int64(took)))
			if victim != 1 && r.IntN(2) == 0 {
				point, at = 1+r.IntN(40), 2*time.Minute
			}
		}
		began, hit := time.Now(), false
		s := l.disturbed(point, "all.csv "+args, at, func(loader *os.Process) {
			if victim != 1 {
				_ = loader.Kill() // it may have ended
			}
			if hit = victim > 0; hit {
				restart()
			}
		})
		if s.code < 0 && !hit {
			if hit = true; victim > 0 {
				restart()
			}
		}
		history = append(history, fmt.Sprintf("victim %d, point %d, after %v of %v: exit %d: %s%s", victim, point, at, took, s.code, s.stdout, s.stderr))
		if hit {
			n++
			done[victim]++
		} else {
			took = max(min(took, time.Since(began)), 200*time.Millisecond)
		}
		switch said := s.stdout + s.stderr; {
		case s.code < 0:
			if victim < 0 {
				l.Fatal("it takes more than two minutes")
			}
		case s.code == exitDone || s.code == exitFailed && strings.Contains(said, "couldn't be loaded"):
			finished++
			l.loads(exitDone, "Finished true", "all.csv "+args)
			// A load that dies before it has noted its periods sends what it has recorded live. If all rows
			// of hour 1 were published, it didn't.
			together := strings.Contains(strings.Join(history, "\n"), fmt.Sprintf("publish p20260329_01: %d rows", len(p.want)/6+1))
			p.either = strings.Contains(args, "--lane live") || strings.Contains(args, "--lane publish") && len(history) > 1 && !together
			if p.check(l, "all.csv"); l.Failed() {
				return // with the history of this file
			}
			history = nil
			if l.anew("all.csv"); half && n < kills {
				l.halfThere(p)
			}
		case !strings.Contains(said, "another process"): // whose end the server hasn't noticed yet
			l.Fatalf("exit %d", s.code)
		}
	}
	l.Logf("%d kills: %d of the loader, %d of the server, %d of both; %d loads completed", kills, done[0], done[1], done[2], finished)
}

// anew drops the table, applies it again, and removes the bad rows of a file.
func (l *loading) anew(name string) {
	l.Helper()
	must(l, l.db.Apply(l.Context(), engine.DropTable{Table: l.table, Partitions: l.periods(), Views: []string{"readings_15m_live"}}))
	if l.Failed() {
		l.FailNow()
	}
	must(l, os.Remove(filepath.Join(l.dir, name+".bad.jsonl")))
	l.tick(loadStart)
	mustPass(l.T, l.run("apply", "--yes"))
}
