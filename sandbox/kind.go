package sandbox

import (
	"context"
	"syscall"
)

// A kind is what one make of server needs that others don't. Adding one is a
// file with a function that returns it, and its line in kinds.
type kind struct {
	// name is the kind in targets; scheme is the scheme of its own targets.
	name, scheme string
	// storages are the storage engines it has, the default first.
	storages []string
	// minMemory and minRedo are the smallest sizes it starts with, in bytes.
	minMemory, minRedo int64
	// reserved are server variables, in lower case with _, that Options.Set
	// may not hold, each with what to do instead.
	reserved map[string]string
	// programs are the names that a server's process can have.
	programs []string
	// places are the paths where the server's program may be, in order.
	places func() []string
	// ask makes sure that a program is a server of the kind, and finds what
	// belongs to it. foreign is what one of another kind says about itself.
	ask func(ctx context.Context, path string) (bin binaries, foreign string, err error)
	// hint says how to get a server, and one of another version.
	hint string
	// install fills the existing empty directory dir with a fresh data
	// directory that a server of this version opens in place of its own.
	install func(ctx context.Context, bin binaries, dir string) error
	// prepare writes the files that the server reads when it starts.
	prepare func(l *launch) error
	// args are the server's arguments; one of them is dataDirArg.
	args func(l *launch) []string
	// dataDirArg is the argument that names the data directory: the proof that
	// a process is the server of that directory.
	dataDirArg func(dataDir string) string
	// greet connects to the socket and returns once the server has answered,
	// with the version it gave, or an error while it doesn't answer.
	greet func(ctx context.Context, socket string) (version string, err error)
	// settings returns what the running server says about itself, and an
	// error where that is not what was asked for.
	settings func(l *launch) (map[string]string, error)
	// explain turns the log of a server that didn't come up into an error
	// that says what to do, or nil where the log speaks for itself.
	explain func(log string) error
	// client is the command line of the interactive client.
	client func(socket string) string

	// The rest may be left out.

	// variable is the environment variable that names the program to use.
	variable string
	// installed are the variables that a data directory is installed with, and
	// that can't be changed afterwards.
	installed []string

	// account is whom the server and its tools run as; nil is the caller.
	account func() (*account, error)
	// children tells that the server is several processes, of which the others
	// can outlive the first by a moment. Their working directory is the data
	// directory.
	children bool
	// stopSignal asks the server to end; 0 is SIGTERM.
	stopSignal syscall.Signal
	// socketName is the name that its socket must have.
	socketName string
	// socketQuery is the option of its targets that names the socket.
	socketQuery func(socket string) string
}

// installArgs are the installer's arguments for the variables of set that a data
// directory is installed with.
func (k *kind) installArgs(set map[string]string) []string {
	var args []string
	for _, name := range k.installed {
		if value, ok := set[name]; ok {
			args = append(args, "--"+name+"="+value)
		}
	}
	return args
}

func (k *kind) serverAccount() (*account, error) {
	if k.account == nil {
		return nil, nil
	}
	return k.account()
}

func (k *kind) socketFile() string {
	if k.socketName == "" {
		return socketName
	}
	return k.socketName
}

func (k *kind) signal() syscall.Signal {
	if k.stopSignal == 0 {
		return syscall.SIGTERM
	}
	return k.stopSignal
}

// binaries are the programs of an installed server.
type binaries struct {
	// server and installer are absolute paths.
	server, installer string
	version           string
	// installArgs are arguments of the installer besides its own: see
	// kind.installed.
	installArgs []string
}

// A launch is one start of a server.
type launch struct {
	Options
	kind *kind
	bin  binaries
	// dir is the sandbox; the other paths lie in it, except for a socket whose
	// path would be too long.
	dir, dataDir, tmpDir, socket string
	// port is that of the loopback interface, or 0. With a port there is a
	// password for it.
	port     int
	password string
}

// kinds returns the makes of servers, the default first.
func kinds() []*kind {
	return []*kind{mariadb(), mysql(), postgres()}
}

// Kinds returns the makes of server that there are, the default first.
func Kinds() []string {
	var names []string
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	return names
}

func kindOf(name string) (*kind, error) {
	for _, k := range kinds() {
		if k.name == name {
			return k, nil
		}
	}
	return nil, oneOf("kind of server", name, Kinds()...)
}

// Installed reports whether a server is on this machine: of a kind, or of one of
// its versions, "mysql?version=9.7". Its error wraps ErrNotInstalled where there
// is none.
func Installed(ctx context.Context, name string) error {
	o, err := parseTarget(targetPrefix + name)
	if err != nil {
		return err
	}
	k, err := kindOf(o.Kind)
	if err != nil {
		return err
	}
	_, err = k.find(ctx, o.Version)
	return err
}

// MinMemory returns the smallest memory that a server of a kind starts with, in
// bytes; 0 for an unknown kind.
func MinMemory(kind string) int64 {
	k, err := kindOf(kind)
	if err != nil {
		return 0
	}
	return k.minMemory
}
