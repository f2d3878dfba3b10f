package bench

import "math"

// A Search finds the highest rate that passes a trial, where trials are noisy
// and the database changes while its table grows. It is pure: it says which
// rate to try next and is told how that went, so that one that was broken off
// is rebuilt by telling it again what its trials gave.
//
// From its start it goes up while trials pass and down while they fail, in
// growing steps, until one rate passed and a higher one failed; then it halves
// that bracket (in proportion: the middle is the geometric mean) until it is
// narrow. What it has then was in part found when the table was smaller, or
// behind an overload that was not yet worked off. So the upper end is tried
// again where it failed on the way down, then the rate found, and then one a
// fifth higher: the second must pass, the third must fail. Where one of them
// goes otherwise, the search goes on from there.
//
// A trial that was a close thing is repeated, and the best of three counts.
type Search struct {
	start, least float64

	stage  string
	rate   float64 // to try next
	step   float64 // while one end of the bracket is unknown
	done   float64 // of the last trial that failed; 0 is unknown
	passed int     // at this rate
	failed int
	low    float64 // the highest rate known to pass; 0 is none
	high   float64 // the lowest rate known to fail; +Inf is none
	stale  bool    // high failed on the way down, behind an overload
	trials int
}

// Purposes of a trial, and how a search ended.
const (
	SearchBracket = "bracket" // find a rate that passes and one that fails
	SearchHalve   = "halve"   // narrow the bracket
	SearchConfirm = "confirm" // the rate found must pass again
	SearchAbove   = "above"   // a fifth more must fail

	SearchFound   = "found"     // both confirmed
	SearchNone    = "none"      // not even the least rate passed
	SearchGaveUp  = "gave up"   // too many trials
	SearchOngoing = "searching" // not ended
)

const (
	// searchWidth is how wide, in proportion, the last bracket may be. Narrower
	// ones cost trials and tell nothing: two trials of one rate differ by more.
	searchWidth = 1.06
	// SearchMargin is how much higher a rate must be shown to fail.
	SearchMargin = 1.2
	// The first steps up or down: from a guess, and from a rate that was right
	// a moment ago. Each further one is the square of the one before, as far
	// as doubling.
	searchStep, searchNear, searchLeap = 1.3, 1.08, 2.0
	// searchTrials is how many trials there are at most: with 15 seconds each,
	// a quarter of an hour. A search on a quiet machine takes 10 to 20.
	searchTrials = 60
)

// NewSearch returns a search that begins at a rate and gives up below the
// least one.
func NewSearch(start, least float64) *Search {
	return &Search{start: start, least: least, stage: SearchBracket, rate: max(start, least), step: searchStep, high: math.Inf(1)}
}

// Next returns the rate to try next and what for; false when the search has
// ended.
func (s *Search) Next() (rate float64, purpose string, ok bool) {
	switch s.stage {
	case SearchBracket, SearchHalve, SearchConfirm, SearchAbove:
		return s.rate, s.stage, true
	}
	return 0, "", false
}

// State returns how the search stands: one of the ends, or SearchOngoing.
func (s *Search) State() string {
	if _, _, ok := s.Next(); ok {
		return SearchOngoing
	}
	return s.stage
}

// Bracket returns the highest rate known to pass, 0 for none, and the lowest
// known to fail, +Inf for none.
func (s *Search) Bracket() (low, high float64) { return s.low, s.high }

// Tell says how the trial of the rate that Next returned went. close tells that
// it could have gone otherwise. done is the rate that was done, 0 for unknown:
// what an overloaded database did is a better guess than the next step down.
func (s *Search) Tell(pass, close bool, done float64) {
	if _, _, ok := s.Next(); !ok {
		return
	}
	s.trials++
	if pass {
		s.passed++
	} else {
		s.failed++
		s.done = done
	}
	if s.decided(close) {
		pass = s.passed > s.failed
		s.passed, s.failed = 0, 0
		s.advance(pass)
	}
	if s.trials >= searchTrials && s.State() == SearchOngoing {
		s.stage = SearchGaveUp
	}
}

// decided tells whether the trials of this rate say enough: one that is not
// close, or two of three that agree.
func (s *Search) decided(close bool) bool {
	n := s.passed + s.failed
	return n == 1 && !close || s.passed >= 2 || s.failed >= 2
}

// advance goes on from a rate that passed or failed.
func (s *Search) advance(pass bool) {
	switch {
	case s.stage == SearchConfirm && pass && s.high <= s.rate*SearchMargin:
		s.low = s.rate
		s.stage, s.rate = SearchAbove, s.low*SearchMargin
		return
	case s.stage == SearchAbove && !pass:
		s.high = min(s.high, s.rate)
		s.stage = SearchFound
		return
	case s.stage == SearchConfirm && !pass:
		// It doesn't pass any more, nor can be relied on what passed below it.
		// A rate a little lower that passes at the present size is the answer:
		// with more halving, a table that grows would be chased for ever.
		if s.low > 0 {
			s.low, s.step = 0, searchNear
		}
		s.high = s.rate
		if s.high > s.least {
			s.rate = max(s.least, s.high/s.stride())
			return
		}
	case s.stage == SearchAbove:
		// What failed at lower rates was chance, or has passed.
		s.low, s.high, s.step = s.rate, math.Inf(1), searchNear
	case pass && s.rate >= s.high:
		s.low, s.high, s.step, s.stale = s.rate, math.Inf(1), searchNear, false
	case pass:
		s.low = s.rate
	default:
		// On the way down each trial begins on what the overload before it has
		// left undone, and the first to fail may have failed of that.
		s.stale = s.low == 0
		s.high = s.rate
	}
	s.choose()
}

// choose picks the next rate from what is known.
func (s *Search) choose() {
	s.stage = SearchBracket
	switch {
	case s.low == 0 && s.high <= s.least:
		s.stage = SearchNone
	case s.low == 0:
		s.rate = s.high / s.stride()
		if s.done > 0 {
			s.rate = min(s.rate, s.done)
		}
		s.rate = max(s.least, s.rate)
	case math.IsInf(s.high, 1):
		s.rate = s.low * s.stride()
	case s.high <= s.low*searchWidth && s.stale:
		s.stage, s.rate = SearchHalve, s.high
	case s.high <= s.low*searchWidth:
		s.stage, s.rate = SearchConfirm, s.low
	default:
		s.stage, s.rate = SearchHalve, math.Sqrt(s.low*s.high)
	}
}

// stride returns the step to take, and lengthens the next one.
func (s *Search) stride() float64 {
	step := s.step
	s.step = min(step*step, searchLeap)
	return step
}

// Left estimates how many trials are still to come, were every one decided at
// once and the present bracket right.
func (s *Search) Left() int {
	const confirming = 2
	switch s.stage {
	case SearchConfirm:
		return 2
	case SearchAbove:
		return 1
	case SearchBracket:
		return 1 + halvings(s.step) + confirming
	case SearchHalve:
		return halvings(s.high/s.low) + confirming
	}
	return 0
}

// halvings returns how many trials it takes to narrow a bracket.
func halvings(width float64) int {
	return max(1, int(math.Ceil(math.Log2(math.Log(width)/math.Log(searchWidth)))))
}
