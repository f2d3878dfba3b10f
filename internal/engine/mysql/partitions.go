package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// floorName is the first partition of a declared table. It ends where the first period begins.
// These servers store no lower bounds: without the floor, rows older than every period would be in
// the oldest period, and be sealed, archived and dropped with it. The number of rows in the floor
// is reported: see Outside.
const floorName = "rowmill_floor"

// floored reports whether the table should have a floor.
func floored(t *engine.Table) bool { return t.Definition != nil && t.Rolling() }

// isFloor reports whether a partition is the floor.
func isFloor(name string) bool { return strings.EqualFold(name, floorName) }

// gapPrefix begins the names of gaps: partitions between periods. A gap gives the next period a
// lower bound, as the floor does. A period that is created later is split off a gap.
const gapPrefix = "rowmill_gap_"

// isGap reports whether a partition is a gap.
func isGap(name string) bool {
	return len(name) >= len(gapPrefix) && strings.EqualFold(name[:len(gapPrefix)], gapPrefix)
}

// outside reports whether a partition of a table is the floor or a gap.
func outside(t *engine.Table, name string) bool { return floored(t) && (isFloor(name) || isGap(name)) }

// floorTo returns the floor that ends at a position.
func floorTo(pos int64) rolling.Partition {
	return rolling.Partition{Name: floorName, Period: rolling.Period{To: pos}}
}

// A partitioner renders changes of periods.
type partitioner struct{ dialect }

func (d dialect) partitioner() partitioner { return partitioner{d} }

// reorganize renders the change of adjacent partitions to new ones of the same range, by a copy.
func (d partitioner) reorganize(t *engine.Table, old, now []rolling.Partition) (string, error) {
	defs, err := d.partitions(t, now)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("ALTER TABLE %s REORGANIZE PARTITION %s INTO (%s)", d.Quote(t.Name), d.list(partitionNames(old)), defs), nil
}

// divide renders a Divide, which splits a partition into new ones. The server can't lower a
// partition's end. So if the new partitions end earlier, the rest of the range becomes one more
// partition, which a second statement drops.
func (d partitioner) divide(s engine.Divide) ([]string, error) {
	switch n := len(s.New); {
	case n == 0:
		return []string{d.drop(s.Table, s.Part)}, nil
	case s.New[n-1].To == s.Part.To:
		return engine.One(d.reorganize(s.Table, []rolling.Partition{s.Part}, s.New))
	}
	defs, err := d.partitions(s.Table, s.New)
	end, endErr := bound(s.Table, s.Part.To)
	rest := rolling.Partition{Name: engine.RestName}
	return []string{fmt.Sprintf("ALTER TABLE %s REORGANIZE PARTITION %s INTO (%s, PARTITION %s VALUES LESS THAN (%s))",
		d.Quote(s.Table.Name), d.Quote(s.Part.Name), defs, d.Quote(rest.Name), end), d.drop(s.Table, rest)}, errors.Join(err, endErr)
}

// divideNow executes a Divide, unless the partition no longer exists.
func (c *changer) divideNow(ctx context.Context, s engine.Divide) {
	l := c.layout(ctx)
	if !slices.ContainsFunc(l.parts, func(p rolling.Partition) bool { return p.Name == s.Part.Name }) {
		return
	}
	statements, err := c.divide(s)
	c.fail(err)
	c.few(ctx, l, []string{s.Part.Name}, statements...)
	c.run(ctx, c.lockTables([]string{c.t.Name}))
	for _, q := range statements {
		if c.err != nil {
			return
		}
		// If the partition to be dropped has got rows since the plan, it stays.
		left := engine.RestName
		if len(statements) == 1 {
			left = s.Part.Name
		}
		if strings.Contains(q, " DROP PARTITION ") && c.filled(ctx, c.partition(c.t, left)) {
			break
		}
		c.run(ctx, q)
	}
	c.run(ctx, unlock)
}

// encloseTail renders an Enclose that no earlier attempt has begun.
func (d partitioner) encloseTail(s engine.Enclose) ([]string, error) {
	left := s.Tail
	left.From = s.Part.To
	split, err := d.reorganize(s.Table, []rolling.Partition{s.Tail}, []rolling.Partition{s.Part, left})
	return slices.Concat(d.words().CreateTemplate(s.Table, s.With, engine.Storage{}), []string{d.lockTables([]string{s.Table.Name, s.With}), d.exchange(s.Table, s.Tail.Name, s.With),
		split, d.exchange(s.Table, s.Part.Name, s.With), "DROP TABLE " + d.Quote(s.With), unlock}), err
}

