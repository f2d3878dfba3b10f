package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// States of an Instance.
const (
	// Running: the server is up.
	Running = "running"
	// Starting: another process is starting or removing the server.
	Starting = "starting"
	// Stopped: the server was shut down and its data were kept.
	Stopped = "stopped"
	// Crashed: the server has ended without being stopped.
	Crashed = "crashed"
)

// ErrRunning means that a sandbox with that name is already running or starting.
var ErrRunning = errors.New("it is running already")

// An Instance is a named sandbox, which outlives the process that started it.
type Instance struct {
	Name string
	// State is Running, Starting, Stopped or Crashed.
	State string
	// Bytes is the size of its directory on disk.
	Bytes int64
	// Head is the name of the sandbox of which it is a node; "" if it is no node.
	Head string
	Info
}

// ValidName returns an error if a name is not valid for a sandbox.
func ValidName(name string) error {
	if !named.MatchString("named-" + name) {
		return fmt.Errorf("name %q: up to 63 letters, digits, '.', '_' and '-', of which the first is a letter or a digit", name)
	}
	return nil
}

// StartNamed starts a server that keeps running after the calling process has ended, until
// StopNamed. If a stopped or crashed sandbox has this name, StartNamed starts it again with its
// data, and its nodes with it: see NodeNames. o.Keep must be empty, because a named sandbox is
// always kept.
func StartNamed(ctx context.Context, name string, o Options, logf func(format string, args ...any)) (Info, error) {
	if logf == nil {
		logf = func(string, ...any) {}
	}
	fail := func(err error) (Info, error) { return Info{}, fmt.Errorf("start sandbox %s: %w", name, err) }
	if err := ValidName(name); err != nil {
		return Info{}, err
	}
	if o.Keep != "" {
		return fail(errors.New("keep applies to throwaway servers; a named server is kept until it is stopped"))
	}
	if err := o.Validate(); err != nil {
		return fail(err)
	}
	list, err := List(o.Root)
	if err != nil && o.nodes() > 0 {
		return fail(err)
	}
	if err := checkNodeNames(list, name, o); err != nil {
		return fail(err)
	}
	var u undoing
	g := groupOf(list, name, o)
	head := Instance{Name: name}
	var s, first *Server
	if i := slices.IndexFunc(list, func(in Instance) bool { return in.Name == name }); i >= 0 && list[i].Head != "" && list[i].Role != "" {
		var p part
		if o, p, err = ofNode(list, list[i]); err == nil {
			s, err = start(ctx, o, p, name, logf)
		}
	} else {
		s, first, err = startHead(ctx, o, g, append([]string{name}, NodeNames(name, o)...), logf)
	}
	switch {
	case errors.Is(err, errLocked):
		// The server runs. Its nodes, which may be stopped, are to run with it.
		if i := slices.IndexFunc(list, func(in Instance) bool { return in.Name == name && in.State == Running }); i >= 0 {
			err = errors.Join(ErrRunning, startNamedNodes(ctx, list[i], g, logf, &u))
		}
		return fail(err)
	case err != nil:
		return fail(err)
	}
	if first != nil {
		if err := u.add(first); err != nil {
			return fail(errors.Join(err, u.undo(ctx)))
		}
	}
	// From here on the server itself holds its sandbox's lock. If the server ends before this process,
	// the goroutine that waits for the server reaps it.
	if err = u.add(s); err == nil {
		head.Info = s.Info
		err = startNamedNodes(ctx, head, g, logf, &u)
	}
	if err != nil {
		return fail(errors.Join(err, u.undo(ctx)))
	}
	return s.Info, nil
}

// ofNode returns the options, and the place in the topology, of a replica or member that is started
// by its own name. The head of the topology must be running.
func ofNode(list []Instance, in Instance) (Options, part, error) {
	i := slices.IndexFunc(list, func(head Instance) bool { return head.Name == in.Head && head.State == Running })
	if i < 0 {
		what := map[string]string{Replica: "a replica, whose source doesn't", Member: "a member of a cluster, whose first doesn't"}[in.Role]
		return Options{}, part{}, fmt.Errorf("it is %s run: start %s, and the others start with it", what, in.Head)
	}
	head := list[i]
	n := slices.Index(NodeNames(head.Name, head.Options), in.Name)
	return head.Options.node(), head.Options.part(n+1, groupOf(list, head.Name, head.Options)), nil
}

// List returns the named sandboxes under root ("" is DefaultRoot), sorted by name.
func List(root string) ([]Instance, error) {
	root, err := filepath.Abs(cmp.Or(root, DefaultRoot))
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	var list []Instance
	var errs []error
	for _, e := range entries {
		m := named.FindStringSubmatch(e.Name())
		if m == nil || !e.IsDir() {
			continue
		}
		in, err := inspect(filepath.Join(root, e.Name()), m[1])
		if errors.Is(err, fs.ErrNotExist) {
			continue // not a sandbox, or removed in the meantime
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("list sandboxes: %w", err))
			continue
		}
		in.Options.Root = root
		list = append(list, in)
	}
	setHeads(list)
	return list, errors.Join(errs...)
}

