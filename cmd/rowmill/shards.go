package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/query"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/rolling"
)

// declaration reads a declaration. If --target is the name of one of its nodes, that is the target, and f.node is
// set.
func (f *keptFlags) declaration(ctx context.Context, file string) (*rolling.Declaration, error) {
	name := f.target
	if name == "" || strings.Contains(name, ":") {
		d, _, err := readDeclaration(ctx, file, name)
		return d, err
	}
	d, _, err := readDeclaration(ctx, file, "")
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(d.Shards.Nodes, func(n rolling.Node) bool { return n.Name == name })
	if i < 0 {
		if len(d.Shards.Nodes) == 0 {
			_, _, err = readDeclaration(ctx, file, name)
			return nil, err // a target without a scheme
		}
		return nil, usagef("--target "+d.Shards.Nodes[0].Name, "--target %s: table %s has no node of that name, but %s", name, d.Name, nodeNames(d))
	}
	f.node, d.Target = name, d.Shards.Nodes[i].Target
	return d, nil
}

// sharded reports whether a verb is about all nodes of a table.
func (f *keptFlags) sharded(d *rolling.Declaration) bool {
	return len(d.Shards.Nodes) > 0 && f.node == ""
}

func nodeNames(d *rolling.Declaration) string {
	var names []string
	for _, n := range d.Shards.Nodes {
		names = append(names, n.Name)
	}
	return strings.Join(names, ", ")
}

// ofNode returns a declaration and flags for one node.
func ofNode(d *rolling.Declaration, f keptFlags, n rolling.Node) (*rolling.Declaration, keptFlags) {
	own := *d
	own.Target, f.node, f.target = n.Target, n.Name, n.Name
	return &own, f
}

// openNodes opens the nodes of a table, all at once. errs has an error for each node that could not be opened, whose
// place in nodes is nil.
func (a *app) openNodes(ctx context.Context, file string, d *rolling.Declaration, f keptFlags) (nodes []*kept, errs []error) {
	nodes, errs = make([]*kept, len(d.Shards.Nodes)), make([]error, len(d.Shards.Nodes))
	var all sync.WaitGroup
	for i, n := range d.Shards.Nodes {
		all.Go(func() {
			own, f := ofNode(d, f, n)
			nodes[i], errs[i] = a.openDeclared(ctx, file, own, f)
			errs[i] = maintain.InNode(n.Name, errs[i])
		})
	}
	all.Wait()
	return nodes, errs
}

func closeAll(nodes []*kept) error {
	var errs []error
	for _, k := range nodes {
		if k != nil {
			errs = append(errs, maintain.InNode(k.Node, k.Close()))
		}
	}
	return errors.Join(errs...)
}

// openHead opens the server that presents the nodes.
func (a *app) openHead(ctx context.Context, file string, d *rolling.Declaration) (_ *target.DB, _ engine.Keeper, err error) {
	if _, err := declaredTarget(file, d); err != nil {
		return nil, nil, err
	}
	t, err := target.Open(ctx, d.Target, func(line string) { fmt.Fprintln(a.stderr, line) })
	if err != nil {
		return nil, nil, fmt.Errorf("head: %w", unreached(err, d.Target, file))
	}
	db, ok := t.DB.(engine.Keeper)
	if !ok {
		return nil, nil, errors.Join(fmt.Errorf("target %s: it can't keep tables", d.Target), t.Close())
	}
	return t, db, nil
}

