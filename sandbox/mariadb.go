package sandbox

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// mariadb is MariaDB 10.4 and later, tested with 10.11.
func mariadb() *kind {
	return &kind{
		name:     "mariadb",
		scheme:   "mariadb",
		storages: []string{InnoDB, RocksDB},
		// InnoDB with its pages of 16 KiB refuses less than 6 MiB of memory,
		// and less than 4 MiB of redo log.
		minMemory:  6 << 20,
		minRedo:    4 << 20,
		reserved:   reservedMySQL(),
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
	version, _, err := versionMySQL(ctx, server)
	if err != nil {
		return binaries{}, err
	}
	return binaries{server: server, installer: installer, version: version}, nil
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
	args := append(argsCommon(l), "--innodb-log-file-size="+strconv.FormatInt(l.Redo, 10))
	pool := l.Memory
	if l.Storage == RocksDB {
		// InnoDB then only holds the server's own tables.
		pool = 16 << 20
		args = append(args,
			"--plugin-load-add=ha_rocksdb",
			"--default-storage-engine=rocksdb",
			"--rocksdb-block-cache-size="+strconv.FormatInt(l.Memory, 10),
			"--rocksdb-flush-log-at-trx-commit="+flushAtCommit[l.Durability],
			// As O_DIRECT for InnoDB: otherwise the kernel's page cache holds
			// what the block cache does not, and memory is no limit.
			"--rocksdb-use-direct-reads=ON",
			"--rocksdb-use-direct-io-for-flush-and-compaction=ON",
			// By default a server that was killed in the middle of a write to its
			// log refuses to start. This is recovery up to there: what was
			// synced before is complete.
			"--rocksdb-wal-recovery-mode=2",
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
	return append(args, argsSet(l)...)
}

// settingsMariaDB reads what the server wrote before it accepted connections.
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
