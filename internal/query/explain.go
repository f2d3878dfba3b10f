package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/query/merge"
	"github.com/rowmill/rowmill/internal/query/plan"
)

// An Explanation says how a statement would be answered: for people and, as JSON, for programs.
type Explanation struct {
	Format    string `json:"format"` // ExplanationFormat
	Statement string `json:"statement"`
	// Split reports that the statement is answered in pieces; Why is the reason if it isn't.
	Split bool   `json:"split"`
	Why   string `json:"why,omitempty"`
	// RowsRead is the server's estimate; null is unknown.
	RowsRead *int64 `json:"rows_read"`
	// The other fields describe a statement that is split.
	Table string `json:"table,omitempty"`
	// Partitions is the number of the table's partitions; Pruned of them are not read.
	Partitions int              `json:"partitions,omitempty"`
	Pruned     int              `json:"partitions_pruned,omitempty"`
	Pieces     []ExplainedPiece `json:"pieces,omitempty"`
	// Branches are the SELECTs of a set operation, which has no table of its own.
	Branches []ExplainedBranch `json:"branches,omitempty"`
	// For a table on several servers, Nodes are the servers that are read directly. If the head is
	// read instead, Through is the reason.
	Nodes   []string `json:"nodes,omitempty"`
	Through string   `json:"through_head,omitempty"`
	// Fetched are the tables of other servers whose rows the head fetches to evaluate pieces itself.
	Fetched   []string `json:"fetched,omitempty"`
	Sessions  int      `json:"sessions,omitempty"`
	Merge     string   `json:"merge,omitempty"`
	MergeText string   `json:"merge_text,omitempty"`
	Snapshot  string   `json:"snapshot,omitempty"`
	// Cache says how many periods are in the cache of partial results, or why none can be.
	Cache     string            `json:"cache,omitempty"`
	Seconds   *ExpectedSeconds  `json:"seconds_expected,omitempty"`
	Moved     *int64            `json:"rows_moved"`
	MovedText string            `json:"rows_moved_text,omitempty"`
	Columns   []ExplainedColumn `json:"columns,omitempty"`
	ExplainedRollups
	// Partial is the statement of the first piece.
	Partial string `json:"partial,omitempty"`
}

// ExplainedRollups describe the use of roll-ups.
type ExplainedRollups struct {
	// Rollups are read by the first pieces in place of rows. NoRollup is why none is read.
	Rollups  []ExplainedRollup `json:"rollups,omitempty"`
	NoRollup string            `json:"no_rollup,omitempty"`
	// Changed are the periods whose rows are read, because their partition was replaced after the
	// roll-ups were computed.
	Changed []string `json:"changed_periods,omitempty"`
}

// ExplanationFormat is the format of an Explanation as JSON.
const ExplanationFormat = "rowmill.explain/1"

// An ExplainedPiece is one piece.
type ExplainedPiece struct {
	Partitions []string `json:"partitions,omitempty"`
	Where      string   `json:"where,omitempty"`
	Node       string   `json:"node,omitempty"`
	Rows       *int64   `json:"rows"`
}

// ExpectedSeconds are rough: the estimated number of rows, divided by nominalRate.
type ExpectedSeconds struct {
	Whole float64 `json:"whole"`
	Split float64 `json:"split"`
}

// An ExplainedRollup is a roll-up that is read. A range is its start and its excluded end, in UTC.
type ExplainedRollup struct {
	Name   string      `json:"name"`
	Every  string      `json:"every"`
	Ranges [][2]string `json:"ranges"`
}

// explainRollup describes a roll-up that is read.
func explainRollup(u plan.RollupUse) ExplainedRollup {
	e := ExplainedRollup{Name: u.Name, Every: u.Every.String()}
	for _, x := range u.Ranges {
		e.Ranges = append(e.Ranges, [2]string{u.Every.Format(x.From), u.Every.Format(x.To)})
	}
	return e
}

