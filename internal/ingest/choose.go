package ingest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// unfit returns the reason why no rows of a source can be published, or "".
func (l *load) unfit(t *target) string {
	s := l.opt.Schema
	_, is := l.opt.DB.(engine.Stager)
	own := func(name string) bool { return strings.HasPrefix(name, "rowmill_") }
	switch {
	case !is || l.opt.Publisher == nil:
		return "this server has no bulk path that rowmill uses"
	case s.Compacts:
		return "its storage engine exchanges no tables"
	case l.opt.OnDuplicate != SkipDuplicate:
		return "rows whose key is there already are not skipped"
	case slices.ContainsFunc(s.Triggers, func(name string) bool { return !own(name) }):
		return "the table has triggers, which run for inserted rows only"
	}
	for _, c := range s.Columns {
		if c.Auto && !t.has(c.Name) {
			return fmt.Sprintf("the server assigns the values of column %s", c.Name)
		}
	}
	for _, c := range t.columns {
		if t.format.Kind.keyed() && (c.Default != "" || c.Auto) && c.Name != t.columns[t.by].Name {
			return fmt.Sprintf("column %s has a default, and rows may lack it", c.Name)
		}
	}
	return ""
}

// sendsAll returns the reason why all rows of a file are sent, or "".
func (l *load) sendsAll(t *target, published []*state.Publication, size int64) (why string, err error) {
	why = l.unfit(t)
	if why != "" && l.opt.Lane.forced() {
		return "", engine.Hinted(fmt.Errorf("rows of it can't be published: %s", why), "--lane auto")
	}
	switch {
	case why != "":
	case l.opt.Lane == Live:
		why = "--lane live"
	case l.opt.Lane == Auto && size < smallFile && !slices.ContainsFunc(published, routed):
		why = "the file is small"
	}
	return why, nil
}

func (l *load) newCollector(t *target, size int64) *collector {
	return &collector{load: l, target: t, layout: newLayout(t.all.table.Columns, l.opt.Schema.PrimaryKey), sent: map[int64]bool{}, bySender: map[*sender]*sorter{},
		file: &spillFile{dir: l.opt.Dir}, inserts: l.opt.Lane == Auto && size < fewIndexesFile && len(l.opt.Schema.Indexes) <= 1}
}

// sayLanes says how the rows of a file that was only checked would go in, given their extents.
func (l *load) sayLanes(ctx context.Context, t *target, checked []state.Extent, size int64) error {
	all, err := l.sendsAll(t, nil, size)
	if err != nil {
		return err
	}
	parts, _, err := l.periods.look(ctx, false)
	if err != nil {
		return err
	}
	rows := make([]int64, len(parts))
	for _, e := range checked {
		if i := rolling.Find(parts, e.From); i >= 0 {
			rows[i] += e.Rows
		}
	}
	n := l.newCollector(t, size)
	for i, p := range parts {
		if rows[i] == 0 {
			continue
		}
		lane, why := Live, all
		if why == "" {
			lane, why, err = n.choose(ctx, p.Period, rows[i])
		}
		if err != nil {
			return err
		}
		if lane == Publish && why == "" && n.inserts {
			lane, why = Live, "the file is small, and the table has few indexes"
		}
		did := lane.did()
		if lane == Live || why != "" {
			did = "live, " + why
		}
		l.say("period %s: %s, %s", p.Name, figure.Plural(rows[i], "row", "rows"), did)
	}
	return nil
}

// rowsIn returns the number of rows of a period, most at the most.
func (n *collector) rowsIn(ctx context.Context, part rolling.Partition, most int64) (rows int64, err error) {
	return retried(ctx, n.load, func() (rows int64, err error) {
		q := fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 AS one FROM %s LIMIT %d) AS r", n.opt.DB.Words().From(n.opt.Table, part), most)
		if err = n.state.DB().QueryRowContext(ctx, q).Scan(&rows); err != nil {
			err = fmt.Errorf("look whether period %s has rows: %w", part.Name, n.opt.DB.Classify(err))
		}
		return rows, err
	})
}

// unmerged returns the reason why rows of a period with rows are not merged with them, or "".
func (n *collector) unmerged(ctx context.Context, p rolling.Period) (why string, err error) {
	switch {
	case n.opt.Lane == Publish:
		return "it has rows", nil
	case n.opt.ListSkipped:
		return "--bad lists the rows that are skipped, as only inserts can", nil
	case len(n.target.primary) == 0:
		return "the source lacks a column of the primary key", nil
	}
	err = n.retry(ctx, func() error {
		err := n.opt.Publisher.Mergeable(ctx, p)
		if err == nil || passes(err) || ctx.Err() != nil {
			return err
		}
		why = err.Error()
		return nil
	})
	return why, err
}

// choose decides how the collected rows of a period go in. why is the reason why they are
// inserted, or why they can't be merged with rows that the period has.
func (n *collector) choose(ctx context.Context, p rolling.Period, rows int64) (_ Lane, why string, err error) {
	if n.opt.Lane == Auto && rows < fewRows {
		return Live, tooFew, nil
	}
	parts, _, err := n.periods.look(ctx, false)
	if err != nil {
		return "", "", err
	}
	i := rolling.Find(parts, p.From)
	if i < 0 || parts[i].Period != p {
		return Publish, "", nil // the publisher finds out what has happened
	}
	if n.opt.Dry && slices.Contains(n.result.Created, parts[i].Name) {
		return Publish, "", nil
	}
	had, err := n.rowsIn(ctx, parts[i], rows*mergeShare+1)
	if err != nil || had == 0 {
		return Publish, "", err
	}
	why, err = n.unmerged(ctx, p)
	switch {
	case err != nil || why != "":
		return Publish, why, err
	case n.opt.Lane == Auto && had > rows*mergeShare:
		return Live, fmt.Sprintf("its rows are few beside more than %s that it has", figure.Count(rows*mergeShare)), nil
	}
	return Merge, "", nil
}

// tooFew is the reason why rows are inserted in one transaction.
const tooFew = "its rows are few"
