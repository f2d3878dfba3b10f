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
	"sync"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/declared"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/maintain"
)

// applyShards creates or changes a table on all of its nodes, and the table on the head, through
// which all nodes look like one table.
func (a *app) applyShards(ctx context.Context, d *declared.File, f applyFlags) (err error) {
	if f.finish || f.undo {
		return cli.Usagef("a table that is created with [shards]", "--finish and --undo are about a plain table that is adopted, and a table with [shards] is not")
	}
	c, err := d.OpenCluster(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for _, k := range c.Nodes {
		k.Say = a.sayEventOf(k.Node)
	}
	plan, err := c.Plan(ctx)
	if err != nil {
		return err
	}
	where := fmt.Sprintf("%s, and nodes %s", c.Head.Info().Target, d.Shards.Names())
	return a.applyPlan(ctx, plan, d.Declaration, where, f)
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

// A unit is a table on one server that rowmill run keeps.
type unit struct {
	node string // the node's name; "" if the table has only one server
	open func(context.Context) (*declared.Table, error)
}

// unitsOfRun returns the tables of declarations: for a table with nodes, one unit for each node.
func (a runner) unitsOfRun(ctx context.Context, files []string, f runFlags, servers *declared.Servers) ([]unit, error) {
	var out []unit
	for _, file := range files {
		d, err := a.declared(ctx, file, f.kept)
		if err != nil {
			return nil, err
		}
		d.Servers = servers
		if !d.Sharded() {
			out = append(out, unit{open: d.OpenApplied})
			continue
		}
		if flag := f.single(); flag != "" {
			return nil, cli.Usagef("--target "+d.Shards.Nodes[0].Name+", and one rowmill run for each node", "%s is for the table of one server, and %s is on the nodes %s", flag, d.Name, d.Shards.Names())
		}
		for _, n := range d.OfNodes() {
			out = append(out, unit{n.Node, func(ctx context.Context) (*declared.Table, error) {
				k, err := n.OpenApplied(ctx)
				return k, maintain.InNode(n.Node, err)
			}})
		}
	}
	return out, nil
}

// loadShards loads sources into all nodes at once. Each node has a load and a ledger of its own for
// its share of the rows. If a node was down, the same command run again loads that node's rows.
func (a loads) loadShards(ctx context.Context, sources []string, f loadFlags, d *declared.File) error {
	nodes := d.OfNodes()
	stdin := make([]io.Reader, len(nodes))
	for i := range stdin {
		stdin[i] = a.Stdin
	}
	wait := func() {}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	if slices.Contains(sources, "-") {
		var pipes []*io.PipeReader
		pipes, wait = format.Tee(reading, a.Stdin, len(nodes))
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
		if f.Spool != "" {
			f.Spool = filepath.Join(f.Spool, n.Node)
		}
		out := io.Writer(&outs[i])
		if !f.withJSON {
			out = &prefixed{to: a.Stdout, prefix: n.Node + ": ", lock: &lock}
		}
		one := newApp(a.Args, stdin[i], out, &prefixed{to: a.Stderr, prefix: n.Node + ": ", lock: &lock})
		one.reached = a.reached
		n.Note = one.Note
		load := func() {
			errs[i] = maintain.InNode(n.Node, loads{one}.loadInto(ctx, sources, f, n))
			if pipe, ok := stdin[i].(*io.PipeReader); ok {
				_ = pipe.Close() // never fails
			}
		}
		if f.list {
			load() // one node after the other
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
			o := node{Node: n.Node, Result: outs[i].Bytes()}
			if errs[i] != nil {
				o.Error = errs[i].Error()
			}
			list = append(list, o)
		}
		err = errors.Join(err, a.PrintFormat("rowmill.nodes/1", map[string]any{"nodes": list}))
	}
	return err
}

// A prefixed is a writer that writes each line with a prefix, once the line is complete.
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
