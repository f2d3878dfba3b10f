package lane

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A Lane is how rows reach the table.
type Lane string

const (
	// Auto publishes rows of empty periods, and merges rows of other past periods if that pays.
	Auto Lane = "auto"
	// Live inserts all rows into the periods.
	Live Lane = "live"
	// Publish publishes the rows of all empty periods, however few.
	Publish Lane = "publish"
	// Merge is Publish, and also merges rows of all other periods that are over, however few.
	Merge Lane = "merge"
)

// Lanes are the names of all lanes.
var Lanes = []string{string(Auto), string(Live), string(Publish), string(Merge)}

// forced reports that a load fails if the lane can't be taken.
func (l Lane) forced() bool { return l == Publish || l == Merge }

// did says how the rows of a period went in, for a message.
func (l Lane) did() string {
	return map[Lane]string{Publish: "published", Merge: "merged", Live: "with few rows: live"}[l]
}

const (
	DefaultMemory = 256 << 20
	// By default, rows of a file smaller than smallFile are not published: that would cost more than
	// it saves. If the table has at most one index besides its primary key, rows for empty periods
	// are not published from files smaller than fewIndexesFile, either.
	smallFile      = 4 << 20
	fewIndexesFile = 64 << 20
	// Fewer than fewRows rows of a period are inserted: publishing would cost about ten statements.
	fewRows = 20000
	// mergeShare limits how many existing rows a period may have for each new row that is merged with
	// them. A merge takes as long as writing 2*new + old rows on the sorted path. Inserting the new
	// rows took a fifth of the merge's time with the period's indexes in memory, otherwise seven times
	// the merge's time (docs/loading.md).
	mergeShare = 10
)

// unfit returns the reason why no rows of a source can be published, or "".
func (l *Load) unfit(t *format.Target) string {
	s := l.Opt.Schema
	_, is := l.Opt.DB.(engine.Stager)
	own := func(name string) bool { return strings.HasPrefix(name, "rowmill_") }
	switch {
	case !is || l.Opt.Publisher == nil:
		return "this server has no bulk path that rowmill uses"
	case s.Compacts:
		return "its storage engine exchanges no tables"
	case l.Opt.OnDuplicate != format.SkipDuplicate:
		return "rows whose key is there already are not skipped"
	case slices.ContainsFunc(s.Triggers, func(name string) bool { return !own(name) }):
		return "the table has triggers, which run for inserted rows only"
	}
	for _, c := range s.Columns {
		if c.Auto && !t.Has(c.Name) {
			return fmt.Sprintf("the server assigns the values of column %s", c.Name)
		}
	}
	for _, c := range t.Columns {
		if t.Format.Kind.Keyed() && (c.Default != "" || c.Auto) && c.Name != t.Columns[t.By].Name {
			return fmt.Sprintf("column %s has a default, and rows may lack it", c.Name)
		}
	}
	return ""
}

// sendsAll returns the reason why all rows of a file are sent and none is published, or "".
func (l *Load) sendsAll(t *format.Target, published []*state.Publication, size int64) (why string, err error) {
	why = l.unfit(t)
	if why != "" && l.Opt.Lane.forced() {
		return "", engine.Hinted(fmt.Errorf("rows of it can't be published: %s", why), "--lane auto")
	}
	switch {
	case why != "":
	case l.Opt.Lane == Live:
		why = "--lane live"
	case l.Opt.Lane == Auto && size < smallFile && !slices.ContainsFunc(published, routed):
		why = "the file is small"
	}
	return why, nil
}

func (l *Load) newCollector(t *format.Target, size int64) *Collector {
	return &Collector{Load: l, target: t, layout: newLayout(t.All.Table.Columns, l.Opt.Schema.PrimaryKey), sent: map[int64]bool{}, written: map[int64]int64{}, bySender: map[*sender]*sorter{},
		file: &spillFile{dir: l.Opt.Dir}, inserts: l.Opt.Lane == Auto && size < fewIndexesFile && len(l.Opt.Schema.Indexes) <= 1}
}

// SayLanes says, after a dry run, how the rows would go in. checked are the extents of the rows.
func (l *Load) SayLanes(ctx context.Context, t *format.Target, checked []state.Extent, size int64) error {
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
		l.Say("period %s: %s, %s", p.Name, figure.Plural(rows[i], "row", "rows"), did)
	}
	return nil
}

// rowsIn counts the rows of a period, up to most.
func (n *Collector) rowsIn(ctx context.Context, part rolling.Partition, most int64) (rows int64, err error) {
	return Retried(ctx, n.Load, func() (rows int64, err error) {
		q := fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 AS one FROM %s LIMIT %d) AS r", n.Opt.DB.Words().From(n.Opt.Table, part), most)
		if err = n.State.DB().QueryRowContext(ctx, q).Scan(&rows); err != nil {
			err = fmt.Errorf("look whether period %s has rows: %w", part.Name, n.Opt.DB.Classify(err))
		}
		return rows, err
	})
}

// unmerged returns the reason why new rows are not merged with the rows that p has, or "".
func (n *Collector) unmerged(ctx context.Context, p rolling.Period) (why string, err error) {
	switch {
	case n.Opt.Lane == Publish:
		return "it has rows", nil
	case n.Opt.ListSkipped:
		return "--bad lists the rows that are skipped, as only inserts can", nil
	case len(n.target.Primary) == 0:
		return "the source lacks a column of the primary key", nil
	}
	err = n.Retry(ctx, func() error {
		err := n.Opt.Publisher.Mergeable(ctx, p)
		if err == nil || Transient(err) || ctx.Err() != nil {
			return err
		}
		why = err.Error()
		return nil
	})
	return why, err
}

// choose decides how a period's rows go in. why says why they are inserted, or not merged.
func (n *Collector) choose(ctx context.Context, p rolling.Period, rows int64) (_ Lane, why string, err error) {
	if n.Opt.Lane == Auto && rows < fewRows {
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
	if n.Opt.Dry && slices.Contains(n.Result.Created, parts[i].Name) {
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
	case n.Opt.Lane == Auto && had > rows*mergeShare:
		return Live, fmt.Sprintf("its rows are few beside more than %s that it has", figure.Count(rows*mergeShare)), nil
	}
	return Merge, "", nil
}

// tooFew is the reason why rows are inserted in one transaction.
const tooFew = "its rows are few"