// applyShards creates or changes a table on all of its nodes, and what presents it on the head.
func (a *app) applyShards(ctx context.Context, file string, d *rolling.Declaration, f applyFlags) (err error) {
	if f.finish || f.undo {
		return usagef("a table that is created with [shards]", "--finish and --undo are about a plain table that is adopted, and a table with [shards] is not")
	}
	nodes, errs := a.openNodes(ctx, file, d, f.kept)
	defer func() { err = errors.Join(err, closeAll(nodes)) }()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	t, head, err := a.openHead(ctx, file, d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	tables := make([]*maintain.Table, len(nodes))
	for i, k := range nodes {
		k.Say = a.sayEventOf(k.Node)
		tables[i] = k.Table
	}
	plan, err := maintain.PlanShards(ctx, d, head, tables)
	if err != nil {
		return err
	}
	where := fmt.Sprintf("%s, and nodes %s", head.Info().Target, nodeNames(d))
	return a.applyPlan(ctx, plan, d, where, f)
}

// statusOfShards returns the status of each node, and of the head. A node that can't be reached has a status with that
// problem.
func (a *app) statusOfShards(ctx context.Context, file string, d *rolling.Declaration, f keptFlags) (_ []*maintain.Status, err error) {
	f.applied = true
	nodes, errs := a.openNodes(ctx, file, d, f)
	defer func() { err = errors.Join(err, closeAll(nodes)) }()
	var out []*maintain.Status
	var tables []*maintain.Table
	for i, n := range d.Shards.Nodes {
		err := errs[i]
		if err == nil {
			err = maintain.InNode(n.Name, nodes[i].wantApplied(ctx, file))
		}
		var s *maintain.Status
		if err == nil {
			s, err = nodes[i].Status(ctx)
			tables = append(tables, nodes[i].Table)
		}
		if err != nil {
			s = maintain.Unreached(d, n.Name, n.Target, err, hintOf(err))
		}
		out = append(out, s)
	}
	if len(tables) < len(nodes) {
		return out, nil // the head can't answer, either
	}
	t, head, err := a.openHead(ctx, file, d)
	if err != nil {
		return append(out, maintain.Unreached(d, "", d.Target, err, hintOf(err))), nil
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	plan, err := maintain.PlanShards(ctx, d, head, tables)
	if err == nil && !plan.Empty() {
		err = engine.Hinted(fmt.Errorf("head: it doesn't present the nodes as declared: %s", plan.Steps[0].What), "rowmill apply %s", file)
	}
	if err != nil {
		out = append(out, maintain.Unreached(d, "", d.Target, err, hintOf(err)))
	}
	return out, nil
}

// sayEventOf returns sayEvent with the name of a node, "" for none.
func (a *app) sayEventOf(node string) func(maintain.Event) {
	return func(e maintain.Event) {
		if node != "" {
			e.Action = node + ": " + e.Action
		}
		a.sayEvent(e)
	}
}

// title is the table's name, with that of the node.
func (k *kept) title() string {
	if k.Node == "" {
		return k.Declared.Name
	}
	return k.Declared.Name + " of node " + k.Node
}

// inNode names the node, if there is one, in an error. Nil stays nil.
func (k *kept) inNode(err error) error {
	if k.Node == "" {
		return err
	}
	return maintain.InNode(k.Node, err)
}

// A unit is a table on one server that rowmill run keeps.
type unit struct {
	node string
	open func() (*kept, error)
}

// unitsOfRun returns the tables of declarations, of those with nodes one for each.
func (a *app) unitsOfRun(ctx context.Context, files []string, f runFlags) ([]unit, error) {
	var out []unit
	for _, file := range files {
		of := f.kept
		if err := of.check(); err != nil {
			return nil, err
		}
		d, err := of.declaration(ctx, file)
		if err != nil {
			return nil, err
		}
		if !of.sharded(d) {
			out = append(out, unit{open: func() (*kept, error) { return a.openAppliedOf(ctx, file, d, of) }})
			continue
		}
		for _, flag := range []struct{ name, value string }{{"--listen", f.listen}, {"--ingest", f.ingest.addr}} {
			if flag.value != "" {
				return nil, usagef("--target "+d.Shards.Nodes[0].Name+", and one rowmill run for each node", "%s serves the table of one server, and %s is on the nodes %s", flag.name, d.Name, nodeNames(d))
			}
		}
		for _, n := range d.Shards.Nodes {
			own, kf := ofNode(d, of, n)
			out = append(out, unit{n.Name, func() (*kept, error) {
				k, err := a.openAppliedOf(ctx, file, own, kf)
				return k, maintain.InNode(n.Name, err)
			}})
		}
	}
	return out, nil
}

// runLater keeps the table of a node once that can be reached. The other nodes are kept meanwhile.
func (a *app) runLater(ctx context.Context, u unit, f runFlags, daemon func(*kept)) {
	for ctx.Err() == nil {
		k, err := untilReached(ctx, a, loadFlags{Options: ingest.Options{RetryFor: -1}}, u.open)
		if err == nil {
			if err = a.prepareForRun(ctx, k, f); err == nil {
				daemon(k)
			}
			err = errors.Join(err, k.inNode(k.Close()))
		}
		if err != nil && ctx.Err() == nil {
			a.logLine(fmt.Sprintf("%s will be tried again: %v", stamp(time.Now()), err))
			_ = engine.Sleep(ctx, nodeAgain) // the loop checks ctx
		}
	}
}

// nodeAgain is the pause before a node is tried again that can be reached and can't be kept: its table was not applied, for
// example.
const nodeAgain = time.Minute

// loadShards loads sources into all nodes at once. Each node has a load of its own, with its ledger, which takes its
// share of the rows; so that a node that is away gets its rows when the same command runs again.
func (a *app) loadShards(ctx context.Context, sources []string, f loadFlags, d *rolling.Declaration) error {
	nodes := d.Shards.Nodes
	stdin := make([]io.Reader, len(nodes))
	for i := range stdin {
		stdin[i] = a.stdin
	}
	wait := func() {}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	if slices.Contains(sources, "-") {
		var pipes []*io.PipeReader
		pipes, wait = ingest.Tee(reading, a.stdin, len(nodes))
		for i, r := range pipes {
			stdin[i] = r
		}
	}
	f.Memory = max(f.Memory/int64(len(nodes)), 1<<20)
	var lock sync.Mutex
	var all sync.WaitGroup
	errs, outs := make([]error, len(nodes)), make([]bytes.Buffer, len(nodes))
	for i, n := range nodes {
		f := f
		var own *rolling.Declaration
		own, f.kept = ofNode(d, f.kept, n)
		if f.Spool != "" {
			f.Spool = filepath.Join(f.Spool, n.Name)
		}
		out := io.Writer(&outs[i])
		if !f.withJSON {
			out = &prefixed{to: a.stdout, prefix: n.Name + ": ", lock: &lock}
		}
		one := &app{stdin: stdin[i], stdout: results{out}, stderr: &prefixed{to: a.stderr, prefix: n.Name + ": ", lock: &lock}, args: a.args, reached: a.reached}
		load := func() {
			errs[i] = maintain.InNode(n.Name, one.loadInto(ctx, sources, f, own))
			if pipe, ok := stdin[i].(*io.PipeReader); ok {
				_ = pipe.Close() // never fails
			}
		}
		if f.list {
			load() // in order
		} else {
			all.Go(load)
		}
	}
	all.Wait()
	stop()
	wait()
	err := errors.Join(errs...)
	if f.withJSON {
		type node struct {
			Node   string          `json:"node"`
			Result json.RawMessage `json:"result,omitempty"`
			Error  string          `json:"error,omitempty"`
		}
		var list []node
		for i, n := range nodes {
			o := node{Node: n.Name, Result: outs[i].Bytes()}
			if errs[i] != nil {
				o.Error = errs[i].Error()
			}
			list = append(list, o)
		}
		err = errors.Join(err, a.printJSON(struct {
			Format string `json:"format"`
			Nodes  []node `json:"nodes"`
		}{"rowmill.nodes/1", list}))
	}
	return err
}

// A prefixed writer writes each line with a prefix, once it is complete.
type prefixed struct {
	to     io.Writer
	prefix string
	lock   *sync.Mutex // held while a line is written
	line   []byte
}

func (p *prefixed) Write(text []byte) (int, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.line = append(p.line, text...)
	for {
		i := bytes.IndexByte(p.line, '\n')
		if i < 0 {
			return len(text), nil
		}
		line := append([]byte(p.prefix), p.line[:i+1]...)
		p.line = p.line[i+1:]
		if _, err := p.to.Write(line); err != nil {
			return 0, err
		}
	}
}

// shareOf returns the share of a node in the rows that are loaded; nil for a table on one server.
func shareOf(k *kept) (*ingest.Share, error) {
	shards := k.Declared.Shards
	if k.Node == "" {
		return nil, nil
	}
	h, err := engine.NewHead(k.Table.Table, &shards)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(shards.Nodes, func(n rolling.Node) bool { return n.Name == k.Node })
	rule := k.DB.(engine.Presenter) // planning has checked that
	return &ingest.Share{By: shards.By, Positions: h.Slice > 0, Rest: at == 0, Has: func(key int64) bool { return rule.NodeOf(h, key) == at }}, nil
}

// openedShards are the nodes of --shards.
type openedShards struct {
	table  string
	shards []query.Shard
	opened []*target.DB
}

// openShards opens the nodes of --shards, and sets the default of --target. A node that can't be reached is an error only
// of the queries that need it.
func (a *app) openShards(ctx context.Context, f *queryFlags) (*openedShards, error) {
	out := &openedShards{}
	if f.shards == "" {
		return out, nil
	}
	d, _, err := readDeclaration(ctx, f.shards, "")
	if err != nil {
		return nil, err
	}
	if len(d.Shards.Nodes) == 0 {
		return nil, usagef("--target alone", "--shards %s: table %s has no [shards]", f.shards, d.Name)
	}
	if f.target == "" {
		f.target = d.Target
	}
	if f.target == "" {
		_, err := declaredTarget(f.shards, d)
		return nil, err
	}
	out.table = d.Name
	var names []string
	var keepers []engine.Keeper
	for _, n := range d.Shards.Nodes {
		shard, err := out.open(ctx, a, d, n)
		if err != nil {
			return nil, errors.Join(maintain.InNode(n.Name, err), out.close())
		}
		out.shards = append(out.shards, shard)
		if shard.Err == nil {
			names, keepers = append(names, n.Name), append(keepers, out.opened[len(out.opened)-1].DB.(engine.Keeper)) // open has checked
		}
	}
	if err := maintain.CheckPlaces(ctx, nil, names, keepers); err != nil {
		return nil, errors.Join(err, out.close())
	}
	return out, nil
}

// open opens a node, whose table must have been applied with the same nodes.
func (o *openedShards) open(ctx context.Context, a *app, d *rolling.Declaration, n rolling.Node) (query.Shard, error) {
	t, err := target.Open(ctx, n.Target, a.logLine)
	if err != nil {
		return query.Shard{Name: n.Name, Err: err}, nil
	}
	o.opened = append(o.opened, t)
	reader, reads := t.DB.(engine.Reader)
	keeper, keeps := t.DB.(engine.Keeper)
	if !reads || !keeps {
		return query.Shard{}, errors.New("it can't answer queries")
	}
	return query.Shard{Name: n.Name, Reader: reader}, maintain.CheckApplied(ctx, d, n.Name, keeper)
}

func (o *openedShards) readBy(r *query.Runner) {
	if o.table != "" {
		r.ReadShards(o.table, o.shards)
	}
}

func (o *openedShards) close() error {
	var errs []error
	for _, t := range o.opened {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}