// add renders the creation of partitions. If the floor is the table's only partition, its end is
// moved to the start of the first new period. split names the existing partitions that are split;
// the server copies their rows.
func (d partitioner) add(t *engine.Table, l layout, parts []rolling.Partition) (statements, split []string, err error) {
	if !floored(t) {
		defs, err := d.partitions(t, parts)
		return []string{d.addPartitions(t, defs)}, nil, err
	}
	there := append(partitionNames(l.free()), partitionNames(l.parts)...)
	for len(parts) > 0 && err == nil {
		n := 1
		if len(l.parts) > 0 || len(l.gaps) > 0 { // one statement for adjacent periods after the last partition
			for parts[0].From >= l.end() && n < len(parts) && parts[n].From == parts[n-1].To {
				n++
			}
		}
		var q string
		var names []string
		q, names, err = d.room(t, l, parts[0], parts[1:n]...)
		statements, split = append(statements, q), append(split, names...)
		l = l.with(parts[:n])
		parts = parts[n:]
	}
	split = slices.DeleteFunc(split, func(name string) bool { return !slices.Contains(there, name) }) // without gaps that add itself creates and splits
	return statements, split, err
}

func (d partitioner) addPartitions(t *engine.Table, defs string) string {
	return fmt.Sprintf("ALTER TABLE %s ADD PARTITION (%s)", d.Quote(t.Name), defs)
}

// layout has the partitions of a table.
type layout struct {
	// hasFloor is set if there is a floor; floor is its upper bound, and floorIs its name.
	floor    int64
	floorIs  string
	hasFloor bool
	// gaps are the partitions between the periods; parts are the periods.
	gaps, parts []rolling.Partition
}

// end returns the upper bound of the last partition.
func (l layout) end() int64 {
	end := l.floor
	for _, all := range [][]rolling.Partition{l.gaps, l.parts} {
		if n := len(all); n > 0 {
			end = max(end, all[n-1].To)
		}
	}
	return end
}

// free returns the floor and the gaps, in order.
func (l layout) free() []rolling.Partition {
	if !l.hasFloor {
		return slices.Clone(l.gaps)
	}
	floor := floorTo(l.floor)
	floor.From, floor.Name = math.MinInt64, l.floorIs
	return slices.Concat([]rolling.Partition{floor}, l.gaps)
}

// with returns the layout after the creation of adjacent periods, which are in order.
func (l layout) with(parts []rolling.Partition) layout {
	from, to := parts[0].From, parts[len(parts)-1].To
	var gaps []rolling.Partition
	gap := func(p rolling.Period) {
		if p.From < p.To {
			gaps = append(gaps, gapIn(p))
		}
	}
	end := l.end()
	for _, g := range l.gaps {
		if g.To <= from || g.From >= to {
			gaps = append(gaps, g)
			continue
		}
		gap(rolling.Period{From: g.From, To: from})
		gap(rolling.Period{From: to, To: g.To})
	}
	if len(l.parts) == 0 && len(l.gaps) == 0 {
		l.floor, l.floorIs, l.hasFloor = from, floorName, true
	}
	if l.hasFloor && from < l.floor {
		gap(rolling.Period{From: to, To: l.floor})
		l.floor = from
	}
	if from > end && len(l.parts) > 0 {
		gap(rolling.Period{From: end, To: from})
	}
	byFrom := func(a, b rolling.Partition) int { return cmp.Compare(a.From, b.From) }
	l.gaps, l.parts = gaps, slices.Concat(l.parts, parts)
	slices.SortFunc(l.gaps, byFrom)
	slices.SortFunc(l.parts, byFrom)
	return l
}

// gapIn returns the gap with the range p.
func gapIn(p rolling.Period) rolling.Partition {
	return rolling.Partition{Name: gapPrefix + strings.ReplaceAll(strconv.FormatInt(p.From, 10), "-", "m"), Period: p}
}

// find returns the index of the partition with p's upper bound, or -1. The bound identifies it.
func (l layout) find(p rolling.Partition) int {
	return slices.IndexFunc(l.parts, func(q rolling.Partition) bool { return q.To == p.To })
}

// bounded is the name and the upper bound of a partition in the catalog.
type bounded struct {
	name string
	to   int64
}