// text says which rows the roll-up replaces.
func (e *ExplainedRollup) text() string {
	times := make([]string, len(e.Ranges))
	for i, x := range e.Ranges {
		times[i] = x[0] + " to " + x[1]
	}
	if n := len(times); n > plan.MostNamed {
		times = append(times[:plan.MostNamed:plan.MostNamed], fmt.Sprintf("%d more ranges", n-plan.MostNamed))
	}
	return fmt.Sprintf("%s, in buckets of %s, in place of the rows from %s", e.Name, e.Every, strings.Join(times, ", "))
}

// An ExplainedColumn is a column of the answer.
type ExplainedColumn struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// nominalRate is the number of rows that a server reads and groups in a second on one core, in
// memory: between 1 and 4 million for a query with a few columns on the machines where rowmill was
// measured.
const nominalRate = 2e6

// Explain describes a plan of this Runner. For a plan that is split, it opens the sessions and
// their snapshot, but runs no piece; with Options.Lock it opens none, so that it never locks. If
// the server merges, it also creates the temporary tables, which shows whether the account may.
func (r *Runner) Explain(ctx context.Context, p *plan.Plan) (*Explanation, error) {
	o := r.o
	e := &Explanation{Format: ExplanationFormat, Statement: p.Text, Split: p.Whole == "", Why: p.Whole, RowsRead: estimate(p.EstimatedRows)}
	for _, c := range p.Columns {
		e.Columns = append(e.Columns, ExplainedColumn{c.Name, c.Native})
	}
	if !e.Split {
		return e, nil
	}
	var err error
	if e.Snapshot, e.Cache, e.Why, err = r.snapshotOf(ctx, p); err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	if e.Split = e.Why == ""; !e.Split {
		return e, nil
	}
	e.Through, e.Fetched = p.Through, p.Fetched
	e.describeTable(p)
	for i, b := range p.Branches {
		one := &Explanation{}
		one.describeTable(b.Plan)
		e.Branches = append(e.Branches, ExplainedBranch{Branch: i + 1, Table: one.Table, Partitions: one.Partitions, Pruned: one.Pruned, Pieces: len(b.Pieces), Why: b.Why})
		e.Partitions, e.Pruned = e.Partitions+one.Partitions, e.Pruned+one.Pruned
	}
	for i := range p.Rollups {
		e.Rollups = append(e.Rollups, explainRollup(p.Rollups[i]))
	}
	e.NoRollup, e.Changed = p.NoRollup, p.Changed
	largest := int64(0)
	for _, piece := range p.Pieces {
		e.Pieces = append(e.Pieces, ExplainedPiece{piece.Parts, piece.Where, piece.Server, estimate(piece.Rows)})
		if piece.Server != "" && !slices.Contains(e.Nodes, piece.Server) {
			e.Nodes = append(e.Nodes, piece.Server)
		}
		largest = max(largest, piece.Rows)
	}
	for i, n := range r.nodes {
		of := 0
		for _, piece := range p.Pieces {
			if piece.Node == i {
				of++
			}
		}
		if of > 0 {
			e.Sessions += min(of, r.sessionsFor(p, n))
		}
	}
	e.Sessions = max(e.Sessions, 1)
	if len(p.Pieces) > 0 {
		e.Partial = p.PieceText(r.nodes[p.Pieces[0].Node].Reader, 0)
	}
	e.Merge, e.MergeText = mergeOf(p, o)
	e.Moved, e.MovedText = movedBy(p)
	if p.EstimatedRows >= 0 {
		e.Seconds = &ExpectedSeconds{Whole: float64(p.EstimatedRows) / nominalRate, Split: max(float64(p.EstimatedRows)/float64(e.Sessions), float64(largest)) / nominalRate}
	}
	return e, nil
}

// describeTable sets the fields about the table that is split.
func (e *Explanation) describeTable(p *plan.Plan) {
	t := p.Table
	if t == nil {
		return
	}
	e.Table = t.Name
	if t.Database != "" {
		e.Table = t.Database + "." + e.Table
	}
	e.Partitions, e.Pruned = len(t.Parts), p.Pruned
}

// An ExplainedBranch is a branch of a set operation: in pieces of a table, or whole.
type ExplainedBranch struct {
	Branch     int    `json:"branch"`
	Table      string `json:"table,omitempty"`
	Partitions int    `json:"partitions,omitempty"`
	Pruned     int    `json:"partitions_pruned,omitempty"`
	Pieces     int    `json:"pieces"`
	// Why is why the branch is run as one piece; "" if it is split.
	Why string `json:"why,omitempty"`
}

