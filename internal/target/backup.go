package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/sqlite"
)

// A Backup is a planned backup of a running server or of an SQLite file.
type Backup struct {
	// Bytes is its approximate size, or 0 if unknown.
	Bytes    int64
	file     *engine.Target // of SQLite
	dir      string
	programs []*exec.Cmd
}

// PlanBackup plans a backup into directory dir; text is the target's URL. It chooses mariadb-backup
// or pg_basebackup for a server, and a copy by rowmill for an SQLite file. It returns an error if
// the server can't be reached, or if the programs are missing. It writes files with passwords only
// into the directory called private.
func PlanBackup(ctx context.Context, text, dir, private string) (*Backup, error) {
	p, err := parse(text)
	if err != nil {
		return nil, err
	}
	switch p.Scheme {
	case "sqlite":
		info, err := os.Stat(p.Path)
		if err != nil || !info.Mode().IsRegular() {
			return nil, errors.Join(fmt.Errorf("target %s: there is no such file", text), err)
		}
		return &Backup{Bytes: info.Size(), file: &p.Target, dir: dir}, nil
	case "sandbox", "null":
		return nil, fmt.Errorf("target %s has no data to copy", text)
	}
	if strings.Trim(p.Path, "/") == "" { // to ask for its version; all databases are backed up
		p.Path = map[bool]string{true: "postgres", false: "mysql"}[strings.HasPrefix(p.Scheme, "postgres")]
	}
	db, err := Connect(ctx, p.Target)
	if err != nil {
		return nil, err
	}
	info := db.Info()
	if err := db.Close(); err != nil {
		return nil, err
	}
	b := &Backup{}
	switch info.Engine {
	case "mariadb":
		b.programs, err = mariadbBackup(ctx, p.Target, dir, private)
	case "postgres":
		b.programs, err = postgresBackup(ctx, p.Target, info.Version, dir, private)
	default:
		err = engine.Hinted(fmt.Errorf("target %s: there is no program here that backs up a running MySQL server", p.Target), "its data directory, once the server is stopped")
	}
	return b, err
}

// Run makes the backup. note gets a line for each step. held is a locked file, which the programs
// inherit: the lock lasts until they end, even if this process is killed.
func (b *Backup) Run(ctx context.Context, held *os.File, note func(string)) error {
	if b.file != nil {
		return sqlite.Backup(ctx, *b.file, filepath.Join(b.dir, filepath.Base(b.file.Path)))
	}
	for _, c := range b.programs {
		note(strings.Join(c.Args, " "))
		c.ExtraFiles = []*os.File{held}
		if err := runProgram(c); err != nil {
			return err
		}
	}
	return nil
}

// runProgram runs a program. Its error has the last lines of the program's output.
func runProgram(c *exec.Cmd) error {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C reaches it through ctx alone
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	err := c.Run()
	if err == nil {
		return nil
	}
	err = fmt.Errorf("run %s: %w", c.Path, err)
	if said := strings.TrimSpace(out.String()); said != "" {
		lines := strings.Split(said, "\n")
		err = fmt.Errorf("%w; it says:\n  %s", err, strings.Join(lines[max(0, len(lines)-8):], "\n  "))
	}
	return err
}

// mariadbBackup returns the programs that back up a MariaDB server of this machine. The account
// that runs rowmill must be able to read the server's files.
func mariadbBackup(ctx context.Context, t engine.Target, dir, private string) ([]*exec.Cmd, error) {
	program, err := exec.LookPath("mariadb-backup")
	if err != nil {
		return nil, engine.Hinted(err, "apt-get install mariadb-backup, on the server's machine")
	}
	password, given, err := t.FilePassword(ctx)
	if err != nil {
		return nil, err
	}
	if env, ok := os.LookupEnv("MYSQL_PWD"); ok && !given {
		password, given = env, true
	}
	options := "[mariadb-backup]\n"
	if given {
		options += "password = \"" + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(password) + "\"\n"
	}
	file := filepath.Join(private, "options.cnf")
	if err := os.WriteFile(file, []byte(options), 0o600); err != nil {
		return nil, err
	}
	args := []string{"--defaults-extra-file=" + file, "--backup", "--target-dir=" + dir, "--user=" + t.User}
	if socket := t.Query.Get("socket"); socket != "" {
		args = append(args, "--socket="+socket)
	} else {
		host, port := split(t, "3306")
		args = append(args, "--host="+host, "--port="+port)
	}
	return []*exec.Cmd{exec.CommandContext(ctx, program, args...), exec.CommandContext(ctx, program, "--prepare", "--target-dir="+dir)}, nil
}

// postgresBackup returns programs of the server's version: one backs up a PostgreSQL server, the
// other checks the backup.
func postgresBackup(ctx context.Context, t engine.Target, version, dir, private string) ([]*exec.Cmd, error) {
	major, _, _ := strings.Cut(version, ".")
	var paths []string
	for _, name := range []string{"pg_basebackup", "pg_verifybackup"} {
		path := filepath.Join("/usr/lib/postgresql", major, "bin", name)
		if !isFile(path) {
			var err error
			if path, err = exec.LookPath(name); err != nil {
				return nil, engine.Hinted(err, "apt-get install postgresql-client-%s", major)
			}
		}
		paths = append(paths, path)
	}
	password, given, err := t.FilePassword(ctx)
	if err != nil {
		return nil, err
	}
	backup := exec.CommandContext(ctx, paths[0], "--pgdata="+dir, "--dbname="+connInfo(t), "--wal-method=stream", "--checkpoint=fast", "--no-password")
	if given {
		file := filepath.Join(private, "pgpass")
		line := "*:*:*:*:" + strings.NewReplacer(`\`, `\\`, ":", `\:`).Replace(password) + "\n"
		if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
			return nil, err
		}
		backup.Env = append(os.Environ(), "PGPASSFILE="+file)
	}
	return []*exec.Cmd{backup, exec.CommandContext(ctx, paths[1], "--quiet", dir)}, nil
}
