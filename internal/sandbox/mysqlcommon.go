package sandbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Code shared by MariaDB and MySQL: most of their arguments, the file of
// statements that they read before they accept connections, and the greeting.

// reservedMySQL are the variables that both kinds refuse.
func reservedMySQL() map[string]string {
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
	return reserved
}

// versionMySQL runs a server's program to get its version: the version number,
// and the complete output.
func versionMySQL(ctx context.Context, server string) (version, said string, err error) {
	out, err := exec.CommandContext(ctx, server, "--no-defaults", "--version").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return "", "", fmt.Errorf("ask %s for its version: %w%s", server, err, indentTail(string(exit.Stderr)))
		}
		return "", "", fmt.Errorf("ask %s for its version: %w", server, err)
	}
	said = strings.TrimSpace(string(out))
	_, after, ok := strings.Cut(said, " Ver ")
	fields := strings.Fields(after)
	if !ok || len(fields) == 0 {
		return "", "", fmt.Errorf("ask %s for its version: unexpected answer %q", server, said)
	}
	return fields[0], said, nil
}

// userArg returns the argument that the server needs to run as root, which it
// otherwise refuses.
func userArg() []string {
	if os.Geteuid() == 0 {
		return []string{"--user=root"}
	}
	return nil
}

// Files that the server reads and writes when it starts: the statements in the
// sandbox, the settings in its tmp directory.
const (
	initFile     = "init.sql"
	settingsFile = "settings.tsv"
)

// portAccount is the account for connections to the port.
const portAccount = "'" + User + "'@'127.0.0.1'"

// writeInitFile writes the statements that the server executes before it accepts
// connections, each on one line. They create the database and, with the
// statements in account, the port's account, and write the values of the
// variables in names and of those that were set, from the view variables.
func writeInitFile(l *launch, account, variables string, names []string) error {
	names = slices.Concat(names, slices.Collect(maps.Keys(l.Set)))
	slices.Sort(names)
	var in []string
	for _, name := range slices.Compact(names) {
		in = append(in, sqlString(name))
	}
	out := settingsPath(l)
	if err := os.Remove(out); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var b strings.Builder
	// The statements below depend on no default that the variables of Set may
	// change.
	b.WriteString("SET SESSION sql_mode = '', autocommit = 1, completion_type = 'NO_CHAIN', sql_big_selects = 1 /*!80000 , max_execution_time = 0 */;\nSET SESSION TRANSACTION READ WRITE;\n")
	fmt.Fprintf(&b, "CREATE DATABASE IF NOT EXISTS %s;\n", Database)
	if account != "" {
		b.WriteString(account)
		fmt.Fprintf(&b, "GRANT ALL ON *.* TO %s WITH GRANT OPTION;\n", portAccount)
	}
	fmt.Fprintf(&b, "SELECT LOWER(VARIABLE_NAME), VARIABLE_VALUE FROM %s "+
		"WHERE VARIABLE_NAME IN (%s) INTO OUTFILE %s;\n", variables, strings.Join(in, ", "), sqlString(out))
	return os.WriteFile(filepath.Join(l.dir, initFile), []byte(b.String()), 0o600)
}

func settingsPath(l *launch) string { return filepath.Join(l.tmpDir, settingsFile) }

// readSettings reads the settings that the server wrote before it accepted
// connections.
func readSettings(l *launch) (map[string]string, error) {
	data, err := os.ReadFile(settingsPath(l))
	if err != nil {
		return nil, fmt.Errorf("read the server's settings: %w", err)
	}
	settings := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		settings[name] = value
	}
	return settings, nil
}

// flushAtCommit are the values of innodb_flush_log_at_trx_commit, and of the
// MyRocks variable with the same meaning.
var flushAtCommit = map[string]string{Full: "1", Relaxed: "2", None: "0"}

// argsCommon returns the arguments that both kinds accept.
func argsCommon(l *launch) []string {
	args := []string{"--no-defaults", "--datadir=" + l.dataDir}
	args = append(args, userArg()...)
	args = append(args,
		"--socket="+l.socket,
		"--pid-file="+filepath.Join(l.dir, pidFile),
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

// argsSet returns the variables of Options.Set as arguments. They come last and
// therefore take precedence.
func argsSet(l *launch) []string {
	var args []string
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

// greetMySQL reads the initial handshake packet of the MySQL protocol: 3 bytes
// of length, a sequence number, the protocol's version 10, and the server's
// version, terminated by a zero byte. See
// https://mariadb.com/kb/en/connection/#initial-handshake-packet.
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
	// A greeting has about 100 bytes.
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
	// MariaDB prepends this to its version for old replicas.
	return strings.TrimPrefix(string(version), "5.5.5-"), nil
}

// sqlString returns a string as an SQL literal.
func sqlString(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `''`, "\n", `\n`, "\r", `\r`, "\x00", `\0`).Replace(s) + "'"
}