// layOut makes a layout of ordered partitions. Each partition begins where the previous one ends.
// The first one begins at the floor's end. Without a floor, the catalog doesn't say where the first
// one begins: it gets the begin of the period of the table's grid that has the same end.
func layOut(t *engine.Table, have []bounded) (layout, error) {
	var l layout
	for i, h := range have {
		if i == 0 && floored(t) && (isFloor(h.name) || h.to <= t.Grid.Bounds().From) { // others' tables may have a first partition of values that are no times
			l.floor, l.floorIs, l.hasFloor = h.to, h.name, true
			continue
		}
		p := rolling.Partition{Name: h.name, Period: rolling.Period{To: h.to}}
		switch {
		case i > 0:
			p.From = have[i-1].to
		case t.Rolling() && h.to == t.Grid.Bounds().To:
			p.From = t.Grid.Bounds().From
		case t.Rolling():
			first, err := t.Grid.At(h.to - 1)
			if err != nil {
				return l, fmt.Errorf("partition %s of %s: %w", h.name, t.Name, err)
			}
			p.From = first.From
		}
		if outside(t, h.name) {
			l.gaps = append(l.gaps, p)
		} else {
			l.parts = append(l.parts, p)
		}
	}
	return l, nil
}

// tail returns the last partition if it has no end, else none.
func (l layout) tail(t *engine.Table) []rolling.Partition {
	if n := len(l.parts); n > 0 && l.parts[n-1].To == t.Grid.Bounds().To {
		return l.parts[n-1:]
	}
	return nil
}

// before returns the floor, if there is one, and the gaps that end before a period.
func (l layout) before(p rolling.Partition) []rolling.Partition {
	return slices.DeleteFunc(l.free(), func(f rolling.Partition) bool { return f.To > p.From })
}

// removal renders the removal of an empty partition. If it is the first period, its range goes to
// the floor (the partition below all periods), so that the next period keeps its lower bound. The
// range of any other period goes to the next period.
func (d partitioner) removal(t *engine.Table, l layout, i int) (string, error) {
	p := l.parts[i]
	if i > 0 || !floored(t) {
		return d.drop(t, p), nil
	}
	return d.reorganize(t, append(l.before(p), p), []rolling.Partition{floorTo(p.To)})
}

// release renders the removal of the floor and of gaps. If the floor or a gap has rows, it stays as
// an ordinary partition with another name. If the table has no periods, both stay.
func (d partitioner) release(t *engine.Table, l layout, filled func(name string) bool) (out []string, err error) {
	for _, p := range l.free() {
		if len(l.parts) > 0 && !filled(p.Name) {
			out = append(out, d.drop(t, p))
			continue
		}
		now := p
		now.Name = strings.TrimPrefix(strings.ToLower(p.Name), "rowmill_")
		q, err := d.reorganize(t, []rolling.Partition{p}, []rolling.Partition{now})
		if err != nil {
			return nil, err
		}
		out = append(out, q)
	}
	return out, nil
}

// supposed returns the layout for a dry run.
func supposed(t *engine.Table, have []rolling.Partition) layout {
	l := layout{parts: have, floorIs: floorName, hasFloor: floored(t)}
	if len(have) > 0 {
		l.floor = have[0].From
	}
	for i := 1; i < len(have) && floored(t); i++ {
		if p := (rolling.Period{From: have[i-1].To, To: have[i].From}); p.From < p.To {
			l.gaps = append(l.gaps, gapIn(p))
		}
	}
	return l
}

// dropPartition renders dropping a partition with its rows.
func (d partitioner) dropPartition(t *engine.Table, l layout, p rolling.Partition) ([]string, error) {
	i := slices.IndexFunc(l.parts, func(q rolling.Partition) bool { return q.Name == p.Name })
	if i < 0 {
		i = l.find(p)
	}
	if i != 0 || !floored(t) {
		return []string{d.drop(t, p)}, nil
	}
	q, err := d.removal(t, l, i)
	return []string{fmt.Sprintf("ALTER TABLE %s TRUNCATE PARTITION %s", d.Quote(t.Name), d.Quote(p.Name)), q}, err
}

// alone renders changes of a declared table's partitions under LOCK TABLES. Otherwise, if an ALTER
// TABLE didn't get its metadata lock in time, MariaDB would wait for it a second time.
func (d partitioner) alone(t *engine.Table, statements ...string) []string {
	if !floored(t) {
		return statements
	}
	return slices.Concat([]string{d.lockTables([]string{t.Name})}, statements, []string{unlock})
}

