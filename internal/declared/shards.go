package declared

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/apply"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/rolling"
)

// openNodes opens the nodes of a table, all at once. For a node that could not be opened, errs has
// an error, and nodes has nil in its place.
func (f *File) openNodes(ctx context.Context, applied bool) (nodes []*Table, errs []error) {
	files := f.OfNodes()
	nodes, errs = make([]*Table, len(files)), make([]error, len(files))
	var all sync.WaitGroup
	for i, n := range files {
		all.Go(func() {
			nodes[i], errs[i] = n.open(ctx, applied)
			errs[i] = maintain.InNode(n.Node, errs[i])
		})
	}
	all.Wait()
	return nodes, errs
}

func closeAll(nodes []*Table) error {
	var errs []error
	for _, t := range nodes {
		if t != nil {
			errs = append(errs, maintain.InNode(t.Node, t.Close()))
		}
	}
	return errors.Join(errs...)
}

// openHead opens the server that presents the nodes.
func (f *File) openHead(ctx context.Context) (*target.DB, engine.Keeper, error) {
	if err := WantTarget(f.Declaration); err != nil {
		return nil, nil, err
	}
	t, db, err := f.connect(ctx, f.Target)
	if err != nil {
		return nil, nil, fmt.Errorf("head: %w", err)
	}
	return t, db, nil
}

// A Cluster is a table on several servers.
type Cluster struct {
	// Nodes have its rows, in the declared order, and Head presents them as one table.
	Nodes []*Table
	Head  engine.Keeper

	declared *rolling.Declaration
	head     *target.DB
}

// OpenCluster opens all nodes and the head. The table may not exist yet.
func (f *File) OpenCluster(ctx context.Context) (_ *Cluster, err error) {
	nodes, errs := f.openNodes(ctx, false)
	c := &Cluster{Nodes: nodes, declared: f.Declaration}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if c.head, c.Head, err = f.openHead(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Close closes all databases.
func (c *Cluster) Close() error {
	var err error
	if c.head != nil {
		err = c.head.Close()
	}
	return errors.Join(err, closeAll(c.Nodes))
}

// Plan plans the steps that apply the declaration on the nodes, and then on the head.
func (c *Cluster) Plan(ctx context.Context) (*apply.Plan, error) {
	return plan(ctx, c.declared, c.Head, c.Nodes)
}

func plan(ctx context.Context, d *rolling.Declaration, head engine.Keeper, nodes []*Table) (*apply.Plan, error) {
	tables := make([]*maintain.Table, len(nodes))
	for i, t := range nodes {
		tables[i] = t.Table
	}
	return apply.PlanShards(ctx, d, head, tables)
}

func (f *File) statusOfNodes(ctx context.Context) (_ []*maintain.Status, err error) {
	nodes, errs := f.openNodes(ctx, true)
	defer func() { err = errors.Join(err, closeAll(nodes)) }()
	var out []*maintain.Status
	answered := 0
	for i, n := range f.Shards.Nodes {
		var s *maintain.Status
		err := errs[i]
		if err == nil {
			if s, err = nodes[i].appliedStatus(ctx); err == nil {
				answered++
			}
			err = maintain.InNode(n.Name, err)
		}
		if err != nil {
			s = maintain.Unreached(f.Declaration, n.Name, n.Target, err)
		}
		out = append(out, s)
	}
	if answered < len(nodes) {
		return out, nil // the head can't answer, either
	}
	t, head, err := f.openHead(ctx)
	if err != nil {
		return append(out, maintain.Unreached(f.Declaration, "", f.Target, err)), nil
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	due, err := plan(ctx, f.Declaration, head, nodes)
	if err == nil && !due.Empty() {
		err = engine.Hinted(fmt.Errorf("head: it doesn't present the nodes as declared: %s", due.Steps[0].What), "rowmill apply %s", f.Source)
	}
	if err != nil {
		out = append(out, maintain.Unreached(f.Declaration, "", f.Target, err))
	}
	return out, nil
}
