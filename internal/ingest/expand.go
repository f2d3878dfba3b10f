package ingest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest/format"
)

// Expanded are the sources that patterns and directories name.
type Expanded struct {
	// Sources are paths, each file once, in the order of the arguments. The sources of one argument
	// are sorted.
	Sources []string
	// Left are files in directories that are not loaded, with the reason. Twice are repeated files.
	Left, Twice []string
}

// ErrNoFiles is returned for a directory without files to load.
var ErrNoFiles = errors.New("no files")

// Expand returns the sources that arguments name: files, directories, patterns, and "-". In a
// directory it finds the files whose names imply a format or, with any = true, all files. It leaves
// out hidden files, unfinished ones and rowmill's own, unless an argument names the file.
func Expand(args []string, any bool) (Expanded, error) {
	e := &expander{any: any, seen: map[string]bool{}}
	for _, arg := range args {
		if err := e.add(arg); err != nil {
			return e.Expanded, err
		}
	}
	return e.Expanded, nil
}

type expander struct {
	Expanded
	any  bool
	seen map[string]bool // real paths
}

func (e *expander) add(arg string) error {
	info, err := os.Stat(arg)
	switch {
	case arg == "-":
		e.Sources = append(e.Sources, arg)
		return nil
	case err == nil && info.IsDir():
		before := len(e.Sources) + len(e.Twice)
		if err := e.directory(arg); err != nil {
			return fmt.Errorf("source %s: %w", arg, err)
		}
		if len(e.Sources)+len(e.Twice) == before {
			return engine.Hinted(engine.Classed(ErrNoFiles, fmt.Errorf("source %s is a directory without files of a known format", arg)), "--format, which loads all of its files")
		}
		return nil
	case err == nil:
		e.file(arg)
		return nil
	case !errors.Is(err, fs.ErrNotExist) || !strings.ContainsAny(arg, `*?[`):
		return engine.Hinted(fmt.Errorf("source %w", err), "existing files, or - for stdin; nothing has been loaded")
	}
	found, err := matches(arg)
	if err != nil {
		return fmt.Errorf("source %s: %w", arg, err)
	}
	before := len(e.Sources) + len(e.Twice)
	for _, path := range found {
		if why := leftOut(path); why != "" {
			e.left(path, why)
		} else {
			e.file(path)
		}
	}
	if len(e.Sources)+len(e.Twice) == before {
		return engine.Hinted(fmt.Errorf("source %s: no file matches the pattern", arg), "ls with the same pattern; nothing has been loaded")
	}
	return nil
}

func (e *expander) left(path, why string) { e.Left = append(e.Left, path+": "+why) }

// file adds a file to Sources, or to Twice if Sources has the file already, by any name.
func (e *expander) file(path string) {
	real := path
	if abs, err := filepath.Abs(path); err == nil {
		real = abs
	}
	if target, err := filepath.EvalSymlinks(real); err == nil {
		real = target
	}
	if e.seen[real] {
		e.Twice = append(e.Twice, path)
		return
	}
	e.seen[real] = true
	e.Sources = append(e.Sources, path)
}

// directory adds the files below a directory. It follows no symbolic link to another directory.
func (e *expander) directory(root string) error {
	root += string(filepath.Separator)
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if strings.HasPrefix(d.Name(), ".") && path != root {
				return fs.SkipDir
			}
			return nil
		}
		info, err := os.Stat(path)
		switch why := leftOut(path); {
		case d.Type()&fs.ModeSymlink != 0 && (err != nil || info.IsDir()):
			e.left(path, "a symbolic link, but not to a file")
		case err != nil: // removed meanwhile
		case why != "":
			e.left(path, why)
		case !info.Mode().IsRegular():
			e.left(path, "not a regular file")
		case !e.any && !format.MayLoad(path):
			e.left(path, "of an unknown format")
		default:
			e.file(path)
		}
		return nil
	})
}

// unfinished has the endings of files that are not complete, or that rowmill writes itself.
var unfinished = map[string]string{
	".tmp": "being written", ".part": "being written", ".partial": "being written", ".crdownload": "being written",
	".bad.jsonl": "bad rows of a load", ".dry.jsonl": "bad rows of a dry run",
}

// leftOut returns why a file isn't a source unless an argument names it; "" if it is a source.
func leftOut(path string) string {
	name := filepath.Base(path)
	if strings.HasPrefix(name, ".") {
		return "hidden"
	}
	for end, why := range unfinished {
		if strings.HasSuffix(strings.ToLower(name), end) {
			return why
		}
	}
	return ""
}

// matches returns the files that match a pattern, sorted. As in shells, "*" matches no hidden name.
func matches(pattern string) ([]string, error) {
	if strings.Contains(pattern, "**") {
		return nil, engine.Hinted(errors.New("** in a pattern isn't known"), "the directory: all files below it are loaded")
	}
	const separator = string(filepath.Separator)
	pattern = filepath.Clean(pattern)
	elements := strings.Split(pattern, separator)
	found, err := filepath.Glob(pattern)
	return slices.DeleteFunc(found, func(path string) bool {
		for i, name := range strings.Split(path, separator) {
			if strings.HasPrefix(name, ".") != strings.HasPrefix(elements[i], ".") {
				return true
			}
		}
		info, err := os.Stat(path)
		return err != nil || info.IsDir()
	}), err
}
