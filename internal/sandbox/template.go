package sandbox

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// templateRecipe is the version of the installation; templates of other versions are not used.
const templateRecipe = 1

// freshData fills dataDir, which must not exist, by copying a template. An installation takes
// seconds on a slow disk, so each version of a server is installed only once, into a template.
func freshData(ctx context.Context, k *kind, bin binaries, root, dataDir string, logf func(string, ...any)) error {
	templates, err := templateDir(root)
	if err != nil {
		return err
	}
	name, err := templateName(k, bin)
	if err != nil {
		return err
	}
	template := filepath.Join(templates, name)
	if _, err := os.Stat(template); errors.Is(err, fs.ErrNotExist) {
		if err := buildTemplate(ctx, k, bin, template, logf); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	// Only a complete copy gets its final name.
	copied := dataDir + ".new"
	if err := os.CopyFS(copied, os.DirFS(template)); err != nil {
		return fmt.Errorf("copy data directory: %w", err)
	}
	// The files are readable to all, but their directory isn't.
	if err := os.Chmod(copied, 0o700); err != nil {
		return err
	}
	return os.Rename(copied, dataDir)
}

// templateDir returns the directory of templates: in the user's cache or, if there is none, in
// root.
func templateDir(root string) (string, error) {
	dir := filepath.Join(root, "templates")
	if cache, err := os.UserCacheDir(); err == nil {
		dir = filepath.Join(cache, "rowmill", "templates")
		if os.MkdirAll(dir, 0o700) == nil && ownDirectory(dir) == nil {
			return dir, nil
		}
		dir = filepath.Join(root, "templates")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return dir, ownDirectory(dir)
}

func templateName(k *kind, bin binaries) (string, error) {
	h := fnv.New64a()
	fmt.Fprintln(h, templateRecipe)
	for _, path := range []string{bin.server, bin.installer} {
		fi, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(h, path, fi.Size(), fi.ModTime().UnixNano())
	}
	for _, arg := range bin.installArgs {
		fmt.Fprintln(h, arg)
	}
	version := strings.Map(func(r rune) rune {
		if r == '/' || r < ' ' {
			return '_'
		}
		return r
	}, bin.version)
	return fmt.Sprintf("%s-%s-%016x", k.name, version, h.Sum64()), nil
}

// buildTemplate installs a data directory under a temporary name, and renames it when it is
// complete. Only one process at a time builds templates, so temporary names that it finds are
// leftovers.
func buildTemplate(ctx context.Context, k *kind, bin binaries, template string, logf func(string, ...any)) error {
	dir := filepath.Dir(template)
	lock, err := waitLock(ctx, dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if _, err := os.Stat(template); err == nil {
		return nil // built by another process in the meantime
	}
	leftovers, err := filepath.Glob(filepath.Join(dir, "build-*"))
	if err != nil {
		return err
	}
	for _, left := range leftovers {
		if err := os.RemoveAll(left); err != nil {
			return err
		}
	}
	logf("installing a data directory of %s %s, once for this version", k.name, bin.version)
	build, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return err
	}
	start := time.Now()
	if err := k.install(ctx, bin, build); err != nil {
		return errors.Join(fmt.Errorf("install data directory: %w", err), os.RemoveAll(build))
	}
	if err := os.Rename(build, template); err != nil {
		return errors.Join(err, os.RemoveAll(build))
	}
	logf("installed it in %v", time.Since(start).Round(time.Millisecond))
	return nil
}
