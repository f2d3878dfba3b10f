package sandbox

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// templateRecipe is the version of the installation procedure. It must change
// with the procedure, so that templates of the old one are not used.
const templateRecipe = 1

// freshData fills dataDir, which must not exist, with a new data directory.
// Installing one takes seconds on a slow disk, so it is done once per server
// version, and the result is copied.
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
	// A directory with the final name is complete.
	if err := copyTree(ctx, template, dataDir+".new"); err != nil {
		return fmt.Errorf("copy data directory: %w", err)
	}
	return os.Rename(dataDir+".new", dataDir)
}

// templateDir returns the directory of templates: in the user's cache directory
// or, if there is none, in root.
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

// templateName returns a name that depends on the version, the build of that
// version, and the installation variables.
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

// buildTemplate installs a data directory under a temporary name, and renames it
// when it is complete. Only one process at a time builds templates, so temporary
// names found under the lock are leftovers.
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

// copyTree copies a directory with its modes. It refuses anything except regular
// files and directories, because data directories contain nothing else.
func copyTree(ctx context.Context, from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		fi, err := e.Info()
		if err != nil {
			return err
		}
		switch {
		case e.IsDir():
			return os.Mkdir(target, fi.Mode().Perm())
		case fi.Mode().IsRegular():
			return copyFile(path, target, fi.Mode().Perm())
		}
		return fmt.Errorf("%s is neither a file nor a directory", path)
	})
}

func copyFile(from, to string, mode fs.FileMode) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	// The kernel copies the data, or shares blocks if the file system supports it.
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
