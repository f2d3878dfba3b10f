package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rowmill/rowmill/internal/textfile"
	"github.com/rowmill/rowmill/rolling"
)

// A Target is a database as a URL: "sqlite:PATH?cache=16MB",
// "mariadb://USER@HOST:PORT/DB?socket=...", "null:".
type Target struct {
	// Scheme is the part before the first colon, lower case.
	Scheme string
	// User, Host and Path come from a target //USER@HOST/PATH; Host includes the port. A target
	// without slashes sets only Path.
	User, Host, Path string
	Query            url.Values // the options after the question mark
}

// Errors of ParseTarget for which there is a remedy.
var (
	ErrNoScheme = errors.New("target: no scheme")
	// ErrPassword is for a target that has a password. No message repeats it.
	ErrPassword = errors.New("a password on the command line is visible to every user of the machine")
)

// ParseTarget reads a target. It refuses a target with a password, because every user of the
// machine can read command lines.
func ParseTarget(s string) (Target, error) {
	scheme, rest, ok := strings.Cut(s, ":")
	// The engine refuses an option with a password's name; see String.
	if rolling.HoldsPassword(s) {
		return Target{}, fmt.Errorf("target: %w", ErrPassword)
	}
	if !ok || !validScheme(scheme) {
		return Target{}, ErrNoScheme
	}
	t := Target{Scheme: strings.ToLower(scheme)}
	if !strings.HasPrefix(rest, "//") {
		path, query, _ := strings.Cut(rest, "?")
		t.Path = path
		var err error
		if t.Query, err = url.ParseQuery(query); err != nil {
			return Target{}, fmt.Errorf("target of scheme %s: options: %w", t.Scheme, err)
		}
		return t, t.checkValues()
	}
	u, err := url.Parse(s)
	if err != nil {
		// url.Error repeats the whole URL, and its cause a part of it: both may have a password.
		var ue *url.Error
		if errors.As(err, &ue) && !strings.Contains(s, "@") {
			return Target{}, fmt.Errorf("target of scheme %s: %w", t.Scheme, ue.Err)
		}
		return Target{}, Hinted(fmt.Errorf("target of scheme %s: it is not a URL", t.Scheme), "%s://USER@HOST:PORT/DB?OPTION=VALUE", t.Scheme)
	}
	if u.Fragment != "" {
		return Target{}, fmt.Errorf("target of scheme %s: write # as %%23", t.Scheme)
	}
	odd := func(r rune) bool {
		return r < '!' || r == 127 || strings.ContainsRune(`"'\/?#@<>^{|}`+"`", r) || r == utf8.RuneError
	}
	if strings.ContainsFunc(u.Host, odd) {
		return Target{}, fmt.Errorf("target of scheme %s: it has an invalid host name", t.Scheme)
	}
	if _, has := u.User.Password(); has {
		return Target{}, fmt.Errorf("target %s://...: %w", t.Scheme, ErrPassword)
	}
	t.User, t.Host, t.Path = u.User.Username(), u.Host, strings.TrimPrefix(u.Path, "/")
	if t.Query, err = url.ParseQuery(u.RawQuery); err != nil {
		return Target{}, fmt.Errorf("target of scheme %s: options: %w", t.Scheme, err)
	}
	return t, t.checkValues()
}

// checkValues refuses a password in the value of an option.
func (t Target) checkValues() error {
	for _, values := range t.Query {
		if slices.ContainsFunc(values, rolling.OptionHoldsPassword) {
			return fmt.Errorf("target of scheme %s: %w", t.Scheme, ErrPassword)
		}
	}
	return nil
}

func validScheme(s string) bool {
	for i, c := range []byte(s) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || strings.IndexByte("0123456789+-.", c) < 0) {
			return false
		}
	}
	return s != ""
}

