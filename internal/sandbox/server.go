package sandbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Time limits.
const (
	// startTimeout allows for crash recovery; a new server is up in about 0.1 s.
	startTimeout = 5 * time.Minute
	// startPoll is the interval between checks whether a starting server accepts connections. If it
	// doesn't after startNews, a line of progress says so.
	startPoll = 5 * time.Millisecond
	startNews = 5 * time.Second
	// stopGrace is how long a server whose data are thrown away may take to shut down.
	stopGrace = 10 * time.Second
	// keepGrace is the limit for a server whose data are kept: it writes all of its dirty pages.
	keepGrace = 5 * time.Minute
)

// graceOf returns how long a server may take to shut down. A server of a topology whose data are
// thrown away gets no time, and is killed: a source of MySQL waits 10 s for a replica that has
// ended.
func graceOf(keep bool, role string) time.Duration {
	switch {
	case keep:
		return keepGrace
	case role != "":
		return 0
	}
	return stopGrace
}

// Info describes a server and how to connect to it.
type Info struct {
	// Kind and Version are the make of server and the server's version.
	Kind, Version string
	PID           int
	// Dir is the sandbox directory, and DataDir the server's data directory in it.
	Dir, DataDir string
	// Socket is a Unix socket on which User needs no password.
	Socket string
	// Port is the port on 127.0.0.1, or 0. On the port, User needs the password in PasswordFile.
	Port         int
	PasswordFile string
	User         string
	Database     string
	// Role is Source, Replica or Member, "" for a server that is none of them.
	Role string
	// Group is the port by which the members of a cluster find this one.
	Group   int
	Options Options
	Started time.Time
}

// Target returns the server's target for rowmill, through its socket.
func (i Info) Target() string {
	k, err := kindOf(i.Kind)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s://%s@localhost/%s?%s", i.Kind, i.User, i.Database, k.socketQuery(i.Socket))
}

// TCPTarget returns the server's target through its port, or "" without a port.
func (i Info) TCPTarget() string {
	if i.Port == 0 {
		return ""
	}
	return fmt.Sprintf("%s://%s@127.0.0.1:%d/%s?password-file=%s", i.Kind, i.User, i.Port, i.Database, escape(i.PasswordFile))
}

// ClientCommand returns a command line that starts the server's interactive client.
func (i Info) ClientCommand() string {
	k, err := kindOf(i.Kind)
	if err != nil {
		return ""
	}
	return k.client(i.Socket)
}

// Execute executes statements as User on the server's socket. They share a new session, whose
// settings don't depend on the server's defaults.
func (i Info) Execute(ctx context.Context, statements ...string) error {
	k, err := kindOf(i.Kind)
	if err == nil {
		_, err = k.query(ctx, i.Socket, statements...)
	}
	return err
}

// A Server is a running private server. Its owner must call Stop. Its Info is from
// the first start; after a Restart its process id is different: see Process.
type Server struct {
	Info
	// Nodes are the further servers of Options.Nodes, Options.Replicas or Options.Galera, which Stop
	// stops as well.
	Nodes    []*Server
	state    state
	plan     *launch
	detached bool
	fresh    bool // the directory has never contained a server's data
	params   map[string]string
	lock     *os.File
	logf     func(string, ...any)

	// life is held while the server is restarted or stopped.
	life sync.Mutex
	proc atomic.Pointer[process] // the latest, nil before the first

	stopOnce sync.Once
	stopping chan struct{} // closed when Stop is called, after died is set
	died     error         // how the server had ended before that
	stopErr  error
}

