package maintain

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A Kind is a kind of task.
type Kind string

// Kinds of tasks, in the order of execution.
const (
	Create  Kind = "create"       // create periods ahead
	Rollup  Kind = "rollup"       // refresh the levels
	Seal    Kind = "seal"         // count a period that takes no more rows, and compute its checksum
	Check   Kind = "check"        // verify that a sealed period is unchanged
	Archive Kind = "archive"      // write a sealed period to a file
	Drop    Kind = state.DropKind // remove a period that has passed retention
	Rebuild Kind = "rebuild"      // rewrite a sealed period sorted and compressed
	Merge   Kind = "merge"        // rewrite several sealed periods as one, sorted and compressed
)

// A Task is one action on a table.
type Task struct {
	Kind Kind
	// Parts are the partitions that the task affects: those to create or to merge, or the one to seal,
	// archive, drop or rebuild.
	Parts []rolling.Partition
	// New is the partition that a merge or a rebuild produces.
	New rolling.Partition
	// Due is the position at which the task becomes due.
	Due int64
	// Waits is the reason why the task can't be done although it is due; "" if it can.
	Waits string
	// Behind means that the task waits for another task of the plan.
	Behind bool
	// PutOff means that the task waits for the owner or for a running load. The owner has to finish an
	// adoption or to release a restored period.
	PutOff bool
}

// ID identifies the task among those of its table.
func (t Task) ID() string {
	if len(t.Parts) == 0 {
		return string(t.Kind)
	}
	return fmt.Sprintf("%s %d-%d", t.Kind, t.Parts[0].From, t.Parts[len(t.Parts)-1].To)
}

// A View is the state of a table and its server, the input of a plan.
type View struct {
	Now int64
	// Parts are the table's partitions in order, Known the records about them.
	Parts []rolling.Partition
	Known []state.Period
	// Changes are the changes in progress, and Busy the periods that they affect. A change is
	// completed before anything else is done with its period.
	Changes []state.Change
	Busy    []rolling.Period
	// Restoring are the periods of Busy that are being restored. No lane completes a restore, only the
	// command line does.
	Restoring []rolling.Period
	// MaxPeriods and SwapRows are the engine's limits; 0 means no limit.
	MaxPeriods int
	SwapRows   int64
	// Loading are the files that are being loaded at present.
	Loading []Loading
	// Gaps means that partitions have lower bounds. Without these, a period can't be dropped before
	// the older ones, because the next period would take over its range.
	Gaps bool
	// Adopting means that the table was adopted and its old table still exists. Periods are not
	// dropped until the old table is: if the adoption were undone, the rows of a dropped period would
	// be deleted from the old table, too.
	Adopting bool
	// Compacts means that the engine sorts and compresses rows without a rebuild,
	// and that periods can't be merged by a swap.
	Compacts bool
	// Single means that no periods can be merged, only rebuilt one by one.
	Single bool
}

// Record returns the record of a partition, or nil. It compares bounds, because engines may rename
// partitions.
func (v View) Record(p rolling.Partition) *state.Period {
	i, found := slices.BinarySearchFunc(v.Known, p.From, func(k state.Period, from int64) int { return cmp.Compare(k.From, from) })
	if !found || v.Known[i].To != p.To || v.Known[i].State == state.Dropped {
		return nil
	}
	return &v.Known[i]
}

// maxFan is the maximum number of partitions that are merged at a time, because each costs some
// milliseconds under the table's lock. More partitions are merged in several rounds.
const maxFan = 12

// Plan returns the tasks of a table that are due and those that become due next, in the order of
// execution. It decides by positions and records alone; each task verifies its own conditions.
func Plan(d *rolling.Declaration, v View) ([]Task, error) {
	create, err := PlanCreate(d, v)
	if err != nil {
		return nil, err
	}
	out := create
	if len(d.Rollups) > 0 {
		out = append(out, Task{Kind: Rollup, Due: v.Now})
	}
	out = append(out, planSeals(d, v)...)
	out = append(out, planChecks(v)...)
	rebuilds := planRebuilds(d, v)
	out = append(out, planArchives(d, v, rebuilds)...)
	out = append(out, planDrops(d, v)...)
	out = append(out, rebuilds...)
	for i := range out {
		t := &out[i]
		if t.Kind != Create && v.busy(t.Parts) {
			t.Waits = "a change of it is under way"
		}
		if load := v.filling(t.Parts); load != nil && t.Kind != Create && t.Kind != Check && t.Due <= v.Now {
			t.Waits, t.PutOff = load.why(), true
		}
	}
	return out, nil
}

