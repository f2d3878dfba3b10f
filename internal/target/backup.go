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

// Backup makes a backup of a running server in an empty directory, ready to be started: by mariadb-backup, by pg_basebackup,
// or of an SQLite file. note gets a line for each step.
func Backup(ctx context.Context, text, dir string, note func(string)) error {
	p, err := parse(text)
	if err != nil {
		return err
	}
	if p.Scheme == "sqlite" {
		if p.Path == "" {
			return errors.New("target sqlite: without a path is an empty file")
		}
		return sqlite.Backup(ctx, p.Target, filepath.Join(dir, filepath.Base(p.Path)))
	}
	if p.Scheme == "sandbox" || p.Scheme == "null" {
		return fmt.Errorf("target %s has no data to copy", text)
	}
	db, err := Connect(ctx, p.Target)
	if err != nil {
		return err
	}
	info := db.Info()
	if err := db.Close(); err != nil {
		return err
	}
	private, err := os.MkdirTemp("", "rowmill-copy-") // for passwords, 0700
	if err != nil {
		return err
	}
	var programs []*exec.Cmd
	switch info.Engine {
	case "mariadb":
		programs, err = mariadbBackup(ctx, p.Target, dir, private)
	case "postgres":
		programs, err = postgresBackup(ctx, p.Target, info.Version, dir, private)
	default:
		err = engine.Hinted(fmt.Errorf("target %s: there is no program here that backs up a running MySQL server", p.Target), "its data directory, once the server is stopped")
	}
	for _, c := range programs {
		if err != nil {
			break
		}
		note(strings.Join(c.Args, " "))
		err = runProgram(c)
	}
	return errors.Join(err, os.RemoveAll(private))
}

// runProgram runs a program of a server's packages. Its error has the end of what the program said.
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
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return fmt.Errorf("run %s: %w; it says:\n  %s", c.Path, err, strings.Join(lines[max(0, len(lines)-8):], "\n  "))
}

// mariadbBackup returns the programs that back up a MariaDB server of this machine. The account may read the server's files.
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

// postgresBackup returns the programs of the server's version that back up a PostgreSQL server, and check the backup.
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
