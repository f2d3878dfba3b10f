package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Roles of the servers of a topology.
const (
	// Source is a server whose changes Replicas receive and repeat.
	Source  = "source"
	Replica = "replica"
)

// A part is the place of a server in a topology. The zero value is that of a server alone, and of
// one whose tables others present.
type part struct {
	role   string
	number int  // 0 is the head; its nodes are numbered from 1
	head   Info // of a node
	// semiSync: see Options.SemiSync.
	semiSync bool
}

// part returns the place of a node, or of the head if number is 0.
func (o Options) part(number int, head Info) part {
	p := part{number: number, head: head, semiSync: o.SemiSync}
	switch {
	case o.Replicas > 0 && number == 0:
		p.role = Source
	case o.Replicas > 0:
		p.role = Replica
	}
	return p
}

// replication is what differs between makes of servers that replicate.
type replication struct {
	// tcp means that a replica reaches its source on a port only.
	tcp bool
	// follow returns the statements by which a replica that has started follows its source; nil if
	// its arguments do that.
	follow func(l *launch) []string
	// semiSync returns an error if a server can't replicate semi-synchronously; nil is that it can.
	semiSync func(bin binaries) error
	// copy fills the empty directory dir with the data of the source; nil is that a replica begins
	// with a new data directory and repeats all changes.
	copy func(ctx context.Context, l *launch, dir string) error
	// position are the statements that return what a source has committed, and reached is the query
	// that returns 1 once a replica has it, with the position in place of %s. It may wait for a second.
	position []string
	reached  string
}

// reservedHere are the server variables that a topology chooses.
func (p part) reservedHere() []string {
	if p.role == "" {
		return nil
	}
	return []string{"server_id", "log_bin", "skip_log_bin", "binlog_format", "sync_binlog", "gtid_mode", "gtid_domain_id", "read_only", "super_read_only",
		"primary_conninfo", "primary_slot_name", "synchronous_standby_names", "hot_standby", "wal_level", "max_wal_senders"}
}

func (o Options) validateTopology(k *kind) error {
	switch {
	case o.Nodes != 0 && k.nodesKey == "":
		return fmt.Errorf("%s can't present tables of other servers", o.Kind)
	case o.Nodes < 0 || o.Nodes > maxNodes:
		return fmt.Errorf("%s %d: want 1 to %d", k.nodesKey, o.Nodes, maxNodes)
	case o.Replicas < 0 || o.Replicas > maxNodes:
		return fmt.Errorf("replicas %d: want 1 to %d", o.Replicas, maxNodes)
	case o.Replicas > 0 && o.Nodes > 0:
		return fmt.Errorf("replicas and %s exclude each other: a sandbox has one topology", k.nodesKey)
	case o.SemiSync && o.Replicas == 0:
		return errors.New("semisync is about replicas: add replicas=1")
	}
	for _, name := range o.part(0, Info{}).reservedHere() {
		if _, set := o.Set[name]; set {
			return fmt.Errorf("server variable %s can't be set in a sandbox with replicas: %s", name, inside)
		}
	}
	if n := o.sharers(); n > 1 && o.Memory/n < k.minMemory {
		return fmt.Errorf("memory %s is divided among %d servers, which need %s each: request memory=%dMB", FormatSize(o.Memory), n, FormatSize(k.minMemory), n*k.minMemory>>20)
	}
	return nil
}

// sharers is the number of servers that share Options.Memory.
func (o Options) sharers() int64 { return int64(1 + o.Replicas) }

// OwnMemory is the memory of each server, in bytes: replicas share that of the sandbox with
// their source, in whole MiB.
func (o Options) OwnMemory() int64 { return o.Memory / o.sharers() >> 20 << 20 }

// catchUpPoll is the interval between questions whether a replica has reached a position.
const catchUpPoll = 10 * time.Millisecond

// follow waits until a replica has all that its source has committed so far. It ends with an error when the
// replica ends, which gone reports.
func (i Info) follow(ctx context.Context, head Info, gone <-chan struct{}) error {
	k, err := kindOf(i.Kind)
	if err != nil {
		return err
	}
	at, err := k.query(ctx, head.Socket, k.replication.position...)
	if err != nil {
		return fmt.Errorf("read the position of the source: %w", err)
	}
	for {
		row, err := k.query(ctx, i.Socket, fmt.Sprintf(k.replication.reached, at["position"]))
		if err == nil && row["reached"] == "1" {
			return nil
		}
		select {
		case <-gone:
			return fmt.Errorf("the replica has ended%s", indentTail(i.LogTail()))
		case <-ctx.Done():
			return fmt.Errorf("wait for the replica to reach %s: %w%s", at["position"], errors.Join(context.Cause(ctx), err), indentTail(i.LogTail()))
		case <-time.After(catchUpPoll):
		}
	}
}

// CatchUp waits until each replica that runs has all that the server has committed so far.
func (s *Server) CatchUp(ctx context.Context) error {
	for i, n := range s.Nodes {
		if n.Role != Replica {
			continue
		}
		if err := n.follow(ctx, s.Info, n.Done()); err != nil {
			return fmt.Errorf("replica %d: %w", i+1, err)
		}
	}
	return nil
}

// followTimeout is how long a new replica may take to receive what its source has: nothing, or
// what was written while a kept one was stopped.
const followTimeout = startTimeout
