package sandbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-sql-driver/mysql"
)

const inside = "the sandbox chooses it"

// mysqlFamily returns a kind with what MySQL and MariaDB have in common. program is the name of the
// client. args returns the arguments of the server that only one of the two has.
func mysqlFamily(program string, args func(*launch) []string) *kind {
	reserved := map[string]string{
		"innodb_buffer_pool_size":         "use memory=",
		"innodb_buffer_pool_chunk_size":   "use memory=",
		"rocksdb_block_cache_size":        "use memory=",
		"innodb_log_file_size":            "use redo=",
		"innodb_flush_log_at_trx_commit":  "use durability=",
		"rocksdb_flush_log_at_trx_commit": "use durability=",
		"default_storage_engine":          "use engine=",
		"port":                            "use port=auto",
	}
	for _, name := range []string{
		"datadir", "socket", "pid_file", "user", "tmpdir", "init_file", "skip_networking", "bind_address",
		"skip_grant_tables", "no_defaults", "defaults_file", "defaults_extra_file", "bootstrap", "chroot",
		"innodb_data_home_dir", "innodb_log_group_home_dir", "innodb_undo_directory", "innodb_tmpdir",
		"aria_log_dir_path", "rocksdb_datadir", "rocksdb_wal_dir", "rocksdb_tmpdir", "log_error", "secure_file_priv",
	} {
		reserved[name] = inside
	}
	return &kind{
		reserved: reserved,
		software: software{
			versionArgs: []string{"--no-defaults", "--version"},
			versionMark: " Ver ",
		},
		dataDirArg: "--datadir=",
		access: access{
			query: queryMySQL,
			client: func(socket string) string {
				return program + " --no-defaults --user=" + User + " --socket=" + shellQuote(socket) + " " + Database
			},
			socketQuery: func(socket string) string { return "socket=" + escape(socket) },
			socketName:  socketName,
		},
		setup: setupMySQL,
		readback: readback{
			reported: reportedMySQL,
			settings: "SHOW GLOBAL VARIABLES WHERE Variable_name IN (%s)",
		},
		stopSignal:  syscall.SIGTERM,
		deathSignal: syscall.SIGKILL,
		account:     func() (*account, error) { return nil, nil },
		args: func(l *launch) []string {
			// The variables of Options.Set come last and therefore take precedence.
			all := slices.Concat(argsCommon(l), homeArgs(l.bin), args(l))
			for _, name := range slices.Sorted(maps.Keys(l.Set)) {
				all = append(all, "--"+name+"="+l.Set[name])
			}
			return all
		},
	}
}

// mariadb is MariaDB 10.4 and later, tested with 10.11 and 11.8.
func mariadb() *kind {
	k := mysqlFamily("mariadb", argsMariaDB)
	k.name, k.storages = "mariadb", []string{InnoDB, RocksDB}
	// InnoDB with pages of 16 KiB requires at least 6 MiB of memory and 4 MiB of redo log.
	k.minMemory, k.minRedo = 6<<20, 4<<20
	k.programs = []string{"mariadbd", "mysqld"}
	k.dirs = []string{"/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/bin", "/opt/homebrew/bin"}
	k.hint = "install it, on Debian and Ubuntu with: apt install mariadb-server " +
		"(in rowmill's source, scripts/install.sh mariadb-new fetches 11.8)"
	k.installer = func(server string) (string, error) { return installerOfMariaDB(server, k.hint) }
	k.install, k.check, k.explain = installMariaDB, checkMariaDB, explainMariaDB
	k.nodesKey = "spider"
	k.replication = replication{tcp: true, follow: followMariaDB, position: []string{logged, "SELECT 'position', @@gtid_binlog_pos"},
		reached: "SELECT 'reached', MASTER_GTID_WAIT('%s', 1) = 0", joined: joinedGalera}
	k.prepare, k.helpers = joinGalera, []string{"bash", "rsync"}
	k.reported = append(k.reported, spiderVariable)
	return k
}

