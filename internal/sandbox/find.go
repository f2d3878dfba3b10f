package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// find searches this machine for a server of the kind: the first one of the given
// version, or the first of any if version is empty. If there is none, its error
// wraps ErrNotInstalled, and lists the versions found and the possible actions.
func (k *kind) find(ctx context.Context, version string) (binaries, error) {
	named := ""
	if k.variable != "" {
		named = os.Getenv(k.variable)
	}
	if named != "" {
		bin, err := k.findNamed(ctx, named)
		if err != nil || version == "" || isVersion(bin.version, version) {
			return bin, err
		}
	}
	var passed, versions []string
	var broken error
	for _, path := range k.places() {
		if !isProgram(path) {
			continue
		}
		bin, foreign, err := k.ask(ctx, path)
		switch {
		case foreign != "":
			passed = append(passed, path)
		case err != nil && version == "":
			return binaries{}, err
		case err != nil:
			// Another program may be of the requested version.
			broken = errors.Join(broken, err)
		case version == "" || isVersion(bin.version, version):
			return bin, nil
		case !slices.Contains(versions, bin.version):
			versions = append(versions, bin.version)
		}
	}
	if broken != nil {
		return binaries{}, broken
	}
	what := strings.TrimSpace(k.name + " " + version)
	if len(passed) > 0 {
		what += " (passed over as MariaDB: " + strings.Join(passed, ", ") + ")"
	}
	if len(versions) > 0 {
		return binaries{}, fmt.Errorf("find %s: %w; there is %s; %s", what, ErrNotInstalled, strings.Join(versions, ", "), k.hint)
	}
	return binaries{}, fmt.Errorf("find %s: %w; %s", what, ErrNotInstalled, k.hint)
}

// findNamed returns the program in the kind's environment variable.
func (k *kind) findNamed(ctx context.Context, path string) (binaries, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return binaries{}, fmt.Errorf("%s: %w", k.variable, err)
	}
	if name := filepath.Base(path); !slices.Contains(k.programs, name) {
		// Processes left over from earlier runs are identified by this name.
		return binaries{}, fmt.Errorf("%s: %s is not named %s; a symbolic link of that name will do", k.variable, path, k.programs[0])
	}
	bin, foreign, err := k.ask(ctx, path)
	switch {
	case foreign != "":
		return binaries{}, fmt.Errorf("%s: %s is no %s: it says %q", k.variable, path, k.name, foreign)
	case err != nil:
		return binaries{}, fmt.Errorf("%s: %w", k.variable, err)
	}
	return bin, nil
}

func isProgram(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0
}

// isVersion reports whether a server's version, such as "9.7.4-2" or
// "11.8.9-MariaDB-4", matches the requested one: "9", "9.7" or "9.7.4".
func isVersion(version, wanted string) bool {
	rest, ok := strings.CutPrefix(version, wanted)
	return ok && (rest == "" || strings.IndexAny(rest, "0123456789") != 0)
}

// onPath returns the paths where a program may be: in the directories of PATH;
// in dirs, because an ordinary user's PATH often lacks the servers' directories;
// and in the cache directories into which scripts/install.sh unpacks servers of
// the kind. These are sorted by version, lowest first, so that installing a
// newer version doesn't change which one is found.
func onPath(kind, program string, dirs ...string) []string {
	var places []string
	add := func(dir string) {
		if path := filepath.Join(dir, program); !slices.Contains(places, path) {
			places = append(places, path)
		}
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		// Like the shell, but without relative directories: a program that
		// happens to be in the working directory must not run.
		if filepath.IsAbs(dir) {
			add(dir)
		}
	}
	for _, dir := range dirs {
		add(dir)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return places
	}
	// These patterns are never malformed.
	homes, _ := filepath.Glob(filepath.Join(cache, "rowmill", kind+"-*"))
	slices.SortFunc(homes, func(a, b string) int { return compareVersions(filepath.Base(a), filepath.Base(b)) })
	for _, home := range homes {
		for _, below := range []string{"bin", "usr/sbin", "usr/lib/postgresql/*/bin"} {
			found, _ := filepath.Glob(filepath.Join(home, below))
			for _, dir := range found {
				add(dir)
			}
		}
	}
	return places
}

// compareVersions compares strings by the numbers in them: "mysql-8.0.15" is
// less than "mysql-10.1".
func compareVersions(a, b string) int {
	numbers := func(s string) []int {
		var all []int
		for _, field := range strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
			n, _ := strconv.Atoi(field) // a number that is too large counts as 0
			all = append(all, n)
		}
		return all
	}
	return slices.Compare(numbers(a), numbers(b))
}

// homeArgs are the arguments by which a server of the MySQL family finds its
// messages, character sets and plug-ins if they are installed beside it, as in
// an unpacked archive. A server that a package has installed below /usr finds
// them by itself.
func homeArgs(bin binaries) []string {
	home := homeOf(bin.server)
	if home == "" {
		return nil
	}
	var args []string
	if share := shareOf(home); share != "" {
		args = append(args, "--lc-messages-dir="+share, "--character-sets-dir="+filepath.Join(share, "charsets"))
	}
	if plugins := filepath.Join(home, "lib", "mysql", "plugin"); isDir(plugins) {
		args = append(args, "--basedir="+home, "--plugin-dir="+plugins)
	}
	return args
}

// homeOf returns the parent of the directory of a server's program, or "" if
// that is /usr.
func homeOf(server string) string {
	path, err := filepath.EvalSymlinks(server)
	if err != nil {
		return ""
	}
	home := filepath.Dir(filepath.Dir(path))
	if home == "/usr" {
		return ""
	}
	return home
}

// shareOf returns the directory of the messages below home, or "".
func shareOf(home string) string {
	for _, dir := range []string{"share", "share/mysql", "share/mariadb"} {
		share := filepath.Join(home, dir)
		if _, err := os.Stat(filepath.Join(share, "english", "errmsg.sys")); err == nil {
			return share
		}
	}
	return ""
}

func isDir(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}