// splitRows is how many rows a partition to be split may have: they are copied under the lock.
const splitRows = 100_000

// attach executes an Attach.
func (c *changer) attach(ctx context.Context, s engine.Attach) {
	from := c.look(ctx, s.From)
	switch {
	case !from.there:
		if c.layout(ctx).index(s.Part) < 0 {
			c.fail(engine.Classed(engine.ErrNoTable, fmt.Errorf("neither the partition nor the table %s exists", s.From)))
		}
		return
	case s.From == c.t.Name || from.partitioned:
		c.fail(fmt.Errorf("table %s is partitioned", s.From))
		return
	}
	tables := []string{c.t.Name, s.From}
	exchange := func() {
		c.locked(ctx, tables, func() ([]string, bool) { return c.attachPlan(ctx, s) })
	}
	if from.exchanges() && c.selfBlocking(ctx) {
		exchange = func() { c.attachBehind(ctx, s) }
	}
	if from.exchanges() {
		exchange()
		if !c.failed(errExchangeOption) {
			return
		}
	} else {
		c.locked(ctx, tables, func() ([]string, bool) {
			if l := c.layout(ctx); l.index(s.Part) < 0 {
				return []string{c.makeRoom(ctx, l, s.Part)}, false
			}
			return nil, false
		})
	}
	c.moveRows(ctx, s.From, c.Quote(s.From), c.Quote(c.t.Name))
	exchange()
}

// makeRoom is room, but refuses to split a partition with too many rows.
func (c *changer) makeRoom(ctx context.Context, l layout, p rolling.Partition) string {
	q, split, err := c.room(c.t, l, p)
	c.fail(err)
	c.few(ctx, l, split, q)
	return q
}

// few fails the change if a partition in split, which statements would split, has too many rows.
func (c *changer) few(ctx context.Context, l layout, split []string, statements ...string) {
	for _, p := range slices.Concat(l.free(), l.parts) {
		if !slices.Contains(split, p.Name) || !c.exceeds(ctx, p.Name, c.db.splitRows) {
			continue
		}
		crowd := &engine.CrowdedError{Part: p, Most: c.db.splitRows}
		if outside(c.t, p.Name) {
			crowd.Rows = c.span(ctx, p)
		}
		c.fail(engine.Classed(engine.ErrUnsupported, engine.Hinted(crowd, "%s, at a time when inserts may wait until it has copied them", strings.Join(statements, "; "))))
	}
}

// span returns the range of the rows in a partition, without rows before the grid's first position.
func (c *changer) span(ctx context.Context, p rolling.Partition) (r rolling.Period) {
	by := c.Quote(c.t.By)
	var first, last sql.NullInt64
	c.read(ctx, fmt.Sprintf("SELECT %s, %s FROM %s WHERE %s >= %s", c.words().Position(c.t, "MIN("+by+")"), c.words().Position(c.t, "MAX("+by+")"),
		c.partition(c.t, p.Name), by, c.words().Literal(c.t, c.t.Grid.Bounds().From)), &first, &last)
	if first.Valid && last.Valid {
		r = rolling.Period{From: first.Int64, To: last.Int64 + 1}
	}
	return r
}

func (db *server) Enclose(ctx context.Context, t *engine.Table, period rolling.Partition, with string) error {
	err := db.change(ctx, t, func(c *changer) { c.enclose(ctx, period, with) })
	return engine.About(ctx, err, "make rows of table "+t.Name+" outside of its periods those of period "+period.Name)
}

