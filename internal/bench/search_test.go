package bench_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rowmill/rowmill/internal/bench"
)

// course runs a search to its end, and returns its trials as "rate purpose".
func course(s *bench.Search, trial func(rate float64) (pass, close bool)) []string {
	var out []string
	for {
		rate, purpose, ok := s.Next()
		if !ok {
			return out
		}
		pass, near := trial(rate)
		sign := "-"
		if pass {
			sign = "+"
		}
		if near {
			sign += "?"
		}
		out = append(out, fmt.Sprintf("%.0f %s %s", rate, purpose, sign))
		s.Tell(pass, near, 0)
	}
}

// exactly is a server with an exact capacity.
func exactly(capacity float64) func(float64) (bool, bool) {
	return func(rate float64) (bool, bool) { return rate <= capacity, false }
}

func TestSearchCourse(t *testing.T) {
	for name, c := range map[string]struct {
		start, least float64
		trial        func(float64) (bool, bool)
		want         []string
		state        string
	}{
		"up": {1000, 1, exactly(1600), []string{"1000 bracket +", "1300 bracket +", "2197 bracket -",
			"1690 halve -", "1482 halve +", "1583 halve +", "1635 halve -", "1583 confirm +", "1899 above -"}, bench.SearchFound},
		"down": {1000, 1, exactly(500), []string{"1000 bracket -", "769 bracket -", "455 bracket +",
			"592 halve -", "519 halve -", "486 halve +", "502 halve -", "486 confirm +", "583 above -"}, bench.SearchFound},
		"none":          {1000, 400, exactly(10), []string{"1000 bracket -", "769 bracket -", "455 bracket -", "400 bracket -"}, bench.SearchNone},
		"guess too low": {1, 400, exactly(390), []string{"400 bracket -"}, bench.SearchNone},
	} {
		t.Run(name, func(t *testing.T) {
			s := bench.NewSearch(c.start, c.least)
			got := course(s, c.trial)
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			if s.State() != c.state || s.Left() != 0 {
				t.Errorf("state %q, %d left", s.State(), s.Left())
			}
			s.Tell(true, false, 0) // after the end it has no effect
			if s.State() != c.state {
				t.Errorf("state after the end %q", s.State())
			}
		})
	}
}

// TestSearchRepeats: a close trial is repeated at the same rate, and the majority of three decides.
func TestSearchRepeats(t *testing.T) {
	type told struct{ pass, close bool }
	for name, c := range map[string]struct {
		told []told
		pass bool
	}{
		"clear pass":                {[]told{{true, false}}, true},
		"clear fail":                {[]told{{false, false}}, false},
		"two passes":                {[]told{{true, true}, {true, true}}, true},
		"two fails":                 {[]told{{false, true}, {false, true}}, false},
		"best of three passes":      {[]told{{false, true}, {true, true}, {true, true}}, true},
		"best of three fails":       {[]told{{true, true}, {false, true}, {false, false}}, false},
		"a clear second is one too": {[]told{{true, true}, {false, false}, {true, true}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := bench.NewSearch(1000, 1)
			for i, v := range c.told {
				if rate, purpose, ok := s.Next(); rate != 1000 || purpose != bench.SearchBracket || !ok {
					t.Fatalf("trial %d is of %v for %s", i+1, rate, purpose)
				}
				s.Tell(v.pass, v.close, 0)
			}
			low, high := s.Bracket()
			if c.pass && (low != 1000 || !math.IsInf(high, 1)) || !c.pass && (low != 0 || high != 1000) {
				t.Errorf("bracket %v to %v", low, high)
			}
		})
	}
}

// TestSearchDone: the search continues at the rate that an overloaded database
// achieved, if that is less than its next step.
func TestSearchDone(t *testing.T) {
	for done, want := range map[float64]float64{0: 1000 / 1.3, 900: 1000 / 1.3, 300: 300, 5: 10} {
		s := bench.NewSearch(1000, 10)
		s.Tell(false, false, done)
		if rate, _, _ := s.Next(); math.Abs(rate-want) > 0.001 {
			t.Errorf("after %v done of 1000: %v, want %v", done, rate, want)
		}
	}
}

