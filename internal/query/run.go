package query

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/merge"
	"github.com/rowmill/rowmill/internal/query/plan"
)

// A Runner answers queries with several sessions of one server. It may be used by several
// goroutines; each query has sessions of its own, which are kept for the next one.
type Runner struct {
	o     Options
	nodes []*node // the first plans, merges, and runs whole queries
	cache cache
	// sharded is the table whose rows the other nodes have.
	sharded string
}

// A node is a server with its idle sessions.
type node struct {
	engine.Reader
	name string // "" for the first
	err  error  // why there is no Reader
	// plain has sessions for planning and for whole queries. pieces has sessions for pieces, in
	// which NOW() stands still.
	plain, pieces *pool

	mu       sync.Mutex
	database string // see ownDatabase
}

// New returns a Runner for queries to one server. Close it.
func New(reader engine.Reader, o Options) *Runner {
	r := &Runner{o: o}
	r.nodes = append(r.nodes, r.newNode(reader))
	return r
}

func (r *Runner) newNode(reader engine.Reader) *node {
	n := &node{Reader: reader}
	n.plain = &pool{reader: reader, most: 2}
	n.pieces = &pool{reader: reader, most: r.parallel(reader)}
	return n
}

// parallel is the number of sessions for pieces of one server.
func (r *Runner) parallel(reader engine.Reader) int {
	if r.o.Parallel > 0 {
		return r.o.Parallel
	}
	if n := reader.Cores(); n > 0 {
		return n
	}
	return DefaultParallel
}

func (r *Runner) memory() int64 {
	if r.o.Memory > 0 {
		return r.o.Memory
	}
	return DefaultMemory
}

// Close closes idle sessions. No query may be running.
func (r *Runner) Close() error {
	var errs []error
	for _, n := range r.nodes {
		if n.err == nil {
			errs = append(errs, n.plain.close(), n.pieces.close())
		}
	}
	return errors.Join(errs...)
}

// Run answers a query as planned, and passes the answer to sink. If it returns an error, the rows
// that sink has got are not the answer. When Run returns, nothing of the query runs on the server
// any more, even if ctx has ended.
//
// A query whose pieces turn out not to determine the answer exactly is run again, whole: see
// Report.Rerun.
func (r *Runner) Run(ctx context.Context, p *plan.Plan, sink Sink) (*Report, error) {
	begin := time.Now()
	report := &Report{Plan: p}
	counted := &counter{Sink: sink}
	err := engine.Guarded(func() error { return r.answer(ctx, p, counted, report) })
	report.Rows = counted.rows
	if p.Through != "" {
		report.Warnings = append(report.Warnings, "read through the head, and not from the nodes: "+p.Through)
	}
	report.Took = time.Since(begin)
	if err != nil {
		return report, fmt.Errorf("query: %w", err)
	}
	return report, nil
}

func (r *Runner) answer(ctx context.Context, p *plan.Plan, sink *counter, report *Report) error {
	if p.Whole != "" {
		return r.whole(ctx, p, sink, report)
	}
	err := r.split(ctx, p, nil, sink, report)
	if why := rerunReason(err); why != "" && !sink.begun && !r.o.NoRerun && ctx.Err() == nil {
		report.Rerun, report.Server, report.Proof, report.Warnings = why, false, "", nil
		return r.whole(ctx, p, sink, report)
	}
	return err
}

// rerunReason returns why a query is run again whole after an error; "" if it isn't.
func rerunReason(err error) string {
	if e, ok := errors.AsType[*merge.InexactError](err); ok {
		return e.Why
	}
	if slices.ContainsFunc(piecesOnly, func(class error) bool { return errors.Is(err, class) }) {
		return err.Error()
	}
	return ""
}

// piecesOnly are the errors of pieces after which the query is run whole. The whole query may
// succeed, because it meets other values first, needs less memory, or has another plan.
var piecesOnly = []error{engine.ErrRefused, engine.ErrUnsupported, engine.ErrNoMemory, engine.ErrAltered}

// A counter counts the rows of an answer.
type counter struct {
	Sink
	begun bool
	rows  int64
}

func (c *counter) Columns(cols []engine.ResultColumn) error {
	c.begun = true
	for i := range cols {
		if cols[i].Declared { // as if the server had answered the whole query
			cols = slices.Clone(cols)
			for k := range cols {
				cols[k].Class, cols[k].Declared = engine.ClassOther, false
			}
			break
		}
	}
	return c.Sink.Columns(cols)
}

