package rollup

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// Limits of what Exact reads. A level beyond them is not used for queries.
const (
	mostMarks  = 1000 // stale buckets, and notes
	mostRanges = 64
)

// Exact finds the ranges of each level whose buckets agree exactly with the rows of the table,
// whoever wrote the rows. That is certain only with exact = true, where triggers note every row in
// its transaction. Buckets whose raw rows were removed are excluded.
//
// It sets Why and Levels of t. applied is the declaration in force. The state is read without a
// transaction, so a query uses the ranges only if their Proof holds in its own snapshot.
func (s *Set) Exact(ctx context.Context, t *engine.RolledTable, applied *state.Declared) error {
	if !s.declared.Exact {
		t.Why = "without exact = true, roll-ups may lack rows that other programs changed late"
		return nil
	}
	change, err := s.TriggerChange(ctx)
	if err != nil {
		return err
	}
	switch {
	case change.Hidden > 0:
		t.Why = "the account may not see the triggers of exact = true: it takes the privilege TRIGGER on the table"
	case change.Missing > 0:
		t.Why = "the triggers of exact = true are not all there"
	case change.Old > 0:
		t.Why = "the triggers of exact = true were made by an earlier version or declaration: rowmill apply replaces them, or enables them"
	}
	if t.Why != "" {
		return nil
	}
	if err := s.prover().exactParts(ctx, t); err != nil || t.Why != "" {
		return err
	}
	marks, err := s.marks(ctx, s.db.SQL())
	if err != nil {
		return err
	}
	// A period is left out if its length is neither the declared length nor that of merged periods:
	// it may have taken the place of a period that was dropped by hand.
	var runs []rolling.Period
	for _, p := range t.Periods {
		if !of(s.declared.Period, p.Period) && !of(s.declared.Seal.Merge, p.Period) || slices.Contains(t.Changed, p.Name) {
			continue
		}
		if n := len(runs); n > 0 && runs[n-1].To == p.From {
			runs[n-1].To = p.To
		} else {
			runs = append(runs, p.Period)
		}
	}
	notes, err := s.prover().notes(ctx)
	if err != nil {
		return err
	}
	stale, err := s.prover().staleBuckets(ctx)
	if err != nil {
		return err
	}
	if stale == nil {
		t.Why = "too many buckets of its roll-ups are to be computed again"
		return nil
	}
	for _, l := range s.levels {
		r := engine.RolledLevel{Rollup: l.Rollup}
		if err := s.prover().exactLevel(l, marks, runs, notes, stale[l.Name], applied, &r); err != nil {
			return fmt.Errorf("roll-up %s: %w", l.Name, err)
		}
		switch {
		case len(r.Ranges) > 0 || len(t.Changed) == 0:
		case len(t.Changed) == len(t.Periods):
			r.Why = "no partition is one that it was computed from: rowmill run computes its buckets again; on a replica, or another server than that of rowmill run, rows are read"
		default:
			r.Why = "partition " + t.Changed[0] + " is not the one that it was computed from: rowmill run computes its buckets again"
		}
		t.Levels = append(t.Levels, r)
	}
	return nil
}

// A prover finds the buckets that may answer a query: see Exact.
type prover struct{ *Set }

func (s *Set) prover() prover { return prover{s} }

// notes returns the ranges of changed rows that no refresh has included, at most mostMarks.
func (s prover) notes(ctx context.Context) (list []rolling.Period, err error) {
	err = s.each(ctx, s.db.SQL(), func(rows *sql.Rows) error {
		var p rolling.Period
		err := rows.Scan(&p.From, &p.To)
		p.To++
		list = append(list, p)
		return err
	}, fmt.Sprintf("SELECT DISTINCT lower_pos, upper_pos FROM rowmill_touched WHERE table_name = ? ORDER BY lower_pos LIMIT %d", mostMarks), s.table.Name)
	return list, err
}

// staleBuckets returns the stale buckets of each level; nil if there are too many.
func (s prover) staleBuckets(ctx context.Context) (map[string][]int64, error) {
	out := map[string][]int64{}
	if len(s.levels) == 0 {
		return out, nil
	}
	var names []any
	for _, l := range s.levels {
		names = append(names, l.Name)
	}
	most, n := mostMarks*len(names), 0
	err := s.each(ctx, s.db.SQL(), func(rows *sql.Rows) error {
		var name string
		var b int64
		err := rows.Scan(&name, &b)
		out[name] = append(out[name], b)
		n++
		return err
	}, fmt.Sprintf("SELECT rollup_name, bucket FROM rowmill_stale WHERE rollup_name IN (?%s) LIMIT %d", strings.Repeat(", ?", len(names)-1), most), names...)
	if n == most {
		return nil, err
	}
	return out, err
}

