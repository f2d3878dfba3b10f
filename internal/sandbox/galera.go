package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// joining is what the start of a member of a Galera cluster needs.
type joining struct {
	provider string // the path of Galera's library
	// These are ports of 127.0.0.1. Members talk to each other on the port group. A member that was
	// away receives the missed changes on the port increments, or a copy of all data on the port
	// whole.
	group, increments, whole int
	peers                    []string // addresses of the running members; without any, this member begins the cluster
	position                 string   // the position of the member's data, if only InnoDB knows it, as after a crash
}

const (
	stateTable = "grastate.dat"    // holds a member's position, and whether the cluster may begin with this member
	lastView   = "gvwstate.dat"    // lists the members with which this member was connected
	halfCopied = "sst_in_progress" // exists while a member has received only a part of the data
	// gcache is the size of the cache in which a running member keeps its latest changes. A member
	// that comes back and needs older changes receives a copy of all data instead.
	gcache = "64M"
)

// A behindError refuses to begin a cluster with a member that lacks what another has committed.
type behindError struct {
	number     int    // of the other member
	dir        string // of the other member
	mine, more int64  // the write sets that this member and the other have committed
}

func (e *behindError) Error() string {
	return fmt.Sprintf("no member of the cluster runs, and that of %s has committed more (%d write sets, this one %d): start it first", e.dir, e.more, e.mine)
}

