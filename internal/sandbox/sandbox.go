// Package sandbox starts private temporary database servers.
//
// The input is Options, or their text form, a target: "sandbox:mariadb?memory=64MB". The result is
// a running Server with a database named rowmill, reachable by a Unix socket in a directory that
// only the calling user can enter. Sizes are in bytes.
//
//	o, err := sandbox.ParseTarget("sandbox:mariadb?memory=64MB&redo=512MB")
//	s, err := sandbox.Start(ctx, o, log.Printf)
//	defer s.Stop(context.WithoutCancel(ctx))
//	db, err := sql.Open("mysql", "root@unix("+s.Socket+")/rowmill")
//
// A server that Start starts never outlives the calling process: on Linux, the kernel kills the
// server even if the process was ended by kill -9. The next Start under the same Root removes the
// files that are left. It touches only what provably belongs to this package: directories sandbox-*
// of the same user with a lock file that nobody holds, and processes whose command line names
// exactly this data directory. A server that StartNamed starts outlives the process.
//
// Start refuses settings that would make a server use resources outside its sandbox, memory sizes
// that the server would silently round, and a Keep directory that contains other files. Each make
// of server is one file: see kind.
package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// ErrNotInstalled marks errors which say that a server, or a part of it, is not installed on this
// machine. Errors about a server that is installed but broken don't have it.
var ErrNotInstalled = errors.New("not installed")

// Defaults of Options.
const (
	// DefaultMemory is MariaDB's own default of 128 MiB.
	DefaultMemory int64 = 128 << 20
	// DefaultRedo is the size of the redo log. Fast inserts fill MariaDB's default log of 96 MiB
	// within seconds, and the server then flushes pages because the log is full. Benchmarks should
	// measure how it flushes pages because memory is full.
	DefaultRedo int64 = 512 << 20
	// DefaultRoot is the directory of the sandboxes, relative to the working directory.
	DefaultRoot = ".rowmill"
)

// Values of Options.Durability.
const (
	// Full syncs at each commit: commits survive power loss.
	Full = "full"
	// Relaxed writes the log at each commit, and syncs it once a second: a crash of the server loses
	// no commits, but a power failure may.
	Relaxed = "relaxed"
	// None writes and syncs once a second: a crash of the server may lose commits.
	None = "none"
)

// Values of Options.Storage.
const (
	InnoDB  = "innodb"
	RocksDB = "rocksdb"
	Heap    = "heap" // PostgreSQL's own
)

// PortAuto is the value of Options.Port for any free port of 127.0.0.1.
const PortAuto = "auto"

// User and Database exist in every sandbox: an administrator who needs no
// password on the socket, and an empty database.
const (
	User     = "root"
	Database = "rowmill"
)

// Options are the parameters of a server. The zero value is a MariaDB server
// with the documented defaults.
type Options struct {
	// Kind is the make of server: one of Kinds; "mariadb" is the default.
	Kind string
	// Version selects one of several installed versions: "9", "9.7" or "9.7.4".
	// "" is the first one found: see kind.find.
	Version string
	// Memory is the size of the cache of table and index pages, in bytes; 0 is DefaultMemory. It is
	// InnoDB's buffer pool, RocksDB's block cache, or PostgreSQL's shared_buffers. RocksDB also has
	// write buffers of 64 MiB each, and the kernel caches PostgreSQL's files without a limit.
	Memory int64
	// Redo is the size of InnoDB's redo log, in bytes, which the server allocates on disk; for
	// PostgreSQL, it is max_wal_size. 0 is DefaultRedo.
	Redo int64
	// Durability is Full (the default), Relaxed or None.
	Durability string
	// Storage is the storage engine of new tables: InnoDB (the default) or RocksDB.
	Storage string
	// Port is "" for a server without TCP, or PortAuto.
	Port string
	// Keep is a directory for the server's files, which stays when the server has ended. If an earlier
	// run has kept its data there, the server opens these data.
	Keep string
	// Root is the directory of the sandboxes; "" is DefaultRoot.
	Root string
	// Nodes is the number of further servers with the same options, whose tables the server can
	// present as its own: by Spider in MariaDB, by postgres_fdw in PostgreSQL.
	Nodes int
	// Replicas is the number of further servers that replicate this server's changes asynchronously:
	// by GTID in MariaDB and MySQL, by streaming in PostgreSQL. Memory is divided among all servers.
	Replicas int
	// Galera is the number of servers of a Galera cluster, including this one. Each accepts changes,
	// and receives the changes of all others. Memory is divided among the servers.
	Galera int
	// SemiSync makes each commit wait until a replica has received it. In MariaDB and MySQL, a commit
	// waits at most 10 s, and then succeeds without a replica.
	SemiSync bool
	// Set holds further server variables by name.
	Set map[string]string
}

func (o Options) withDefaults() Options {
	o.Kind = cmp.Or(o.Kind, kinds()[0].name)
	o.Memory = cmp.Or(o.Memory, DefaultMemory)
	o.Redo = cmp.Or(o.Redo, DefaultRedo)
	o.Durability = cmp.Or(o.Durability, Full)
	o.Root = cmp.Or(o.Root, DefaultRoot)
	if o.Storage == "" {
		if k, err := kindOf(o.Kind); err == nil {
			o.Storage = k.storages[0]
		}
	}
	return o
}

var versionNumber = regexp.MustCompile(`^[0-9]{1,4}(\.[0-9]{1,4}){0,3}$`)

var variableName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// Validate returns an error for the first invalid option, with the valid values.
func (o Options) Validate() error {
	o = o.withDefaults()
	k, err := kindOf(o.Kind)
	if err != nil {
		return err
	}
	if o.Version != "" && !versionNumber.MatchString(o.Version) {
		return fmt.Errorf("version %q: want a number such as 9, 9.7 or 9.7.4", o.Version)
	}
	if err := oneOf("durability", o.Durability, Full, Relaxed, None); err != nil {
		return err
	}
	if err := oneOf("engine", o.Storage, k.storages...); err != nil {
		return err
	}
	if err := o.validateTopology(k); err != nil {
		return err
	}
	if o.Port != "" {
		if err := oneOf("port", o.Port, PortAuto); err != nil {
			return err
		}
	}
	if err := wholeMiB("memory", o.Memory, k.minMemory); err != nil {
		return err
	}
	if err := wholeMiB("redo", o.Redo, k.minRedo); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(o.Set)) {
		if !variableName.MatchString(name) {
			return fmt.Errorf("server variable %q: a name is letters, digits and _, in lower case", name)
		}
		if instead, ok := k.reserved[plainName(name)]; ok {
			return fmt.Errorf("server variable %s can't be set in a sandbox: %s", name, instead)
		}
	}
	return nil
}

// plainName removes the prefixes that servers of the MySQL family accept before any name.
func plainName(name string) string {
	for _, prefix := range []string{"loose_", "enable_", "disable_", "maximum_"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return plainName(rest)
		}
	}
	return name
}

func oneOf(what, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("unknown %s %q: allowed are %s", what, value, strings.Join(allowed, ", "))
}

// wholeMiB refuses a size that the server would round: a benchmark reports the requested size, and
// the server must have exactly this memory.
func wholeMiB(what string, size, least int64) error {
	switch {
	case size < least:
		return fmt.Errorf("%s %s is too small: the server needs %s", what, FormatSize(size), FormatSize(least))
	case size%(1<<20) != 0:
		return fmt.Errorf("%s of %d bytes is not a whole number of MiB, and the server would round it", what, size)
	}
	return nil
}
