package sandbox

import (
	"context"
	"syscall"
)

// A kind contains the properties in which one make of server differs from others. To
// add one, write a file with a function that returns it, and list it in kinds.
type kind struct {
	// name is the name of the kind in sandbox targets; scheme is the URL scheme
	// of the server's own targets.
	name, scheme string
	// storages are the available storage engines, the default first.
	storages []string
	// minMemory and minRedo are the smallest sizes with which the server starts,
	// in bytes.
	minMemory, minRedo int64
	// reserved are server variables that Options.Set may not contain, in lower
	// case with _, each with the alternative.
	reserved map[string]string
	// programs are the possible names of the server's process.
	programs []string
	// places returns the paths where the server's program may be, in order.
	places func() []string
	// ask checks that a program is a server of the kind, and finds the related
	// programs. foreign is the version output of a server of another kind.
	ask func(ctx context.Context, path string) (bin binaries, foreign string, err error)
	// hint describes how to install a server, or one of another version.
	hint string
	// install fills the existing empty directory dir with a new data directory
	// that a server of this version accepts as its own.
	install func(ctx context.Context, bin binaries, dir string) error
	// prepare writes the files that the server reads when it starts.
	prepare func(l *launch) error
	// args returns the server's arguments; one of them is dataDirArg.
	args func(l *launch) []string
	// dataDirArg returns the argument that names the data directory. It proves
	// that a process is the server of that directory.
	dataDirArg func(dataDir string) string
	// greet connects to the socket and returns the server's version once the
	// server answers, or an error while it doesn't.
	greet func(ctx context.Context, socket string) (version string, err error)
	// settings returns the effective settings of the running server, and an
	// error if they differ from the requested ones.
	settings func(l *launch) (map[string]string, error)
	// explain converts the log of a server that failed to start to an error with
	// a remedy, or returns nil if the log is sufficient.
	explain func(log string) error
	// client returns the command line of the interactive client.
	client func(socket string) string

	// The following fields are optional.

	// variable is the environment variable that names the program to use.
	variable string
	// installed are the variables that are set when a data directory is
	// installed and can't be changed afterwards.
	installed []string

	// account returns the user that the server and its tools run as; nil is the
	// caller.
	account func() (*account, error)
	// children means that the server consists of several processes, and the
	// others may end slightly later than the first. Their working directory is
	// the data directory.
	children bool
	// stopSignal is the signal for an orderly shutdown; 0 is SIGTERM.
	stopSignal syscall.Signal
	// socketName is the required name of the socket.
	socketName string
	// socketQuery returns the option of its targets that specifies the socket.
	socketQuery func(socket string) string
}

// installArgs returns the installer's arguments for those variables of set that
// must be set when a data directory is installed.
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
	// installArgs are additional arguments of the installer: see kind.installed.
	installArgs []string
}

// A launch is one start of a server.
type launch struct {
	Options
	kind *kind
	bin  binaries
	// dir is the sandbox; the other paths are inside it, except a socket whose
	// path would be too long.
	dir, dataDir, tmpDir, socket string
	// port is the port on the loopback interface, or 0. A port requires a password.
	port     int
	password string
}

// kinds returns the makes of servers, the default first.
func kinds() []*kind {
	return []*kind{mariadb(), mysql(), postgres()}
}

// Kinds returns the names of the makes of servers, the default first.
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

// Installed returns nil if a server is installed on this machine: of a kind, or
// of one of its versions, such as "mysql?version=9.7". If there is none, the
// error wraps ErrNotInstalled.
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

// MinMemory returns the smallest memory with which a server of a kind starts, in
// bytes; 0 for an unknown kind.
func MinMemory(kind string) int64 {
	k, err := kindOf(kind)
	if err != nil {
		return 0
	}
	return k.minMemory
}
