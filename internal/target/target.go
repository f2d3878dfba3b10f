// Package target opens what a target's URL names: an engine's database, a temporary file, a private
// server, or, for a dry run, a dialect that only renders statements.
//
// The input is a target's text, such as "mysql://USER@HOST/DB" or "sandbox:mariadb?memory=64MB";
// the result is a DB with a list of nodes. Only this package knows which engine serves which
// scheme. Some functions only read the text and open nothing: they tell whether the target is
// private, and how much memory it has.
//
//	db, err := target.Open(ctx, "sqlite:", log.Print)
//	defer db.Close()
package target

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/sandbox"
)

// schemes lists the kinds of targets, for messages.
const schemes = "sqlite:PATH, mariadb://USER@HOST/DB, mysql://USER@HOST/DB, postgres://USER@HOST/DB, sandbox:mariadb?memory=64MB, sandbox:mysql, sandbox:postgres, null:"

// passwords lists where passwords are read from.
const passwords = "?password-file=FILE, or MYSQL_PWD and ~/.my.cnf, PGPASSWORD and ~/.pgpass"

// Default is the target of benchmarks: a temporary file.
const Default = "sqlite:"

// DefaultServer is the target of a scenario that names none.
const DefaultServer = "sandbox:mariadb"

// ExampleServer is a private server's target, quoted for a shell, for hints.
const ExampleServer = "'sandbox:mariadb?memory=64MB'"

// ExampleReplicas is the target of a private server with a replica.
const ExampleReplicas = "'sandbox:mariadb?replicas=1'"

// ExampleDurable is the target of a private server that loses nothing that was acknowledged.
const ExampleDurable = "'sandbox:mariadb?durability=full'"

// DeclareHint is the hint for a declaration without a target.
const DeclareHint = "target = \"mysql://USER@HOST/DB\" below [table], or --target URL"

// Help explains a --target flag.
const Help = "`URL` of the database:" + `
sqlite:PATH (no PATH: a temporary file), null: (accepts and counts),
mariadb://USER@HOST:PORT/DB, mysql://USER@HOST:PORT/DB,
postgres://USER@HOST:PORT/DB (as libpq: ?host=DIR for a socket),
sandbox:mariadb?memory=64MB, sandbox:mysql?..., sandbox:postgres?...
(a private server for this run)`

// A parsed is a parsed target, with options if it is a private server.
type parsed struct {
	engine.Target
	options sandbox.Options
}

func parse(text string) (p parsed, err error) {
	if text == "sandbox" || strings.HasPrefix(text, "sandbox:") {
		p.Scheme = "sandbox"
		p.options, err = sandbox.ParseTarget(text)
		return p, err
	}
	p.Target, err = engine.ParseTarget(text)
	switch {
	case errors.Is(err, engine.ErrNoScheme):
		return p, engine.Hinted(err, "%s", schemes)
	case errors.Is(err, engine.ErrPassword):
		return p, engine.Hinted(err, "%s", passwords)
	case err != nil:
		return p, err
	}
	switch p.Scheme {
	case "sqlite", "mysql", "mariadb", "postgres", "postgresql", "null":
		return p, nil
	}
	return p, engine.Hinted(fmt.Errorf("target: unknown scheme %q", p.Scheme), "%s", schemes)
}

// Check refuses a target that no engine can open.
func Check(text string) error {
	_, err := parse(text)
	return err
}

// Private reports whether a target is created for the run and removed afterwards, so
// that no one else uses it.
func Private(text string) bool {
	p, err := parse(text)
	switch {
	case err != nil:
		return false
	case p.Scheme == "sandbox":
		return p.options.Keep == ""
	case p.Scheme == "sqlite":
		return p.Path == ""
	}
	return p.Scheme == "null"
}

// StartsServer reports whether opening the target starts a private server.
func StartsServer(text string) bool {
	p, err := parse(text)
	return err == nil && p.Scheme == "sandbox"
}

// Stores reports whether the target stores the rows that it accepts.
func Stores(text string) bool {
	p, err := parse(text)
	return err == nil && p.Scheme != "null"
}

// Place returns the file or directory of this machine in which the target's data
// remain, "" for a private target and for an existing server.
func Place(text string) string {
	p, err := parse(text)
	switch {
	case err != nil:
		return ""
	case p.Scheme == "sandbox":
		return p.options.Keep
	case p.Scheme == "sqlite":
		return p.Path
	}
	return ""
}

// Host returns where a target's existing server listens, for messages; "" for a target
// that needs no server, or starts its own.
func Host(text string) string {
	p, err := parse(text)
	if err != nil || p.Scheme == "sandbox" || p.Scheme == "sqlite" || p.Scheme == "null" {
		return ""
	}
	return cmp.Or(p.Host, "the target's socket")
}