// filling returns the load that fills one of the periods, or nil.
func (v View) filling(parts []rolling.Partition) *Loading {
	for i := range v.Loading {
		if slices.ContainsFunc(parts, func(p rolling.Partition) bool { return p.Overlaps(v.Loading[i].Period) }) {
			return &v.Loading[i]
		}
	}
	return nil
}

func (v View) busy(parts []rolling.Partition) bool {
	return slices.ContainsFunc(parts, func(p rolling.Partition) bool {
		return slices.ContainsFunc(v.Busy, p.Overlaps)
	})
}

// PlanCreate returns the task that creates the partitions which inserts need now. If they exist, it
// returns the task for the next partition, with the time when it is due.
func PlanCreate(d *rolling.Declaration, v View) ([]Task, error) {
	present, err := d.Period.At(v.Now)
	if err != nil {
		return nil, err
	}
	n := 1
	if !d.Ahead.IsZero() {
		ahead, err := d.Period.Cover(rolling.Period{From: present.To, To: max(d.Ahead.After(v.Now), present.To+1)}, 8192)
		if err != nil {
			return nil, fmt.Errorf("create ahead: %w", err)
		}
		n = len(ahead)
	}
	steps, err := rolling.Policy{Grid: d.Period, Ahead: n}.Steps(v.Parts, v.Now)
	if err != nil {
		return nil, err
	}
	// Fill gaps, too: a load may have created a later period.
	if have := len(v.Parts); have > 0 && v.Parts[0].From <= present.From {
		b := d.Period.Bounds()
		fill := rolling.Creatable{Grid: d.Period, Range: b, Sealed: b.From}
		missing, err := fill.Missing(v.Parts, present.From, min(max(d.Ahead.After(v.Now), present.To+1), v.Parts[have-1].From), 8192)
		if err != nil {
			return nil, fmt.Errorf("create ahead: %w", err)
		}
		steps.Create = append(missing, steps.Create...)
	}
	if len(steps.Create) == 0 {
		end := covered(v.Parts, v.Now)
		if end == v.Now { // all periods lie in the future
			end = v.Parts[len(v.Parts)-1].To
		}
		next, err := d.Period.At(end)
		if err != nil {
			return nil, nil // the end of the axis
		}
		due := present.To
		if !d.Ahead.IsZero() {
			due = max(d.Ahead.Before(end), present.From)
		}
		return []Task{{Kind: Create, Parts: []rolling.Partition{d.Period.Named(next)}, Due: max(due, v.Now+1)}}, nil
	}
	t := Task{Kind: Create, Parts: steps.Create, Due: v.Now}
	if have := v.partitions(v.Parts) + len(steps.Create); v.MaxPeriods > 0 && have > v.MaxPeriods {
		t.Waits = fmt.Sprintf("the table would have %d periods and the server allows %d: merge or drop some, or take a longer period", have, v.MaxPeriods)
	}
	return []Task{t}, nil
}

// covered returns the end of the unbroken run of periods that contains now; now itself if no period
// contains it.
func covered(parts []rolling.Partition, now int64) int64 {
	end := now
	for _, p := range parts {
		if p.From <= end && p.To > end {
			end = p.To
		}
	}
	return end
}

// partitions returns how many partitions the server needs for these periods, which are in order. If
// partitions have no lower bounds, each gap between periods is a partition, too.
func (v View) partitions(parts []rolling.Partition) int {
	n := len(parts)
	for i := 1; i < len(parts) && !v.Gaps; i++ {
		if parts[i].From > parts[i-1].To {
			n++
		}
	}
	return n
}

func sealDue(d *rolling.Declaration, p rolling.Partition) int64 { return d.Seal.After.After(p.To) }

