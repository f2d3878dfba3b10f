package target

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/rowmill/rowmill/internal/engine"
)

// A dataDir is what rowmill knows of the data directories of a kind of server.
type dataDir struct {
	mark    string   // a file at its top that other kinds don't have
	schemes []string // of its server's URL
	// skip are files that a copy must not have: they belong to one server or its process.
	skip []string
	// running returns an error if a server uses the directory.
	running func(dir string) error
	// replica makes a copy start as a replica of a server. It returns what the user still has
	// to do, one line for each task.
	replica func(dir string, of engine.Target) ([]string, error)
}

// backupInfos are the files in which a backup of MariaDB has its position.
var backupInfos = []string{"mariadb_backup_binlog_info", "xtrabackup_binlog_info"}

// dataDirs are the kinds of data directories.
func dataDirs() []dataDir {
	return []dataDir{
		{"PG_VERSION", []string{"postgres", "postgresql"}, []string{"postmaster.pid", "postmaster.opts"}, runningPostgres, replicaPostgres},
		{"ibdata1", []string{"mariadb", "mysql"}, []string{"auto.cnf", replicaSQL}, runningMySQL, replicaMySQL},
	}
}

func dataDirOf(dir string) (dataDir, bool) {
	for _, d := range dataDirs() {
		if info, err := os.Stat(filepath.Join(dir, d.mark)); err == nil && info.Mode().IsRegular() {
			return d, true
		}
	}
	return dataDir{}, false
}

// Stopped returns the files of a data directory that must not be copied. It returns an error if a
// server uses the directory. known is false if dir isn't the data directory of a server.
func Stopped(dir string) (skip []string, known bool, err error) {
	d, ok := dataDirOf(dir)
	if !ok {
		return nil, false, nil
	}
	if err := d.running(dir); err != nil {
		return nil, true, engine.Hinted(fmt.Errorf("%s: %w", dir, err), "stop the server, or its URL in place of the directory")
	}
	return d.skip, true, nil
}

// MakeReplica prepares the copied data directory dir to start as a replica. of is the URL of the
// source, or "". MakeReplica returns what the user still has to do, one line for each task.
func MakeReplica(dir, of string) ([]string, error) {
	d, ok := dataDirOf(dir)
	if !ok {
		return nil, nil
	}
	var t engine.Target
	if of != "" {
		p, err := parse(of)
		if err != nil {
			return nil, err
		}
		if t = p.Target; !slices.Contains(d.schemes, t.Scheme) {
			return nil, engine.Hinted(fmt.Errorf("--replica-of %s: the copy in %s is of another kind of server, and is not made a replica", t, dir), "--replica-of %s://USER@HOST/, with the same send again", d.schemes[0])
		}
	}
	return d.replica(dir, t)
}

func runningPostgres(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "postmaster.pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, bad := strconv.Atoi(strings.TrimSpace(line))
	if err := errors.Join(err, bad); err != nil {
		return err
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("a server uses it: postmaster.pid names process %d, which runs", pid)
	}
	return nil
}

// runningMySQL asks for the locks that a server holds on its files.
func runningMySQL(dir string) error {
	for _, name := range []string{"ibdata1", "aria_log_control"} {
		f, err := os.Open(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		lock := syscall.Flock_t{Type: syscall.F_RDLCK}
		err = syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &lock)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		if lock.Type != syscall.F_UNLCK {
			return fmt.Errorf("a server uses it: %s is locked by process %d", name, lock.Pid)
		}
	}
	return nil
}

