package sandbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// start starts a server, a throwaway one or, with a name, a detached one.
func start(ctx context.Context, o Options, p part, name string, logf func(string, ...any)) (_ *Server, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	k, err := kindOf(o.Kind)
	if err != nil {
		return nil, err
	}
	bin, err := k.find(ctx, o.Version)
	if err != nil {
		return nil, err
	}
	if o.Root, err = filepath.Abs(o.Root); err != nil {
		return nil, err
	}
	s := &Server{detached: name != "", logf: logf, stopping: make(chan struct{})}
	if err := s.place(k, o, p, name); err != nil {
		return nil, err
	}
	s.Info = s.state.info(o)
	if err := s.claim(ctx); err != nil {
		return nil, err
	}
	if err := s.launch(ctx, bin, p); err != nil {
		if proc := s.proc.Load(); proc != nil {
			proc.kill()
		}
		// Data of an earlier run are kept.
		err = errors.Join(err, s.state.release(s.lock, !s.fresh))
		tidyRoot(o.Root)
		return nil, err
	}
	return s, nil
}

func (s *Server) place(k *kind, o Options, p part, name string) (err error) {
	random := make([]byte, 8)
	rand.Read(random) // never fails
	id := hex.EncodeToString(random)
	s.state = state{Target: o.Target(), Throwaway: o.Keep == "" && name == "", Role: p.role, Kind: k.name, kind: k}
	switch {
	case name != "":
		s.state.dir = filepath.Join(o.Root, "named-"+name)
	case o.Keep != "":
		if s.state.dir, err = filepath.Abs(o.Keep); err != nil {
			return err
		}
	default:
		s.state.dir = filepath.Join(o.Root, "sandbox-"+id)
	}
	s.state.DataDir = filepath.Join(s.state.dir, dataName)
	s.state.Socket, s.state.SocketDir, err = socketPlace(s.state.dir, id, k.socketName)
	return err
}

func (s *Server) claim(ctx context.Context) error {
	rootLock, err := lockRoot(ctx, s.Options.Root)
	if err != nil {
		return err
	}
	defer rootLock.Close()
	sweep(ctx, s.Options.Root, s.logf)
	if s.fresh, err = makePlace(s.Dir); err != nil {
		return err
	}
	if s.lock, err = tryLock(s.Dir, true); err != nil {
		return fmt.Errorf("take %s: %w", s.Dir, err)
	}
	return nil
}

// takeOver ends what remains of an earlier server, and writes the new state.
func (s *Server) takeOver(ctx context.Context) error {
	if !s.fresh {
		old, err := readState(s.Dir)
		if err != nil {
			return err
		}
		if old.Kind != s.Kind {
			return fmt.Errorf("%s holds the data of a %s server", s.Dir, old.Kind)
		}
		if old.Role != s.Role {
			return fmt.Errorf("%s holds the data of %s, which can't become %s: use another directory or name", s.Dir, aServer(old.Role), aServer(s.Role))
		}
		if err := old.endServers(ctx, keepGrace); err != nil {
			return err
		}
		if err := removeSocketDir(old.SocketDir); err != nil {
			return err
		}
	}
	// The state is written before any other file is created, so that any process that finds the
	// directory can remove all of it.
	if err := s.state.write(); err != nil {
		return err
	}
	if s.state.SocketDir != "" {
		if err := os.Mkdir(s.state.SocketDir, 0o700); err != nil {
			return fmt.Errorf("place the socket: %w", err)
		}
	}
	return nil
}

// makePlace creates dir, or accepts a directory that is empty or contains a sandbox. fresh reports
// that dir has no data of a server.
func makePlace(dir string) (fresh bool, err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return false, err
	}
	err = os.Mkdir(dir, 0o700)
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	if err := ownDirectory(dir); err != nil {
		return false, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	// A process that was killed early leaves only the lock.
	fresh = len(entries) == 0 || len(entries) == 1 && entries[0].Name() == lockFile
	if !fresh {
		if _, err := readState(dir); err != nil {
			return false, fmt.Errorf("%s is neither empty nor a sandbox: %w", dir, err)
		}
	}
	// Only its user may access the socket, which requires no password.
	if err := os.Chmod(dir, 0o700); err != nil {
		return false, err
	}
	return fresh, nil
}

func (s *Server) launch(ctx context.Context, bin binaries, p part) error {
	if err := s.takeOver(ctx); err != nil {
		return err
	}
	l := &launch{Options: s.Options, kind: s.state.kind, part: p, bin: bin, dir: s.Dir, dataDir: s.DataDir,
		tmpDir: filepath.Join(s.Dir, tmpName), socket: s.Socket}
	l.Memory = l.OwnMemory()
	if l.kind.replication.tcp && (p.role == Source || p.role == Member) {
		l.Port = PortAuto
	}
	if err := l.fill(ctx, s.logf); err != nil {
		return err
	}
	s.plan = l
	s.logf("starting %s %s with %s of memory in %s", s.Kind, bin.version, FormatSize(l.Memory), s.Dir)
	begin := time.Now()
	if err := s.boot(ctx, os.O_TRUNC); err != nil {
		return err
	}
	s.Info = s.state.info(s.Options)
	if p.group != nil {
		p.group[p.number] = s.Info
	}
	if p.role == Replica {
		ctx, cancel := context.WithTimeoutCause(ctx, followTimeout, fmt.Errorf("not within %v", followTimeout))
		defer cancel()
		if err := s.follow(ctx, p.head(), s.Done()); err != nil {
			return err
		}
	}
	s.logf("%s %s is up after %v, process %d", s.Kind, s.Version, time.Since(begin).Round(time.Millisecond), s.PID)
	return nil
}