// planSeals returns the seals that are due, and the next one that will be.
func planSeals(d *rolling.Declaration, v View) []Task {
	var out []Task
	for _, p := range v.Parts {
		if v.Record(p) != nil {
			continue
		}
		due := sealDue(d, p)
		out = append(out, Task{Kind: Seal, Parts: []rolling.Partition{p}, Due: due})
		if due > v.Now {
			break
		}
	}
	return out
}

// planChecks returns the sealed periods to verify again, because writers may add rows without
// recording them. Late rows become rarer as a period ages. So each period is verified when its age
// has doubled since its last check, and before its drop. A table of n periods is thus read about
// log n times in total.
func planChecks(v View) []Task {
	var out []Task
	for _, p := range v.Parts {
		k := v.Record(p)
		if k == nil || k.State == state.Restored {
			continue
		}
		due := k.Checked + max(k.Checked-k.To, k.To-k.From)
		if k.Checked > v.Now {
			due = v.Now // the clock was set back, so Checked lies in the future
		}
		if due <= v.Now {
			out = append(out, Task{Kind: Check, Parts: []rolling.Partition{p}, Due: due})
		}
	}
	return out
}

// DropDue returns when a period is due to be dropped; false without retention.
func DropDue(d *rolling.Declaration, p rolling.Partition) (int64, bool) {
	if d.Keep.IsZero() {
		return 0, false
	}
	return max(d.Keep.After(p.To), sealDue(d, p)), true
}

// planArchives returns the sealed periods that have no archive, except periods that will be merged
// first.
func planArchives(d *rolling.Declaration, v View, rebuilds []Task) []Task {
	if d.Seal.Archive == "" {
		return nil
	}
	waiting := map[int64]bool{} // periods that are due to be rebuilt, by their start
	for _, t := range rebuilds {
		for _, p := range t.Parts {
			waiting[p.From] = true
		}
	}
	var out []Task
	for i, p := range v.Parts {
		if d.Seal.Merge.Valid() && !v.Compacts && v.group(d, i) == 0 {
			waiting[p.From] = true
		}
		k := v.Record(p)
		if k == nil || k.State != state.Sealed {
			continue
		}
		due, drops := DropDue(d, p)
		if waiting[p.From] && !(drops && due <= v.Now) {
			continue
		}
		out = append(out, Task{Kind: Archive, Parts: []rolling.Partition{p}, Due: v.Now})
	}
	return out
}

// planDrops returns the periods that have passed retention, oldest first, and the next one that
// will. A period waits until it is sealed and, if so declared, archived. The last partition stays,
// because a table needs one.
//
// With roll-ups, a period also waits until all older periods are dropped. A drop makes the buckets
// of all time up to the period's end final: late rows of an older period could no longer be added.
// Restored periods, and periods being restored, don't count as older ones: they were dropped
// before.
func planDrops(d *rolling.Declaration, v View) []Task {
	var out []Task
	older, restored, left := "an older period is due first", false, false
	for i, p := range v.Parts {
		due, drops := DropDue(d, p)
		if !drops || i == len(v.Parts)-1 {
			break
		}
		k := v.Record(p)
		if k != nil && k.State == state.Restored {
			older, restored = "restored period "+p.Name+" is older: release it first, by rowmill restore --release", true
			continue
		}
		t := Task{Kind: Drop, Parts: []rolling.Partition{p}, Due: due}
		first := !left && !slices.ContainsFunc(v.Busy, func(b rolling.Period) bool { return b.From < p.From && !slices.Contains(v.Restoring, b) })
		left = true
		switch {
		case due > v.Now:
		case v.Adopting:
			t.PutOff = true
			t.Waits = "the adoption of the table is not finished: rowmill apply FILE --finish, which can't be undone"
		case i > 0 && !v.Gaps:
			t.Waits, t.PutOff, t.Behind = older, restored, true
		case len(d.Rollups) > 0 && !first:
			t.Waits, t.Behind = "an older period is due first", true
		case k == nil:
			t.Waits, t.Behind = "not sealed", true
		case d.Seal.Archive != "" && k.State != state.Archived:
			t.Waits, t.Behind = "not archived", true
		}
		out = append(out, t)
		if due > v.Now {
			break
		}
	}
	return out
}