// replicaPostgres makes a copy a standby, unless no primary is given.
func replicaPostgres(dir string, of engine.Target) ([]string, error) {
	if of.Scheme == "" {
		return nil, nil
	}
	f, err := os.OpenFile(filepath.Join(dir, "postgresql.auto.conf"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(f, "\n# by rowmill copy receive --replica-of\nprimary_conninfo = '%s'\n", strings.ReplaceAll(connInfo(of), "'", "''"))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	left := []string{"start the server on " + dir + ": it is a standby of " + of.String(),
		"the password of " + of.User + " is not in it: it belongs in the .pgpass file of the server's account"}
	return left, os.WriteFile(filepath.Join(dir, "standby.signal"), nil, 0o600)
}

// connInfo returns the connection string of a target, without a password.
func connInfo(t engine.Target) string {
	host, port := split(t, "5432")
	if dir := t.Query.Get("host"); dir != "" {
		host = dir
	}
	if p := t.Query.Get("port"); p != "" {
		port = p
	}
	text := fmt.Sprintf("host=%s port=%s user=%s", connValue(host), connValue(port), connValue(t.User))
	for _, o := range []string{"sslmode", "sslrootcert", "sslcert", "sslkey"} {
		if v := t.Query.Get(o); v != "" {
			text += " " + o + "=" + connValue(v)
		}
	}
	return text
}

// connValue quotes a value of a connection string.
func connValue(v string) string {
	if v != "" && !strings.ContainsAny(v, ` '\`) {
		return v
	}
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v) + "'"
}

// split returns the host and the port of a target.
func split(t engine.Target, port string) (string, string) {
	if host, p, err := net.SplitHostPort(t.Host); err == nil {
		return host, p
	}
	return strings.Trim(t.Host, "[]"), port
}

// replicaSQL is the file with the statements that make a copy a replica.
const replicaSQL = "rowmill-replica.sql"

// replicaMySQL writes a file with the statements that start replication at the copy's position. If
// the position is unknown, it writes no file, and returns a line that says so.
func replicaMySQL(dir string, of engine.Target) ([]string, error) {
	if err := os.Remove(filepath.Join(dir, "auto.cnf")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	at, err := positionOf(dir)
	if err != nil || at.file == "" {
		return []string{"it can't become a replica: the source kept no binary log in its directory"}, err
	}
	host, port := "SOURCE", "3306"
	user := "REPLICATION_USER"
	if of.Scheme != "" {
		host, port = split(of, port)
		user = of.User
	}
	mariadb := isFile(filepath.Join(dir, "aria_log_control"))
	change, word, replica := "CHANGE REPLICATION SOURCE TO", "SOURCE", "REPLICA"
	if mariadb || strings.HasPrefix(at.version, "5.") || olderWords.MatchString(at.version) {
		change, word, replica = "CHANGE MASTER TO", "MASTER", "SLAVE"
	}
	var b strings.Builder
	b.WriteString("-- Give the server a server_id of its own, other than its source's, start it, and then run this.\n")
	where := fmt.Sprintf("%[1]s_LOG_FILE = '%[2]s', %[1]s_LOG_POS = %[3]d", word, at.file, at.pos)
	switch {
	case mariadb && at.gtid != "":
		fmt.Fprintf(&b, "SET GLOBAL gtid_slave_pos = %s;\n", sqlText(at.gtid))
		where = "MASTER_USE_GTID = slave_pos"
	case mariadb:
		where += ", MASTER_USE_GTID = no"
	case !strings.HasPrefix(at.version, "5."): // encrypts the password on a connection without TLS
		where += ", GET_" + word + "_PUBLIC_KEY = 1"
	}
	fmt.Fprintf(&b, "%[1]s\n  %[2]s_HOST = %[3]s, %[2]s_PORT = %[4]s, %[2]s_USER = %[5]s,\n  %[2]s_PASSWORD = 'PASSWORD',\n  %[6]s;\nSTART %[7]s;\n",
		change, word, sqlText(host), port, sqlText(user), where, replica)
	path := filepath.Join(dir, replicaSQL)
	for _, name := range backupInfos { // else a copy of this copy would take it for its own position
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return []string{path + " has the statements that start it as a replica; its server_id must differ from its source's"}, os.WriteFile(path, []byte(b.String()), 0o600)
}

// olderWords matches MySQL 8.0 before 8.0.23, whose statements need MASTER and SLAVE.
var olderWords = regexp.MustCompile(`^8\.0\.(1?[0-9]|2[0-2])\b`)

func sqlText(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(s) + "'"
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// A logPosition is a place in a source's binary log.
type logPosition struct {
	file string
	pos  int64
	gtid string // MariaDB's, empty if unknown
	// version is the server's that wrote the log, empty if unknown.
	version string
}

// A binary log begins with four bytes and then an event. The event consists of a header of 19
// bytes, the format's version in two bytes, the server's version in 50, and more.
const (
	versionAt    = 4 + 19 + 2
	versionBytes = 50
)

// versionOf returns the version of the server that wrote a log, or other text if the log is
// encrypted.
func versionOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var text [versionBytes]byte
	n, err := f.ReadAt(text[:], versionAt)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	version, _, _ := strings.Cut(string(text[:n]), "\x00")
	return version, err
}

// positionOf returns the position of a copy. The copy of a stopped server has binary logs, and its
// position is the end of the last one. A backup has no logs; its position is in a file that the
// backup program wrote. If there is neither, the position returned has no file name.
func positionOf(dir string) (logPosition, error) {
	at, err := endOfLog(dir)
	if err != nil || at.file != "" {
		return at, err
	}
	for _, name := range backupInfos {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		fields := strings.Fields(string(text)) // a set of GTIDs may span lines
		if err != nil || len(fields) < 2 {
			return logPosition{}, errors.Join(fmt.Errorf("%s has no position", name), err)
		}
		pos, err := strconv.ParseInt(fields[1], 10, 64)
		return logPosition{fields[0], pos, strings.Join(fields[2:], ""), ""}, err
	}
	return logPosition{}, nil
}

func endOfLog(dir string) (logPosition, error) {
	indexes, err := filepath.Glob(filepath.Join(dir, "*.index"))
	if err != nil {
		return logPosition{}, err
	}
	for _, index := range indexes {
		text, err := os.ReadFile(index)
		if err != nil {
			return logPosition{}, err
		}
		logs := strings.Fields(string(text))
		if len(logs) == 0 || strings.Contains(filepath.Base(index), "relay") {
			continue
		}
		last := filepath.Base(logs[len(logs)-1])
		info, err := os.Stat(filepath.Join(dir, last))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return logPosition{}, err
		}
		version, err := versionOf(filepath.Join(dir, last))
		return logPosition{file: last, pos: info.Size(), version: version}, err
	}
	return logPosition{}, nil
}
