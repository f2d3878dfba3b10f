package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
)

// TestNow: what is due is done at once, by the command, or by the process that keeps the table,
// which would look at it in an hour.
func TestNow(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, kind string) {
		d := declare(t, kind, intsTable+"[period]\nevery = \"1h\"\nahead = \"40h\"\nkeep = \"4h\"\n[seal]\nafter = \"1h\"\n[[rollup]]\nname = \"readings_1h\"\nevery = \"1h\"\nselect = { n = \"count(*)\" }\n")
		start := time.Date(2026, 3, 20, 12, 10, 0, 0, time.UTC)
		d.tick(start)
		wantDone(t, d.run("apply", "--yes"))
		for n := range 10 {
			d.insert(start.Add(time.Duration(n)*time.Hour), 1)
		}
		now := func(work string, args ...string) session {
			t.Helper()
			return rowmill(t.Context(), append([]string{"now", work, d.file, "--clock", d.clock}, args...)...)
		}
		says := func(s session, code int, stdout, stderr string) {
			t.Helper()
			if s.code != code || !regexp.MustCompile(stdout).MatchString(s.stdout) || !strings.Contains(s.stderr, stderr) {
				t.Errorf("exit %d, want %d with %q and %q:\n%s%s", s.code, code, stdout, stderr, s.stdout, s.stderr)
			}
		}
		says(now("drop", "--yes"), exitDone, `^readings: no period has passed retention\n$`, "")
		d.tick(start.Add(5 * time.Hour))
		wantDone(t, rowmill(t.Context(), "pause", d.file, "--for", "1h", "--reason", "an audit"))
		says(now("drop", "--yes"), exitFailed, "^$", "all of table readings is paused until ")
		wantDone(t, rowmill(t.Context(), "resume", d.file))
		says(now("drop"), exitUsage, "^$", "1. drop p20260320_12\n")
		says(now("rollup"), exitDone, `^rollup 5 buckets \(`, "")
		says(now("seal"), exitDone, `^(seal p\w+: 20 rows \(\w+\)\n){4}$`, "")
		says(now("seal"), exitDone, "^readings: nothing is due\n$", "")
		says(now("drop", "--yes"), exitDone, `^drop p20260320_12: 20 rows \(\w+\)\n$`, "1. drop p20260320_12: 20 rows\n")

		r := startMany(t, d.file, "--clock", d.clock, "--interval", "1h")
		r.waits(1, " keeps readings on", time.Minute)
		d.tick(start.Add(6 * time.Hour))
		says(now("drop", "--yes"), exitDone, `^(seal p.*\n)?drop p20260320_13: 20 rows \(\w+\)\n$`, "")
		r.waits(1, " drop p20260320_13: 20 rows", time.Second)
		if left, err := state.New(d.db).Requests(t.Context()); err != nil || len(left) > 0 {
			t.Errorf("requests %+v, %v are left", left, err)
		}
		must(t, r.cmd.Process.Kill())
		d.tick(start.Add(7 * time.Hour))
		says(now("seal"), exitDone, `^seal p20260320_17: 20 rows \(\w+\)\n$`, "")
	})
}

// TestNowAsks: a request that nobody takes is withdrawn, with the process that was to; if that ends
// meanwhile, the command does the work.
func TestNowAsks(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, kind string) {
		d := declare(t, kind, intsTable+"[period]\nevery = \"1h\"\n[seal]\nafter = \"1h\"\n")
		start := time.Date(2026, 3, 20, 12, 10, 0, 0, time.UTC)
		d.tick(start)
		wantDone(t, d.run("apply", "--yes"))
		d.insert(start, 1)
		d.tick(start.Add(3 * time.Hour))
		must(t, state.New(d.db).Beat(t.Context(), "readings"))
		lease, err := d.db.Lead(t.Context(), "readings/keep")
		must(t, err)
		ended := make(chan session, 1)
		go func() { ended <- rowmill(t.Context(), "now", "seal", d.file, "--clock", d.clock) }()
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			if asked, err := state.New(d.db).Requests(t.Context()); err != nil || len(asked) == 1 && asked[0].Work == "seal" {
				must(t, err)
				break
			} else if time.Now().After(end) {
				t.Fatalf("asked for %+v", asked)
			}
		}
		if s := rowmill(t.Context(), "now", "seal", d.file, "--clock", d.clock); s.code != exitFailed || !strings.Contains(s.stderr, engine.Process()+" has asked for seal of table readings already") {
			t.Errorf("asked twice: exit %d: %s%s", s.code, s.stdout, s.stderr)
		}
		must(t, lease.Release())
		if s := <-ended; s.code != exitDone || !strings.HasPrefix(s.stdout, "seal p20260320_12: 20 rows (") {
			t.Errorf("exit %d: %s%s", s.code, s.stdout, s.stderr)
		}
		lease, err = d.db.Lead(t.Context(), "readings/keep")
		must(t, err)
		defer lease.Release()
		if s := rowmill(t.Context(), "now", "seal", d.file, "--clock", d.clock); s.code != exitFailed || !strings.Contains(s.stderr, engine.Process()+" works on table readings, and has not taken the request in 15s") {
			t.Errorf("exit %d: %s%s", s.code, s.stdout, s.stderr)
		}
		if asked, err := state.New(d.db).Requests(t.Context()); err != nil || len(asked) > 0 {
			t.Errorf("still asked for %+v, %v", asked, err)
		}
	})
}
