package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A place is a sandbox directory that this process has locked.
type place struct {
	dir, socket, socketDir string
	lock                   *os.File
	// fresh means that the directory has never contained a server's data.
	fresh bool
}

// start starts a server: a throwaway one or, with a name, a detached one.
func start(ctx context.Context, o Options, name string, logf func(string, ...any)) (_ *Server, err error) {
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
	root, err := filepath.Abs(o.Root)
	if err != nil {
		return nil, err
	}
	o.Root = root
	p, err := takePlace(ctx, k, o, name, logf)
	if err != nil {
		return nil, err
	}
	s := &Server{root: root, lock: p.lock, socketDir: p.socketDir, logf: logf, stopping: make(chan struct{})}
	s.Info = Info{
		Kind: k.name, Dir: p.dir, DataDir: filepath.Join(p.dir, dataName), Socket: p.socket,
		User: User, Database: Database, Options: o,
	}
	if err := s.launch(ctx, k, bin, p, name != ""); err != nil {
		return nil, errors.Join(err, s.abandon(ctx, p))
	}
	return s, nil
}

// abandon undoes a failed start. Data of an earlier run are kept.
func (s *Server) abandon(ctx context.Context, p place) error {
	var errs []error
	if proc := s.process(); proc != nil {
		proc.kill()
	}
	if p.fresh {
		errs = append(errs, removeSandbox(p.dir, p.socketDir))
	} else if p.socketDir != "" {
		errs = append(errs, removeSocketDir(p.socketDir))
	}
	errs = append(errs, p.lock.Close())
	tidyRoot(s.root)
	return errors.Join(errs...)
}

// takePlace creates and locks the directory of a server, and writes its state.
func takePlace(ctx context.Context, k *kind, o Options, name string, logf func(string, ...any)) (place, error) {
	random := make([]byte, 8)
	rand.Read(random) // never fails
	id := hex.EncodeToString(random)
	var p place
	var err error
	switch {
	case name != "":
		p.dir = filepath.Join(o.Root, "named-"+name)
	case o.Keep != "":
		if p.dir, err = filepath.Abs(o.Keep); err != nil {
			return place{}, err
		}
	default:
		p.dir = filepath.Join(o.Root, "sandbox-"+id)
	}
	if p.socket, p.socketDir, err = socketPlace(p.dir, id, k.socketFile()); err != nil {
		return place{}, err
	}
	if err := p.claim(ctx, o.Root, logf); err != nil {
		return place{}, err
	}
	if err := p.settle(ctx, o, o.Keep == "" && name == ""); err != nil {
		if p.fresh {
			err = errors.Join(err, removeSandbox(p.dir, p.socketDir))
		}
		return place{}, errors.Join(err, p.lock.Close())
	}
	return p, nil
}

// claim creates and locks the directory.
func (p *place) claim(ctx context.Context, root string, logf func(string, ...any)) error {
	rootLock, err := lockRoot(ctx, root)
	if err != nil {
		return err
	}
	defer rootLock.Close()
	sweep(ctx, root, logf)
	if p.fresh, err = makePlace(p.dir); err != nil {
		return err
	}
	if p.lock, err = tryLock(p.dir, true); err != nil {
		return fmt.Errorf("take %s: %w", p.dir, err)
	}
	return nil
}

// settle ends the remaining processes of an earlier server, and writes the new
// state.
func (p *place) settle(ctx context.Context, o Options, throwaway bool) error {
	if !p.fresh {
		old, err := readState(p.dir)
		if err != nil {
			return err
		}
		if old.Kind != o.Kind {
			return fmt.Errorf("%s holds the data of a %s server", p.dir, old.Kind)
		}
		if err := endServers(ctx, p.dir, old, keepGrace); err != nil {
			return err
		}
		if old.SocketDir != "" {
			if err := removeSocketDir(old.SocketDir); err != nil {
				return err
			}
		}
	}
	// Written before any other file is created, so that any process that finds
	// the directory can remove all of it.
	err := writeState(p.dir, state{
		Target: o.Target(), Throwaway: throwaway, Kind: o.Kind,
		DataDir: filepath.Join(p.dir, dataName), Socket: p.socket, SocketDir: p.socketDir,
	})
	if err != nil {
		return err
	}
	if p.socketDir != "" {
		if err := os.Mkdir(p.socketDir, 0o700); err != nil {
			return fmt.Errorf("place the socket: %w", err)
		}
	}
	return nil
}

// makePlace creates dir, or accepts it if it is empty or contains a sandbox, and
// reports whether it has no data.
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

