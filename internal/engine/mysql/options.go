package mysql

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/textfile"
)

// options are a client's settings that are not in the target.
type options struct{ user, password string }

// clientOptions reads the user and the password if the target doesn't have them: first from
// ?password-file, then from MYSQL_PWD, then from ~/.my.cnf.
func clientOptions(ctx context.Context, t engine.Target) (options, error) {
	var o options
	if home, err := os.UserHomeDir(); err == nil {
		if o, err = readMyCnf(ctx, filepath.Join(home, ".my.cnf")); err != nil {
			return o, err
		}
	}
	if v, ok := os.LookupEnv("MYSQL_PWD"); ok {
		o.password = v
	}
	password, given, err := t.FilePassword(ctx)
	if given {
		o.password = password
	}
	return o, err
}

// readMyCnf reads user and password from the [client] groups of an option file. If the file doesn't
// exist, that is no error.
func readMyCnf(ctx context.Context, path string) (options, error) {
	var o options
	f, err := textfile.Open(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err != nil {
		return o, fmt.Errorf("read options: %w", err)
	}
	defer f.Close()
	group := ""
	in := bufio.NewScanner(f)
	for in.Scan() {
		line := strings.TrimSpace(in.Text())
		switch {
		case line == "" || line[0] == '#' || line[0] == ';' || line[0] == '!':
			continue
		case line[0] == '[':
			group = strings.Trim(line, "[] \t")
			continue
		case group != "client" && group != "client-server" && group != "client-mariadb":
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		value = unquoteOption(strings.TrimSpace(value))
		switch strings.TrimSpace(key) {
		case "user":
			o.user = value
		case "password":
			o.password = value
		}
	}
	if err := in.Err(); err != nil {
		return o, fmt.Errorf("read options %s: %w", path, err)
	}
	return o, nil
}

// unquoteOption removes the quotes of an option's value or, if it has no quotes, its comment.
func unquoteOption(v string) string {
	if len(v) >= 2 && (v[0] == '"' || v[0] == '\'') {
		if end := strings.IndexByte(v[1:], v[0]); end >= 0 {
			return v[1 : end+1]
		}
	}
	if i := strings.Index(v, " #"); i >= 0 {
		v = strings.TrimSpace(v[:i])
	}
	return v
}
