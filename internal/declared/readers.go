package declared

import (
	"context"
	"errors"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/target"
)

// Readers are the nodes of a table, for queries that read them and not the head.
type Readers struct {
	Table string
	Nodes []Reader

	opened  []*target.DB
	names   []string
	keepers []engine.Keeper
}

// A Reader is one node.
type Reader struct {
	Name   string
	Reader engine.Reader
	// Err is why it can't be reached. Then Reader is nil.
	Err error
}

// OpenReaders opens the nodes of a table, which must have been applied with the same ones. A node that can't be reached
// is no error.
func (f *File) OpenReaders(ctx context.Context) (*Readers, error) {
	r := &Readers{Table: f.Name}
	for _, n := range f.OfNodes() {
		keeper, err := r.open(ctx, n)
		if err != nil {
			return nil, errors.Join(maintain.InNode(n.Node, err), r.Close())
		}
		if keeper != nil {
			r.names, r.keepers = append(r.names, n.Node), append(r.keepers, keeper)
		}
	}
	return r, nil
}

// Check returns an error if the nodes aren't such as a head can present: see maintain.CheckPlaces. Head is the database that plans the
// queries.
func (r *Readers) Check(ctx context.Context, head engine.DB) error {
	keeper, _ := head.(engine.Keeper)
	return maintain.CheckPlaces(ctx, keeper, r.names, r.keepers)
}

// open opens a node; its Keeper is nil if it can't be reached.
func (r *Readers) open(ctx context.Context, f *File) (engine.Keeper, error) {
	t, err := f.openTarget(ctx, f.Target)
	if err != nil {
		r.Nodes = append(r.Nodes, Reader{Name: f.Node, Err: err})
		return nil, nil
	}
	r.opened = append(r.opened, t)
	reader, reads := t.DB.(engine.Reader)
	keeper, keeps := t.DB.(engine.Keeper)
	if !reads || !keeps {
		return nil, errors.New("it can't answer queries")
	}
	r.Nodes = append(r.Nodes, Reader{Name: f.Node, Reader: reader})
	return keeper, maintain.CheckApplied(ctx, f.Declaration, f.Node, keeper)
}

// Close closes the nodes' databases.
func (r *Readers) Close() error {
	var errs []error
	for _, t := range r.opened {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}
