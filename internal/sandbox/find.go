package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// find searches this machine for a server of the kind: the first one of the given version, or of
// any version if version is empty. If there is none, the error wraps ErrNotInstalled and says what
// to do.
func (k *kind) find(ctx context.Context, version string) (binaries, error) {
	var versions []string
	var broken error
	for _, path := range k.places() {
		if !isProgram(path) {
			continue
		}
		bin, foreign, err := k.ask(ctx, path)
		switch {
		case foreign:
		case err != nil:
			broken = errors.Join(broken, err) // another program may do
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
	if len(versions) > 0 {
		return binaries{}, fmt.Errorf("find %s: %w; there is %s; %s", what, ErrNotInstalled, strings.Join(versions, ", "), k.hint)
	}
	return binaries{}, fmt.Errorf("find %s: %w; %s", what, ErrNotInstalled, k.hint)
}

func isProgram(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0
}

// isVersion reports whether a server's version, e.g. "9.7.4-2" or "11.8.9-MariaDB-4", is the wanted
// one, which may be shorter: "9", "9.7" or "9.7.4".
func isVersion(version, wanted string) bool {
	rest, ok := strings.CutPrefix(version, wanted)
	return ok && (rest == "" || strings.IndexAny(rest, "0123456789") != 0)
}

// ask checks that a program is a server of this kind, and finds the program that installs its data
// directories. foreign says that it is a server of another kind.
func (k *kind) ask(ctx context.Context, path string) (bin binaries, foreign bool, err error) {
	out, err := exec.CommandContext(ctx, path, k.versionArgs...).Output()
	if err != nil {
		err = fmt.Errorf("ask %s for its version: %w", path, err)
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w%s", err, indentTail(string(exit.Stderr)))
		}
		if k.libraries != "" && strings.Contains(err.Error(), "shared libraries") {
			err = fmt.Errorf("%w; install what it needs, on Debian and Ubuntu with: apt install %s", err, k.libraries)
		}
		return binaries{}, false, err
	}
	said := strings.TrimSpace(string(out))
	_, version, _ := strings.Cut(said, k.versionMark)
	fields := strings.Fields(version)
	if len(fields) == 0 {
		return binaries{}, false, fmt.Errorf("ask %s for its version: unexpected answer %q", path, said)
	}
	if k.foreign != "" && strings.Contains(strings.ToLower(said), k.foreign) {
		return binaries{}, true, nil
	}
	bin = binaries{server: path, version: fields[0]}
	bin.installer, err = k.installer(path)
	return bin, false, err
}

func (k *kind) places() []string { return onPath(k.name, k.programs[0], k.dirs...) }

// onPath returns the paths where a program may be: in the directories of PATH, in dirs, and in the
// cache into which scripts/install.sh unpacks servers. dirs are patterns of directories that an
// ordinary user's PATH often lacks. In the cache, the lowest version comes first: so installing a
// newer version doesn't change which server is found.
func onPath(kind, program string, dirs ...string) []string {
	var places []string
	add := func(dirs ...string) {
		for _, dir := range dirs {
			if path := filepath.Join(dir, program); !slices.Contains(places, path) {
				places = append(places, path)
			}
		}
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		// Like a shell, this searches PATH; but it skips relative directories, because a program that
		// happens to be in the working directory must not run.
		if filepath.IsAbs(dir) {
			add(dir)
		}
	}
	for _, pattern := range dirs {
		found, _ := filepath.Glob(pattern) // these patterns are never malformed
		slices.SortStableFunc(found, func(a, b string) int { return compareVersions(b, a) })
		add(found...)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return places
	}
	homes, _ := filepath.Glob(filepath.Join(cache, "rowmill", kind+"-*"))
	slices.SortFunc(homes, func(a, b string) int { return compareVersions(filepath.Base(a), filepath.Base(b)) })
	for _, home := range homes {
		for _, below := range []string{"bin", "usr/sbin", "usr/lib/postgresql/*/bin"} {
			found, _ := filepath.Glob(filepath.Join(home, below))
			add(found...)
		}
	}
	return places
}

// compareVersions compares the numbers in strings: "mysql-8.0.15" is less than "mysql-10.1".
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
