package rollup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// In a table with exact = true, triggers note every row that statements change. But they don't fire
// when a partition is replaced or emptied. So the identities of the partitions are recorded before
// their buckets are computed. Once a partition has another identity, none of its buckets is exact.
// The next refresh records the new identity, and marks the buckets stale in the same transaction.

// names returns the names of partitions.
func names(parts []rolling.Partition) []string {
	out := make([]string, len(parts))
	for i, p := range parts {
		out[i] = p.Name
	}
	return out
}

// recorded returns the recorded partitions; ok is false if they can't be recorded.
func (s *Set) recorded(ctx context.Context) (p *state.Parts, ok bool, err error) {
	p, err = s.st.Parts(ctx, s.table.Name)
	if errors.Is(err, engine.ErrNoTable) {
		return nil, false, nil
	}
	return p, true, err
}

// A tracing remembers the comparisons of partitions in which suspects were found. A suspect is a
// partition that may have left the table and come back, e.g. by two EXCHANGE PARTITION. While other
// tables are altered all the time, every partition that is being written is a suspect.
type tracing struct {
	mu sync.Mutex
	// noted is the last comparison by Compare, which has noted the suspects.
	noted state.Compared
	// paused is the time until which suspects are not computed again: queries read their raw rows.
	paused time.Time
}

// After the buckets of suspects (see tracing) were computed again, there is a pause in which
// suspects are not computed. The pause is pauseFactor times as long as the computation took, at
// most maxPause.
const (
	pauseFactor = 9
	maxPause    = time.Hour
)

// again is how often the partitions are compared while buckets are being computed.
const again = 10 * time.Second

// pause begins a pause in which suspects are not computed again.
func (t *tracing) pause(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.paused = time.Now().Add(d)
}

func (t *tracing) isPaused() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Now().Before(t.paused)
}

func (t *tracing) last() state.Compared {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.noted
}

func (t *tracing) note(c state.Compared) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.At > t.noted.At {
		t.noted = c
	}
}

// forgot reports whether the server has lost the times of writes since a comparison.
func forgot(was state.Compared, w *engine.PartsWritten) bool {
	return w != nil && w.Definition != "" && was.Definition != "" && w.Definition != was.Definition
}

// left reports whether a partition with the recorded identity may have left the table and come back
// since the recorded comparison.
func left(name string, was state.Compared, now *engine.PartIdentities, w *engine.PartsWritten) bool {
	if w == nil {
		return false
	}
	at, known := w.At[name]
	return known && at >= since(was, now) || !known && forgot(was, w)
}

// other returns a column of the roll-ups that was replaced by another column of the same name; ""
// if no such column is known.
func (s prover) other(was *state.Parts, now *engine.PartIdentities) string {
	for _, l := range s.levels {
		for _, name := range l.columns(s.table) {
			if id := was.Columns[name]; id != "" && id != now.Columns[name] {
				return name
			}
		}
	}
	return ""
}

// since returns the time of the recorded comparison, in seconds. A partition that was last written
// before that time has not left the table after the comparison. If the server's clock was set back,
// the time of the last write proves nothing, and since returns 1.
func since(was state.Compared, now *engine.PartIdentities) int64 {
	if now.Now < was.At {
		return 1
	}
	return was.At
}

// If the table's definition has changed, another rowmill process may have changed it, and be about
// to record this. lastWritten waits for the record up to settledTries times settledPoll. Without
// a record by then, the buckets of the partitions are computed again.
const (
	settledTries = 5
	settledPoll  = 200 * time.Millisecond
)

// lastWritten returns when the partitions were last written, and the newest record of the
// partitions; the record is nil if it was removed meanwhile.
func (w *worker) lastWritten(ctx context.Context, db engine.PartIdentifier, was *state.Parts) (*engine.PartsWritten, *state.Parts, error) {
	for try := 0; ; try++ {
		written, err := db.PartsWritten(ctx, "", w.table.Name)
		if err != nil || was == nil || !forgot(was.Compared, written) || try == settledTries {
			return written, was, err
		}
		if err := engine.Sleep(ctx, settledPoll); err != nil {
			return nil, nil, err
		}
		if was, _, err = w.recorded(ctx); err != nil {
			return nil, nil, err
		}
	}
}