func (b *ExplainedBranch) text() string {
	if b.Why != "" {
		return "whole: " + b.Why
	}
	return fmt.Sprintf("table %s, %s of %s partitions, in %s", b.Table, figure.Count(b.Partitions-b.Pruned), figure.Count(b.Partitions), figure.Plural(b.Pieces, "piece"))
}

// estimate returns a pointer to a number of rows, nil if it is unknown.
func estimate(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

// mergeOf says where partial results are merged.
func mergeOf(p *plan.Plan, o Options) (name, text string) {
	switch {
	case len(p.Branches) > 0 && p.Merge.Kind == plan.Concatenate:
		return "concatenate", "of each branch by itself; their rows are passed on one branch after the other"
	case len(p.Branches) > 0:
		return "server", "of each branch by itself; the server computes the set operation, in temporary tables of the branches' rows"
	}
	switch p.Merge.Kind {
	case plan.Concatenate:
		return "concatenate", "none: no group is in two pieces, so that their rows are passed on one piece after the other"
	case plan.InMemory:
		memory := cmp.Or(o.Memory, DefaultMemory)
		return "memory", fmt.Sprintf("in rowmill's memory, at most %s; beyond it in temporary tables of the server", figure.Bytes(memory))
	}
	return "server", "in temporary tables of the server, which has the types, collations and expressions"
}

// movedBy says how many rows the pieces return.
func movedBy(p *plan.Plan) (n *int64, text string) {
	pieces := int64(len(p.Pieces))
	switch {
	case len(p.Branches) > 0:
		return nil, "those of the branches"
	case p.Merge.Rows && p.Merge.Limit >= 0 && p.Merge.Kind == plan.InMemory:
		return nil, fmt.Sprintf("at most %s: the limit of each piece", figure.Count(pieces*(p.Merge.Limit+p.Merge.Offset)))
	case p.Merge.Rows || p.Merge.Kind == plan.Concatenate:
		return nil, "the rows of the answer, or of each piece up to its limit"
	case p.Keys == 0:
		return &pieces, figure.Plural(pieces, "row") + ": one for each piece"
	}
	return nil, "at most one for each group and piece"
}

// snapshotOf returns texts that say whether all sessions see the same rows, what of the answer is
// cached, and why the query would be run whole; "" if it would not.
func (r *Runner) snapshotOf(ctx context.Context, p *plan.Plan) (snapshot, cache, whole string, err error) {
	if r.o.Lock {
		return "one for all sessions, if need be by a brief lock against writes, which is taken when the query runs", "", "", nil
	}
	if len(p.Pieces) == 0 {
		return "", "", "", nil
	}
	report := &Report{Plan: p}
	x, err := r.begin(ctx, p, nil, report)
	if e, ok := errors.AsType[*merge.InexactError](err); ok && ctx.Err() == nil {
		return "", "", e.Why, nil
	}
	if err != nil {
		return "", "", "", err
	}
	if p.Merge.Kind == plan.OnServer {
		var g *gather
		if len(p.Branches) > 0 {
			g, _, err = x.branchTables()
		} else {
			g, err = x.gatherRows()
		}
		if err == nil {
			err = g.close()
		}
		if e, ok := errors.AsType[*merge.InexactError](err); ok && ctx.Err() == nil {
			whole, err = e.Why, nil
		}
	}
	if err := errors.Join(err, x.end()); err != nil {
		return "", "", "", err
	}
	if cache = report.Uncached; cache == "" {
		cache = fmt.Sprintf("%s in memory, of %d that are sealed", figure.Plural(int64(report.Cached), "period"), len(x.cached.versions))
	} else {
		cache = "none: " + cache
	}
	if report.Proof != "" {
		return "one for all sessions: " + report.Proof, cache, whole, nil
	}
	return "none: " + strings.Join(report.Warnings, "; "), cache, whole, nil
}

// Text writes the explanation as lines for people.
func (e *Explanation) Text(w io.Writer) error {
	var b strings.Builder
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s %s\n", what, fmt.Sprintf(format, args...))
	}
	if !e.Split {
		line("split", "no: %s", e.Why)
		line("run", "whole, in one session of the server")
		if e.RowsRead != nil {
			line("rows read", "about %s, as the server estimates", figure.Count(*e.RowsRead))
		}
		_, err := io.WriteString(w, b.String())
		return err
	}
	if len(e.Branches) > 0 {
		line("split", "yes: %s of a set operation, each by itself", figure.Plural(len(e.Branches), "branch", "branches"))
	} else {
		line("split", "yes: table %s", e.Table)
	}
	for _, b := range e.Branches {
		line(fmt.Sprintf("branch %d", b.Branch), "%s", b.text())
	}
	if e.Partitions > 0 {
		line("partitions", "%s of %s, %s pruned by the server", figure.Count(e.Partitions-e.Pruned), figure.Count(e.Partitions), figure.Count(e.Pruned))
	}
	switch {
	case len(e.Nodes) > 0:
		line("nodes", "%s, each read directly", strings.Join(e.Nodes, ", "))
	case e.Through != "":
		line("nodes", "read through the head: %s", e.Through)
	}
	if len(e.Fetched) > 0 {
		line("fetched", "%s, and evaluates the pieces itself", fetchedText(e.Fetched))
	}
	for _, u := range e.Rollups {
		line("roll-up", "%s", u.text())
	}
	if e.NoRollup != "" {
		line("roll-up", "none: %s", e.NoRollup)
	}
	if n := len(e.Changed); n > 0 && len(e.Rollups) > 0 {
		more := ""
		if n > plan.MostNamed {
			more = fmt.Sprintf(" and %d more", n-plan.MostNamed)
		}
		line("rows", "of %s%s, since it isn't the partition of which the roll-ups have the rows: rowmill run computes its buckets again", strings.Join(e.Changed[:min(n, plan.MostNamed)], ", "), more)
	}
	line("pieces", "%s on %s%s", figure.Plural(len(e.Pieces), "piece"), figure.Plural(e.Sessions, "session"), e.skew())
	if e.RowsRead != nil {
		line("rows read", "about %s, as the server estimates", figure.Count(*e.RowsRead))
	}
	line("rows moved", "%s", e.MovedText)
	line("merge", "%s", e.MergeText)
	line("snapshot", "%s", e.Snapshot)
	if e.Cache != "" {
		line("cache", "%s", e.Cache)
	}
	if s := e.Seconds; s != nil {
		line("time", "about %s split and %s whole, at %s rows a second in a session: rough", figure.Duration(s.Split), figure.Duration(s.Whole), figure.Count(int64(nominalRate)))
	}
	line("a piece", "%s", strings.ReplaceAll(strings.TrimSpace(e.Partial), "\n", "\n            "))
	_, err := io.WriteString(w, b.String())
	return err
}