func (c *counter) Row(values [][]byte) error {
	c.rows++
	return c.Sink.Row(values)
}

// whole runs the statement as it is. The exception is a statement that reads tables of other
// servers, and that the head would therefore rewrite: the head then fetches the rows of these
// tables, see guard.
func (r *Runner) whole(ctx context.Context, p *plan.Plan, sink Sink, report *Report) error {
	n := r.nodes[0]
	s, err := n.plain.get(ctx, p.State)
	if err != nil {
		return err
	}
	text, columns := p.Text, sink.Columns
	remote, list, err := r.remotes(ctx, s.Session)
	if err == nil && len(list) > 0 {
		var names []string
		if text, names, err = r.guard(ctx, s.Session, p.State, p.Text, remote, list); err == nil && len(names) > 0 {
			report.Warnings = append(report.Warnings, fetchedText(names)+", and evaluates the whole query itself")
			columns, err = r.namedAs(ctx, s.Session, p.Text, sink.Columns)
		}
	}
	if err == nil && r.o.ReadOnly {
		err = s.Begin(ctx, engine.Transaction{ReadOnly: true})
	}
	if err == nil {
		err = s.Text(ctx, text, columns, sink.Row)
	}
	if p.Harmless {
		return errors.Join(err, n.plain.put(ctx, s))
	}
	return errors.Join(err, s.Close()) // the statement may have left anything in the session
}

// split runs the pieces and merges their answers. clock are settings that fix the current time of
// all sessions; if clock is nil, the time is fixed at the present.
func (r *Runner) split(ctx context.Context, p *plan.Plan, clock engine.State, sink Sink, report *Report) (err error) {
	if len(p.Pieces) == 0 {
		return merge.Inexact("no partition is left to be read")
	}
	x, err := r.begin(ctx, p, clock, report)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.end()) }()
	return engine.Guarded(func() error { return x.answer(sink) }) // a panic becomes an error before the sessions are given back
}

// answer runs the pieces and passes the answer to sink.
func (x *execution) answer(sink Sink) error {
	switch {
	case len(x.p.Branches) > 0:
		return x.union(sink)
	case x.p.Merge.Kind == plan.Concatenate:
		return x.concatenate(sink)
	}
	return x.group(sink)
}

// An execution is a query while its pieces run.
type execution struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	r      *Runner
	p      *plan.Plan
	state  engine.State // of all sessions: the plan's settings, and the clock
	report *Report
	runs   []nodeRun
	cached *caching // nil if the cache isn't used
	// all is nil unless this is the execution of a branch. Then all is the execution of the whole
	// set operation, and first is the index, among the pieces of all, of the branch's first piece.
	all   *execution
	first int

	mu    sync.Mutex
	moved int64
	done  int
	rows  int64 // estimated, of pieces that are done
	begun time.Time
}

// A nodeRun has the sessions and the pieces of one server.
type nodeRun struct {
	*node
	sessions []*session
	pieces   []int // indexes, in the order in which they begin
}

// begin opens the sessions, in one snapshot for each server.
func (r *Runner) begin(ctx context.Context, p *plan.Plan, clock engine.State, report *Report) (x *execution, err error) {
	if clock == nil {
		if clock, err = r.freeze(ctx, p.State); err != nil {
			return nil, err
		}
	}
	x = &execution{r: r, p: p, report: report, begun: time.Now()}
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	x.state = append(append(engine.State(nil), p.State...), clock...)
	if err := engine.Guarded(x.open); err != nil {
		return nil, errors.Join(err, x.end())
	}
	return x, nil
}

