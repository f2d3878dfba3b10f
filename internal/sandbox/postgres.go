package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// postgres is PostgreSQL 14 and later, tested with 15 and 18. Its memory is shared_buffers.
// Versions up to 17 can't bypass the kernel's page cache, so that pages are cached there, too. As a
// table grows, reads from disk therefore set in gradually; with InnoDB and O_DIRECT, they set in
// abruptly.
func postgres() *kind {
	reserved := map[string]string{
		"shared_buffers":              "use memory=",
		"max_wal_size":                "use redo=",
		"fsync":                       "use durability=",
		"synchronous_commit":          "use durability=",
		"default_table_access_method": "use engine=",
		"port":                        "use port=auto",
		"listen_addresses":            "use port=auto",
	}
	for _, name := range []string{
		"dynamic_shared_memory_type", "unix_socket_directories", "unix_socket_permissions", "unix_socket_group", "logging_collector",
		"log_destination", "log_directory", "data_directory", "config_file", "hba_file", "ident_file", "external_pid_file",
	} {
		reserved[name] = inside
	}
	return &kind{
		name:     "postgres",
		storages: []string{Heap},
		// Memory for a thousand connections, each with a few 8 KiB pages; redo for two WAL segments.
		minMemory: 8 << 20,
		minRedo:   32 << 20,
		reserved:  reserved,
		software: software{
			programs:    []string{"postgres", "postmaster"},
			versionArgs: []string{"--version"},
			versionMark: "(PostgreSQL) ",
			// Debian installs each major version in a separate directory outside PATH.
			dirs: []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin",
				"/usr/local/pgsql/bin", "/usr/local/bin", "/usr/bin"},
			hint: postgresHint,
		},
		installer:  installerOfPostgres,
		install:    installPostgres,
		prepare:    preparePostgres,
		args:       argsPostgres,
		dataDirArg: "-D",
		access: access{
			query:      queryPostgres,
			socketName: postgresSocket,
			// Otherwise PGPORT would apply.
			socketQuery: func(socket string) string { return "host=" + escape(filepath.Dir(socket)) + "&port=5432" },
			client: func(socket string) string {
				return "psql --host=" + shellQuote(filepath.Dir(socket)) + " --port=5432 --username=" + User + " " + Database
			},
		},
		setup:    setupPostgres,
		nodesKey: "fdw",
		replication: replication{
			copy: copyPostgres, position: []string{"SELECT 'position', pg_current_wal_flush_lsn()::text"},
			reached: "SELECT 'reached', (pg_last_wal_replay_lsn() >= '%s'::pg_lsn)::int::text",
		},
		readback: readback{
			reported: reportedPostgres,
			settings: "SELECT name, current_setting(name) FROM pg_settings WHERE name IN (%s)",
			check:    checkPostgres,
		},
		account:    postgresAccount,
		children:   true,
		stopSignal: syscall.SIGINT, // SIGTERM waits for the clients to disconnect
		// If the postmaster is killed, a session notices it only when it waits, so that its statement
		// would run on. At SIGQUIT, the postmaster ends all sessions at once, and kills them after 5 s.
		deathSignal: syscall.SIGQUIT,
	}
}

// postgresSocket is the name of the socket that clients look for, unless given another port.
const (
	postgresSocket       = postgresSocketPrefix + "5432"
	postgresSocketPrefix = ".s.PGSQL."
)

const postgresHint = "install it, on Debian and Ubuntu with: apt install postgresql " +
	"(in rowmill's source, scripts/install.sh postgres-new fetches 18)"

// installerOfPostgres finds the installer of the server's version.
func installerOfPostgres(server string) (string, error) { return besideServer(server, "initdb") }

// besideServer finds a program of the server's version, beside the server's program.
func besideServer(server, program string) (string, error) {
	real, err := filepath.EvalSymlinks(server)
	if err != nil {
		return "", err
	}
	for _, beside := range []string{server, real} {
		if installer := filepath.Join(filepath.Dir(beside), program); isProgram(installer) {
			return installer, nil
		}
	}
	return "", fmt.Errorf("find %s beside %s: %w; %s", program, server, ErrNotInstalled, postgresHint)
}