// skew says how large the largest piece is, if it decides how long the query takes.
func (e *Explanation) skew() string {
	var rows []int64
	total := int64(0)
	for _, p := range e.Pieces {
		if p.Rows == nil {
			return ""
		}
		rows = append(rows, *p.Rows)
		total += *p.Rows
	}
	if len(rows) < 2 || total == 0 {
		return ""
	}
	share := float64(slices.Max(rows)) / float64(total)
	if share*float64(e.Sessions) <= 1.2 {
		return ""
	}
	return fmt.Sprintf("; the largest has %s of the rows, which limits the gain", figure.Percent(share))
}

// Text says in a line how a query was answered.
func (r *Report) Text() string {
	out := fmt.Sprintf("%s in %s", figure.Plural(r.Rows, "row"), figure.Duration(r.Took.Seconds()))
	switch p := r.Plan; {
	case p.Whole != "":
		return out + ", not split: " + p.Whole
	case r.Rerun != "":
		return out + ", run again whole: " + r.Rerun
	default:
		out += fmt.Sprintf(", split into %s, which returned %s", figure.Plural(len(p.Pieces), "piece"), figure.Plural(r.Moved, "row"))
		if r.Cached > 0 {
			out += fmt.Sprintf(", %s from the cache", figure.Plural(r.Cached, "period"))
		}
		if r.Server {
			out += ", merged by the server"
		}
		return out
	}
}