// open opens the sessions of a new execution. If it fails, the caller ends the execution.
func (x *execution) open() (err error) {
	r, p, report := x.r, x.p, x.report
	x.cached = r.caching(p, report)
	if x.cached != nil {
		if err := x.beginCached(); err != nil {
			return err
		}
		p = x.p
	}
	for i, n := range r.nodes {
		if x.cached != nil {
			break
		}
		run := nodeRun{node: n}
		for k, piece := range p.Pieces {
			if piece.Node == i {
				run.pieces = append(run.pieces, k)
			}
		}
		if len(run.pieces) == 0 {
			continue
		}
		if p.Merge.Kind != plan.Concatenate {
			longestFirst(run.pieces, p.Pieces)
		}
		if run.sessions, err = n.pieces.getAll(x.ctx, x.state, min(len(run.pieces), r.sessionsFor(p, n))); err != nil {
			return err
		}
		x.runs = append(x.runs, run)
		if err := x.snapshot(&run); err != nil {
			return err
		}
		if err := x.unchanged(&run); err != nil {
			return err
		}
		if err := x.proveRollups(&run); err != nil {
			return err
		}
	}
	for _, t := range p.CutTables() {
		if !t.Versioned && len(p.Pieces) > 0 && p.Pieces[0].Table == nil { // its rows are on other servers, or its storage engine has no transactions
			x.unproven("a transaction has no snapshot of the rows of " + t.Name)
		}
	}
	if len(x.runs) > 1 {
		report.Warnings = nil // of single servers, which the next warning includes
		x.unproven("several servers have no common snapshot")
	}
	if report.Proof == "" && r.o.Require {
		return merge.Inexact("it can't be proven that all pieces see the same rows: " + report.Warnings[0])
	}
	return nil
}

// sessionsFor is the number of sessions for the pieces of a server. It is 1 if the pieces read
// roll-ups and few rows: one session reads them in the time that several need to begin.
func (r *Runner) sessionsFor(p *plan.Plan, n *node) int {
	if len(p.Rollups) > 0 && fewRows(p.Pieces) {
		return 1
	}
	return r.parallel(n.Reader)
}

// beginCached opens the sessions, and makes pieces of the partitions whose partial rows aren't
// cached.
func (x *execution) beginCached() (err error) {
	r, n := x.r, x.r.nodes[0]
	sessions := r.parallel(n.Reader)
	run := nodeRun{node: n}
	// If few partitions are missing in the cache, few sessions are needed. Few rows need a single
	// session, whose snapshot needs no proof.
	missing := x.cached.missing(x.p.Parts)
	needed := max(1, min(sessions, len(missing)))
	if fewRows([]plan.Piece{joinParts(partRows(x.p.Table), missing)}) {
		needed = 1
	}
	if run.sessions, err = n.pieces.getAll(x.ctx, x.state, needed); err != nil {
		return err
	}
	x.runs = append(x.runs, run)
	if err := x.unlessRefused(x.cached.look(x.ctx, n, run.sessions[0].Session, x.p, x.report)); err != nil {
		return err
	}
	if err := x.snapshot(&run); err != nil {
		return err
	}
	if err := x.unchanged(&run); err != nil {
		return err
	}
	if err := x.unlessRefused(x.cached.settle(x.ctx, n, run.sessions[0].Session, x.p, x.report)); err != nil {
		return err
	}
	p := *x.p
	if len(x.cached.versions) > 0 {
		p.Pieces = x.cached.pieces(x.p, sessions, x.report)
	}
	x.p, x.report.Plan = &p, &p
	for k := range p.Pieces {
		run.pieces = append(run.pieces, k)
	}
	if p.Merge.Kind != plan.Concatenate {
		longestFirst(run.pieces, p.Pieces)
	}
	x.runs[0] = run
	return nil
}

// unlessRefused handles an error of the cache of partial results, such as a missing privilege: the
// query runs without the cache, and the report has the reason.
func (x *execution) unlessRefused(err error) error {
	if err == nil || x.ctx.Err() != nil || errors.Is(err, engine.ErrConnectionLost) || isBug(err) {
		return err
	}
	x.report.Uncached, x.cached.versions = err.Error(), nil
	return nil
}

// freeze returns settings that fix the current time, so that NOW() is the same in all sessions of a
// query.
func (r *Runner) freeze(ctx context.Context, st engine.State) (clock engine.State, err error) {
	n := r.nodes[0]
	s, err := n.plain.get(ctx, st)
	if err != nil {
		return nil, err
	}
	err = engine.Guarded(func() (err error) {
		clock, err = n.Freeze(ctx, s.Session)
		return err
	})
	return clock, errors.Join(err, n.plain.put(ctx, s))
}

