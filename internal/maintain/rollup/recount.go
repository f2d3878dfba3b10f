package rollup

import (
	"context"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/rolling"
)

// Late rows of writers other than rowmill, without a note or a trigger, are found
// by counting. A bucket is counted again firstRecount after its end, and then each
// time its age has grown by recountFactor. Rows that are late by some time are
// therefore found after recountFactor times that at most, and a bucket is counted
// seven times in all.
const (
	firstRecount  = 10 * time.Second
	recountFactor = 8
	lastRecount   = firstRecount * recountFactor * recountFactor * recountFactor * recountFactor * recountFactor * recountFactor
)

// LateBound describes the maximum time for which roll-ups and live views may lack
// late rows, for messages.
func (s *Set) LateBound() string {
	switch {
	case s.declared.Exact:
		return "triggers note all rows: live views are right at any moment"
	case s.table.Grid.Axis() != rolling.Time:
		return "rows of writers beside rowmill that come below the watermark are counted when their period is sealed"
	}
	return fmt.Sprintf("rows of writers beside rowmill that come after their bucket is over are counted within %d times as long as they were late, %v at least (and the time of a refresh)", recountFactor, firstRecount)
}

// Recount counts the rows of those buckets that have reached one of the ages since
// the last call, and returns how many of them are stale. now is a position of the
// clock. If the clock was set back, buckets reach an age once more.
func (s *Set) Recount(ctx context.Context, now int64) (stale int, err error) {
	if len(s.levels) == 0 || s.declared.Exact || s.table.Grid.Axis() != rolling.Time {
		return 0, nil
	}
	err = s.alone(ctx, func(ctx context.Context, w *worker) error {
		for _, l := range w.levels {
			if l.from != nil {
				continue // the finer level's counts are sufficient
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

// A recounting is the progress of an interrupted recount of a level. It is kept in
// memory only: another process starts again from last.
type recounting struct {
	last int64                   // as in rowmill_rollups
	done map[time.Duration]int64 // by age: the position of the clock at its last count
}

// run counts the ranges of buckets that have reached one of the ages since last, up
// to now. It starts with the newest, which have the shortest bound. After an
// interruption longer than an age, a bucket has reached several ages: it is counted
// once.
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
	// Updated last, so that counts lost in a crash are repeated.
	_, err = w.exec(ctx, w.conn, "UPDATE rowmill_rollups SET checked_us = ? WHERE table_name = ? AND name = ?", now, w.table.Name, l.Name)
	return stale, err
}
