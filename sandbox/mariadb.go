package sandbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mariadb is MariaDB 10.4 and later, tested with 10.11.
func mariadb() *kind {
	const inside = "the sandbox chooses it"
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
		name:     "mariadb",
		scheme:   "mariadb",
		storages: []string{InnoDB, RocksDB},
		// InnoDB with its pages of 16 KiB refuses less than 6 MiB of memory,
		// and less than 4 MiB of redo log.
		minMemory:  6 << 20,
		minRedo:    4 << 20,
		reserved:   reserved,
		programs:   []string{"mariadbd", "mysqld"},
		find:       findMariaDB,
		install:    installMariaDB,
		prepare:    prepareMariaDB,
		args:       argsMariaDB,
		dataDirArg: func(dataDir string) string { return "--datadir=" + dataDir },
		greet:      greetMySQL,
		settings:   settingsMariaDB,
		explain:    explainMariaDB,
		client: func(socket string) string {
			return "mariadb --no-defaults --user=" + User + " --socket=" + shellQuote(socket) + " " + Database
		},
	}
}

const installHint = "install it, on Debian and Ubuntu with: apt install mariadb-server"

func findMariaDB(ctx context.Context) (binaries, error) {
	server, err := lookPath([]string{"/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/bin", "/opt/homebrew/bin"}, "mariadbd")
	if err != nil {
		return binaries{}, fmt.Errorf("%w; %s", err, installHint)
	}
	installer, err := lookPath([]string{"/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"}, "mariadb-install-db")
	if err != nil {
		return binaries{}, fmt.Errorf("%w; %s", err, installHint)
	}
	out, err := exec.CommandContext(ctx, server, "--no-defaults", "--version").Output()
	if err != nil {
		return binaries{}, fmt.Errorf("ask %s for its version: %w", server, err)
	}
	_, version, ok := strings.Cut(string(out), " Ver ")
	fields := strings.Fields(version)
	if !ok || len(fields) == 0 {
		return binaries{}, fmt.Errorf("ask %s for its version: unexpected answer %q", server, out)
	}
	return binaries{server: server, installer: installer, version: fields[0]}, nil
}

// installMariaDB creates the system tables. Accounts are left for the socket
// only: the installer's root@127.0.0.1 and root@HOSTNAME have no password.
func installMariaDB(ctx context.Context, bin binaries, dir string) error {
	common := []string{"--no-defaults", "--datadir=" + dir, "--innodb-log-file-size=4M", "--skip-log-bin"}
	common = append(common, userArg()...)
	install := commandInGroup(ctx, bin.installer, append(slices.Clone(common),
		"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve")...)
	if out, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("run %s: %w%s", bin.installer, causeOr(ctx, err), indentTail(string(out)))
	}
	restrict := commandInGroup(ctx, bin.server, append(slices.Clone(common), "--bootstrap")...)
	restrict.Stdin = strings.NewReader("DELETE FROM mysql.global_priv WHERE Host <> 'localhost';\n" +
		"DELETE FROM mysql.proxies_priv WHERE Host <> 'localhost';\n")
	if out, err := restrict.CombinedOutput(); err != nil {
		return fmt.Errorf("restrict accounts with %s: %w%s", bin.server, causeOr(ctx, err), indentTail(string(out)))
	}
	return nil
}

// userArg is what the server needs to run as root, which it refuses otherwise.
func userArg() []string {
	if os.Geteuid() == 0 {
		return []string{"--user=root"}
	}
	return nil
}

// Files that the server reads and writes as it starts, in the sandbox.
const (
	initFile     = "init.sql"
	settingsFile = "settings.tsv"
)

// reported are the variables whose effective values are recorded.
var reported = []string{
	"version", "version_comment", "innodb_buffer_pool_size", "innodb_log_file_size", "innodb_flush_log_at_trx_commit",
	"innodb_flush_method", "innodb_doublewrite", "innodb_page_size", "sync_binlog", "log_bin", "default_storage_engine",
	"max_connections", "character_set_server", "collation_server", "performance_schema",
	"rocksdb_block_cache_size", "rocksdb_flush_log_at_trx_commit", "rocksdb_use_direct_reads",
	"rocksdb_use_direct_io_for_flush_and_compaction",
}