// enclose makes a period p of the rows that lie in p's range but in a larger partition, such as the
// floor or a gap. It exchanges the larger partition with an empty table, whose name is with,
// creates the partition p, and exchanges the table's rows into p. Rows outside of p's range go
// back.
func (c *changer) enclose(ctx context.Context, p rolling.Partition, with string) {
	by := c.Quote(c.t.By)
	strays := fmt.Sprintf(" WHERE %s < %s OR %s >= %s", by, c.words().Literal(c.t, p.From), by, c.words().Literal(c.t, p.To))
	holder := func(l layout) string {
		for _, f := range slices.Concat(l.free(), l.tail(c.t)) {
			if f.From <= p.From && p.To <= f.To {
				return f.Name
			}
		}
		c.fail(engine.Classed(engine.ErrUnsupported,
			fmt.Errorf("no partition outside of the periods holds its range, %s to %s", c.t.Grid.Format(p.From), c.t.Grid.Format(p.To))))
		return ""
	}
	l, there := c.layout(ctx), c.look(ctx, with).there
	switch created := l.index(p) >= 0; {
	case created && !there:
		return // done
	case !created && !(there && c.filled(ctx, c.Quote(with))):
		name := holder(l)
		if !c.look(ctx, c.t.Name).exchanges() {
			c.fail(engine.Classed(engine.ErrUnsupported, errors.New("its storage engine exchanges no partitions")))
		}
		if c.read(ctx, fmt.Sprintf("SELECT 1 FROM %s LIMIT 1 OFFSET %d", c.partition(c.t, name)+strays, c.db.splitRows), new(int)) {
			c.fail(engine.Classed(engine.ErrUnsupported, fmt.Errorf("more than %d rows of partition %s lie outside of %s", c.db.splitRows, name, p.Name)))
		}
	}
	c.clone(ctx, with)
	alone := !c.selfBlocking(ctx) // else others write between the statements
	exchange := func() {
		c.locked(ctx, []string{c.t.Name, with}, func() ([]string, bool) {
			l, has := c.layout(ctx), c.filled(ctx, c.Quote(with))
			switch created := l.index(p) >= 0; {
			case !created && !has:
				name := holder(l)
				if c.err != nil || !c.filled(ctx, c.partition(c.t, name)) { // its rows were deleted
					break
				}
				if !alone || c.filled(ctx, c.partition(c.t, name)+strays) {
					return []string{c.exchange(c.t, name, with)}, true
				}
				// The further statements are known, and sent together, because writers wait.
				split, _, err := c.room(c.t, l, p)
				c.fail(err)
				return []string{c.exchange(c.t, name, with), split, c.exchange(c.t, p.Name, with), unlock, "DROP TABLE " + c.Quote(with)}, false
			case created && c.filled(ctx, c.Quote(with)+strays):
				return c.moveAtOnce(c.writable(ctx), c.Quote(with)+strays, c.Quote(c.t.Name)), true
			}
			return c.attachPlan(ctx, engine.Attach{Table: c.t, Part: p, From: with})
		})
	}
	exchange()
	if c.failed(errTablesDiffer) {
		c.renew(ctx, with)
		exchange()
	}
	if err := c.err; c.failed(errExchangeOption) || errors.Is(err, engine.ErrUnsupported) {
		c.err = nil
		if c.absent(ctx, with, false); c.look(ctx, with).there || c.err != nil { // it has rows
			c.err = errors.New(err.Error())
		} else {
			c.err = engine.Classed(engine.ErrUnsupported, err)
		}
	}
}

// index returns the index of the partition with p's bounds, or -1.
func (l layout) index(p rolling.Partition) int {
	return slices.IndexFunc(l.parts, func(q rolling.Partition) bool { return q.Period == p.Period })
}

// attachBehind replaces attachPlan for a table that is selfBlocking. Other sessions may insert rows
// into the new partition before it is exchanged for the table s.From. These rows are copied to
// s.From, and stay in the partition, so that others can read them until the exchange. An
// interrupted attempt may have copied some of these rows.
func (c *changer) attachBehind(ctx context.Context, s engine.Attach) {
	l := c.layout(ctx)
	if c.err == nil && l.index(s.Part) < 0 {
		c.run(ctx, c.makeRoom(ctx, l, s.Part))
		l = c.layout(ctx)
	}
	if c.err == nil && c.filled(ctx, c.Quote(s.From)) {
		name := l.parts[l.index(s.Part)].Name
		c.exchangeBehind(ctx, name, s.From, func() {
			if p := c.partition(c.t, name); c.filled(ctx, p) {
				c.run(ctx, c.words().CopyRows(engine.CopyRows{Into: c.Quote(s.From), From: p, Columns: c.columns(ctx, c.t.Name).Names(), Skip: true}))
			}
		})
	}
	c.run(ctx, "DROP TABLE "+c.Quote(s.From))
}

func (c *changer) attachPlan(ctx context.Context, s engine.Attach) (statements []string, more bool) {
	l := c.layout(ctx)
	i := l.index(s.Part)
	if i < 0 {
		return []string{c.makeRoom(ctx, l, s.Part)}, true
	}
	if c.filled(ctx, c.Quote(s.From)) {
		if p := c.partition(c.t, l.parts[i].Name); c.filled(ctx, p) {
			// These rows of the period were in the floor, or were inserted later.
			statements = c.moveAtOnce(c.writable(ctx), p, c.Quote(s.From))
		}
		statements = append(statements, c.exchange(c.t, l.parts[i].Name, s.From))
	}
	return append(statements, "DROP TABLE "+c.Quote(s.From)), false
}