// joinGalera finds the running members that a member can join. If there are none, it prepares the
// member to begin the cluster.
func joinGalera(ctx context.Context, l *launch) error {
	j := &l.joining
	if l.part.role != Member {
		return nil
	}
	if err := l.findGalera(); err != nil {
		return err
	}
	for _, port := range []int{l.port, j.group, j.increments, j.whole} {
		ln, err := net.Listen("tcp", loopback(port))
		if err != nil {
			return fmt.Errorf("a port of the member is in use by another process: %w", err)
		}
		if err := ln.Close(); err != nil {
			return err
		}
	}
	mine, at, err := l.committed(ctx)
	if err != nil {
		return err
	}
	j.peers, j.position = nil, at
	var running []Info
	numbers := slices.DeleteFunc(slices.Sorted(maps.Keys(l.part.group)), func(n int) bool { return n == l.part.number })
	for _, n := range numbers {
		if m := l.part.group[n]; m.Group != 0 {
			if conn, err := net.DialTimeout("tcp", loopback(m.Group), time.Second); err == nil {
				_ = conn.Close()
				j.peers, running = append(j.peers, loopback(m.Group)), append(running, m)
			}
		}
	}
	// The last view may name an earlier incarnation of this member.
	if err := os.Remove(filepath.Join(l.dataDir, lastView)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(running) > 0 {
		return quorum(ctx, running)
	}
	for _, n := range numbers {
		other := *l
		other.dir, other.dataDir = l.part.group[n].Dir, l.part.group[n].DataDir
		more, _, err := other.committed(ctx)
		if err != nil {
			return err
		}
		if more > mine {
			return &behindError{n, other.dir, mine, more}
		}
	}
	table := filepath.Join(l.dataDir, stateTable)
	text, err := os.ReadFile(table)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(table, []byte(strings.Replace(string(text), "safe_to_bootstrap: 0", "safe_to_bootstrap: 1", 1)), 0o600)
}

// quorum waits until the running members agree on how many members are left. If these are not a
// majority of the former cluster, it declares them to be the cluster, as all other members have
// ended.
func quorum(ctx context.Context, running []Info) error {
	ctx, cancel := context.WithTimeoutCause(ctx, followTimeout, fmt.Errorf("not within %v", followTimeout))
	defer cancel()
	for {
		status, err := queryMySQL(ctx, running[0].Socket, "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_cluster_status', 'wsrep_cluster_size')")
		switch {
		case err != nil || status["wsrep_cluster_size"] != strconv.Itoa(len(running)):
		case status["wsrep_cluster_status"] == "Primary":
			return nil
		default:
			if _, err = queryMySQL(ctx, running[0].Socket, "SET GLOBAL wsrep_provider_options = 'pc.bootstrap=true'", "SELECT 'done', 1"); err == nil {
				return nil
			}
		}
		if ended := sleep(ctx, catchUpPoll); ended != nil {
			return fmt.Errorf("wait for the members that run to agree who is left: %w", errors.Join(ended, err))
		}
	}
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// findGalera finds what a member needs beside the server.
func (l *launch) findGalera() error {
	libraries := []string{"/usr/lib/galera/libgalera_smm.so", "/usr/lib/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so", "/usr/lib64/galera/libgalera_smm.so"}
	i := slices.IndexFunc(libraries, isFile)
	if i < 0 {
		return fmt.Errorf("find libgalera_smm.so: Galera is %w: it is not in %s; install it, on Debian and Ubuntu with: apt install galera-4 rsync", ErrNotInstalled, filepath.Dir(libraries[0]))
	}
	l.joining.provider = libraries[i]
	for _, program := range []string{"rsync", "wsrep_sst_rsync"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s, by which members of a cluster copy their state, is %w; install it, on Debian and Ubuntu with: apt install galera-4 mariadb-server rsync", program, ErrNotInstalled)
		}
	}
	return os.WriteFile(filepath.Join(l.tmpDir, "wsrep_sst_"+copyMethod), []byte(copyScript), 0o700)
}

// copyScript runs the server's own script wsrep_sst_rsync, and kills it when the server ends: if
// the server was killed, that script would wait forever. The server's process id is also the id of
// the process group. The user and group in rsync's configuration are those of this script:
// otherwise an rsync that root starts would run as nobody, who can't enter the sandbox.
const (
	copyMethod = "rowmill"
	copyScript = `#!/bin/sh
server=$(ps -o pgid= -p $$ | tr -d ' ')
(while kill -0 "$server"; do sleep 0.2; done; kill -9 "-$server") >/dev/null 2>&1 &
watch=$!
script=$(command -v wsrep_sst_rsync)
bash -c "$(sed "s/^use chroot = no$/&\nuid = $(id -u)\ngid = $(id -g)/" "$script")" "$script" "$@"
status=$?
kill $watch
exit $status
`
)

// clusterEnv lets the server of a member find copyScript.
func (l *launch) clusterEnv() []string {
	if l.part.role != Member {
		return nil
	}
	return []string{"PATH=" + os.Getenv("PATH") + ":" + l.tmpDir}
}

func galeraArgs(l *launch) []string {
	j := l.joining
	if l.part.role != Member {
		return nil
	}
	args := []string{
		"--wsrep-on=ON", "--wsrep-provider=" + j.provider, "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--wsrep-cluster-name=rowmill",
		"--wsrep-cluster-address=gcomm://" + strings.Join(j.peers, ","), "--wsrep-node-name=node" + strconv.Itoa(l.part.number+1),
		"--wsrep-node-address=127.0.0.1", "--wsrep-node-incoming-address=" + loopback(l.port),
		"--wsrep-sst-method=" + copyMethod, "--wsrep-sst-receive-address=" + loopback(j.whole),
		fmt.Sprintf("--wsrep-provider-options=base_port=%d;gmcast.listen_addr=tcp://%s;ist.recv_addr=%s;gcache.size=%s;pc.wait_prim_timeout=PT5M", j.group, loopback(j.group), loopback(j.increments), gcache),
	}
	if j.position != "" {
		args = append(args, "--wsrep-start-position="+j.position)
	}
	return args
}

var (
	savedUUID  = regexp.MustCompile(`(?m)^uuid:\s+([0-9a-f-]{36})\s*$`)
	savedSeqno = regexp.MustCompile(`(?m)^seqno:\s+(-?[0-9]+)\s*$`)
	recovered  = regexp.MustCompile(`Recovered position:? ([0-9a-f-]{36}):(-?[0-9]+)`)
)

// committed returns the number of write sets in the data of a stopped member; -1 if the data have
// no position. After a crash only InnoDB knows the position; committed then also returns it, as at.
func (l *launch) committed(ctx context.Context) (n int64, at string, err error) {
	if isFile(filepath.Join(l.dataDir, halfCopied)) {
		return -1, "", nil
	}
	text, err := os.ReadFile(filepath.Join(l.dataDir, stateTable))
	if errors.Is(err, fs.ErrNotExist) {
		return -1, "", nil
	}
	if err != nil {
		return 0, "", err
	}
	uuid, seqno := savedUUID.FindSubmatch(text), savedSeqno.FindSubmatch(text)
	if uuid == nil || seqno == nil {
		return 0, "", fmt.Errorf("%s has no position: remove the directory %s, and the member receives the state of the others", filepath.Join(l.dataDir, stateTable), l.dataDir)
	}
	if n, err = strconv.ParseInt(string(seqno[1]), 10, 64); err != nil || n >= 0 {
		return n, "", err
	}
	var as *account
	out, err := as.run(ctx, nil, l.bin.server, append(l.kind.args(l), "--wsrep-recover")...)
	found := recovered.FindStringSubmatch(out)
	if err != nil || found == nil {
		return 0, "", errors.Join(err, fmt.Errorf("read the position of %s%s", l.dataDir, indentTail(out)))
	}
	if n, err = strconv.ParseInt(found[2], 10, 64); err != nil || n < 0 {
		return -1, "", err
	}
	return n, found[1] + ":" + found[2], nil
}

// joinedGalera returns an error until a member has received everything that the other members had
// committed: it runs a query with wsrep_sync_wait, which the member doesn't answer before.
func joinedGalera(ctx context.Context, socket string) error {
	status, err := queryMySQL(ctx, socket, "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_local_state_comment', 'wsrep_ready')")
	if err != nil {
		return err
	}
	if state := status["wsrep_local_state_comment"]; state != "Synced" || status["wsrep_ready"] != "ON" {
		return fmt.Errorf("the member is not synced: its state is %s", state)
	}
	_, err = queryMySQL(ctx, socket, "SET SESSION wsrep_sync_wait = 15", "SELECT 'joined', 1")
	return err
}