// boot starts the process of a server whose files exist, waits until the server accepts
// connections, and records the process in the sandbox's state. If logMode is os.O_TRUNC, it empties
// the log; if 0, it appends.
func (s *Server) boot(ctx context.Context, logMode int) error {
	l := s.plan
	if l.kind.prepare != nil {
		if err := l.kind.prepare(ctx, l); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(filepath.Join(l.dir, logFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND|logMode, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(l.bin.server, l.kind.args(l)...)
	cmd.Dir = l.dir
	cmd.Env = append(serverEnv(), l.clusterEnv()...)
	cmd.Stdout, cmd.Stderr = log, log
	if s.detached || inheritLock {
		cmd.ExtraFiles = []*os.File{s.lock}
	}
	proc, err := startProcess(cmd, l.kind, s.detached)
	if err != nil {
		return fmt.Errorf("run %s: %w", l.bin.server, err)
	}
	if l.kind.children || l.part.role == Member {
		st := s.state
		proc.endOthers = func() error { return st.endServers(context.Background(), 0) }
	}
	s.proc.Store(proc)
	version, err := s.await(ctx, proc)
	if err != nil {
		return err
	}
	up := time.Now().UTC()
	params, err := l.kind.effective(ctx, l)
	if err != nil {
		return err
	}
	params["command"] = strings.Join(cmd.Args, " ")
	if s.params == nil { // those of the first start are recorded
		s.params = params
	}
	s.state.PID, s.state.Version, s.state.Port, s.state.Group, s.state.Started = cmd.Process.Pid, version, l.port, l.joining.group, up
	return s.state.write()
}

func (l *launch) fill(ctx context.Context, logf func(string, ...any)) error {
	if err := os.RemoveAll(l.dataDir + ".new"); err != nil {
		return err
	}
	if _, err := os.Stat(l.dataDir); errors.Is(err, fs.ErrNotExist) {
		for _, name := range l.kind.installed {
			if value, ok := l.Set[name]; ok {
				l.bin.installArgs = append(l.bin.installArgs, "--"+name+"="+value)
			}
		}
		if l.part.role == Replica && l.kind.replication.copy != nil {
			if err := l.copyData(ctx); err != nil {
				return err
			}
		} else if err := freshData(ctx, l.kind, l.bin, l.Root, l.dataDir, logf); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if err := os.Mkdir(l.tmpDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if head := l.part.head(); l.part.role == Replica && head.Port != 0 { // its accounts are those of its source
		var err error
		if l.headPassword, err = head.password(); err != nil {
			return err
		}
	}
	if l.Port == PortAuto {
		n := 1
		if l.part.role == Member {
			n = 4
		}
		free, err := freePorts(n)
		if err != nil {
			return err
		}
		if l.port = free[0]; n > 1 {
			l.joining.group, l.joining.increments, l.joining.whole = free[1], free[2], free[3]
		}
		l.password = cmp.Or(l.headPassword, rand.Text())
		if err := os.WriteFile(filepath.Join(l.dir, passwordFile), []byte(l.password+"\n"), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// copyData copies the data of the source. Only a complete copy gets its final name.
func (l *launch) copyData(ctx context.Context) error {
	if err := os.Mkdir(l.dataDir+".new", 0o700); err != nil {
		return err
	}
	if err := l.kind.replication.copy(ctx, l, l.dataDir+".new"); err != nil {
		return fmt.Errorf("copy the data of the source: %w", err)
	}
	return os.Rename(l.dataDir+".new", l.dataDir)
}

// password returns the password of User on the port.
func (i Info) password() (string, error) {
	text, err := os.ReadFile(i.PasswordFile)
	return strings.TrimSpace(string(text)), err
}

// The ports that freePorts chooses from. They are below the ports that the kernel gives to outgoing
// connections: otherwise, when a server is started again, a connection might have taken its port.
const (
	firstPort = 15000
	ports     = 15000
)

// freePorts returns n different ports of 127.0.0.1 on which nobody listens.
func freePorts(n int) (free []int, err error) {
	for range 100 {
		port := firstPort + mathrand.IntN(ports)
		var ln net.Listener
		if ln, err = net.Listen("tcp", loopback(port)); err != nil {
			continue
		}
		defer ln.Close()
		if free = append(free, port); len(free) == n {
			return free, nil
		}
	}
	return nil, fmt.Errorf("find a free port: %w", err)
}

// aServer names the server of a role in messages.
func aServer(role string) string { return "a " + cmp.Or(role, "server without a topology") }

// await returns the version of the server once it answers, or why it can't start.
func (s *Server) await(ctx context.Context, proc *process) (string, error) {
	k := s.state.kind
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not up within %v", startTimeout))
	defer cancel()
	tick := time.NewTicker(startPoll)
	defer tick.Stop()
	news := time.NewTimer(startNews)
	defer news.Stop()
	for {
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("wait for the server: %w%s", context.Cause(ctx), indentTail(s.LogTail()))
		case <-proc.done:
			log := s.LogTail()
			if k.explain != nil {
				if err := k.explain(log); err != nil {
					return "", err
				}
			}
			return "", fmt.Errorf("the server did not come up: %s%s", proc.exit(), indentTail(log))
		case <-news.C:
			s.logf("still waiting for the server%s", indentTail(s.LogTail()))
			news.Reset(2 * startNews)
		case <-tick.C:
			// This call has its own timeout: the server may end after it has accepted the connection, and
			// this loop must notice it.
			ask, done := context.WithTimeout(ctx, startNews)
			version, err := k.greet(ask, s.Socket)
			if err == nil && s.Role == Member {
				err = k.replication.joined(ask, s.Socket)
			}
			done()
			if err == nil {
				return version, nil
			}
		}
	}
}
