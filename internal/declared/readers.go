package declared

import (
	"context"
	"errors"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/apply"
	"github.com/rowmill/rowmill/internal/target"
)

// Readers are the nodes of a table, for queries that read them and not the head.
type Readers struct {
	Table string
	Nodes []Reader

	opened []*target.DB
}

// A Reader is one node.
type Reader struct {
	Name   string
	Reader engine.Reader
	// Err is why the node can't be reached. Then Reader is nil.
	Err error
}

// OpenReaders opens the nodes of a table. Each node must have been applied with the same list of
// nodes. A node that can't be reached is no error.
func (f *File) OpenReaders(ctx context.Context) (*Readers, error) {
	r := &Readers{Table: f.Name}
	for _, n := range f.OfNodes() {
		if err := r.open(ctx, n); err != nil {
			return nil, errors.Join(maintain.InNode(n.Node, err), r.Close())
		}
	}
	return r, nil
}

// Check returns an error if a head can't present the nodes as one table: see apply.CheckPlaces.
// head is the database that plans the queries. If no node could be reached, nothing is checked.
func (r *Readers) Check(ctx context.Context, head engine.DB) error {
	var names []string
	var nodes []engine.Keeper
	for _, n := range r.Nodes {
		if db, reached := n.Reader.(engine.Keeper); reached {
			names, nodes = append(names, n.Name), append(nodes, db)
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	of, _ := head.(engine.Keeper)
	return apply.CheckPlaces(ctx, of, names, nodes)
}

// open opens a node. It is no error that it can't be reached.
func (r *Readers) open(ctx context.Context, f *File) error {
	t, err := f.openTarget(ctx, f.Target)
	if err != nil {
		r.Nodes = append(r.Nodes, Reader{Name: f.Node, Err: err})
		return nil
	}
	r.opened = append(r.opened, t)
	reader, reads := t.DB.(engine.Reader)
	keeper, keeps := t.DB.(engine.Keeper)
	if !reads || !keeps {
		return errors.New("it can't answer queries")
	}
	r.Nodes = append(r.Nodes, Reader{Name: f.Node, Reader: reader})
	return apply.CheckNode(ctx, f.Declaration, f.Node, keeper)
}

// Close closes the nodes' databases.
func (r *Readers) Close() error {
	var errs []error
	for _, t := range r.opened {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}