// postgresAccount returns the account under which the server and its tools run if the caller is
// root, because PostgreSQL refuses to run as root. It is the account that PostgreSQL's packages
// create or, if there is none, nobody.
func postgresAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("account %s: %w", name, err)
		}
		if uid != 0 {
			return &account{uid: uint32(uid), gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and there is neither an account postgres nor nobody to run it as")
}

// installPostgres creates a data directory with the empty database Database. Its only account is
// User, who needs a password, except on the socket. Texts are UTF-8, and are sorted by their bytes,
// as in the other kinds.
func installPostgres(ctx context.Context, bin binaries, dir string) error {
	as, err := giveToPostgres(dir)
	if err != nil {
		return err
	}
	_, err = as.run(ctx, nil, bin.installer, "--pgdata="+dir, "--username="+User, "--encoding=UTF8", "--locale=C",
		"--auth-local=trust", "--auth-host=scram-sha-256", "--no-sync", "--no-instructions")
	if err != nil {
		return err
	}
	// With -j, a statement ends with a semicolon and an empty line.
	statement := strings.NewReader("CREATE DATABASE " + Database + ";\n\n")
	out, err := as.run(ctx, statement, bin.server, "--single", "-D"+dir, "-F", "-j", "postgres")
	// With --single, the server continues after an error.
	if err == nil && strings.Contains(out, "ERROR:") {
		err = fmt.Errorf("run %s --single%s", bin.server, indentTail(out))
	}
	return err
}

// giveToPostgres makes the server's account the owner of the data directory and its files, which
// PostgreSQL requires. The directories above it belong to the caller, and keep other users out.
func giveToPostgres(dataDir string) (*account, error) {
	as, err := postgresAccount()
	if err != nil || as == nil {
		return nil, err
	}
	return as, filepath.WalkDir(dataDir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(as.uid), int(as.gid))
	})
}

func preparePostgres(_ context.Context, l *launch) error {
	if l.part.role == Replica {
		if err := os.WriteFile(filepath.Join(l.dataDir, "standby.signal"), nil, 0o600); err != nil {
			return err
		}
	}
	if _, err := giveToPostgres(l.dataDir); err != nil {
		return err
	}
	if err := removeSharedMemory(l.dataDir); err != nil {
		return err
	}
	// No server uses the directory. A postmaster.pid or a socket in it was left by a server that was
	// killed. If that server's process id now belongs to another process, the next server would refuse
	// to start.
	stale := []string{filepath.Join(l.dataDir, "postmaster.pid")}
	for _, dir := range []string{l.dir, filepath.Dir(l.socket)} {
		names, err := postgresSockets(dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			stale = append(stale, filepath.Join(dir, name))
		}
	}
	for _, path := range stale {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if l.port == 0 {
		return nil
	}
	// The port is also part of the socket's name; clients look for the standard port.
	return os.Symlink(postgresSocketPrefix+strconv.Itoa(l.port), l.socket)
}

// postgresSockets returns the names of the server's sockets in a directory and of their locks.
func postgresSockets(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), postgresSocketPrefix) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func argsPostgres(l *launch) []string {
	settings := map[string]string{
		"shared_buffers": strconv.FormatInt(l.Memory>>20, 10) + "MB",
		// A checkpoint starts at this amount of WAL. The server creates WAL files when it needs them, not
		// in advance.
		"max_wal_size":                strconv.FormatInt(l.Redo>>20, 10) + "MB",
		"fsync":                       map[string]string{Full: "on", Relaxed: "on", None: "off"}[l.Durability],
		"synchronous_commit":          map[string]string{Full: "on", Relaxed: "off", None: "off"}[l.Durability],
		"default_table_access_method": l.Storage,
		"max_connections":             "1000",
		"unix_socket_directories":     filepath.Dir(l.socket),
		"unix_socket_permissions":     "0700",
		"listen_addresses":            "",
		"port":                        "5432",
		"timezone":                    "UTC",
		"log_timezone":                "UTC",
		"lc_messages":                 "C",
		"logging_collector":           "off",
		"log_destination":             "stderr",
		// Shared memory in files of the data directory: if the server is killed, it leaves nothing in the
		// system's shared memory.
		"dynamic_shared_memory_type": "mmap",
	}
	if l.port != 0 {
		settings["listen_addresses"], settings["port"] = "127.0.0.1", strconv.Itoa(l.port)
	}
	maps.Copy(settings, streaming(l))
	maps.Copy(settings, l.Set)
	args := []string{"-D" + l.dataDir}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}