// String returns the target in a form that may be printed and recorded, and that ParseTarget reads.
// It omits the value of an option with a password's name, which no engine accepts anyway.
func (t Target) String() string {
	local := t.Host == "" && t.User == ""
	text := t.Scheme + ":" + t.Path
	// Unless "//" precedes it, a path such as ":@p" would be read as a password.
	if !local || strings.HasPrefix(t.Path, "//") || strings.ContainsRune(t.Path, '?') || rolling.HoldsPassword(text) {
		u := url.URL{Scheme: t.Scheme, Host: t.Host, Path: "/" + t.Path}
		if t.User != "" {
			u.User = url.User(t.User)
		}
		text = u.String()
		if local { // package url is inconsistent about the slashes of an empty host
			text = t.Scheme + "://" + u.EscapedPath()
		}
	}
	sep := "?"
	for _, k := range slices.Sorted(maps.Keys(t.Query)) {
		for _, v := range t.Query[k] {
			if slices.Contains(secrets, strings.ToLower(k)) {
				v = "..."
			}
			text += sep + url.QueryEscape(k) + "=" + escapeValue(v)
			sep = "&"
		}
	}
	return text
}

// secrets are the usual names of options for a password.
var secrets = []string{"password", "passwd", "pass", "pwd", "secret", "token"}

// FilePassword returns the password, without the line end, from the file that the option
// password-file names. given is false if the option is not set.
func (t Target) FilePassword(ctx context.Context) (password string, given bool, err error) {
	file := t.Query.Get("password-file")
	if file == "" {
		return "", false, nil
	}
	text, err := textfile.ReadAny(ctx, file)
	if err != nil {
		return "", false, fmt.Errorf("target %s: password file: %w", t, err)
	}
	return strings.TrimRight(string(text), "\r\n"), true, nil
}

// escapeValue escapes an option's value, except characters that paths and sizes have.
func escapeValue(v string) string {
	var out []byte
	for _, c := range []byte(v) {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.~/:,@=*()", c) >= 0 {
			out = append(out, c)
		} else {
			out = fmt.Appendf(out, "%%%02X", c)
		}
	}
	return string(out)
}

// Options checks that the target has only the named options.
func (t Target) Options(allowed ...string) error {
	for _, k := range slices.Sorted(maps.Keys(t.Query)) {
		if !slices.Contains(allowed, k) {
			if len(allowed) == 0 {
				return fmt.Errorf("target %s: it takes no options, not %q", t, k)
			}
			return fmt.Errorf("target %s: no option %q; it takes %s", t, k, strings.Join(allowed, ", "))
		}
		if len(t.Query[k]) > 1 {
			return fmt.Errorf("target %s: option %q is given %d times", t, k, len(t.Query[k]))
		}
	}
	return nil
}

// Choice returns an option that must have one of the allowed values. If it isn't given, Choice
// returns the first of them.
func (t Target) Choice(name string, allowed ...string) (string, error) {
	if !t.Query.Has(name) {
		return allowed[0], nil
	}
	v := t.Query.Get(name)
	if !slices.Contains(allowed, v) {
		return "", fmt.Errorf("target %s: %s=%s; want %s", t, name, v, strings.Join(allowed, ", "))
	}
	return v, nil
}

// Bytes returns an option that is a size, or def if it isn't given.
func (t Target) Bytes(name string, def int64) (int64, error) {
	if !t.Query.Has(name) {
		return def, nil
	}
	n, err := ParseBytes(t.Query.Get(name))
	if err != nil {
		return 0, fmt.Errorf("target %s: %s: %w", t, name, err)
	}
	return n, nil
}

// ParseBytes reads a size: a number with K, M, G or T, which may be followed by B or iB. Each
// stands for a power of 1024, as in MySQL's settings.
func ParseBytes(s string) (int64, error) {
	text := strings.ToUpper(strings.TrimSpace(s))
	shift := 0
	unit, hasUnit := strings.CutSuffix(text, "IB")
	if !hasUnit {
		unit = strings.TrimSuffix(text, "B")
	}
	if n := len(unit); n > 0 {
		if i := strings.IndexByte("KMGT", unit[n-1]); i >= 0 {
			shift, text = 10*(i+1), unit[:n-1]
		} else if !hasUnit {
			text = unit
		}
	}
	n, err := strconv.ParseUint(text, 10, 62)
	if err != nil || n > (1<<62)>>shift {
		return 0, fmt.Errorf("size %q: want a number with K, M, G or T, such as 64M", s)
	}
	return int64(n << shift), nil
}
