package ingest

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/textfile"
)

// A ReadOnceError is a source that can be read only once, with Options that need to read it
// again.
type ReadOnceError struct{ Source string }

func (e *ReadOnceError) Error() string {
	return "source " + e.Source + " isn't a file on disk: --again, --accept-missing, --lane publish and --lane merge need one that can be read again"
}

// Load loads a source; "" is the contents of the spool, "-" is stdin. A source that isn't
// a file on disk is read as a stream.
func Load(ctx context.Context, o Options, source string, stdin io.Reader) (Result, error) {
	switch source {
	case "":
		return Stream(ctx, o, nil)
	case "-":
		return Stream(ctx, o, stdin)
	}
	if info, err := os.Stat(source); err != nil || info.Mode().IsRegular() {
		return File(ctx, o, source)
	}
	if o.Again || o.AcceptMissing || o.Lane == Publish || o.Lane == Merge {
		return Result{}, &ReadOnceError{source}
	}
	in, err := textfile.Open(ctx, source)
	if err != nil {
		return Result{}, err
	}
	defer in.Close()
	if o.Format.Kind == "" {
		o.Format.Kind = KindOf(source)
	}
	if o.Name == "" {
		o.Name = source
	}
	return Stream(ctx, o, in)
}

// BadPaths returns the path of the file for the rejected rows of each source, in the
// working directory: the source's name and end. Sources of the same name in different
// directories get as much of their directories' names as tells them apart. Rows that come
// from no file have the name of the table.
func BadPaths(sources []string, table, end string) func(source string) string {
	paths, users := map[string]string{}, map[string][]string{}
	for _, s := range sources {
		name := table
		if s != "-" && s != "" {
			name = filepath.Base(s)
		}
		users[name] = append(users[name], s)
	}
	for name, all := range users {
		for _, s := range all {
			paths[s] = name + end
			if len(all) > 1 {
				paths[s] = apart(s, all) + end
			}
		}
	}
	return func(source string) string { return paths[source] }
}

// apart returns the shortest end of a source's path that no other of the sources has,
// with its directories joined to its name.
func apart(source string, all []string) string {
	ends := func(path string, n int) string {
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
		parts := strings.Split(strings.Trim(filepath.ToSlash(path), "/"), "/")
		return strings.Join(parts[max(len(parts)-n, 0):], "_")
	}
	for n := 2; ; n++ {
		mine, same := ends(source, n), 0
		for _, other := range all {
			if ends(other, n) == mine {
				same++
			}
		}
		if same <= 1 || mine == ends(source, n+1) {
			return mine
		}
	}
}

// ServerName returns the name of a table of a server's database as a source, by which it is
// recognised: without the user and the options that don't tell one database from another.
// printable is the target without its password.
func ServerName(printable, table string) (string, error) {
	t, err := engine.ParseTarget(printable)
	if err != nil {
		return "", err
	}
	t.User = ""
	for name := range t.Query {
		if name != "socket" && name != "host" {
			t.Query.Del(name)
		}
	}
	return t.String() + " " + table, nil
}