// launch creates the files, starts the server, and waits until it is up.
func (s *Server) launch(ctx context.Context, k *kind, bin binaries, p place, detached bool) error {
	l := &launch{Options: s.Options, kind: k, bin: bin, dir: p.dir, dataDir: s.DataDir,
		tmpDir: filepath.Join(p.dir, tmpName), socket: p.socket}
	if err := l.fill(ctx, s.root, s.logf); err != nil {
		return err
	}
	s.Port, s.plan, s.detached = l.port, l, detached
	if l.port != 0 {
		s.PasswordFile = filepath.Join(p.dir, passwordFile)
	}
	s.logf("starting %s %s with %s of memory in %s", k.name, bin.version, FormatSize(l.Memory), p.dir)
	begin := time.Now()
	up, err := s.boot(ctx, os.O_TRUNC)
	if err != nil {
		return err
	}
	s.PID, s.Version, s.Started, s.params = up.pid, up.version, up.at, up.params
	s.logf("%s %s is up after %v, process %d", k.name, s.Version, time.Since(begin).Round(time.Millisecond), s.PID)
	return nil
}

// A booted server is one that accepts connections.
type booted struct {
	pid     int
	version string
	at      time.Time
	params  map[string]string
}

// boot starts the process of a server whose files exist, waits until it accepts
// connections, and records it in the sandbox's state. logMode is os.O_TRUNC to
// truncate the log, 0 to append to it.
func (s *Server) boot(ctx context.Context, logMode int) (up booted, err error) {
	l := s.plan
	log, err := os.OpenFile(filepath.Join(l.dir, logFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND|logMode, 0o600)
	if err != nil {
		return up, err
	}
	defer log.Close()
	cmd := exec.Command(l.bin.server, l.kind.args(l)...)
	cmd.Dir = l.dir
	cmd.Env = serverEnv()
	cmd.Stdout, cmd.Stderr = log, log
	if s.detached || inheritLock {
		cmd.ExtraFiles = []*os.File{s.lock}
	}
	proc, err := startProcess(cmd, l.kind, s.detached)
	if err != nil {
		return up, fmt.Errorf("run %s: %w", l.bin.server, err)
	}
	if l.kind.children {
		st := state{Kind: l.kind.name, DataDir: s.DataDir}
		proc.endOthers = func() error { return endServers(context.Background(), l.dir, st, 0) }
	}
	s.follow(proc)
	up.pid = cmd.Process.Pid
	if up.version, err = s.await(ctx, proc, l.kind); err != nil {
		return up, err
	}
	up.at = time.Now()
	if up.params, err = l.kind.settings(l); err != nil {
		return up, err
	}
	up.params["command"] = strings.Join(cmd.Args, " ")
	// The file may contain the password for the port.
	if err := os.Remove(filepath.Join(l.dir, initFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return up, err
	}
	st, err := readState(l.dir)
	if err != nil {
		return up, err
	}
	st.PID, st.Version, st.Port, st.Started = up.pid, up.version, l.port, up.at.UTC()
	return up, writeState(l.dir, st)
}

// fill creates the files that a server needs before it starts.
func (l *launch) fill(ctx context.Context, root string, logf func(string, ...any)) error {
	if err := os.RemoveAll(l.dataDir + ".new"); err != nil {
		return err
	}
	if _, err := os.Stat(l.dataDir); errors.Is(err, fs.ErrNotExist) {
		l.bin.installArgs = l.kind.installArgs(l.Set)
		if err := freshData(ctx, l.kind, l.bin, root, l.dataDir, logf); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if err := os.Mkdir(l.tmpDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if l.Port == PortAuto {
		var err error
		if l.port, err = freePort(); err != nil {
			return err
		}
		l.password = rand.Text()
		if err := os.WriteFile(filepath.Join(l.dir, passwordFile), []byte(l.password+"\n"), 0o600); err != nil {
			return err
		}
	}
	return l.kind.prepare(l)
}

// freePort returns a port of 127.0.0.1 that is free at the time of the call.
func freePort() (int, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	return port, ln.Close()
}

// await returns the version of the server once it answers, or an error if it
// can't start.
func (s *Server) await(ctx context.Context, proc *process, k *kind) (string, error) {
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
			if err := k.explain(log); err != nil {
				return "", err
			}
			how := "it ended"
			if proc.err != nil {
				how = proc.err.Error()
			}
			return "", fmt.Errorf("the server did not come up: %s%s", how, indentTail(log))
		case <-news.C:
			s.logf("still waiting for the server%s", indentTail(s.LogTail()))
			news.Reset(2 * startNews)
		case <-tick.C:
			// This call has its own timeout, so that the end of a server that
			// has accepted the connection is noticed.
			ask, done := context.WithTimeout(ctx, startNews)
			version, err := k.greet(ask, s.Socket)
			done()
			if err == nil {
				return version, nil
			}
		}
	}
}