func (x *execution) snapshot(run *nodeRun) error {
	list := make([]*engine.Session, len(run.sessions))
	for i, s := range run.sessions {
		list[i] = s.Session
	}
	proof, err := run.OneSnapshot(x.ctx, list, run.reads(x.p), x.r.o.Lock)
	if errors.Is(err, engine.ErrLockTimeout) && x.ctx.Err() == nil {
		return merge.Inexact("a table that it reads is being altered: " + err.Error())
	}
	if err != nil {
		return fmt.Errorf("begin one snapshot for %d sessions: %w", len(list), err)
	}
	x.report.Proof = proof
	if proof == "" {
		x.unproven("there is no common snapshot for several sessions")
	}
	return nil
}

// reads are the tables, quoted, that the pieces on a server read.
func (run *nodeRun) reads(p *plan.Plan) (list []string) {
	d := run.Dialect()
	add := func(database, name string) {
		quoted := plan.QuotedName(d, database, name)
		if !slices.Contains(list, quoted) {
			list = append(list, quoted)
		}
	}
	pieces := run.pieces
	if len(pieces) == 0 { // they aren't known yet
		pieces = make([]int, len(p.Pieces))
		for k := range pieces {
			pieces[k] = k
		}
	}
	for _, k := range pieces {
		at, piece := p.BranchOf(k)
		if t := at.Pieces[piece].Table; t != nil { // of a node
			add(t.Database, t.Name)
			continue
		}
		for _, t := range at.Tables {
			add(t[0], t[1])
		}
		if name := at.Pieces[piece].Rollup; name != "" {
			add(at.Table.Database, name)
		}
	}
	return list
}

// unchanged makes the query run whole if a table that is split was altered since the query was
// planned: rows may have moved to a partition that no piece reads. From here on, the snapshot's
// locks prevent that.
func (x *execution) unchanged(run *nodeRun) (err error) {
	s := run.sessions[0].Session
	if run.Capabilities().SnapshotCatalog {
		outside, broken := run.plain.get(x.ctx, x.p.State)
		if broken != nil {
			return broken
		}
		defer func() { err = errors.Join(err, run.plain.put(x.ctx, outside)) }()
		s = outside.Session
	}
	tables := x.p.CutTables()
	for _, k := range run.pieces {
		if t := x.p.Pieces[k].Table; t != nil && !slices.Contains(tables, t) {
			tables = append(tables, t)
		}
	}
	if run.node != x.r.nodes[0] {
		tables = slices.DeleteFunc(tables, func(t *engine.TableParts) bool { return t == x.p.Table })
	}
	for _, t := range tables {
		if t.Created == "" { // the plan was made by hand
			continue
		}
		now, err := run.LockedParts(x.ctx, s, t.Database, t.Name)
		if err != nil && !errors.Is(err, engine.ErrNoTable) {
			return err
		}
		if err != nil || now.Created != t.Created {
			return altered(t)
		}
	}
	if run.node != x.r.nodes[0] {
		return nil
	}
	for _, p := range x.p.Cutting() {
		if err := x.samePruned(run, p); err != nil {
			return err
		}
	}
	return nil
}

// samePruned makes the query run whole if the server now reads a partition that it pruned when the
// query was planned: another table may have got the name of one of the query's tables since then.
func (x *execution) samePruned(run *nodeRun, p *plan.Plan) error {
	if p.Pruned == 0 || p.Table.Created == "" {
		return nil
	}
	from := plan.QuotedName(run.Dialect(), p.Table.Database, p.Table.Name)
	if len(p.Named) > 0 {
		from = run.PartFrom(p.Table, p.Named)
	}
	planned, err := run.ExplainQuery(x.ctx, run.sessions[0].Session, p.Sample[0]+from+p.Sample[1])
	if err != nil {
		return err
	}
	read, _ := planned.Of(p.Table, p.Alias, p.Namesakes)
	for _, i := range read {
		if !slices.Contains(p.Parts, p.Table.Parts[i].Name) {
			return altered(p.Table)
		}
	}
	return nil
}

func altered(t *engine.TableParts) error {
	return merge.Inexact(t.Name + " was altered while the query began")
}

func (x *execution) unproven(why string) {
	x.report.Proof = ""
	x.report.Warnings = append(x.report.Warnings, why+": rows that are committed while the query runs may be in the answer of one piece and not in that of another")
}

// end gives the sessions back.
func (x *execution) end() error {
	x.cancel(nil)
	var errs []error
	for _, run := range x.runs {
		for _, s := range run.sessions {
			errs = append(errs, run.node.pieces.put(x.ctx, s))
		}
	}
	return errors.Join(errs...)
}