// mysqld is MySQL 8.0 and later, tested with 8.0.15 and 9.7.
func mysqld() *kind {
	k := mysqlFamily("mysql", argsMySQL)
	k.name, k.storages = "mysql", []string{InnoDB}
	// InnoDB with pages of 16 KiB requires at least 5 MiB of memory, and a redo log of 8 MiB.
	k.minMemory, k.minRedo = 5<<20, 8<<20
	k.reserved["innodb_redo_log_capacity"] = "use redo="
	k.reserved["innodb_log_files_in_group"] = "use redo="
	k.reserved["innodb_dedicated_server"] = "use memory= and redo="
	for _, name := range []string{
		"basedir", "initialize", "initialize_insecure", "daemonize", "innodb_temp_tablespaces_dir", "innodb_doublewrite_dir",
		"innodb_directories", "mysqlx", "mysqlx_socket", "mysqlx_port", "mysqlx_bind_address", "admin_address", "admin_port",
	} {
		k.reserved[name] = inside
	}
	// MariaDB's program may have that name, too.
	k.programs, k.foreign = []string{"mysqld"}, "mariadb"
	k.dirs = []string{"/usr/sbin", "/usr/libexec", "/usr/local/sbin", "/usr/local/bin", "/usr/local/mysql/bin", "/opt/homebrew/bin"}
	k.libraries = "libaio1 libnuma1"
	k.hint = "put the mysqld of MySQL 8.0 or later on PATH " +
		"(in rowmill's source, scripts/install.sh mysql fetches 8.0, scripts/install.sh mysql-new 9.7)"
	k.installed = []string{"lower_case_table_names"}
	k.replication = replication{tcp: true, follow: followMySQL, position: []string{logged, "SELECT 'position', @@gtid_executed"},
		reached: "SELECT 'reached', WAIT_FOR_EXECUTED_GTID_SET('%s', 1) = 0"}
	k.installer = func(server string) (string, error) { return server, nil }
	k.install, k.check, k.explain = installMySQL, checkMySQL, explainMySQL
	return k
}

// homeArgs are the arguments by which a server of an unpacked archive finds its messages, character
// sets and plug-ins. A server that a package installed below /usr finds them itself.
func homeArgs(bin binaries) []string {
	home := homeOf(bin.server)
	if home == "" {
		return nil
	}
	var args []string
	if share := shareOf(home); share != "" {
		args = append(args, "--lc-messages-dir="+share, "--character-sets-dir="+filepath.Join(share, "charsets"))
	}
	if plugins := filepath.Join(home, "lib", "mysql", "plugin"); isDir(plugins) {
		args = append(args, "--basedir="+home, "--plugin-dir="+plugins)
	}
	return args
}

// homeOf returns the parent of the directory of a server's program, or "" if that is /usr.
func homeOf(server string) string {
	path, err := filepath.EvalSymlinks(server)
	if err != nil {
		return ""
	}
	home := filepath.Dir(filepath.Dir(path))
	if home == "/usr" {
		return ""
	}
	return home
}

func shareOf(home string) string {
	for _, dir := range []string{"share", "share/mysql", "share/mariadb"} {
		share := filepath.Join(home, dir)
		if _, err := os.Stat(filepath.Join(share, "english", "errmsg.sys")); err == nil {
			return share
		}
	}
	return ""
}

func isFile(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular()
}

func isDir(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}

// userArg is what the server needs to run as root.
func userArg() []string {
	if os.Geteuid() == 0 {
		return []string{"--user=root"}
	}
	return nil
}