// TestSearchConfirm: a failed confirmation continues the search, and a rate that failed
// on the way down, after an overload, is repeated before it limits the result.
func TestSearchConfirm(t *testing.T) {
	t.Run("behind an overload", func(t *testing.T) {
		trials := 0
		got := course(bench.NewSearch(8000, 1), func(rate float64) (bool, bool) {
			trials++
			return rate <= 4300 && (trials > 4 || rate <= 2500), false
		})
		if last := strings.Join(got[len(got)-2:], ", "); last != "4247 confirm +, 5097 above -" {
			t.Errorf("got\n%s", strings.Join(got, "\n"))
		}
	})
	t.Run("the table has outgrown it", func(t *testing.T) {
		n := 0
		s := bench.NewSearch(1000, 1)
		all := course(s, func(rate float64) (bool, bool) {
			n++
			return rate <= 1600*math.Pow(0.97, float64(n)), false
		})
		low, high := s.Bracket()
		now := 1600 * math.Pow(0.97, float64(n))
		if s.State() != bench.SearchFound || low > now*1.04 || low < now/1.25 || high/low > bench.SearchMargin+0.001 {
			t.Errorf("%s: %v to %v of %v after\n%s", s.State(), low, high, now, strings.Join(all, "\n"))
		}
	})
	t.Run("a disturbance had failed a lower rate", func(t *testing.T) {
		n := 0
		s := bench.NewSearch(1000, 1)
		course(s, func(rate float64) (bool, bool) {
			n++
			return rate <= 1600 && n != 2, false
		})
		if low, _ := s.Bracket(); s.State() != bench.SearchFound || low > 1600 || low < 1600/1.2 {
			t.Errorf("%s at %v", s.State(), low)
		}
	})
}

// TestSearchEnds: for any results of trials, a search ends, tries only sensible
// rates and keeps its bracket in order; replaying the results gives the same search.
func TestSearchEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Float64Range(0.1, 1e7).Draw(t, "start")
		least := rapid.Float64Range(0.1, 1e5).Draw(t, "least")
		s, again := bench.NewSearch(start, least), bench.NewSearch(start, least)
		for n := 0; ; n++ {
			rate, _, ok := s.Next()
			low, high := s.Bracket()
			if low > 0 && low >= high {
				t.Fatalf("bracket %v to %v", low, high)
			}
			if !ok {
				if s.Left() != 0 || n > 60 {
					t.Fatalf("%s after %d trials, %d left", s.State(), n, s.Left())
				}
				return
			}
			if rate < least || math.IsInf(rate, 0) || math.IsNaN(rate) || s.Left() < 1 {
				t.Fatalf("rate %v, %d left", rate, s.Left())
			}
			pass, near := rapid.Bool().Draw(t, "pass"), rapid.Bool().Draw(t, "close")
			done := rate * rapid.Float64Range(0, 1.01).Draw(t, "done")
			s.Tell(pass, near, done)
			again.Tell(pass, near, done)
			if *s != *again {
				t.Fatalf("%+v, rebuilt %+v", s, again)
			}
		}
	})
}

// TestSearchExact: without noise the rate found is the capacity, within the width of the bracket.
func TestSearchExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.Float64Range(100, 1e6).Draw(t, "capacity")
		s := bench.NewSearch(capacity*rapid.Float64Range(0.01, 100).Draw(t, "guess"), 1)
		all := course(s, exactly(capacity))
		if low, _ := s.Bracket(); s.State() != bench.SearchFound || low > capacity || low < capacity/1.061 || len(all) > 22 {
			t.Fatalf("%s at %v of %v after %d trials", s.State(), low, capacity, len(all))
		}
	})
}

// TestSearchNoise: if the trials of a server are noisy, repeated searches agree. The
// share of operations over the limit rises steeply around the capacity, multiplied
// by a disturbance per trial, and occasionally a trial fails for another reason.
func TestSearchNoise(t *testing.T) {
	const tries = 500
	r := rand.New(rand.NewPCG(1, 2))
	var trials, agree, found int
	search := func() float64 {
		s := bench.NewSearch(10000*math.Exp(0.5*r.NormFloat64()), 10)
		all := course(s, func(rate float64) (bool, bool) {
			over := 0.01 * math.Pow(rate/10000, 16) * math.Exp(0.7*r.NormFloat64())
			if r.IntN(20) == 0 {
				over += 0.1
			}
			return over <= 0.01, over > 0.002 && over < 0.05
		})
		trials += len(all)
		if s.State() == bench.SearchFound {
			found++
		}
		low, _ := s.Bracket()
		return low
	}
	for range tries {
		a, b := search(), search()
		if max(a, b) <= 1.15*min(a, b) {
			agree++
		}
	}
	t.Logf("%d of %d pairs agree within 15%%, %d of %d searches came to an end, %.1f trials each", agree, tries, found, 2*tries, float64(trials)/(2*tries))
	if agree < tries*95/100 || found < 2*tries*99/100 {
		t.Errorf("%d of %d pairs agree, %d of %d searches came to an end", agree, tries, found, 2*tries)
	}
}
