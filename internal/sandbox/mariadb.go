package sandbox

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mariadb is MariaDB 10.4 and later, tested with 10.11 and 11.8.
func mariadb() *kind {
	return &kind{
		name:     "mariadb",
		scheme:   "mariadb",
		storages: []string{InnoDB, RocksDB},
		// InnoDB with pages of 16 KiB requires at least 6 MiB of memory and 4
		// MiB of redo log.
		minMemory:  6 << 20,
		minRedo:    4 << 20,
		reserved:   reservedMySQL(),
		programs:   []string{mariadbName, "mysqld"},
		places:     mariadbPlaces,
		ask:        askMariaDB,
		hint:       mariadbHint,
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

const mariadbHint = "install it, on Debian and Ubuntu with: apt install mariadb-server " +
	"(in rowmill's source, scripts/install.sh mariadb-new fetches 11.8)"

func mariadbPlaces() []string {
	return onPath("mariadb", mariadbName, "/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/bin", "/opt/homebrew/bin")
}

const mariadbName = "mariadbd"

// askMariaDB finds the program that creates the system tables. If the statements
// that mariadb-install-db reads are installed beside the server, that is the
// server itself, because the script needs further tools in the places where
// packages put them.
func askMariaDB(ctx context.Context, path string) (bin binaries, foreign string, err error) {
	version, _, err := versionMySQL(ctx, path)
	if err != nil {
		return binaries{}, "", err
	}
	bin = binaries{server: path, version: version}
	if home := homeOf(path); home != "" {
		if share := shareOf(home); share != "" && len(systemTables(share)) > 0 {
			bin.installer = path
			return bin, "", nil
		}
		if own := filepath.Join(home, "bin", mariadbInstaller); isProgram(own) {
			bin.installer = own
			return bin, "", nil
		}
	}
	for _, installer := range onPath("", mariadbInstaller, "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin") {
		if isProgram(installer) {
			bin.installer = installer
			return bin, "", nil
		}
	}
	return binaries{}, "", fmt.Errorf("find %s for %s: %w; %s", mariadbInstaller, path, ErrNotInstalled, mariadbHint)
}

const mariadbInstaller = "mariadb-install-db"

// systemTables returns the files of statements from which mariadb-install-db
// creates the system tables, in its order; none if one is missing.
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

// installMariaDB creates the system tables. It leaves only accounts for the
// socket: the installer's root@127.0.0.1 and root@HOSTNAME have no password.
func installMariaDB(ctx context.Context, bin binaries, dir string) error {
	common := append([]string{"--no-defaults", "--datadir=" + dir, "--innodb-log-file-size=4M", "--skip-log-bin"}, userArg()...)
	if bin.installer == bin.server {
		if err := tablesMariaDB(ctx, bin, common, dir); err != nil {
			return err
		}
	} else {
		install := commandInGroup(ctx, bin.installer, append(slices.Clone(common),
			"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve")...)
		if out, err := install.CombinedOutput(); err != nil {
			return fmt.Errorf("run %s: %w%s", bin.installer, causeOr(ctx, err), indentTail(string(out)))
		}
	}
	return bootstrapMariaDB(ctx, bin, common, strings.NewReader("DELETE FROM mysql.global_priv WHERE Host <> 'localhost';\n"+
		"DELETE FROM mysql.proxies_priv WHERE Host <> 'localhost';\n"))
}

// tablesMariaDB replaces mariadb-install-db, which calls tools that are not part
// of the server.
func tablesMariaDB(ctx context.Context, bin binaries, common []string, dir string) error {
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
	return bootstrapMariaDB(ctx, bin, common, io.MultiReader(parts...))
}

// bootstrapMariaDB makes a server execute statements on a data directory that no
// server uses.
func bootstrapMariaDB(ctx context.Context, bin binaries, common []string, statements io.Reader) error {
	server := commandInGroup(ctx, bin.server, slices.Concat(common, homeArgs(bin), []string{"--bootstrap"})...)
	server.Stdin = statements
	if out, err := server.CombinedOutput(); err != nil {
		return fmt.Errorf("run %s --bootstrap: %w%s", bin.server, causeOr(ctx, err), indentTail(string(out)))
	}
	return nil
}

// reported are the variables whose effective values are recorded.
var reported = []string{
	"version", "version_comment", "innodb_buffer_pool_size", "innodb_log_file_size", "innodb_flush_log_at_trx_commit",
	"innodb_flush_method", "innodb_doublewrite", "innodb_page_size", "sync_binlog", "log_bin", "default_storage_engine",
	"max_connections", "character_set_server", "collation_server", "performance_schema",
	"rocksdb_block_cache_size", "rocksdb_flush_log_at_trx_commit", "rocksdb_use_direct_reads",
	"rocksdb_use_direct_io_for_flush_and_compaction",
}

func prepareMariaDB(l *launch) error {
	var account string
	if l.port != 0 {
		account = fmt.Sprintf("CREATE OR REPLACE USER %s IDENTIFIED BY %s;\n", portAccount, sqlString(l.password))
	}
	return writeInitFile(l, account, "information_schema.GLOBAL_VARIABLES", reported)
}

func argsMariaDB(l *launch) []string {
	args := append(argsCommon(l), homeArgs(l.bin)...)
	args = append(args, "--innodb-log-file-size="+strconv.FormatInt(l.Redo, 10))
	pool := l.Memory
	if l.Storage == RocksDB {
		// InnoDB then contains only the server's own tables.
		pool = 16 << 20
		args = append(args,
			"--plugin-load-add=ha_rocksdb",
			"--default-storage-engine=rocksdb",
			"--rocksdb-block-cache-size="+strconv.FormatInt(l.Memory, 10),
			"--rocksdb-flush-log-at-trx-commit="+flushAtCommit[l.Durability],
			// Like O_DIRECT for InnoDB: otherwise the kernel's page cache holds the
			// pages that the block cache does not, and memory is not limited.
			"--rocksdb-use-direct-reads=ON",
			"--rocksdb-use-direct-io-for-flush-and-compaction=ON",
			// By default, a server that was killed during a write to its log
			// refuses to start. This setting recovers up to that write;
			// everything synced before it is complete.
			"--rocksdb-wal-recovery-mode=2",
			// Allows indexes on text with a collation that RocksDB can't restore
			// from the index, as InnoDB does.
			"--rocksdb-strict-collation-check=OFF",
		)
	}
	// Servers before 10.11.12 round the pool up to whole chunks, by default of
	// 128 MiB; a chunk size that divides the pool avoids that. Later ones have
	// no chunks.
	args = append(args,
		"--innodb-buffer-pool-size="+strconv.FormatInt(pool, 10),
		"--loose-innodb-buffer-pool-chunk-size="+strconv.FormatInt(gcd(pool, 128<<20), 10))
	return append(args, argsSet(l)...)
}

// settingsMariaDB reads the settings that the server wrote before it accepted
// connections.
func settingsMariaDB(l *launch) (map[string]string, error) {
	settings, err := readSettings(l)
	if err != nil {
		return nil, err
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