// of reports whether p is one of the grid's periods.
func of(g rolling.Grid, p rolling.Period) bool {
	if !g.Valid() {
		return false
	}
	q, err := g.At(p.From)
	return err == nil && p == q
}

func (s prover) exactLevel(l *level, marks map[string]mark, runs, notes []rolling.Period, stale []int64, applied *state.Declared, r *engine.RolledLevel) error {
	m, ok := marks[l.Name]
	if !ok {
		r.Why = "it isn't there yet"
		return nil
	}
	have, err := parseSpec(m.spec)
	if err != nil {
		return err
	}
	want := newSpec(l.Rollup)
	switch {
	case fits(have, want) != nil || added(have, want):
		r.Why = "it isn't as the declaration has it"
		return nil
	}
	sealed := m.sealedTo
	for up := l.from; up != nil; up = up.from {
		sealed = max(sealed, marks[up.Name].sealedTo)
	}
	// Before 1970, divisions of a time round in the other direction.
	within := rolling.Period{From: l.Every.Ceil(max(sealed, 0)), To: min(m.watermark, l.Every.Bounds().To)}
	var inexact []rolling.Period
	for _, b := range stale {
		p, err := l.Every.At(b)
		if err != nil {
			return err
		}
		inexact = append(inexact, p)
	}
	if len(inexact) >= mostMarks || len(notes) >= mostMarks {
		r.Why = "too many of its buckets are to be computed again"
		return nil
	}
	for _, p := range notes {
		inexact = append(inexact, rolling.Period{From: l.Every.Floor(p.From), To: l.Every.Ceil(p.To)})
	}
	slices.SortFunc(inexact, func(a, b rolling.Period) int { return cmp.Compare(a.From, b.From) })
	for _, run := range runs {
		at := max(within.From, l.Every.Ceil(run.From))
		to := l.Every.Floor(min(within.To, run.To))
		for _, x := range inexact {
			if x.To <= at || x.From >= to {
				continue
			}
			if at < x.From {
				r.Ranges = append(r.Ranges, rolling.Period{From: at, To: x.From})
			}
			at = x.To
		}
		if at < to {
			r.Ranges = append(r.Ranges, rolling.Period{From: at, To: to})
		}
	}
	switch {
	case len(r.Ranges) == 0:
		r.Why = "no bucket of rows that are all there is computed"
	case len(r.Ranges) > mostRanges:
		r.Why, r.Ranges = "too many of its buckets are to be computed again", nil
	}
	r.Proof = func(database string, ranges []rolling.Period) string { return s.proof(l, applied, database, ranges) }
	return nil
}

// proof renders the query of engine.RolledLevel.Proof.
func (s prover) proof(l *level, applied *state.Declared, database string, ranges []rolling.Period) string {
	in := func(table string) string {
		if database == "" {
			return table
		}
		return s.quote(database) + "." + table
	}
	table := quoteText(s.table.Name)
	first, last := ranges[0].From, ranges[len(ranges)-1].To
	var names []string
	for up := l; up != nil; up = up.from {
		names = append(names, quoteText(up.Name))
	}
	var stale, noted []string
	for _, p := range ranges {
		stale = append(stale, fmt.Sprintf("bucket >= %d AND bucket < %d", p.From, p.To))
		noted = append(noted, fmt.Sprintf("lower_pos < %d AND upper_pos >= %d", p.To, p.From))
	}
	either := func(list []string) string { return "(" + strings.Join(list, " OR ") + ")" }
	// Applying a declaration changes the revision. A level that begins again loses its watermark.
	return fmt.Sprintf("SELECT (SELECT COUNT(*) FROM %s WHERE table_name = %s AND name = %s AND watermark >= %d)", in("rowmill_rollups"), table, quoteText(l.Name), last) +
		fmt.Sprintf(", (SELECT 1 - COUNT(*) FROM %s WHERE table_name = %s AND name IN (%s) AND sealed_to > %d)", in("rowmill_rollups"), table, strings.Join(names, ", "), first) +
		fmt.Sprintf(", (SELECT 1 - COUNT(*) FROM %s WHERE rollup_name = %s AND %s)", in("rowmill_stale"), quoteText(l.Name), either(stale)) +
		fmt.Sprintf(", (SELECT 1 - COUNT(*) FROM %s WHERE table_name = %s AND %s)", in("rowmill_touched"), table, either(noted)) +
		fmt.Sprintf(", (SELECT COUNT(*) FROM %s WHERE name = %s AND revision = %d AND created_us = %d)", in("rowmill_tables"), table, applied.Revision, applied.Created.UnixMicro())
}