// planRebuilds returns the sealed periods to merge or to rebuild that are not about to be dropped.
func planRebuilds(d *rolling.Declaration, v View) []Task {
	if v.Compacts || !d.Seal.Compress && !d.Seal.Merge.Valid() {
		return nil
	}
	var out []Task
	for i := 0; i < len(v.Parts); {
		n := 1
		if d.Seal.Merge.Valid() {
			n = v.group(d, i)
		}
		group := v.Parts[i : i+max(n, 1)]
		i += len(group)
		if n == 0 {
			continue
		}
		if due, drops := DropDue(d, group[0]); drops && due <= v.Now {
			continue
		}
		out = append(out, v.rebuild(d, group)...)
	}
	return out
}

// group returns how many partitions, from the i-th on, are to be merged into one longer period; 0
// if the longer period isn't due to be sealed yet.
func (v View) group(d *rolling.Declaration, i int) int {
	long, err := d.Seal.Merge.At(v.Parts[i].From)
	if err != nil || d.Seal.After.After(long.To) > v.Now {
		return 0
	}
	n := 0
	for i+n < len(v.Parts) && v.Parts[i+n].To <= long.To {
		n++
	}
	return n
}

// rebuild returns the tasks that merge or rebuild the partitions of group, which lie in one longer
// period. Each task takes at most maxFan adjacent sealed partitions, which together have at most
// SwapRows rows.
func (v View) rebuild(d *rolling.Declaration, group []rolling.Partition) []Task {
	var out []Task
	for i := 0; i < len(group); {
		run, rows := 0, int64(0)
		for i+run < len(group) && run < maxFan {
			k := v.Record(group[i+run])
			if k == nil || k.State != state.Sealed {
				break
			}
			if v.SwapRows > 0 && rows+k.Rows > v.SwapRows {
				break
			}
			if run > 0 && (v.Single || group[i+run].From != group[i+run-1].To) {
				break
			}
			rows += k.Rows
			run++
		}
		if run == 0 {
			i++
			continue
		}
		parts := group[i : i+run]
		i += run
		t := Task{Kind: Merge, Parts: parts, Due: v.Now}
		if run == 1 {
			if !d.Seal.Compress || v.Record(parts[0]).Rebuilt {
				continue
			}
			t.Kind = Rebuild
		}
		t.New = merged(d, parts)
		out = append(out, t)
	}
	return out
}

func merged(d *rolling.Declaration, parts []rolling.Partition) rolling.Partition {
	p := rolling.Period{From: parts[0].From, To: parts[len(parts)-1].To}
	if len(parts) == 1 {
		return parts[0]
	}
	if long, err := d.Seal.Merge.At(p.From); err == nil && long == p {
		return d.Seal.Merge.Named(p)
	}
	return d.Period.Named(p)
}

// mostPeriods is how many periods of the grid a partition may span, counted from the present. 32
// allows monthly partitions in a table that is taken over with every = "1d".
const mostPeriods = 32

// Overlong returns the index of the first partition that takes rows for more than mostPeriods
// periods of the grid, or for ever; -1 if there is none. Until such a partition ends, none of its
// rows is sealed, archived or dropped.
func (v View) Overlong(g rolling.Grid) int {
	return slices.IndexFunc(v.Parts, func(p rolling.Partition) bool {
		end := max(p.From, v.Now)
		for n := 0; n < mostPeriods && end < p.To; n++ {
			next, err := g.At(end)
			if err != nil {
				break
			}
			end = next.To
		}
		return p.To > v.Now && (end < p.To || p.To == g.Bounds().To)
	})
}

// OverlongText describes an overlong partition, for errors and status.
func (v View) OverlongText(g rolling.Grid, p rolling.Partition) string {
	ends := "ends at " + g.Format(p.To)
	if p.To == g.Bounds().To {
		ends = "has no end"
	}
	return fmt.Sprintf("partition %s %s, and %s is declared: until its end none of its rows is sealed, archived or dropped, and no period is created in its place", p.Name, ends, g)
}