// identify records the identities of the table's partitions. If an identity is not the recorded
// one, it notes that all rows of the partition have changed. It does the same for suspects (see
// tracing), and then returns suspected = true.
func (w *worker) identify(ctx context.Context) (suspected bool, err error) {
	db, ok := w.db.(engine.PartIdentifier)
	if !ok {
		return false, nil
	}
	fail := func(err error) (bool, error) {
		return false, fmt.Errorf("compare the partitions of %s with those of its roll-ups: %w", w.table.Name, err)
	}
	was, ok, err := w.recorded(ctx)
	if err != nil || !ok { // apply creates the missing table of records
		return false, err
	}
	if !w.declared.Exact { // without triggers the records don't prove anything
		if was == nil {
			return false, nil
		}
		return false, w.tx(ctx, func(tx *transaction) error { return w.st.ForgetParts(ctx, tx, w.table.Name) })
	}
	parts, err := w.db.Catalog().Partitions(ctx, w.table)
	if err != nil {
		return fail(err)
	}
	now, err := db.PartIdentities(ctx, nil, "", w.table.Name, names(parts))
	if err != nil {
		return fail(err)
	}
	if now.Why != "" {
		return false, nil // the records stay, and queries compare with them
	}
	first := was == nil
	if first {
		was = &state.Parts{}
	}
	var written *engine.PartsWritten
	certain := true // whether all changes since the last comparison are known
	if first || now.Alters != "" && (now.Alters != was.Alters || was.Definition == "") {
		if written, was, err = w.lastWritten(ctx, db, was); err != nil {
			return fail(err)
		}
		if certain = written != nil; was == nil || first && !certain {
			return false, nil
		}
	}
	other := w.prover().other(was, now) != ""
	put := map[string]string{}
	for name, id := range now.Columns {
		if was.Columns[name] != id {
			put[state.ColumnKey(name)] = id
		}
	}
	var changed, suspects []rolling.Period
	var gone []string
	for _, p := range parts {
		id := now.IDs[p.Name]
		switch same := was.IDs[p.Name] == id; {
		case id == "": // queries don't use the buckets of a partition without an identity
			if !same {
				gone = append(gone, p.Name)
			}
		case !same || other:
			put[p.Name] = id
			changed = append(changed, p.Period)
		case left(p.Name, was.Compared, now, written):
			suspects = append(suspects, p.Period)
		}
	}
	for name := range was.Columns {
		if now.Columns[name] == "" {
			gone = append(gone, state.ColumnKey(name))
		}
	}
	for name := range was.IDs {
		if !slices.ContainsFunc(parts, func(p rolling.Partition) bool { return p.Name == name }) {
			gone = append(gone, name)
		}
	}
	if len(suspects) > 0 && w.traced.isPaused() {
		certain = false
	} else {
		suspected = len(suspects) > 0
		changed = append(changed, suspects...)
	}
	compared := state.Compared{Alters: now.Alters, Definition: was.Definition, At: now.Now}
	if written != nil {
		compared.Definition = written.Definition
	}
	if !first && (now.Alters == "" || !certain) { // keep the record of the last comparison, which queries use
		compared = was.Compared
	}
	if len(put)+len(gone)+len(changed) == 0 && compared.Alters == was.Alters && compared.Definition == was.Definition && compared.At-was.At < comparedEvery && !first {
		return false, nil
	}
	err = w.tx(ctx, func(tx *transaction) error {
		computed := rolling.Period{From: w.table.Grid.Bounds().From, To: w.table.Grid.Bounds().From}
		for _, m := range tx.marks {
			computed.To = max(computed.To, m.watermark)
		}
		for _, p := range changed {
			if p.From >= computed.To {
				continue
			}
			if err := w.st.Touch(ctx, tx, w.table.Name, "another partition", p); err != nil {
				return err
			}
		}
		return w.st.PutParts(ctx, tx, w.table.Name, put, gone, compared)
	})
	if err != nil {
		return fail(err)
	}
	return suspected, nil
}