// ServerOf names the server that does the work of a target; for all files that is this process.
func ServerOf(text string) string {
	if p, err := parse(text); err == nil && p.Scheme == "sqlite" {
		return p.Scheme
	}
	return text
}

// MissingFile returns the path of the file that opening the target would create. It returns "" if
// the file exists, or if not even its directory exists.
func MissingFile(text string) string {
	p, err := parse(text)
	if err != nil || p.Scheme != "sqlite" || p.Path == "" || p.Host != "" {
		return ""
	}
	if _, err := os.Stat(p.Path); !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if _, err := os.Stat(filepath.Dir(p.Path)); err != nil {
		return ""
	}
	return p.Path
}

// Temporary returns the target of a temporary file with the options of a target that names a file.
func Temporary(text string) string {
	if _, options, ok := strings.Cut(text, "?"); ok {
		return Default + "?" + options
	}
	return Default
}

// Durability reports whether the target's durability can be an option of its text, and
// whether the text has it.
func Durability(text string) (settable, given bool) {
	p, err := parse(text)
	switch {
	case err != nil:
		return false, false
	case p.Scheme == "sandbox":
		return true, p.options.Durability != ""
	}
	return p.Scheme == "sqlite", p.Query.Has("durability")
}

// WithDurability adds a durability to a target that supports one and doesn't specify
// it. An empty durability changes nothing.
func WithDurability(text, durability string) (string, error) {
	if durability == "" {
		return text, nil
	}
	return withParameter(text, "durability", durability, func(o *sandbox.Options) bool { return fill(&o.Durability, durability) })
}

// WithMemory adds memory, in bytes, to a target that supports a memory setting and
// doesn't specify it.
func WithMemory(text string, bytes int64) (string, error) {
	return withParameter(text, "cache", fmt.Sprint(bytes), func(o *sandbox.Options) bool { return fill(&o.Memory, bytes) })
}

// fill sets an option that isn't set, and reports whether it did.
func fill[T comparable](option *T, value T) bool {
	if *option != *new(T) {
		return false
	}
	*option = value
	return true
}

// withParameter sets a parameter that a private server's options or a file's query don't have.
func withParameter(text, key, value string, set func(*sandbox.Options) bool) (string, error) {
	p, err := parse(text)
	switch {
	case err != nil:
		return text, err
	case p.Scheme == "sandbox" && set(&p.options):
		return p.options.Target(), nil
	case p.Scheme == "sqlite" && !p.Query.Has(key):
		base, query, _ := strings.Cut(text, "?")
		if query != "" {
			query += "&"
		}
		return base + "?" + query + key + "=" + url.QueryEscape(value), nil
	}
	return text, nil
}

// MemoryFloor returns the least memory that WithMemory may give a target, and the unit of which the
// memory is a multiple, both in bytes. ok is false if the target has no memory setting, or if its
// text specifies the memory already.
func MemoryFloor(text string) (least, unit int64, ok bool) {
	p, err := parse(text)
	switch {
	case err != nil:
		return 0, 0, false
	case p.Scheme == "sandbox" && p.options.Memory == 0:
		return sandbox.MinMemory(p.options.Kind), 1 << 20, true
	case p.Scheme == "sqlite":
		return 64 << 10, 1 << 10, !p.Query.Has("cache")
	}
	return 0, 0, false
}

// A Setting is a variable of a server, or an option of a file's target.
type Setting struct{ Name, Value string }

func (s Setting) String() string { return s.Name + "=" + s.Value }

// WithOption sets an option of a target's URL.
func WithOption(text string, o Setting) (string, error) {
	base, query, _ := strings.Cut(text, "?")
	var others []string
	for part := range strings.SplitSeq(query, "&") {
		if key, _, _ := strings.Cut(part, "="); part != "" && key != o.Name {
			others = append(others, part)
		}
	}
	text = base + "?" + strings.Join(append(others, o.String()), "&")
	_, err := Dry(text)
	return text, err
}

// WithSetting adds a setting to a target: a variable of a private server, or an option of a file's
// target.
func WithSetting(text string, s Setting) (string, error) {
	p, err := parse(text)
	switch {
	case err != nil:
		return "", err
	case p.Scheme != "sandbox":
		return WithOption(text, s)
	}
	o := p.options
	if o.Set == nil {
		o.Set = map[string]string{}
	}
	o.Set[strings.ReplaceAll(strings.ToLower(s.Name), "-", "_")] = s.Value
	return o.Target(), o.Validate()
}
