package rollup

import (
	"context"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/rolling"
)

// Rows that writers beside rowmill bring late, without a note or a trigger, are
// found by counting. A bucket is counted again once it has been over for
// firstRecount, and each time it is recountFactor times as old: rows that are
// late by some time are seen after that many times as long at most, and a bucket
// is counted seven times in all.
const (
	firstRecount  = 10 * time.Second
	recountFactor = 8
	lastRecount   = firstRecount * recountFactor * recountFactor * recountFactor * recountFactor * recountFactor * recountFactor
)

// LateBound says for how long, at most, roll-ups and live views may lack rows that
// came late, for people.
func (s *Set) LateBound() string {
	switch {
	case s.declared.Exact:
		return "triggers note all rows: live views are right at any moment"
	case s.table.Grid.Axis() != rolling.Time:
		return "rows of writers beside rowmill that come below the watermark are counted when their period is sealed"
	}
	return fmt.Sprintf("rows of writers beside rowmill that come after their bucket is over are counted within %d times as long as they were late, %v at least (and the time of a refresh)", recountFactor, firstRecount)
}

// Recount counts the rows of those buckets again that have reached one of the
// ages since the last time, by the clock that now is a position of, and returns how
// many of them are stale. By a clock that was set back they reach it once more.
func (s *Set) Recount(ctx context.Context, now int64) (stale int, err error) {
	if len(s.levels) == 0 || s.declared.Exact || s.table.Grid.Axis() != rolling.Time {
		return 0, nil
	}
	err = s.alone(ctx, func(ctx context.Context, w *worker) error {
		for _, l := range w.levels {
			if l.from != nil {
				continue // it goes by the finer one
			}
			n, err := w.recount(ctx, l, now)
			if stale += n; err != nil {
				return fmt.Errorf("count rows of roll-up %s again: %w", l.Name, err)
			}
		}
		return nil
	})
	return stale, err
}

// A recounting is how far buckets of a level have been counted again, where that
// was broken off. Only memory has it: another process counts from last on.
type recounting struct {
	last int64                   // as rowmill_rollups has it
	done map[time.Duration]int64 // of some ages, up to when their buckets have been counted
}

// run counts the ranges of buckets that have reached one of the ages since then, up
// to now, newest first: those are the rows that the bound promises soonest. After a
// stop that was longer than an age, a bucket has reached several of them: it is
// counted once.
func (r *recounting) run(every rolling.Grid, now int64, count func(rolling.Period) error) error {
	counted := every.Bounds().To
	for age := firstRecount; age <= lastRecount; age *= recountFactor {
		last := r.last
		if to, ok := r.done[age]; ok {
			last = to
		}
		p := rolling.Period{From: every.Floor(last - age.Microseconds()), To: min(counted, every.Floor(now-age.Microseconds()))}
		if p.From < p.To {
			if err := count(p); err != nil {
				return err
			}
			counted = p.From
		}
		if r.done == nil {
			r.done = map[time.Duration]int64{}
		}
		r.done[age] = now
	}
	return nil
}

func (w *worker) recount(ctx context.Context, l *level, now int64) (stale int, err error) {
	var last int64
	err = w.conn.QueryRowContext(ctx, w.db.Bind("SELECT checked_us FROM rowmill_rollups WHERE table_name = ? AND name = ?"), w.table.Name, l.Name).Scan(&last)
	if err != nil {
		return 0, w.db.Classify(err)
	}
	if last == now {
		return 0, nil
	}
	if last != 0 && last < now {
		r := w.recounting[l.Name]
		if r == nil || r.last != last {
			r = &recounting{last: last}
			if w.recounting == nil {
				w.recounting = map[string]*recounting{}
			}
			w.recounting[l.Name] = r
		}
		err := r.run(l.Every, now, func(p rolling.Period) error {
			n, err := w.check(ctx, l, p)
			stale += n
			return err
		})
		if err != nil {
			return stale, err
		}
	}
	// Only now: what a crash has kept from being counted is counted then.
	_, err = w.exec(ctx, w.conn, "UPDATE rowmill_rollups SET checked_us = ? WHERE table_name = ? AND name = ?", now, w.table.Name, l.Name)
	return stale, err
}
