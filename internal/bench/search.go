package bench

import "math"

// A Search finds the highest rate that passes a trial, where trials are noisy and the database
// changes while its table grows. A Search does nothing but compute: Next returns the rate to try,
// and Tell takes the result. An interrupted search is therefore restored by telling a new one all
// results again.
//
// The search goes up from the start rate while trials pass, or down while they fail, in growing
// steps, until one rate has passed and a higher one has failed. Then it halves this bracket, at its
// geometric mean, until the bracket is narrow. Some results come from a smaller table, or from a
// trial right after an overload. Therefore it confirms: it repeats the upper end if that failed on
// the way down, then the rate found, which must pass, then a rate a fifth higher, which must fail.
// If a confirmation fails, the search continues from there.
//
// A trial with a close result is repeated, and the majority of three decides.
type Search struct {
	start, least float64

	stage  string
	rate   float64 // the next rate to try
	step   float64 // until both ends of the bracket are known
	done   float64 // rate achieved by the last failed trial; 0 is unknown
	passed int     // trials passed at this rate
	failed int
	low    float64 // the highest rate known to pass; 0 is none
	high   float64 // the lowest rate known to fail; +Inf is none
	stale  bool    // high failed on the way down, after an overload
	trials int
}

// Purposes of a trial, and states of a search.
const (
	SearchBracket = "bracket" // find a rate that passes and one that fails
	SearchHalve   = "halve"   // narrow the bracket
	SearchConfirm = "confirm" // the rate found must pass again
	SearchAbove   = "above"   // a rate a fifth higher must fail

	SearchFound   = "found"     // the rate found passed again, and a fifth higher failed
	SearchNone    = "none"      // not even the lowest rate passed
	SearchGaveUp  = "gave up"   // too many trials
	SearchOngoing = "searching" // not ended yet
)

const (
	// searchWidth is the ratio of the ends of the final bracket. A narrower bracket would not be more
	// precise: two trials of the same rate differ by more.
	searchWidth = 1.06
	// SearchMargin is the factor above the result at which a rate must fail.
	SearchMargin = 1.2
	// A step is the factor between two rates tried one after the other. searchStep is the first step
	// from the start rate, searchNear the first step from a rate near the result. Each further step is
	// the square of the step before, up to searchLeap.
	searchStep, searchNear, searchLeap = 1.3, 1.08, 2.0
	// searchTrials is the highest number of trials: a quarter of an hour at 15 seconds each. A search
	// on an idle machine takes 10 to 20 trials.
	searchTrials = 60
)

// NewSearch returns a search that begins at the rate start and gives up below the rate least.
func NewSearch(start, least float64) *Search {
	return &Search{start: start, least: least, stage: SearchBracket, rate: max(start, least), step: searchStep, high: math.Inf(1)}
}

// Next returns the next rate to try and its purpose; false if the search has ended.
func (s *Search) Next() (rate float64, purpose string, ok bool) {
	switch s.stage {
	case SearchBracket, SearchHalve, SearchConfirm, SearchAbove:
		return s.rate, s.stage, true
	}
	return 0, "", false
}

// State returns the state of the search: one of the final states, or SearchOngoing.
func (s *Search) State() string {
	if _, _, ok := s.Next(); ok {
		return SearchOngoing
	}
	return s.stage
}

// Bracket returns the highest rate known to pass, or 0, and the lowest rate known to fail, or +Inf.
func (s *Search) Bracket() (low, high float64) { return s.low, s.high }

// Tell records the result of the trial at the rate that Next returned. close means that the result
// was near the limit. done is the rate achieved, 0 if unknown. After an overload, done is a good
// guess for the next rate.
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

// decided reports whether the trials at this rate are conclusive. The first trial is conclusive if
// its result was not close to the limit; otherwise two of three trials must agree.
func (s *Search) decided(close bool) bool {
	n := s.passed + s.failed
	return n == 1 && !close || s.passed >= 2 || s.failed >= 2
}

// advance continues the search after a rate has passed or failed.
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
		// Lower rates passed when the table was smaller: forget that they passed. Go down in
		// small steps: halving would never catch up with a growing table.
		if s.low > 0 {
			s.low, s.step = 0, searchNear
		}
		s.high = s.rate
		if s.high > s.least {
			s.rate = max(s.least, s.high/s.stride())
			return
		}
	case s.stage == SearchAbove:
		// The failures at lower rates were chance, or their cause is gone.
		s.low, s.high, s.step = s.rate, math.Inf(1), searchNear
	case pass && s.rate >= s.high:
		s.low, s.high, s.step, s.stale = s.rate, math.Inf(1), searchNear, false
	case pass:
		s.low = s.rate
	default:
		// On the way down each trial begins with the backlog of the overload before it, and may have
		// failed only because of that backlog.
		s.stale = s.low == 0
		s.high = s.rate
	}
	s.choose()
}

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

// stride returns the current step and enlarges the next one.
func (s *Search) stride() float64 {
	step := s.step
	s.step = min(step*step, searchLeap)
	return step
}

// Left estimates the number of trials left, assuming that each one is conclusive
// and the present bracket is correct.
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

// halvings returns the number of trials that narrow a bracket of this width.
func halvings(width float64) int {
	return max(1, int(math.Ceil(math.Log2(math.Log(width)/math.Log(searchWidth)))))
}
