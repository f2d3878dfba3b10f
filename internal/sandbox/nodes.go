package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// maxNodes is the maximum number of nodes of a sandbox. Each node is a server.
const maxNodes = 16

// NodeNames returns the names of the nodes of a named sandbox. Each node is a sandbox itself.
func NodeNames(name string, o Options) []string {
	var names []string
	for i := range o.nodes() {
		names = append(names, fmt.Sprintf("%s-%d", name, i+1))
	}
	return names
}

// nodes returns the number of servers in addition to the first.
func (o Options) nodes() int { return o.Nodes + o.Replicas + max(o.Galera-1, 0) }

// node returns the options of each node.
func (o Options) node() Options {
	o = o.withDefaults()
	o.Memory = o.OwnMemory()
	o.Nodes, o.Replicas, o.SemiSync, o.Galera = 0, 0, false, 0
	return o
}

// startHead starts the first server, s, of a named topology. names are the names of all its
// servers. If another member of a stopped cluster has committed more than s, startHead starts that
// member before s, and returns it as first.
func startHead(ctx context.Context, o Options, g group, names []string, logf func(string, ...any)) (s, first *Server, err error) {
	var behind *behindError
	if s, err = start(ctx, o, o.part(0, g), names[0], logf); !errors.As(err, &behind) {
		return s, nil, err
	}
	n := behind.number
	if first, err = start(ctx, o.node(), o.part(n, g), names[n], logf); err != nil {
		return nil, nil, fmt.Errorf("node %d: %w", n, err)
	}
	if s, err = start(ctx, o, o.part(0, g), names[0], logf); err != nil {
		return nil, nil, errors.Join(err, first.Stop(context.WithoutCancel(ctx)))
	}
	return s, first, nil
}

// startNodes starts the nodes of a throwaway server.
func (s *Server) startNodes(ctx context.Context) error {
	for i := range s.Options.nodes() {
		n, err := start(ctx, s.Options.node(), s.Options.part(i+1, s.plan.part.group), "", s.logf)
		if err != nil {
			return fmt.Errorf("node %d: %w", i+1, err)
		}
		s.Nodes = append(s.Nodes, n)
	}
	return nil
}

// groupOf returns the servers of a named topology.
func groupOf(list []Instance, name string, o Options) group {
	g, names := group{}, append([]string{name}, NodeNames(name, o)...)
	for _, in := range list {
		if i := slices.Index(names, in.Name); i >= 0 {
			if in.State != Running {
				in.Group = 0
			}
			g[i] = in.Info
		}
	}
	return g
}

func (s *Server) stopNodes(ctx context.Context) error {
	var errs []error
	for i, n := range s.Nodes {
		if err := n.Stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("node %d: %w", i+1, err))
		}
	}
	return errors.Join(errs...)
}

// An undoing stops the servers that a call has started, unless the call succeeds.
type undoing struct{ started []*Server }

// add closes this process's lock: the server holds the lock itself.
func (u *undoing) add(s *Server) error {
	u.started = append(u.started, s)
	return s.lock.Close()
}

func (u *undoing) undo(ctx context.Context) error {
	var errs []error
	for _, s := range u.started {
		errs = append(errs, stopNamed(context.WithoutCancel(ctx), Instance{State: Running, Info: s.Info}, !s.fresh))
	}
	return errors.Join(errs...)
}

// startNamedNodes starts the stopped nodes of a named sandbox.
func startNamedNodes(ctx context.Context, head Instance, g group, logf func(string, ...any), u *undoing) error {
	for i, node := range NodeNames(head.Name, head.Options) {
		s, err := start(ctx, head.Options.node(), head.Options.part(i+1, g), node, logf)
		if errors.Is(err, errLocked) {
			continue // it runs
		}
		if err == nil {
			err = u.add(s)
		}
		if err != nil {
			return fmt.Errorf("node %s: %w", node, err)
		}
	}
	return nil
}

// checkNodeNames refuses a sandbox if a node would have the name of another sandbox.
func checkNodeNames(list []Instance, name string, o Options) error {
	for _, in := range list {
		if in.Head != name && slices.Contains(NodeNames(name, o), in.Name) {
			return fmt.Errorf("its node would be called %s, and there is a sandbox of that name", in.Name)
		}
	}
	return nil
}

// setHeads sets Instance.Head.
func setHeads(list []Instance) {
	for _, head := range list {
		for _, node := range NodeNames(head.Name, head.Options) {
			if i := slices.IndexFunc(list, func(in Instance) bool { return in.Name == node }); i >= 0 {
				list[i].Head = head.Name
			}
		}
	}
}

// stopNamedNodes stops the nodes of a named sandbox.
func stopNamedNodes(ctx context.Context, list []Instance, head string, keepData bool) error {
	var errs []error
	for _, in := range list {
		if in.Head != head {
			continue
		}
		if err := stopNamed(ctx, in, keepData); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("node %s: %w", in.Name, err))
		}
	}
	return errors.Join(errs...)
}

// NodesOf returns the nodes of a named sandbox. dir is the directory of sandboxes, as for List.
func NodesOf(dir, name string) ([]Instance, error) {
	list, err := List(dir)
	return slices.DeleteFunc(list, func(in Instance) bool { return in.Head != name }), err
}

// StopAll stops the sandboxes of a list, and calls stopped after each. Stopping a head also stops
// its nodes.
func StopAll(ctx context.Context, list []Instance, keepData bool, stopped func(Instance)) error {
	var errs []error
	with := map[string]bool{} // the heads whose nodes are stopped with them
	for _, in := range list {
		if with[in.Name] = true; with[in.Head] {
			continue
		}
		if err := StopNamed(ctx, "", in.Name, keepData); err != nil {
			errs = append(errs, err)
			continue
		}
		stopped(in)
	}
	return errors.Join(errs...)
}