var reportedPostgres = []string{
	"server_version", "shared_buffers", "max_wal_size", "min_wal_size", "wal_buffers", "wal_level", "wal_compression", "wal_segment_size",
	"fsync", "synchronous_commit", "full_page_writes", "commit_delay", "checkpoint_timeout", "checkpoint_completion_target",
	"autovacuum", "default_table_access_method", "data_checksums", "max_connections", "effective_cache_size", "work_mem",
	"maintenance_work_mem", "bgwriter_delay", "huge_pages", "server_encoding",
}

// streaming returns settings of a source or a replica. A replica's limits must reach its source's.
func streaming(l *launch) map[string]string {
	if l.part.role == "" {
		return nil
	}
	settings := map[string]string{"wal_level": "replica", "max_wal_senders": "40", "max_replication_slots": "40", "wal_retrieve_retry_interval": "200ms"}
	switch {
	case l.part.role == Replica:
		settings["primary_conninfo"] = "host='" + filepath.Dir(l.part.head().Socket) + "' port=5432 user=" + User + " application_name=" + l.slot()
		settings["primary_slot_name"] = l.slot()
	case l.part.semiSync:
		settings["synchronous_standby_names"] = "ANY 1 (*)"
	}
	return settings
}

// slot names the replication slot, in which the source keeps what a replica has not received.
func (l *launch) slot() string { return "replica_" + strconv.Itoa(l.part.number) }

func copyPostgres(ctx context.Context, l *launch, dir string) error {
	as, err := giveToPostgres(dir)
	if err != nil {
		return err
	}
	program, err := besideServer(l.bin.server, "pg_basebackup")
	if err != nil {
		return err
	}
	// The slot may be left from an interrupted start.
	_, err = queryPostgres(ctx, l.part.head().Socket,
		"SELECT slot_name, pg_drop_replication_slot(slot_name)::text FROM pg_replication_slots WHERE slot_name = '"+l.slot()+"'")
	if err != nil {
		return err
	}
	_, err = as.run(ctx, nil, program, "--pgdata="+dir, "--host="+filepath.Dir(l.part.head().Socket),
		"--port=5432", "--username="+User, "--wal-method=stream", "--checkpoint=fast", "--no-sync", "--create-slot", "--slot="+l.slot())
	return err
}

func setupPostgres(l *launch) []string {
	if l.part.role == Replica {
		return nil
	}
	var statements []string
	if l.Nodes > 0 {
		statements = append(statements, "CREATE EXTENSION IF NOT EXISTS postgres_fdw")
	}
	if l.port != 0 {
		statements = append(statements, "ALTER ROLE "+User+" PASSWORD '"+l.password+"'")
	}
	if l.part.semiSync { // there is no replica yet whose receipt a commit could wait for
		statements = slices.Concat([]string{"SET synchronous_commit = local"}, statements, []string{"RESET synchronous_commit"})
	}
	return statements
}

// queryPostgres executes the statements. It returns the rows that are a name and a value.
func queryPostgres(ctx context.Context, socket string, statements ...string) (map[string]string, error) {
	c, err := pgconn.ParseConfig("sslmode=disable target_session_attrs=any")
	if err != nil {
		return nil, err
	}
	c.Host, c.Port, c.User, c.Password, c.Database, c.Fallbacks = filepath.Dir(socket), 5432, User, "", Database, nil
	conn, err := pgconn.ConnectConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	out := map[string]string{}
	// The session does not depend on the defaults that the variables of Options.Set may change.
	session := []string{"SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", "SET statement_timeout = 0"}
	for _, s := range append(session, statements...) {
		results, err := conn.Exec(ctx, s).ReadAll()
		if err != nil {
			return nil, err
		}
		for _, row := range results[0].Rows {
			if len(row) == 2 {
				out[string(row[0])] = string(row[1])
			}
		}
	}
	return out, nil
}

func checkPostgres(l *launch, settings map[string]string) error {
	got, err := ParseSize(settings["shared_buffers"])
	if err != nil || got != l.Memory {
		return fmt.Errorf("the server has set shared_buffers to %s instead of the requested %s", settings["shared_buffers"], FormatSize(l.Memory))
	}
	return nil
}
