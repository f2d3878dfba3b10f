package adopt

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/testdb"
)

// rowsVariable sets the number of rows of TestShowAdoption; docs/adopt.md uses
// 2000000.
const rowsVariable = "ROWMILL_ADOPT_ROWS"

// TestShowAdoption adopts a large table under a load of inserts and some other
// changes: the rows are equal, and no statement fails.
func TestShowAdoption(t *testing.T) {
	rows := int64(3000)
	if s := os.Getenv(rowsVariable); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		rows = n
	} else if testdb.Nightly() {
		rows = 20000
	}
	onServers(t, func(t *testing.T, w *world) {
		if w.kind == "sqlite" && rows > 100000 {
			t.Skip("a file has one writer at a time")
		}
		w.fill(rows)
		w.changing = 0.05
		stop := w.load(4, rows)
		w.wrote(50)
		o := w.options()
		o.Chunk = 0
		steps := map[string]time.Duration{}
		stalls := map[string]time.Duration{}
		step, began := "", time.Now()
		count := 0
		o.Progress = func(p Progress) {
			if p.Step == step {
				return
			}
			w.mu.Lock()
			steps[step], stalls[step] = time.Since(began), w.stall
			step, began, w.stall = p.Step, time.Now(), 0
			if p.Step == stepCopy {
				count = w.count
			}
			w.mu.Unlock()
		}
		all := time.Now()
		if err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		took := time.Since(all)
		w.wrote(50)
		stop()
		stalls[stepClean] = max(stalls[stepClean], w.stall)
		w.check("events")
		c, err := UnderWay(t.Context(), o.State, "events")
		if err != nil || c == nil {
			t.Fatal(c, err)
		}
		var d data
		if err := c.Load(&d); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d rows in %v: copied in %v (%.0f rows/s), compared in %v (%.0f rows/s), %d chunks repaired; %d transactions of 4 writers meanwhile (%.0f/s), %d deadlocks among them",
			rows, took.Round(time.Millisecond), steps[stepCopy].Round(time.Millisecond), float64(rows)/steps[stepCopy].Seconds(), steps[stepVerify].Round(time.Millisecond), float64(rows)/steps[stepVerify].Seconds(),
			d.Repaired, w.count-count, float64(w.count-count)/took.Seconds(), w.deadlocks)
		t.Logf("checked in %v, triggers made in %v, names changed in %v, cleaned up in %v", steps[stepCheck].Round(time.Millisecond),
			steps[stepTriggers].Round(time.Millisecond), steps[stepSwap].Round(time.Millisecond), steps[stepClean].Round(time.Millisecond))
		t.Logf("the longest transaction of a writer: %v before, %v while triggers were made, %v while rows were copied, %v compared, %v while the names changed, %v after",
			max(stalls[""], stalls[stepCheck]).Round(time.Millisecond), stalls[stepTriggers].Round(time.Millisecond), stalls[stepCopy].Round(time.Millisecond),
			stalls[stepVerify].Round(time.Millisecond), stalls[stepSwap].Round(time.Millisecond), stalls[stepClean].Round(time.Millisecond))
		if d.Repaired > 0 {
			t.Errorf("%d chunks differed, though all that was written runs the triggers", d.Repaired)
		}
	})
}
