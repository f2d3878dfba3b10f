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

// find looks for a server of the kind on this machine: without a version the
// first that there is, else the first of that version. Its error wraps
// ErrNotInstalled where there is none, and says which there are and what to do.
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
			// Another can be the one that is asked for.
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

// findNamed takes the program that the kind's variable names.
func (k *kind) findNamed(ctx context.Context, path string) (binaries, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return binaries{}, fmt.Errorf("%s: %w", k.variable, err)
	}
	if name := filepath.Base(path); !slices.Contains(k.programs, name) {
		// A process that is left over is known by it.
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

// isVersion reports whether a server's version, "9.7.4-2" or
// "11.8.9-MariaDB-4", is the one that is asked for, "9", "9.7" or "9.7.4".
func isVersion(version, wanted string) bool {
	rest, ok := strings.CutPrefix(version, wanted)
	return ok && (rest == "" || strings.IndexAny(rest, "0123456789") != 0)
}

// onPath returns where a program may be: in the directories of PATH, in dirs,
// because an ordinary user's PATH often lacks those of servers, and in those
// below the cache into which scripts/install.sh unpacks servers of the kind, the
// lowest version first: fetching a newer one doesn't change what is found.
func onPath(kind, program string, dirs ...string) []string {
	var places []string
	add := func(dir string) {
		if path := filepath.Join(dir, program); !slices.Contains(places, path) {
			places = append(places, path)
		}
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		// As the shell's, but for the working directory: what lies there by
		// chance is not to be run.
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
	// Such patterns are never malformed.
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

// compareVersions compares texts by the numbers in them: "mysql-8.0.15" is less
// than "mysql-10.1".
func compareVersions(a, b string) int {
	numbers := func(s string) []int {
		var all []int
		for _, field := range strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
			n, _ := strconv.Atoi(field) // one that is too large counts as 0
			all = append(all, n)
		}
		return all
	}
	return slices.Compare(numbers(a), numbers(b))
}

// homeArgs are the arguments by which a server of the MySQL family finds its
// messages, character sets and plug-ins where they lie beside it, as in an
// archive that was unpacked anywhere. One that a package has put below /usr
// knows where they are.
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

// homeOf returns the directory above the one of a server's program, or "" for
// /usr.
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