// room renders the creation of an empty partition with p's bounds, and of the partitions in more,
// which lie directly behind p. more is empty unless p lies behind all existing partitions. split
// names the existing partitions that are split for this.
func (d partitioner) room(t *engine.Table, l layout, p rolling.Partition, more ...rolling.Partition) (q string, split []string, err error) {
	filler := func(from, to int64) []rolling.Partition {
		if from >= to {
			return nil
		}
		f := t.Grid.Named(rolling.Period{From: from, To: to})
		for slices.ContainsFunc(l.parts, func(q rolling.Partition) bool { return q.Name == f.Name }) || f.Name == p.Name {
			f.Name += "x"
		}
		return []rolling.Partition{f}
	}
	gap := func(from, to int64) []rolling.Partition {
		if from >= to || !floored(t) {
			return filler(from, to)
		}
		return []rolling.Partition{gapIn(rolling.Period{From: from, To: to})}
	}
	reorganize := func(old, now []rolling.Partition) (string, []string, error) {
		q, err := d.reorganize(t, old, now)
		return q, partitionNames(old), err
	}
	floor := []rolling.Partition{floorTo(p.From)}
	switch free := l.free(); {
	case len(l.parts) == 0 && !l.hasFloor:
		return "", nil, errors.New("the table has no partition")
	case len(l.parts) == 0 && len(free) == 1:
		return reorganize(free, slices.Concat(floor, []rolling.Partition{p}, more))
	case p.From >= l.end():
		defs, err := d.partitions(t, slices.Concat(gap(l.end(), p.From), []rolling.Partition{p}, more))
		return d.addPartitions(t, defs), nil, err
	default:
		free = slices.DeleteFunc(free, func(f rolling.Partition) bool { return !f.Overlaps(p.Period) })
		n := len(free)
		if n == 0 || p.From < free[0].From || p.To > free[n-1].To && free[n-1].To < l.end() || slices.ContainsFunc(l.parts, func(q rolling.Partition) bool { return q.Overlaps(p.Period) }) {
			break
		}
		before := floor
		if !l.hasFloor || free[0].Name != l.floorIs {
			before = gap(free[0].From, p.From)
		}
		return reorganize(free, slices.Concat(before, []rolling.Partition{p}, gap(p.To, free[n-1].To)))
	}
	if first := l.parts[0]; p.To <= first.From {
		now := slices.Concat([]rolling.Partition{p}, gap(p.To, first.From), []rolling.Partition{first})
		if floored(t) {
			now = slices.Concat(floor, now)
		}
		return reorganize([]rolling.Partition{first}, now)
	}
	for _, old := range l.parts {
		if old.From <= p.From && p.To <= old.To {
			now := append(filler(old.From, p.From), p)
			if old.From <= t.Grid.Bounds().From && floored(t) {
				now = slices.Concat(floor, []rolling.Partition{p})
			}
			if p.To < old.To {
				now = append(now, rolling.Partition{Name: old.Name, Period: rolling.Period{From: p.To, To: old.To}})
			}
			return reorganize([]rolling.Partition{old}, now)
		}
	}
	return "", nil, fmt.Errorf("its range, %s to %s, covers several partitions", t.Grid.Format(p.From), t.Grid.Format(p.To))
}

// attach renders an Attach that no earlier attempt has begun.
func (d partitioner) attach(s engine.Attach) ([]string, error) {
	q, _, err := d.room(s.Table, supposed(s.Table, s.Have), s.Part)
	if err != nil {
		return nil, fmt.Errorf("attach partition %s of %s: %w", s.Part.Name, s.Table.Name, err)
	}
	if d.rocksdb() {
		return slices.Concat([]string{q}, d.moveLocked([]string{s.Table.Name, s.From}, d.move("", d.Quote(s.From), d.Quote(s.Table.Name))),
			[]string{"DROP TABLE " + d.Quote(s.From)}), nil
	}
	return []string{d.lockTables([]string{s.Table.Name, s.From}), q,
		d.exchange(s.Table, s.Part.Name, s.From), "DROP TABLE " + d.Quote(s.From), unlock}, nil
}
