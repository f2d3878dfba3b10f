package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MySQLVariable is the environment variable with the path of the mysqld to use,
// which precedes any that is found.
const MySQLVariable = "ROWMILL_MYSQLD"

// mysqldName is the file name of the server, by which its process is identified.
const mysqldName = "mysqld"

// mysql is MySQL 8.0 and later, tested with 8.0.15 and 9.7.
func mysql() *kind {
	reserved := reservedMySQL()
	reserved["innodb_redo_log_capacity"] = "use redo="
	reserved["innodb_log_files_in_group"] = "use redo="
	reserved["innodb_dedicated_server"] = "use memory= and redo="
	for _, name := range []string{
		"basedir", "initialize", "initialize_insecure", "daemonize", "innodb_temp_tablespaces_dir", "innodb_doublewrite_dir",
		"innodb_directories", "mysqlx", "mysqlx_socket", "mysqlx_port", "mysqlx_bind_address", "admin_address", "admin_port",
	} {
		reserved[name] = "the sandbox chooses it"
	}
	return &kind{
		name:     "mysql",
		scheme:   "mysql",
		storages: []string{InnoDB},
		// InnoDB with pages of 16 KiB requires at least 5 MiB of memory, and a
		// redo log of 8 MiB.
		minMemory:  5 << 20,
		minRedo:    8 << 20,
		installed:  []string{"lower_case_table_names"},
		reserved:   reserved,
		programs:   []string{mysqldName},
		variable:   MySQLVariable,
		places:     mysqldPlaces,
		ask:        askMySQL,
		hint:       mysqlHint,
		install:    installMySQL,
		prepare:    prepareMySQL,
		args:       argsMySQL,
		dataDirArg: func(dataDir string) string { return "--datadir=" + dataDir },
		greet:      greetMySQL,
		settings:   settingsMySQL,
		explain:    explainMySQL,
		client: func(socket string) string {
			return "mysql --no-defaults --user=" + User + " --socket=" + shellQuote(socket) + " " + Database
		},
	}
}

const mysqlHint = "put the mysqld of MySQL 8.0 or later on PATH, or name it: " + MySQLVariable + "=/path/to/mysqld " +
	"(in rowmill's source, scripts/install.sh mysql fetches 8.0, scripts/install.sh mysql-new 9.7)"

// mysqldPlaces returns the paths where a mysqld may be. MariaDB uses that name,
// too: askMySQL distinguishes them.
func mysqldPlaces() []string {
	return onPath("mysql", mysqldName,
		"/usr/sbin", "/usr/libexec", "/usr/local/sbin", "/usr/local/bin", "/usr/local/mysql/bin", "/opt/homebrew/bin")
}

// askMySQL checks that a program is MySQL; foreign is the version output of
// another program.
func askMySQL(ctx context.Context, path string) (bin binaries, foreign string, err error) {
	version, said, err := versionMySQL(ctx, path)
	if err != nil {
		if strings.Contains(err.Error(), "shared libraries") {
			err = fmt.Errorf("%w; install what it needs, on Debian and Ubuntu with: apt install libaio1 libnuma1", err)
		}
		return binaries{}, "", err
	}
	if strings.Contains(strings.ToLower(said), "mariadb") {
		return binaries{}, said, nil
	}
	return binaries{server: path, installer: path, version: version}, "", nil
}

// redoArgs sets the size of the redo log: its capacity since MySQL 8.0.30, the
// size of each of its two files before. A server ignores the argument that it
// doesn't know.
func redoArgs(redo int64) []string {
	return []string{
		"--loose-innodb-redo-log-capacity=" + strconv.FormatInt(redo, 10),
		"--loose-innodb-log-file-size=" + strconv.FormatInt(redo/2, 10),
		"--loose-innodb-log-files-in-group=2",
	}
}

