package experiment

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

const (
	// steadyPeriod is the length of a period: the table keeps three by default, and so reaches its
	// final size within the first hour.
	steadyPeriod = 10 * time.Minute
	// steadyWork is the interval at which the fixed computation is timed.
	steadyWork = time.Second
	// leastPerInterval is the least number of commits per interval. The last commit of an interval
	// may fall into the next interval: one commit of 20 is no more than the tolerance of 5%.
	leastPerInterval = 20
)

// CompleteSteady fills in what follows from the other fields of a Spec and from what
// the target can do: its layout, and the rows of a period.
func (s *Spec) CompleteSteady() {
	s.Layouts, s.Repeat = []string{workload.Plain}, 1
	if db, err := target.Dry(s.Target()); err == nil && db.Capabilities().Rolling {
		s.Layouts[0] = workload.Rolling
	}
	if s.PeriodRows == 0 {
		s.PeriodRows = max(int64(s.Batch), int64(s.Rate*steadyPeriod.Seconds()))
	}
}

func (e *Env) steady(ctx context.Context, s *Spec) ([]result.Record, error) {
	r := e.newInsert(&Trial{Spec: s, Whole: s})
	if !s.NoWork {
		// At least two timings per interval, so that every interval has one.
		r.workEvery = min(steadyWork, s.Interval.D()/2)
	}
	return r.on(ctx, func(schema []string) error {
		e.Show.Note("recording to " + e.Out.Path + "; read it at any moment: rowmill report " + e.Out.Path)
		return r.insert(ctx, schema, r.config())
	})
}

// host returns this machine's name without its domain.
func host() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	name, _, _ = strings.Cut(name, ".")
	return name
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// SteadyFile returns the name of the file for a record that begins now.
func SteadyFile(now time.Time) string {
	return fmt.Sprintf("steady-%s-%s.jsonl", cmp.Or(strings.Trim(notInNames.ReplaceAllString(host(), "-"), "-"), "host"), now.Format("20060102-150405"))
}

// SummedUp is a Progress that combines intervals into longer ones before it shows them: the first
// shown interval is as measured, each further interval is twice as long as the one before, up to
// Most.
type SummedUp struct {
	Progress
	Most time.Duration
	sum  *result.Interval
	next float64 // length of the next shown interval, in seconds
}

// Interval implements Progress.
func (s *SummedUp) Interval(iv result.Interval) {
	if s.sum != nil {
		joined, err := s.sum.Join(&iv)
		if err != nil {
			s.flush() // the record has the damaged distribution
			joined = iv
		}
		iv = joined
	}
	s.sum = &iv
	if s.next == 0 {
		s.next = iv.Seconds
	}
	if s.sum.Seconds >= s.next-iv.Seconds/2 {
		s.flush()
		s.next = min(2*s.next, s.Most.Seconds())
	}
}

func (s *SummedUp) flush() {
	if s.sum != nil {
		s.Progress.Interval(*s.sum)
		s.sum = nil
	}
}

// End implements Progress.
func (s *SummedUp) End(sum result.Summary) {
	s.flush()
	s.Progress.End(sum)
}
