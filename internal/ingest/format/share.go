package format

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// A Share selects the rows of a source that one load sends to its node. Other loads of the same
// source send the other rows to the table's other nodes. Each load has its own ledger on its node.
type Share struct {
	// By is the column that decides which rows belong to the share: Has is called with its value. With
	// Positions, Has is called with the row's position on the table's axis instead.
	By        string
	Positions bool
	Has       func(key int64) bool
	// Rest adds the rows that can't be read. One of the loads has them, so that each is rejected once.
	Rest bool
}

// ShareOf returns the share of the node whose name is node and whose database is db. It returns nil
// if node is "": the table is on one server.
func ShareOf(db engine.Keeper, table *engine.Table, shards rolling.Shards, node string) (*Share, error) {
	if node == "" {
		return nil, nil
	}
	h, err := engine.NewHead(table, &shards)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(shards.Nodes, func(n rolling.Node) bool { return n.Name == node })
	rule := db.(engine.Presenter) // planning has checked that
	return &Share{By: shards.By, Positions: h.Slice > 0, Rest: at == 0, Has: func(key int64) bool { return rule.NodeOf(h, key) == at }}, nil
}

// setShare finds the column that decides about a row's share.
func (t *Target) setShare(s *Share, table *engine.Table) error {
	if t.share = s; s == nil {
		return nil
	}
	i, has := t.byName[s.By]
	if !has {
		return fmt.Errorf("there is no column %s, by which the rows of table %s are distributed over its nodes", s.By, table.Name)
	}
	if table.Columns[i].Type != engine.Int64 && !s.Positions {
		return fmt.Errorf("column %s, by which the rows of table %s are distributed over its nodes, is no integer", s.By, table.Name)
	}
	t.shareBy = i
	return nil
}

var errNoShare = errors.New("it has no value, which decides about the row's node")

// others reports whether the row that was just read belongs to another load's share.
func (p *Parser) others() bool {
	keys := p.Batch.Columns[p.shareBy].Ints
	if p.share.Positions {
		return !p.share.Has(p.Position(len(keys) - 1))
	}
	return !p.share.Has(keys[len(keys)-1])
}

// unshared returns an error if a row of an object lacks the column that decides.
func (p *Parser) unshared() (column string, err error) {
	if p.share != nil && len(p.absent) > 0 && p.absent[p.shareBy/8]>>(p.shareBy%8)&1 == 1 {
		return p.share.By, errNoShare
	}
	return "", nil
}

// Tee returns n readers that each return all of in. The slowest determines the speed; closed
// readers are left out. A goroutine reads from in until in or ctx ends. wait waits for the end of
// the goroutine, but not for a read that ctx can't interrupt.
func Tee(ctx context.Context, in io.Reader, n int) (readers []*io.PipeReader, wait func()) {
	var writers []*io.PipeWriter
	for range n {
		r, w := io.Pipe()
		readers, writers = append(readers, r), append(writers, w)
	}
	end := func(err error) {
		for _, w := range writers {
			_ = w.CloseWithError(err) // never fails
		}
	}
	stop := context.AfterFunc(ctx, func() { end(ctx.Err()) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer stop()
		buf := make([]byte, blockSize)
		for ready(ctx, in) {
			k, err := in.Read(buf)
			var sent sync.WaitGroup
			for _, w := range writers {
				sent.Go(func() { _, _ = w.Write(buf[:k]) }) // fails once its reader is closed, or ctx has ended
			}
			sent.Wait()
			if err != nil {
				end(err)
				return
			}
		}
		end(ctx.Err())
	}()
	return readers, func() {
		if _, polled := in.(*os.File); polled || ctx.Err() == nil {
			<-done
		}
	}
}