func inspect(dir, name string) (Instance, error) {
	st, err := readState(dir)
	if err != nil {
		return Instance{}, err
	}
	o, err := ParseTarget(st.Target)
	if err != nil {
		return Instance{}, fmt.Errorf("read %s: %w", filepath.Join(dir, stateFile), err)
	}
	in := Instance{Name: name, Bytes: diskUsage(dir), Info: st.info(o.withDefaults())}
	lock, err := tryLock(dir, false)
	switch {
	case errors.Is(err, errLocked):
		in.State = Starting
		if st.PID != 0 {
			in.State = Running
		}
		return in, nil
	case err != nil:
		return Instance{}, err
	}
	in.State = Crashed
	if st.PID == 0 {
		in.State = Stopped
	}
	in.PID = 0
	return in, lock.Close()
}

// diskUsage returns the total size of the files in dir. Files that are removed meanwhile are
// ignored.
func diskUsage(dir string) int64 {
	var n int64
	// The function returns no error, so the walk returns none.
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil
		}
		if fi, err := e.Info(); err == nil {
			n += fi.Size()
		}
		return nil
	})
	return n
}

// StopNamed shuts down a named sandbox under root ("" is DefaultRoot) and
// removes it with its data, unless keepData is set. Its nodes are stopped with it.
func StopNamed(ctx context.Context, root, name string, keepData bool) error {
	list, err := List(root)
	i := slices.IndexFunc(list, func(in Instance) bool { return in.Name == name })
	switch {
	case i >= 0:
		err = errors.Join(stopNamedNodes(ctx, list, name, keepData), stopNamed(ctx, list[i], keepData))
	case err == nil:
		err = errors.New("there is none")
	}
	if err != nil {
		return fmt.Errorf("stop sandbox %s: %w", name, err)
	}
	tidyRoot(list[i].Options.Root)
	return nil
}

func stopNamed(ctx context.Context, in Instance, keepData bool) error {
	if err := ownDirectory(in.Dir); err != nil {
		return err
	}
	st, err := readState(in.Dir)
	if err != nil {
		return err
	}
	if in.State == Starting {
		return errors.New("another process is just starting or removing it")
	}
	if err := st.endServers(ctx, graceOf(keepData, st.Role)); err != nil {
		return err
	}
	// The lock is free shortly after the server has ended, unless another process takes it first.
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), 5*time.Second, errLocked)
	defer cancel()
	lock, err := waitLock(ctx, in.Dir)
	if err != nil {
		return err
	}
	if !keepData {
		return st.release(lock, false)
	}
	err = removeSocketDir(st.SocketDir)
	st.PID, st.SocketDir, st.Port, st.Group = 0, "", 0, 0
	return errors.Join(err, st.write(), lock.Close())
}

// A Description describes a named sandbox to programs. Sizes are in bytes.
type Description struct {
	Name         string    `json:"name"`
	State        string    `json:"state"`
	Kind         string    `json:"kind"`
	Version      string    `json:"version"`
	PID          int       `json:"pid"`
	Memory       int64     `json:"memory_bytes"`
	Disk         int64     `json:"disk_bytes,omitempty"`
	Uptime       float64   `json:"uptime_seconds"`
	Started      time.Time `json:"started"`
	DataDir      string    `json:"data_dir"`
	Socket       string    `json:"socket"`
	Port         int       `json:"port,omitempty"`
	PasswordFile string    `json:"password_file,omitempty"`
	Target       string    `json:"target"`
	Sandbox      string    `json:"sandbox"`
	// Head is the sandbox of which it is a node. Nodes are its own nodes, set by sandbox start only.
	Head  string        `json:"head,omitempty"`
	Role  string        `json:"role,omitempty"`
	Nodes []Description `json:"nodes,omitempty"`
}

// Describe returns the description of a sandbox, with its uptime at now.
func (in Instance) Describe(now time.Time) Description {
	d := Description{
		Name: in.Name, State: in.State, Kind: in.Kind, Version: in.Version, PID: in.PID, Memory: in.Options.OwnMemory(),
		Disk: in.Bytes, Started: in.Started, DataDir: in.DataDir, Port: in.Port, PasswordFile: in.PasswordFile,
		Sandbox: in.Options.Target(), Head: in.Head, Role: in.Role,
	}
	if in.State == Running {
		d.Socket, d.Target, d.Uptime = in.Socket, in.Info.Target(), now.Sub(in.Started).Seconds()
	}
	return d
}
