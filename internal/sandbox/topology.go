package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Roles of the servers of a topology.
const (
	// Source is a server whose changes Replicas receive and repeat.
	Source  = "source"
	Replica = "replica"
	// Member is a server of a Galera cluster: each takes changes, and receives those of the others.
	Member = "member"
)

// A group is the servers of one topology that have been created, running or not, by number. The
// first server, the head, has number 0; its nodes are numbered from 1.
type group map[int]Info

// A part is the place of a server in a topology. The zero value is a server without replication.
type part struct {
	role   string
	number int
	group  group
	// semiSync: see Options.SemiSync.
	semiSync bool
}

// head is the first server of the topology.
func (p part) head() Info { return p.group[0] }

// part returns the place of a server in the topology of a group.
func (o Options) part(number int, g group) part {
	p := part{number: number, group: g, semiSync: o.SemiSync}
	switch {
	case o.Galera > 0:
		p.role = Member
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
	// follow returns the statements that let a replica follow its source. It is nil if the server's
	// arguments suffice for that.
	follow func(l *launch) []string
	// copy fills the empty directory dir with the data of the source. If it is nil, a replica begins
	// with a new data directory, and repeats all changes of the source.
	copy func(ctx context.Context, l *launch, dir string) error
	// position are the statements that return how far a source has committed (its position). reached
	// is a query that returns 1 if a replica has got to the position %s. It may wait for a second.
	position []string
	reached  string
	// joined returns an error until a member of a cluster has the data of the other members. It is nil
	// if this kind of server has no clusters.
	joined func(ctx context.Context, socket string) error
}

// reservedHere are the server variables that a topology chooses.
func (p part) reservedHere() []string {
	switch p.role {
	case "":
		return nil
	case Member:
		return []string{"wsrep_on", "wsrep_provider", "wsrep_provider_options", "wsrep_cluster_address", "wsrep_cluster_name", "wsrep_node_address", "wsrep_node_incoming_address",
			"wsrep_sst_method", "wsrep_sst_receive_address", "wsrep_start_position", "wsrep_recover", "wsrep_new_cluster", "wsrep_data_home_dir",
			"server_id", "log_bin", "skip_log_bin", "binlog_format", "innodb_autoinc_lock_mode"}
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
	case o.Galera < 0 || o.Galera > maxNodes:
		return fmt.Errorf("galera %d: want 1 to %d", o.Galera, maxNodes)
	case o.Galera > 0 && k.replication.joined == nil:
		return fmt.Errorf("%s has no Galera clusters: use mariadb", o.Kind)
	case o.Galera > 0 && o.Storage != InnoDB:
		return fmt.Errorf("galera replicates tables of InnoDB alone, not of %s", o.Storage)
	case min(o.Replicas, 1)+min(o.Nodes, 1)+min(o.Galera, 1) > 1:
		return fmt.Errorf("%s exclude each other: a sandbox has one topology", strings.Join(o.topologies(k), " and "))
	case o.Keep != "" && o.nodes() > 0:
		return fmt.Errorf("keep= is for a single server: a named sandbox keeps %s", strings.Join(o.topologies(k), ""))
	case o.SemiSync && o.Replicas == 0:
		return errors.New("semisync is about replicas: add replicas=1")
	}
	for _, name := range o.part(0, nil).reservedHere() {
		if _, set := o.Set[name]; set {
			return fmt.Errorf("server variable %s can't be set in a sandbox with %s: %s", name, strings.Join(o.topologies(k), ""), inside)
		}
	}
	if n := o.sharers(); n > 1 && o.Memory/n < k.minMemory {
		return fmt.Errorf("memory %s is divided among %d servers, which need %s each: request memory=%dMB", FormatSize(o.Memory), n, FormatSize(k.minMemory), n*k.minMemory>>20)
	}
	return nil
}

// topologies returns the topologies' parameters that are given, such as "replicas".
func (o Options) topologies(k *kind) (given []string) {
	for _, t := range []struct {
		key string
		n   int
	}{{k.nodesKey, o.Nodes}, {"replicas", o.Replicas}, {"galera", o.Galera}} {
		if t.n > 0 {
			given = append(given, t.key)
		}
	}
	return given
}

// sharers is the number of servers that share Options.Memory.
func (o Options) sharers() int64 { return int64(1 + o.nodes() - o.Nodes) }

// OwnMemory is the memory of each server of the sandbox, in bytes: the sandbox's memory, divided
// among a source and its replicas or the members of a cluster, in whole MiB.
func (o Options) OwnMemory() int64 { return o.Memory / o.sharers() >> 20 << 20 }

// catchUpPoll is the interval between questions whether a replica has reached a position.
const catchUpPoll = 10 * time.Millisecond

// follow waits until a replica has all that its source, head, has committed so far. If the replica
// ends meanwhile, gone is closed, and follow returns an error.
func (i Info) follow(ctx context.Context, head Info, gone <-chan struct{}) error {
	k, err := kindOf(i.Kind)
	if err != nil {
		return err
	}
	if i.Role == Member {
		return k.replication.joined(ctx, i.Socket)
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

// CatchUp waits until each replica, and each member of a cluster, has all that was committed so
// far.
func (s *Server) CatchUp(ctx context.Context) error {
	for i, n := range s.Nodes {
		if n.Role == "" {
			continue
		}
		if err := n.follow(ctx, s.Info, n.Done()); err != nil {
			return fmt.Errorf("%s %d: %w", n.Role, i+1, err)
		}
	}
	return nil
}

// Name says which server of a topology this is: number 0 is the first.
func (i Info) Name(number int) string {
	switch i.Role {
	case Source:
		return "source"
	case Replica:
		return fmt.Sprintf("replica %d", number)
	case Member:
		number++ // the first is a node like the others
	}
	return fmt.Sprintf("node %d", number)
}

// followTimeout is how long a replica that was just started may take to receive its source's
// changes. A new replica has missed none, a kept one those made while the replica was stopped.
const followTimeout = startTimeout