// installerOfMariaDB returns the program that creates the system tables: the server itself if the
// SQL files for that are beside it, else mariadb-install-db. That script needs further tools in the
// places where packages put them.
func installerOfMariaDB(server, hint string) (string, error) {
	const installer = "mariadb-install-db"
	places := onPath("", installer, "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
	if home := homeOf(server); home != "" {
		if share := shareOf(home); share != "" && len(systemTables(share)) > 0 {
			return server, nil
		}
		places = slices.Insert(places, 0, filepath.Join(home, "bin", installer))
	}
	if i := slices.IndexFunc(places, isProgram); i >= 0 {
		return places[i], nil
	}
	return "", fmt.Errorf("find %s for %s: %w; %s", installer, server, ErrNotInstalled, hint)
}

// systemTables returns the SQL files that mariadb-install-db executes, in the order of execution;
// none if one of them is missing.
func systemTables(share string) []string {
	var files []string
	for _, name := range []string{"mariadb_system_tables", "mariadb_performance_tables", "mariadb_system_tables_data",
		"fill_help_tables", "maria_add_gis_sp_bootstrap", "mariadb_sys_schema"} {
		file := filepath.Join(share, name+".sql")
		if _, err := os.Stat(file); err != nil {
			return nil
		}
		files = append(files, file)
	}
	return files
}

// installMariaDB creates the system tables. It leaves only accounts that use the socket: it removes
// root@127.0.0.1 and root@HOSTNAME, which the installer creates without a password.
func installMariaDB(ctx context.Context, bin binaries, dir string) error {
	var as *account
	// MariaDB deletes all temporary tables that it finds when it starts. In a directory that several
	// servers share, these include the tables of the other servers, which then crash.
	temporary := dir + "-tmp"
	if err := os.Mkdir(temporary, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	common := append([]string{"--no-defaults", "--datadir=" + dir, "--tmpdir=" + temporary, "--innodb-log-file-size=4M", "--skip-log-bin"}, userArg()...)
	bootstrap := func(statements io.Reader) error {
		_, err := as.run(ctx, statements, bin.server, slices.Concat(common, homeArgs(bin), []string{"--bootstrap"})...)
		return err
	}
	var err error
	if bin.installer == bin.server {
		err = createMariaDB(bin, dir, bootstrap)
	} else {
		_, err = as.run(ctx, nil, bin.installer, append(slices.Clone(common),
			"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve")...)
	}
	if err != nil {
		return err
	}
	return bootstrap(strings.NewReader("DELETE FROM mysql.global_priv WHERE Host <> 'localhost';\n" +
		"DELETE FROM mysql.proxies_priv WHERE Host <> 'localhost';\n"))
}

func createMariaDB(bin binaries, dir string, bootstrap func(statements io.Reader) error) error {
	const begin = "CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n"
	parts := []io.Reader{strings.NewReader(begin)}
	for _, name := range systemTables(shareOf(homeOf(bin.server))) {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		parts = append(parts, f)
	}
	if err := os.Mkdir(filepath.Join(dir, "mysql"), 0o700); err != nil {
		return err
	}
	return bootstrap(io.MultiReader(parts...))
}

// installMySQL creates the system tables. The only account that can log in is root@localhost. It
// can use only the socket, because the server does not resolve names.
func installMySQL(ctx context.Context, bin binaries, dir string) error {
	var as *account
	out, err := as.run(ctx, nil, bin.installer, slices.Concat(
		[]string{"--no-defaults", "--initialize-insecure", "--datadir=" + dir, "--skip-log-bin"},
		userArg(), homeArgs(bin), redoArgs(8<<20), bin.installArgs)...)
	if err != nil {
		if why := explainMySQL(out); why != nil && ctx.Err() == nil {
			return why
		}
		return err
	}
	// auto.cnf contains the server's UUID, which must differ between servers.
	if err := os.Remove(filepath.Join(dir, "auto.cnf")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// redoArgs returns the arguments that set the size of the redo log: since MySQL 8.0.30 its
// capacity, before that the size of each of its two files. A server ignores the one that it doesn't
// know.
func redoArgs(redo int64) []string {
	return []string{
		"--loose-innodb-redo-log-capacity=" + strconv.FormatInt(redo, 10),
		"--loose-innodb-log-file-size=" + strconv.FormatInt(redo/2, 10),
		"--loose-innodb-log-files-in-group=2",
	}
}

// flushAtCommit are the values of innodb_flush_log_at_trx_commit and of MyRocks' variable.
var flushAtCommit = map[string]string{Full: "1", Relaxed: "2", None: "0"}

func argsCommon(l *launch) []string {
	args := []string{"--no-defaults", "--datadir=" + l.dataDir}
	args = append(args, userArg()...)
	args = append(args,
		"--socket="+l.socket,
		"--pid-file="+filepath.Join(l.dir, pidFile),
		"--tmpdir="+l.tmpDir,
		"--skip-name-resolve",
		"--local-infile=1",
		"--performance-schema=OFF",
		"--max-connections=1000",
		"--character-set-server=utf8mb4",
		"--default-time-zone=+00:00",
		"--innodb-flush-method=O_DIRECT",
		"--innodb-flush-log-at-trx-commit="+flushAtCommit[l.Durability],
		// A kept server starts with a cold cache, like a new one.
		"--innodb-buffer-pool-dump-at-shutdown=OFF",
		"--innodb-buffer-pool-load-at-startup=OFF",
	)
	if l.port == 0 {
		return append(args, "--skip-networking")
	}
	return append(args, "--bind-address=127.0.0.1", "--port="+strconv.Itoa(l.port))
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func argsMariaDB(l *launch) []string {
	args := []string{"--innodb-log-file-size=" + strconv.FormatInt(l.Redo, 10)}
	if l.Nodes > 0 {
		args = append(args, "--plugin-load-add=ha_spider")
	}
	pool := l.Memory
	if l.Storage == RocksDB {
		// With RocksDB, InnoDB contains only the server's own tables.
		pool = 16 << 20
		args = append(args,
			"--plugin-load-add=ha_rocksdb",
			"--default-storage-engine=rocksdb",
			"--rocksdb-block-cache-size="+strconv.FormatInt(l.Memory, 10),
			"--rocksdb-flush-log-at-trx-commit="+flushAtCommit[l.Durability],
			// Read and write without the kernel's page cache, as O_DIRECT does for InnoDB: otherwise that
			// cache would hold the pages that don't fit into the block cache, and memory would not be
			// limited.
			"--rocksdb-use-direct-reads=ON",
			"--rocksdb-use-direct-io-for-flush-and-compaction=ON",
			// By default, a server that was killed while it wrote to its log refuses to start. With this
			// setting, it recovers the log up to that write, which includes all that was synced before.
			"--rocksdb-wal-recovery-mode=2",
			// Allow indexes on text, as InnoDB does. By default, RocksDB refuses them for collations with
			// which it can't restore a text from the index.
			"--rocksdb-strict-collation-check=OFF",
		)
	}
	args = append(args, binlogArgs(l, nil, map[string][]string{
		Source:  {"--rpl-semi-sync-master-enabled=ON", "--rpl-semi-sync-master-wait-point=AFTER_SYNC"},
		Replica: {"--rpl-semi-sync-slave-enabled=ON"},
	})...)
	// MariaDB before 10.11.12 rounds the pool up to whole chunks, by default of 128 MiB. A chunk size
	// that divides the pool avoids that. Later versions have no chunks.
	return append(append(args, galeraArgs(l)...),
		"--innodb-buffer-pool-size="+strconv.FormatInt(pool, 10),
		"--loose-innodb-buffer-pool-chunk-size="+strconv.FormatInt(gcd(pool, 128<<20), 10))
}

// manyInstances: MySQL divides a buffer pool of at least this size into eight instances, each of
// which is a whole number of chunks.
const manyInstances = 1 << 30

func argsMySQL(l *launch) []string {
	part := l.Memory
	if part >= manyInstances {
		part /= 8
	}
	args := binlogArgs(l, []string{"--gtid-mode=ON", "--enforce-gtid-consistency=ON"}, map[string][]string{
		Source:  {"--plugin-load-add=semisync_master.so", "--rpl-semi-sync-master-enabled=ON"},
		Replica: {"--plugin-load-add=semisync_slave.so", "--rpl-semi-sync-slave-enabled=ON"},
	})
	return append(append(args, redoArgs(l.Redo)...),
		"--innodb-buffer-pool-size="+strconv.FormatInt(l.Memory, 10),
		// The server rounds the pool up to whole chunks, by default of 128 MiB. A chunk size that divides
		// the pool, or each instance of it, avoids that.
		"--innodb-buffer-pool-chunk-size="+strconv.FormatInt(max(gcd(part, 128<<20), 1<<20), 10),
		// The X protocol would listen on a separate port and socket.
		"--loose-mysqlx=OFF",
		// Counters that cost nothing until they are read.
		"--loose-innodb-monitor-enable=log_lsn_checkpoint_age,log_max_modified_age_sync",
		// The directory that a package chose may not exist.
		"--secure-file-priv="+l.tmpDir,
	)
}

const portAccount = "'" + User + "'@'127.0.0.1'"

func setupMySQL(l *launch) []string {
	statements := []string{"CREATE DATABASE IF NOT EXISTS " + Database}
	switch l.part.role { // each server has its own accounts
	case Member:
		statements = append([]string{"SET SESSION wsrep_on = OFF"}, statements...)
	case Source, Replica:
		statements = append([]string{"SET SESSION sql_log_bin = 0"}, statements...)
	}
	if l.port != 0 {
		statements = append(statements,
			"DROP USER IF EXISTS "+portAccount,
			"CREATE USER "+portAccount+" IDENTIFIED BY '"+l.password+"'",
			"GRANT ALL ON *.* TO "+portAccount+" WITH GRANT OPTION")
	}
	if l.part.role == Replica {
		statements = append(statements, l.kind.replication.follow(l)...)
	}
	return statements
}

// sessionMySQL makes a session independent of the defaults that Options.Set may change.
var sessionMySQL = []string{
	"SET SESSION sql_mode = '', autocommit = 1, completion_type = 'NO_CHAIN', sql_big_selects = 1 /*!80000 , max_execution_time = 0 */",
	"SET SESSION TRANSACTION READ WRITE",
}

func queryMySQL(ctx context.Context, socket string, statements ...string) (map[string]string, error) {
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.Logger = User, "unix", socket, &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	last := len(statements) - 1
	for _, s := range slices.Concat(sessionMySQL, statements[:last]) {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return nil, err
		}
	}
	rows, err := conn.QueryContext(ctx, statements[last])
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		out[name] = value
	}
	return out, rows.Err()
}

var reportedMySQL = []string{
	"version", "version_comment", "innodb_buffer_pool_size", "innodb_buffer_pool_instances", "innodb_log_file_size",
	"innodb_log_files_in_group", "innodb_redo_log_capacity", "innodb_flush_log_at_trx_commit", "innodb_flush_method",
	"innodb_doublewrite", "innodb_page_size", "sync_binlog", "log_bin", "default_storage_engine", "max_connections",
	"character_set_server", "collation_server", "performance_schema",
	"rocksdb_block_cache_size", "rocksdb_flush_log_at_trx_commit", "rocksdb_use_direct_reads",
	"rocksdb_use_direct_io_for_flush_and_compaction",
}

func checkMemory(l *launch, settings map[string]string) error {
	variable := "innodb_buffer_pool_size"
	if l.Storage == RocksDB {
		variable = "rocksdb_block_cache_size"
	}
	if got := settings[variable]; got != strconv.FormatInt(l.Memory, 10) {
		return fmt.Errorf("the server has set %s to %s instead of the requested %d; request memory=%s", variable, got, l.Memory, got)
	}
	return nil
}

// spiderVariable is a variable that a server has only with Spider.
const spiderVariable = "spider_bgs_mode"

func checkMariaDB(l *launch, settings map[string]string) error {
	if _, has := settings[spiderVariable]; l.Nodes > 0 && !has {
		return fmt.Errorf("the Spider plugin is %w; install it, on Debian and Ubuntu with: apt install mariadb-plugin-spider", ErrNotInstalled)
	}
	return checkMemory(l, settings)
}

func checkMySQL(l *launch, settings map[string]string) error {
	if err := checkMemory(l, settings); err != nil {
		return err
	}
	redo, err := redoOf(settings)
	if err == nil && redo != l.Redo {
		err = fmt.Errorf("the server has set its redo log to %d bytes instead of the requested %d; request redo=%d", redo, l.Redo, redo)
	}
	return err
}

func redoOf(settings map[string]string) (int64, error) {
	if text, ok := settings["innodb_redo_log_capacity"]; ok {
		return strconv.ParseInt(text, 10, 64)
	}
	size, err1 := strconv.ParseInt(settings["innodb_log_file_size"], 10, 64)
	files, err2 := strconv.ParseInt(settings["innodb_log_files_in_group"], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return 0, fmt.Errorf("read the size of the redo log: %w", err)
	}
	return size * files, nil
}

func explainMariaDB(log string) error {
	if strings.Contains(log, "ha_rocksdb") && strings.Contains(log, "open shared library") {
		return fmt.Errorf("the RocksDB plugin is %w; install it, on Debian and Ubuntu with: apt install mariadb-plugin-rocksdb", ErrNotInstalled)
	}
	return nil
}

// profile is the AppArmor file that restricts Ubuntu's mysqld to the system server's directories.
const profile = "/etc/apparmor.d/usr.sbin.mysqld"

func explainMySQL(log string) error {
	if strings.Contains(log, "semisync_master.so") { // the small archives don't have it
		return fmt.Errorf("the plug-in semisync_master.so is %w; leave semisync out, or use mariadb, which needs none%s", ErrNotInstalled, indentTail(log))
	}
	if !strings.Contains(log, "Errcode: 13") && !strings.Contains(log, "OS errno 13") {
		return nil
	}
	if _, err := os.Stat(profile); err != nil {
		return nil
	}
	return fmt.Errorf("the server may not use the sandbox's directory: the AppArmor profile %s confines it; "+
		"copy mysqld elsewhere, to a directory that comes first on PATH%s", profile, indentTail(log))
}
