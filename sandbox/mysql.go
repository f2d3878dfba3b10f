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
	"strconv"
	"strings"
)

// MySQLVariable is the environment variable that names the path of the mysqld
// to use, before any that is found.
const MySQLVariable = "ROWMILL_MYSQLD"

// mysqldName is the file name of the server, by which its process is known.
const mysqldName = "mysqld"

// mysql is MySQL 8.0 and later, tested with 8.0.15.
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
		// InnoDB with its pages of 16 KiB takes 5 MiB of memory at least, and
		// a redo log of 8 MiB.
		minMemory:  5 << 20,
		minRedo:    8 << 20,
		reserved:   reserved,
		programs:   []string{mysqldName},
		find:       findMySQL,
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
	"(in rowmill's source, scripts/install.sh mysql fetches one)"

// findMySQL looks for a mysqld where MySQLVariable says, on PATH, where
// packages put servers, and where scripts/install.sh puts the one that it
// fetches. MariaDB installs itself under that name, too: it is passed over.
func findMySQL(ctx context.Context) (binaries, error) {
	if path := os.Getenv(MySQLVariable); path != "" {
		path, err := filepath.Abs(path)
		if err != nil {
			return binaries{}, fmt.Errorf("%s: %w", MySQLVariable, err)
		}
		if filepath.Base(path) != mysqldName {
			// A process that is left over is known by it.
			return binaries{}, fmt.Errorf("%s: %s is not named %s; a symbolic link of that name will do", MySQLVariable, path, mysqldName)
		}
		bin, foreign, err := askMySQL(ctx, path)
		switch {
		case err != nil:
			return binaries{}, fmt.Errorf("%s: %w", MySQLVariable, err)
		case foreign != "":
			return binaries{}, fmt.Errorf("%s: %s is no MySQL: it says %q", MySQLVariable, path, foreign)
		}
		return bin, nil
	}
	var passed []string
	for _, path := range mysqldPlaces() {
		fi, err := os.Stat(path)
		if err != nil || !fi.Mode().IsRegular() || fi.Mode()&0o111 == 0 {
			continue
		}
		bin, foreign, err := askMySQL(ctx, path)
		if err != nil {
			return binaries{}, err
		}
		if foreign == "" {
			return bin, nil
		}
		passed = append(passed, path)
	}
	not := ""
	if len(passed) > 0 {
		not = fmt.Sprintf(" (passed over as MariaDB: %s)", strings.Join(passed, ", "))
	}
	return binaries{}, fmt.Errorf("find MySQL's mysqld%s: %w; %s", not, ErrNotInstalled, mysqlHint)
}

// mysqldPlaces are the paths where a mysqld may be, in order.
func mysqldPlaces() []string {
	var places []string
	add := func(dir string) {
		path, err := filepath.Abs(filepath.Join(cmp.Or(dir, "."), mysqldName))
		if err == nil && !slices.Contains(places, path) {
			places = append(places, path)
		}
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		// As the shell's, but for the working directory: what lies there by
		// chance is not to be run.
		if filepath.IsAbs(dir) {
			add(dir)
		}
	}
	for _, dir := range []string{"/usr/sbin", "/usr/libexec", "/usr/local/sbin", "/usr/local/bin", "/usr/local/mysql/bin", "/opt/homebrew/bin"} {
		add(dir)
	}
	if cache, err := os.UserCacheDir(); err == nil {
		// Such a pattern is never malformed.
		fetched, _ := filepath.Glob(filepath.Join(cache, "rowmill", "mysql-*", "bin"))
		slices.Reverse(fetched) // later versions first
		for _, dir := range fetched {
			add(dir)
		}
	}
	return places
}

// askMySQL makes sure that a program is MySQL; foreign is what another one says
// about itself.
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

// messagesArg names the directory of the server's messages where they lie
// beside it, as in an archive that was unpacked anywhere.
func messagesArg(bin binaries) []string {
	path, err := filepath.EvalSymlinks(bin.server)
	if err != nil {
		return nil
	}
	share := filepath.Join(filepath.Dir(filepath.Dir(path)), "share")
	if _, err := os.Stat(filepath.Join(share, "english", "errmsg.sys")); err != nil {
		return nil // the server knows where a package has put them
	}
	return []string{"--lc-messages-dir=" + share}
}

// redoArgs size the redo log: its capacity since MySQL 8.0.30, the size of each
// of its two files before. A server ignores the one that it doesn't know.
func redoArgs(redo int64) []string {
	return []string{
		"--loose-innodb-redo-log-capacity=" + strconv.FormatInt(redo, 10),
		"--loose-innodb-log-file-size=" + strconv.FormatInt(redo/2, 10),
		"--loose-innodb-log-files-in-group=2",
	}
}

// installMySQL creates the system tables. There is one account for people,
// root@localhost, and it is for the socket only, because the server does not
// resolve names.
func installMySQL(ctx context.Context, bin binaries, dir string) error {
	args := []string{"--no-defaults", "--initialize-insecure", "--datadir=" + dir, "--skip-log-bin"}
	args = append(args, userArg()...)
	args = append(args, messagesArg(bin)...)
	args = append(args, redoArgs(8<<20)...)
	install := commandInGroup(ctx, bin.installer, args...)
	if out, err := install.CombinedOutput(); err != nil {
		if ctx.Err() == nil {
			if why := explainMySQL(string(out)); why != nil {
				return why
			}
		}
		return fmt.Errorf("run %s: %w%s", bin.installer, causeOr(ctx, err), indentTail(string(out)))
	}
	// It holds the server's identity, of which each server makes its own.
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

// manyInstances is the buffer pool from which MySQL divides it into eight, each
// of which is a whole number of chunks.
const manyInstances = 1 << 30

func argsMySQL(l *launch) []string {
	args := append(argsCommon(l), messagesArg(l.bin)...)
	args = append(args, redoArgs(l.Redo)...)
	part := l.Memory
	if part >= manyInstances {
		part /= 8
	}
	args = append(args,
		"--innodb-buffer-pool-size="+strconv.FormatInt(l.Memory, 10),
		// The server rounds the pool up to whole chunks, by default of 128 MiB;
		// a chunk that divides it avoids that.
		"--innodb-buffer-pool-chunk-size="+strconv.FormatInt(max(gcd(part, 128<<20), 1<<20), 10),
		// The X protocol would listen on a port and a socket of its own.
		"--loose-mysqlx=OFF",
		// What costs nothing until it is asked for.
		"--loose-innodb-monitor-enable=log_lsn_checkpoint_age,log_max_modified_age_sync",
		// The settings are written there.
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

// profile confines the packaged mysqld on Ubuntu to the machine's own server's
// directories.
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