// installMySQL creates the system tables. The only account for users is
// root@localhost, and it is limited to the socket, because the server does not
// resolve names.
func installMySQL(ctx context.Context, bin binaries, dir string) error {
	args := []string{"--no-defaults", "--initialize-insecure", "--datadir=" + dir, "--skip-log-bin"}
	args = append(args, userArg()...)
	args = append(args, homeArgs(bin)...)
	args = append(args, redoArgs(8<<20)...)
	args = append(args, bin.installArgs...)
	install := commandInGroup(ctx, bin.installer, args...)
	if out, err := install.CombinedOutput(); err != nil {
		if ctx.Err() == nil {
			if why := explainMySQL(string(out)); why != nil {
				return why
			}
		}
		return fmt.Errorf("run %s: %w%s", bin.installer, causeOr(ctx, err), indentTail(string(out)))
	}
	// It contains the server's UUID, which must differ between servers.
	if err := os.Remove(filepath.Join(dir, "auto.cnf")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// reportedMySQL are the variables whose effective values are recorded.
var reportedMySQL = []string{
	"version", "version_comment", "innodb_buffer_pool_size", "innodb_buffer_pool_instances", "innodb_log_file_size",
	"innodb_log_files_in_group", "innodb_redo_log_capacity", "innodb_flush_log_at_trx_commit", "innodb_flush_method",
	"innodb_doublewrite", "innodb_page_size", "sync_binlog", "log_bin", "default_storage_engine", "max_connections",
	"character_set_server", "collation_server", "performance_schema",
}

func prepareMySQL(l *launch) error {
	var account string
	if l.port != 0 {
		account = fmt.Sprintf("DROP USER IF EXISTS %s;\nCREATE USER %[1]s IDENTIFIED BY %s;\n", portAccount, sqlString(l.password))
	}
	return writeInitFile(l, account, "performance_schema.global_variables", reportedMySQL)
}

// manyInstances is the size of the buffer pool from which MySQL divides it into
// eight instances, each of which is a whole number of chunks.
const manyInstances = 1 << 30

func argsMySQL(l *launch) []string {
	args := append(argsCommon(l), homeArgs(l.bin)...)
	args = append(args, redoArgs(l.Redo)...)
	part := l.Memory
	if part >= manyInstances {
		part /= 8
	}
	args = append(args,
		"--innodb-buffer-pool-size="+strconv.FormatInt(l.Memory, 10),
		// The server rounds the pool up to whole chunks, by default of 128 MiB;
		// a chunk size that divides it avoids that.
		"--innodb-buffer-pool-chunk-size="+strconv.FormatInt(max(gcd(part, 128<<20), 1<<20), 10),
		// The X protocol would listen on a separate port and socket.
		"--loose-mysqlx=OFF",
		// Counters that cost nothing until they are read.
		"--loose-innodb-monitor-enable=log_lsn_checkpoint_age,log_max_modified_age_sync",
		// The settings are written to this directory.
		"--secure-file-priv="+l.tmpDir,
	)
	return append(args, argsSet(l)...)
}

func settingsMySQL(l *launch) (map[string]string, error) {
	settings, err := readSettings(l)
	if err != nil {
		return nil, err
	}
	if got := settings["innodb_buffer_pool_size"]; got != strconv.FormatInt(l.Memory, 10) {
		return nil, fmt.Errorf("the server has made innodb_buffer_pool_size %s instead of the %d asked for; ask for memory=%s", got, l.Memory, got)
	}
	redo, err := redoOf(settings)
	if err != nil {
		return nil, err
	}
	if redo != l.Redo {
		return nil, fmt.Errorf("the server has made its redo log %d bytes instead of the %d asked for; ask for redo=%d", redo, l.Redo, redo)
	}
	return settings, nil
}

// redoOf returns the size of the redo log: see redoArgs.
func redoOf(settings map[string]string) (int64, error) {
	if text, ok := settings["innodb_redo_log_capacity"]; ok {
		return strconv.ParseInt(text, 10, 64)
	}
	size, err := strconv.ParseInt(settings["innodb_log_file_size"], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the size of the redo log: %w", err)
	}
	files, err := strconv.ParseInt(settings["innodb_log_files_in_group"], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the size of the redo log: %w", err)
	}
	return size * files, nil
}

// profile restricts the packaged mysqld on Ubuntu to the directories of the
// system's own server.
const profile = "/etc/apparmor.d/usr.sbin.mysqld"

func explainMySQL(log string) error {
	if !strings.Contains(log, "Errcode: 13") && !strings.Contains(log, "OS errno 13") {
		return nil
	}
	if _, err := os.Stat(profile); err != nil {
		return nil
	}
	return fmt.Errorf("the server may not use the sandbox's directory: the AppArmor profile %s confines it; "+
		"copy mysqld elsewhere and set %s to the copy%s", profile, MySQLVariable, indentTail(log))
}