// prepareMariaDB writes the statements that the server executes before it
// accepts connections. Each must be one line.
func prepareMariaDB(l *launch) error {
	names := slices.Concat(reported, slices.Collect(maps.Keys(l.Set)))
	slices.Sort(names)
	var in []string
	for _, name := range slices.Compact(names) {
		in = append(in, sqlString(name))
	}
	out := filepath.Join(l.dir, settingsFile)
	if err := os.Remove(out); err != nil && !os.IsNotExist(err) {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE DATABASE IF NOT EXISTS %s;\n", Database)
	if l.port != 0 {
		account := sqlString(User) + "@'127.0.0.1'"
		fmt.Fprintf(&b, "CREATE OR REPLACE USER %s IDENTIFIED BY %s;\n", account, sqlString(l.password))
		fmt.Fprintf(&b, "GRANT ALL ON *.* TO %s WITH GRANT OPTION;\n", account)
	}
	fmt.Fprintf(&b, "SELECT LOWER(VARIABLE_NAME), VARIABLE_VALUE FROM information_schema.GLOBAL_VARIABLES "+
		"WHERE VARIABLE_NAME IN (%s) INTO OUTFILE %s;\n", strings.Join(in, ", "), sqlString(out))
	return os.WriteFile(filepath.Join(l.dir, initFile), []byte(b.String()), 0o600)
}

func argsMariaDB(l *launch) []string {
	flush := map[string]string{Full: "1", Relaxed: "2", None: "0"}[l.Durability]
	args := []string{"--no-defaults", "--datadir=" + l.dataDir}
	args = append(args, userArg()...)
	args = append(args,
		"--socket="+l.socket,
		"--pid-file="+filepath.Join(l.dir, "pid"),
		"--tmpdir="+l.tmpDir,
		"--init-file="+filepath.Join(l.dir, initFile),
		"--skip-name-resolve",
		"--skip-log-bin",
		"--local-infile=1",
		"--performance-schema=OFF",
		"--max-connections=1000",
		"--character-set-server=utf8mb4",
		"--default-time-zone=+00:00",
		"--innodb-flush-method=O_DIRECT",
		"--innodb-log-file-size="+strconv.FormatInt(l.Redo, 10),
		"--innodb-flush-log-at-trx-commit="+flush,
		// A kept server starts as cold as a new one.
		"--innodb-buffer-pool-dump-at-shutdown=OFF",
		"--innodb-buffer-pool-load-at-startup=OFF",
	)
	if l.port == 0 {
		args = append(args, "--skip-networking")
	} else {
		args = append(args, "--bind-address=127.0.0.1", "--port="+strconv.Itoa(l.port))
	}
	pool := l.Memory
	if l.Storage == RocksDB {
		// InnoDB then only holds the server's own tables.
		pool = 16 << 20
		args = append(args,
			"--plugin-load-add=ha_rocksdb",
			"--default-storage-engine=rocksdb",
			"--rocksdb-block-cache-size="+strconv.FormatInt(l.Memory, 10),
			"--rocksdb-flush-log-at-trx-commit="+flush,
			// As O_DIRECT for InnoDB: otherwise the kernel's page cache holds
			// what the block cache does not, and memory is no limit.
			"--rocksdb-use-direct-reads=ON",
			"--rocksdb-use-direct-io-for-flush-and-compaction=ON",
			// Lets a table have an index on text in a collation that RocksDB
			// can't restore from the index, as InnoDB does.
			"--rocksdb-strict-collation-check=OFF",
		)
	}
	// Servers before 10.11.12 round the pool up to whole chunks, by default of
	// 128 MiB; a chunk that divides the pool avoids that. Later ones have no
	// chunks.
	args = append(args,
		"--innodb-buffer-pool-size="+strconv.FormatInt(pool, 10),
		"--loose-innodb-buffer-pool-chunk-size="+strconv.FormatInt(gcd(pool, 128<<20), 10))
	for _, name := range slices.Sorted(maps.Keys(l.Set)) {
		args = append(args, "--"+name+"="+l.Set[name])
	}
	return args
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// settingsMariaDB reads what the server wrote before it accepted connections.
func settingsMariaDB(l *launch) (map[string]string, error) {
	data, err := os.ReadFile(filepath.Join(l.dir, settingsFile))
	if err != nil {
		return nil, fmt.Errorf("read the server's settings: %w", err)
	}
	settings := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		settings[name] = value
	}
	variable := "innodb_buffer_pool_size"
	if l.Storage == RocksDB {
		variable = "rocksdb_block_cache_size"
	}
	if got := settings[variable]; got != strconv.FormatInt(l.Memory, 10) {
		return nil, fmt.Errorf("the server has made %s %s instead of the %d asked for; ask for memory=%s", variable, got, l.Memory, got)
	}
	return settings, nil
}

func explainMariaDB(log string) error {
	if strings.Contains(log, "ha_rocksdb") && strings.Contains(log, "open shared library") {
		return fmt.Errorf("the RocksDB plugin is %w; install it, on Debian and Ubuntu with: apt install mariadb-plugin-rocksdb", ErrNotInstalled)
	}
	return nil
}

// greetMySQL reads the packet with which a server of the MySQL protocol greets
// a client: 3 bytes of length, a sequence number, the protocol's version 10, and
// the server's version, ended by a zero byte.
// See https://mariadb.com/kb/en/connection/#initial-handshake-packet.
func greetMySQL(ctx context.Context, socket string) (string, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	header := make([]byte, 4)
	if _, err := io.ReadFull(conn, header); err != nil {
		return "", err
	}
	size := binary.LittleEndian.Uint32(append(header[:3:3], 0))
	// A greeting is about 100 bytes.
	if size == 0 || size > 4096 {
		return "", fmt.Errorf("greeting of %d bytes", size)
	}
	packet := make([]byte, size)
	if _, err := io.ReadFull(conn, packet); err != nil {
		return "", err
	}
	if packet[0] != 10 {
		return "", fmt.Errorf("the server refuses the connection: %q", packet)
	}
	version, _, ok := bytes.Cut(packet[1:], []byte{0})
	if !ok {
		return "", fmt.Errorf("greeting without a version: %q", packet)
	}
	// MariaDB puts this in front of its version for old replicas.
	return strings.TrimPrefix(string(version), "5.5.5-"), nil
}

// sqlString writes a string constant.
func sqlString(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `''`, "\n", `\n`, "\r", `\r`, "\x00", `\0`).Replace(s) + "'"
}
