package sandbox

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
)

// A kind has what differs between makes of servers, e.g. MariaDB and PostgreSQL. To add one, write
// a file with a function that returns its kind, and list the function in kinds.
type kind struct {
	// name is the kind's name in targets, and the scheme of its servers' URLs.
	name string
	// storages are the available storage engines, the default first.
	storages []string
	// minMemory and minRedo are the smallest sizes with which the server starts, in bytes.
	minMemory, minRedo int64
	// reserved are the variables that Options.Set may not contain, in lower case with _, each with
	// what to use instead.
	reserved map[string]string
	software
	// installer returns the program that creates data directories for a server.
	installer func(server string) (string, error)
	// install fills the empty directory dir with a new data directory of bin's version.
	install func(ctx context.Context, bin binaries, dir string) error
	// args returns the server's arguments. One of them is dataDirArg followed by the data directory. A
	// process with this argument is the server of that directory.
	args       func(l *launch) []string
	dataDirArg string
	access
	// setup returns the statements that a server executes each time it has started.
	setup func(l *launch) []string
	readback
	// stopSignal shuts the server down in an orderly way. deathSignal ends it at once, whatever it
	// executes: the kernel sends it to the server's first process when the server's owner ends.
	stopSignal, deathSignal syscall.Signal
	// account returns the user that the server and its tools run as; nil is the caller.
	account func() (*account, error)

	// The following fields are optional.

	// nodesKey is the parameter for the number of nodes: see Options.Nodes.
	nodesKey string

	// replication is how servers of the kind replicate.
	replication replication
	// installed are the variables that are set when a data directory is installed, once.
	installed []string
	// prepare is called before each start. It may change the server's files, and l.
	prepare func(ctx context.Context, l *launch) error
	// explain turns the log of a server that failed to start into an error with a remedy. It returns
	// nil if it has nothing to add to the log.
	explain func(log string) error
	// helpers are the programs that a member of a cluster starts on the files of its data directory.
	// They may still run when the member has ended.
	helpers []string
	// children means that the server consists of several processes. All work in the data directory,
	// and may end slightly later than the first process.
	children bool
}

// software is a server's program, and how packages install it.
type software struct {
	// programs are the possible names of the server's process; the first one is also the name of its
	// program file. dirs are patterns of the directories into which packages install it.
	programs, dirs []string
	// versionArgs make the program print its version, which follows versionMark. If the answer, in
	// lower case, contains foreign, the program is another make of server.
	versionArgs          []string
	versionMark, foreign string
	// hint describes how to install a server, or one of another version.
	hint string
	// libraries are the packages of shared libraries that the program needs.
	libraries string
}

// A readback asks a server for its settings.
type readback struct {
	// reported are the names of the settings whose effective values are recorded. settings is the
	// query for these values, with %s in place of the names. check returns an error if a value differs
	// from the requested one.
	reported []string
	settings string
	check    func(l *launch, settings map[string]string) error
}

// access is how a server is reached on its socket.
type access struct {
	// query executes statements as User on a socket. It returns the rows of the last statement, which
	// has two columns. It fails as long as the server isn't up.
	query func(ctx context.Context, socket string, statements ...string) (map[string]string, error)
	// client returns the command line of the interactive client for a socket. socketQuery returns the
	// part of a target's URL that names the socket. socketName is the file name of the socket.
	client, socketQuery func(socket string) string
	socketName          string
}

const versionQuery = "SELECT 'version', VERSION()"

func (k *kind) greet(ctx context.Context, socket string) (string, error) {
	row, err := k.query(ctx, socket, versionQuery)
	// PostgreSQL says "PostgreSQL 15.14 (Debian 15.14-0+deb12u1) on ...".
	version, _, _ := strings.Cut(strings.TrimPrefix(row["version"], "PostgreSQL "), " ")
	return version, err
}

// effective executes the statements of setup on a server that is up, and returns the server's
// settings. It returns an error if a setting differs from the requested one.
func (k *kind) effective(ctx context.Context, l *launch) (map[string]string, error) {
	names := slices.Concat(k.reported, slices.Collect(maps.Keys(l.Set)))
	slices.Sort(names)
	in := "'" + strings.Join(slices.Compact(names), "', '") + "'"
	settings, err := k.query(ctx, l.socket, append(k.setup(l), fmt.Sprintf(k.settings, in))...)
	if err != nil {
		return nil, fmt.Errorf("set up the server: %w", err)
	}
	return settings, k.check(l, settings)
}

// binaries are the programs of an installed server.
type binaries struct {
	// server and installer are absolute paths.
	server, installer string
	version           string
	installArgs       []string
}

// A launch is one start of a server.
type launch struct {
	Options
	kind *kind
	part part
	bin  binaries
	// dir is the sandbox. It contains the other paths, except a socket whose path would be too long.
	dir, dataDir, tmpDir, socket string
	// port is the port on the loopback interface, or 0. A port requires a password.
	port     int
	password string
	// headPassword is the password of the first server's port.
	headPassword string
	joining      joining
}

func kinds() []*kind {
	return []*kind{mariadb(), mysqld(), postgres()}
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

// Installed returns nil if a server of a kind, e.g. "mysql", or of one of its versions, e.g.
// "mysql?version=9.7", is installed on this machine. Otherwise the error wraps ErrNotInstalled.
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