// Start starts a private server and returns once it accepts connections. It first removes the files
// that killed processes have left under the same Root. If ctx ends before the server is up, or the
// server fails to start, everything is removed. Later, the server does not depend on ctx. logf
// receives occasional lines of progress; nil discards them.
func Start(ctx context.Context, o Options, logf func(format string, args ...any)) (*Server, error) {
	if logf == nil {
		logf = func(string, ...any) {}
	}
	s, err := start(ctx, o, o.part(0, group{}), "", logf)
	if err == nil {
		if err = s.startNodes(ctx); err != nil {
			err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", o.withDefaults().Kind, err)
	}
	return s, nil
}

// Process returns the id of the latest process of the server, whether or not it is still running.
func (s *Server) Process() int { return s.proc.Load().cmd.Process.Pid }

// Done returns a channel that is closed when the latest process of the server
// has ended, for whatever reason. After a Restart, Done returns another channel.
func (s *Server) Done() <-chan struct{} { return s.proc.Load().done }

// Err returns why the server has ended, with the end of its log. It returns nil if the server's
// latest process runs, or was ended by Stop.
func (s *Server) Err() error {
	select {
	case <-s.stopping:
		return s.died
	default:
	}
	return s.deathBefore()
}

// deathBefore describes how the latest process has ended, or returns nil while it runs.
func (s *Server) deathBefore() error {
	proc := s.proc.Load()
	select {
	case <-proc.done:
	default:
		return nil
	}
	return fmt.Errorf("%s server, process %d, is gone: %s%s", s.Kind, proc.cmd.Process.Pid, proc.exit(), indentTail(s.LogTail()))
}

// LogTail returns the end of the server's log, at most 16 KiB.
func (i Info) LogTail() string { return readTail(filepath.Join(i.Dir, logFile)) }

// Params returns what one must know to repeat a run: those effective variables of the server that
// affect durability and memory, and its command line, as "command".
func (s *Server) Params() map[string]string { return maps.Clone(s.params) }

// Kill kills the server at once, as in a crash, and waits until it has ended.
// Its directory remains until Stop, and Restart starts it again.
func (s *Server) Kill() { s.proc.Load().kill() }

// Halt shuts the server down, without removing anything, and waits until it has ended. It kills a
// server that takes too long. Restart starts it again.
func (s *Server) Halt(ctx context.Context) {
	s.life.Lock()
	defer s.life.Unlock()
	s.proc.Load().stop(ctx, keepGrace)
}

var errStopped = errors.New("it was stopped")

// Restart starts a server again that was killed or has ended. It has the same options, data
// directory, socket and port, so that its targets stay valid. Restart returns once the server has
// recovered and accepts connections. If ctx ends before that, or Stop is called, no process
// remains, and Restart can be called again. Restart refuses a running server.
func (s *Server) Restart(ctx context.Context) error {
	s.life.Lock()
	defer s.life.Unlock()
	if err := s.restart(ctx); err != nil {
		return fmt.Errorf("restart %s server: %w", s.Kind, err)
	}
	return nil
}

func (s *Server) restart(ctx context.Context) error {
	select {
	case <-s.stopping:
		return errStopped
	default:
	}
	old := s.proc.Load()
	select {
	case <-old.done:
		// If the server ended by itself, its other processes may still run.
		old.ended()
	default:
		return fmt.Errorf("process %d still runs", old.cmd.Process.Pid)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-s.stopping:
			cancel(errStopped)
		case <-ended:
		}
	}()
	for began := time.Now(); ; {
		err := s.boot(ctx, 0)
		if err == nil {
			return nil
		}
		if proc := s.proc.Load(); proc != old {
			proc.kill()
		}
		if !s.plan.kind.children || !strings.Contains(err.Error(), memoryInUse) || time.Since(began) > memoryWait || ctx.Err() != nil {
			return err
		}
		time.Sleep(startPoll)
	}
}

// memoryInUse is the text in PostgreSQL's log if it refuses to start because a process of the
// former server still has its shared memory. After a kill, the kernel frees the memory some time
// later: for memoryWait, the start is tried again.
const (
	memoryInUse = "shared memory block"
	memoryWait  = 30 * time.Second
)

// Stop shuts the server down, and removes its directory unless Keep is set. If the server takes too
// long, or ctx is done, Stop kills it. Further calls return the first call's result.
func (s *Server) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() {
		s.died = s.deathBefore()
		close(s.stopping)
		s.life.Lock()
		defer s.life.Unlock()
		s.stopErr = errors.Join(s.stopNodes(ctx), s.stop(ctx)) // a source waits for its replicas
	})
	return s.stopErr
}

func (s *Server) stop(ctx context.Context) error {
	keep := s.Options.Keep != ""
	var err error
	if s.proc.Load().stop(ctx, graceOf(keep, s.Role)) && keep {
		err = errors.New("killed before it had shut down; it will recover when it is started again")
	}
	if keep {
		s.logf("kept the server's files in %s", s.Dir)
	}
	err = errors.Join(err, s.state.release(s.lock, keep))
	tidyRoot(s.Options.Root)
	if err != nil {
		return fmt.Errorf("stop %s server: %w", s.Kind, err)
	}
	return nil
}
