package bench

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestScheduleDue(t *testing.T) {
	for name, c := range map[string]struct {
		rate  float64
		batch int
		n     int64
		want  time.Duration
	}{
		"first":           {1000, 100, 0, 0},
		"second":          {1000, 100, 1, 100 * time.Millisecond},
		"an hour on":      {1000, 100, 36000, time.Hour},
		"a third":         {3, 1, 1, 333333333},
		"no drift":        {3, 1, 3e9, 1e9 * time.Second},
		"less than 1 ns":  {1e10, 1, 15, 2},
		"far less":        {1e300, 1, 1e12, 0},
		"first, too slow": {math.SmallestNonzeroFloat64, 1, 0, 0},
		"too slow":        {math.SmallestNonzeroFloat64, 1, 1, math.MaxInt64},
		"beyond a clock":  {1e-9, 1, 10, math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			if got := newSchedule(c.rate, c.batch, 0).due(c.n); got != c.want {
				t.Errorf("due at %v, want %v", got, c.want)
			}
		})
	}
}

func TestSchedulePassed(t *testing.T) {
	for name, c := range map[string]struct {
		rate    float64
		batch   int
		ops     int64
		elapsed time.Duration
		want    int64
	}{
		"closed loop":       {0, 100, 0, time.Hour, 0},
		"at the start":      {1000, 100, 0, 0, 1},
		"before the second": {1000, 100, 0, 100*time.Millisecond - 1, 1},
		"at the second":     {1000, 100, 0, 100 * time.Millisecond, 2},
		"rounded down":      {3, 1, 0, 333333333, 2},
		"rounded up":        {3, 1, 0, 666666667, 3},
		"less than 1 ns":    {1e10, 1, 0, 2, 25}, // due rounds 2.4 ns down to 2
		"no more than all":  {1000, 100, 7, time.Hour, 7},
		"not started":       {1000, 100, 7, -1, 0},
		"far too fast":      {1e300, 1, 0, time.Second, math.MaxInt64},
		"far too fast, all": {1e300, 1, 5, time.Second, 5},
		"far too slow":      {math.SmallestNonzeroFloat64, 1, 0, 24 * time.Hour, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := newSchedule(c.rate, c.batch, c.ops).passed(c.elapsed); got != c.want {
				t.Errorf("%d are due, want %d", got, c.want)
			}
		})
	}
}

// TestScheduleAgrees checks that passed agrees with due, at the time of any
// operation and close to it.
func TestScheduleAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := math.Exp(rapid.Float64Range(-10, 25).Draw(t, "log rate"))
		s := newSchedule(rate, rapid.IntRange(1, 10000).Draw(t, "batch"), 0)
		n := rapid.Int64Range(1, 1e9).Draw(t, "n")
		at := s.due(n)
		if at == math.MaxInt64 {
			t.Skip("beyond a clock")
		}
		if at < s.due(n-1) {
			t.Fatalf("operation %d is due before the one before it", n)
		}
		if got := s.passed(at); got < n+1 || s.due(got-1) > at || s.due(got) <= at {
			t.Fatalf("%d are due when operation %d is", got, n)
		}
		if at > s.due(n-1) && s.passed(at-1) != n {
			t.Fatalf("%d are due just before operation %d is", s.passed(at-1), n)
		}
	})
}

// TestMarks checks that each mark is at its hundredth, for any batches and any
// order of the clients.
func TestMarks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.OneOf(rapid.Int64Range(100, 2000), rapid.Int64Range(1e17, math.MaxInt64)).Draw(t, "rows")
		batch := rapid.Int64Range(max(1, rows/700), rows).Draw(t, "batch")
		m := newMarks(rows)
		type step struct{ from, to int64 }
		var steps []step
		for at := int64(0); at < rows; at += batch {
			steps = append(steps, step{at, at + min(batch, rows-at)})
			if at > rows-batch {
				break
			}
		}
		next := int64(0)
		for _, i := range rapid.Permutation(steps).Draw(t, "order") {
			m.pass(i.from, i.to, time.Duration(i.to))
		}
		// Calling pass only at marks, in order, gives the same result.
		again := newMarks(rows)
		for _, i := range steps {
			if i.to >= next {
				next = again.pass(i.from, i.to, time.Duration(i.to))
			}
		}
		for i := range hundredths {
			hundredth := m.mark(i)
			if exact := float64(rows) * float64(i+1) / 100; math.Abs(float64(hundredth)-exact) > 1+exact/1e12 {
				t.Fatalf("mark %d is at %d rows of %d", i, hundredth, rows)
			}
			at := m.at[i].Load()
			if at < hundredth || at-hundredth >= batch || at != again.at[i].Load() {
				t.Fatalf("mark %d of %d rows, batches of %d: at %d and %d", hundredth, rows, batch, at, again.at[i].Load())
			}
		}
		if m.mark(hundredths-1) != rows {
			t.Fatalf("the last mark is at %d of %d", m.mark(hundredths-1), rows)
		}
	})
}

func TestMarksTake(t *testing.T) {
	m := newMarks(1000)
	m.pass(0, 10, 5*time.Second)
	m.pass(20, 30, 7*time.Second)
	if got := m.take(time.Minute); len(got) != 1 || got[0] != [2]float64{10, 5} {
		t.Errorf("got %v, want the first mark only: the second isn't noted yet", got)
	}
	m.pass(10, 20, 4*time.Second) // by a client that was delayed
	if got := m.take(6 * time.Second); len(got) != 1 || got[0] != [2]float64{20, 5} {
		t.Errorf("got %v, want the second mark, not before the first", got)
	}
	if got := m.take(7 * time.Second); len(got) != 1 || got[0] != [2]float64{30, 7} {
		t.Errorf("got %v, want the third", got)
	}
	at0 := newMarks(1000)
	at0.pass(0, 10, 0) // a clock may stand still
	if got := at0.take(time.Second); len(got) != 1 {
		t.Errorf("got %v, want a mark at 0", got)
	}
	none := newMarks(99)
	none.pass(0, 99, 1)
	if got := none.take(time.Minute); got != nil {
		t.Errorf("got %v of a run too short for marks", got)
	}
}
