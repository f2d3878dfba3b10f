package experiment

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

const (
	// steadyPeriod is the length of a period: three are kept by default, so that the
	// table reaches its final size within the first hour.
	steadyPeriod = 10 * time.Minute
	// steadyWork is the interval at which the fixed computation is timed.
	steadyWork = time.Second
	// leastPerInterval is the least number of commits per interval. A commit at the
	// end of an interval may fall into the next one; with 20, that is no more than the
	// tolerance of 5%.
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

func (s *Spec) validateSteady() error {
	switch {
	case s.MaxTime <= 0:
		return refuse("--for 24h", "--for %v: want a time to hold the load for", s.MaxTime.D())
	case s.Interval.D() < 10*time.Millisecond:
		return refuse(s.help(), "--interval %v: want at least 10ms", s.Interval.D())
	case s.Interval > s.MaxTime:
		return refuse("--interval 1s", "--interval %v: want no more than the %v of --for", s.Interval.D(), s.MaxTime.D())
	case s.Batch < 1:
		return refuse(s.help(), "--batch %d: want at least 1", s.Batch)
	case s.Writers < 1, s.Writers > MaxWriters:
		return refuse(s.help(), "--writers %d: want 1 to %d", s.Writers, MaxWriters)
	case s.KeepPeriods < 1:
		return refuse(s.help(), "--keep-periods %d: want at least 1", s.KeepPeriods)
	case s.P99 < 0 || s.P99 > 0 && s.P99.D() < time.Microsecond:
		return refuse("--p99 50ms", "--p99 %v: want at least 1µs, or no limit", s.P99.D())
	case s.RetryFor <= 0:
		return refuse("--retry-for 1m", "--retry-for %v: want a time", s.RetryFor.D())
	}
	interval := s.Interval.D()
	if n := s.Rate * interval.Seconds() / float64(s.Batch); n < leastPerInterval {
		return refuse(fmt.Sprintf("--interval %v", time.Duration(float64(interval)*leastPerInterval/n).Round(time.Second)+time.Second),
			"--rate %g in batches of %d makes %.3g operations in an interval of %v: want at least %d, or a single operation at its end decides whether the rate was kept",
			s.Rate, s.Batch, n, interval, leastPerInterval)
	}
	if err := s.validateTarget(); err != nil {
		return err
	}
	return s.tryOut()
}

// steady holds a constant load on one target.
func (e *Env) steady(ctx context.Context, s *Spec) ([]result.Record, error) {
	r := e.newInsert(&Trial{Spec: s, Whole: s})
	if !s.NoWork {
		// At least two per interval, so that every interval has one.
		r.workEvery = min(steadyWork, s.Interval.D()/2)
	}
	err := r.open(ctx, func() error {
		schema, err := r.setup(ctx)
		if err != nil {
			return err
		}
		e.Show.Note("recording to " + e.Out.Path + "; read it at any moment: rowmill report " + e.Out.Path)
		own, _ := r.describe(schema)
		zone, offset := time.Now().Zone()
		own.Steady = &result.SteadyGoal{P99LimitUS: s.P99.D().Microseconds(), Host: Host(), Zone: zone, UTCOffsetSeconds: offset}
		own.Name = strings.TrimSpace(fmt.Sprintf("steady %g rows/s on %s %s", s.Rate, r.db.Info().Engine, own.Steady.Host))
		if err := r.begin(ctx, r.w.Tables(), r.config(), own, own.Name); err != nil {
			return err
		}
		return r.measure(ctx, r.w, r.prove)
	})
	if r.rec == nil {
		err = early(ctx, err)
	} else if err == nil && ctx.Err() != nil {
		err = ErrInterrupted
	}
	return recorded(r.rec, err)
}

// Host returns this machine's name without its domain.
func Host() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	name, _, _ = strings.Cut(name, ".")
	return name
}
