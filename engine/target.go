package engine

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A Target is a database as a URL: "sqlite:PATH?cache=16MB",
// "mariadb://USER@HOST:PORT/DB?socket=...", "null:".
type Target struct {
	// Scheme is the part before the first colon, lower case.
	Scheme string
	// User, Host and Path come from the //USER@HOST/PATH form, Host with its
	// port; Path alone from the form without slashes.
	User, Host, Path string
	// Query holds the options after the question mark.
	Query url.Values
}

// ParseTarget reads a target. It refuses a password in it, because command
// lines are public on a machine.
func ParseTarget(s string) (Target, error) {
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok || scheme == "" {
		return Target{}, Hinted(fmt.Errorf("target %q: no scheme", s),
			"sqlite:PATH, mariadb://USER@HOST/DB, mysql://USER@HOST/DB, sandbox:mariadb?memory=64MB or null:")
	}
	t := Target{Scheme: strings.ToLower(scheme)}
	if !strings.HasPrefix(rest, "//") {
		path, query, _ := strings.Cut(rest, "?")
		t.Path = path
		var err error
		if t.Query, err = url.ParseQuery(query); err != nil {
			return Target{}, fmt.Errorf("target %q: options: %w", s, err)
		}
		return t, nil
	}
	u, err := url.Parse(s)
	if err != nil {
		// url.Error repeats the whole URL, which may hold a password.
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return Target{}, fmt.Errorf("target of scheme %s: %w", t.Scheme, err)
	}
	if _, has := u.User.Password(); has {
		return Target{}, Hinted(fmt.Errorf("target %s://...: a password on the command line can be read by everybody on the machine", t.Scheme),
			"MYSQL_PWD, ~/.my.cnf, or ?password-file=FILE")
	}
	t.User, t.Host, t.Path = u.User.Username(), u.Host, strings.TrimPrefix(u.Path, "/")
	if t.Query, err = url.ParseQuery(u.RawQuery); err != nil {
		return Target{}, fmt.Errorf("target %q: options: %w", s, err)
	}
	return t, nil
}

// String returns the target as it may be printed and recorded.
func (t Target) String() string {
	var b strings.Builder
	b.WriteString(t.Scheme + ":")
	if t.Host != "" || t.User != "" {
		b.WriteString("//")
		if t.User != "" {
			b.WriteString(url.User(t.User).String() + "@")
		}
		b.WriteString(t.Host + "/")
	}
	b.WriteString(t.Path)
	sep := "?"
	for _, k := range slices.Sorted(maps.Keys(t.Query)) {
		for _, v := range t.Query[k] {
			// A path or a size reads better unescaped; & and # must not be.
			v = strings.NewReplacer("%", "%25", "&", "%26", "#", "%23", " ", "%20", "+", "%2B").Replace(v)
			b.WriteString(sep + url.QueryEscape(k) + "=" + v)
			sep = "&"
		}
	}
	return b.String()
}

// Options checks that the target has no other options than the named ones.
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

// Choice returns an option that must be one of the allowed values, or the
// first of them when it isn't given.
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

// Bytes returns an option that is a size, or def when it isn't given.
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

// ParseBytes reads a size: a number with K, M, G or T, with or without B or
// iB. All of them are powers of 1024, as in MySQL's settings.
func ParseBytes(s string) (int64, error) {
	text := strings.TrimSuffix(strings.ToUpper(strings.TrimSpace(s)), "B")
	text = strings.TrimSuffix(text, "I")
	shift := 0
	if n := len(text); n > 0 {
		if i := strings.IndexByte("KMGT", text[n-1]); i >= 0 {
			shift, text = 10*(i+1), text[:n-1]
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > (1<<62)>>shift {
		return 0, fmt.Errorf("size %q: want a number with K, M, G or T, such as 64M", s)
	}
	return n << shift, nil
}