// Compare notes that rows have changed in partitions which may have left the table and come back.
// Call it before rowmill changes the table's definition, because the server may then forget when
// partitions were written. Call settle after the change: it records that the change was rowmill's
// own. Without settle, all partitions whose times the server has forgotten are computed again.
func (s *Set) Compare(ctx context.Context) (settle func(context.Context), err error) {
	settle = func(context.Context) {}
	db, ok := s.db.(engine.PartIdentifier)
	if !ok || !s.declared.Exact || len(s.levels) == 0 {
		return settle, nil
	}
	fail := func(err error) (func(context.Context), error) {
		return settle, fmt.Errorf("compare the partitions of %s with those of its roll-ups: %w", s.table.Name, err)
	}
	was, ok, err := s.recorded(ctx)
	if err != nil || !ok || was == nil {
		return settle, err
	}
	parts, err := s.db.Catalog().Partitions(ctx, s.table)
	if err != nil {
		return fail(err)
	}
	now, err := db.PartIdentities(ctx, nil, "", s.table.Name, names(parts))
	if err != nil || now.Why != "" {
		return settle, err
	}
	certain := func(ctx context.Context) {
		written, err := db.PartsWritten(ctx, "", s.table.Name)
		if err != nil || written == nil || written.Definition == was.Definition {
			return
		}
		// What isn't recorded is computed again.
		if last, ok, err := s.recorded(ctx); err == nil && ok && last != nil {
			_ = s.st.Redefine(ctx, s.db.SQL(), s.table.Name, last.Compared, written.Definition)
		}
	}
	// A change that isn't granted its lock is tried again, and each try calls Compare. What Compare
	// has noted in an earlier try must not be noted again.
	if last := s.traced.last(); last.At > was.At {
		was.Compared = last
	}
	if now.Alters != "" && now.Alters == was.Alters {
		return certain, nil
	}
	written, err := db.PartsWritten(ctx, "", s.table.Name)
	if err != nil {
		return fail(err)
	}
	for _, p := range parts {
		if now.IDs[p.Name] == was.IDs[p.Name] && left(p.Name, was.Compared, now, written) {
			if err := s.st.Touch(ctx, s.db.SQL(), s.table.Name, "a partition that may have left the table", p.Period); err != nil {
				return fail(err)
			}
		}
	}
	if written == nil {
		return settle, nil
	}
	s.traced.note(state.Compared{Alters: now.Alters, Definition: written.Definition, At: now.Now})
	return certain, nil
}

// comparedEvery is the interval at which comparisons without a difference are recorded, in
// microseconds.
const comparedEvery = 1_000_000

// exactParts sets Changed and Same of t. If there is no partition whose rows are known to be in the
// roll-ups, it sets Why.
func (s prover) exactParts(ctx context.Context, t *engine.RolledTable) error {
	db, ok := s.db.(engine.PartIdentifier)
	if !ok {
		return nil
	}
	was, ok, err := s.recorded(ctx)
	switch {
	case err != nil:
		return err
	case !ok:
		t.Why = "an earlier version has not recorded the partitions that they were computed from: run rowmill apply, and then rowmill run"
		return nil
	case was == nil:
		t.Why = "the partitions that they were computed from are not recorded yet: rowmill run records them, with the privileges that docs/privileges.md names"
		return nil
	}
	differing := func(ctx context.Context, session *engine.Session, database string, parts []string) (list []string, why string, err error) {
		now, err := db.PartIdentities(ctx, session, database, s.table.Name, parts)
		if err != nil {
			return nil, "", err
		}
		if now.Why != "" {
			return nil, now.Why, nil
		}
		if name := s.other(was, now); name != "" {
			return nil, "column " + name + " is not the one that they were computed from: rowmill run computes them again", nil
		}
		var written *engine.PartsWritten
		if now.Alters == "" || now.Alters != was.Alters {
			if written, err = db.PartsWritten(ctx, database, s.table.Name); err != nil {
				return nil, "", err
			}
			if written == nil {
				return nil, "the server doesn't tell in time when its partitions were last changed, and a table was altered since rowmill run compared them", nil
			}
		}
		for _, name := range parts {
			if id := now.IDs[name]; id == "" || id != was.IDs[name] || left(name, was.Compared, now, written) {
				list = append(list, name)
			}
		}
		return list, "", nil
	}
	t.Changed, t.Why, err = differing(ctx, nil, "", names(t.Periods))
	t.Same = func(ctx context.Context, session *engine.Session, database string, periods []string) (why string, err error) {
		list, why, err := differing(ctx, session, database, periods)
		if err == nil && len(list) > 0 {
			why = "partition " + list[0] + " isn't the one of which the roll-ups have the rows"
		}
		return why, err
	}
	return err
}
