package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/ingest"
)

const (
	// watchEvery is the interval between two looks at a watched directory. Polling also
	// sees files that other hosts write to a network file system.
	watchEvery = time.Second
	// watchSettled is how long a file must not have changed before it is loaded.
	watchSettled = 2 * time.Second
	// watchAgain is the pause before a file is tried again whose load failed because the
	// server can't be reached, or because another process is loading it.
	watchAgain = 30 * time.Second
)

// checkWatch returns the sources with the watched directory.
func (f *loadFlags) checkWatch(sources []string) ([]string, error) {
	switch {
	case f.watch == "":
		return sources, nil
	case len(sources) > 0 || f.from.url != "" || f.list || f.Spool != "":
		return nil, usagef("rowmill load FILE.toml --watch DIRECTORY", "--watch names the source: it takes no other, and neither --from, --list nor --spool")
	case f.Dry || f.Again || f.AcceptMissing || f.Name != "":
		return nil, usagef("rowmill load FILE.toml SOURCE... for single files", "--watch loads each file once: it takes neither --dry-run, --again, --accept-missing nor --source")
	}
	info, err := os.Stat(f.watch)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s: it is not a directory", f.watch)
	}
	if err != nil {
		return nil, usagef("an existing directory", "--watch: %w", err)
	}
	return []string{f.watch}, nil
}

// A watchedFile is a file of a watched directory.
type watchedFile struct {
	info  fs.FileInfo // as it was when it last changed
	since time.Time   // when that was noticed
	done  bool        // it is loaded as it is, or can't be
	again time.Time   // when it is tried again; zero is at once
}

// watch loads the files that appear in a directory until ctx ends. A file is loaded once
// it hasn't changed for watchSettled, and again when it has changed: what is in the ledger
// isn't loaded twice. A file that fails is reported and left until it changes.
func (a *app) watch(ctx context.Context, o ingest.Options, f loadFlags) error {
	files := map[string]*watchedFile{}
	a.logLine(fmt.Sprintf("%s watches %s", stamp(time.Now()), f.watch))
	failed, broken := 0, ""
	for ctx.Err() == nil {
		found, err := ingest.Expand([]string{f.watch}, f.Format.Kind != "")
		if errors.Is(err, ingest.ErrNoFiles) {
			err = nil
		}
		if text := fmt.Sprint(err); err != nil && text != broken { // a file system that is away may come back
			a.logLine(fmt.Sprintf("%s %s can't be read, will be tried again: %v", stamp(time.Now()), f.watch, err))
			broken = text
		} else if err == nil {
			broken = ""
		}
		bad := f.badPaths(found.Sources, o.Table.Name)
		seen := map[string]*watchedFile{}
		for _, path := range found.Sources {
			w := files[path]
			info, err := os.Stat(path)
			if err != nil {
				continue // it was moved away meanwhile
			}
			if w == nil || w.info.Size() != info.Size() || !w.info.ModTime().Equal(info.ModTime()) || !os.SameFile(w.info, info) {
				w = &watchedFile{info: info, since: time.Now()}
			}
			seen[path] = w
			if w.done || time.Since(w.since) < watchSettled || time.Now().Before(w.again) || ctx.Err() != nil {
				continue
			}
			o.Progress, o.Bad = a.sayLoad(path, false), bad(path)
			r, err := a.loadOne(ctx, o, path)
			if errors.Is(err, fs.ErrNotExist) {
				delete(seen, path)
				continue
			}
			one := ingest.NewOutcome(o, path, r, err)
			stopped := ctx.Err() != nil && err != nil // the next rowmill load continues it
			passes := stopped || one.Held || errors.Is(err, engine.ErrUnreachable) || errors.Is(err, engine.ErrConnectionLost) || engine.Retryable(err)
			if w.done = !passes; passes {
				w.again = time.Now().Add(watchAgain)
			}
			if err := errors.Join(err, one.Err()); err != nil && !stopped {
				if w.done {
					failed++
				}
				a.logLine(fmt.Sprintf("%s %s: %v", stamp(time.Now()), path, err))
			}
			switch {
			case stopped && one.Sent == 0: // nothing was loaded
			case one.Sent == 0 && one.Finished && one.Before > 0 && one.Err() == nil: // loaded before
			case f.withJSON:
				if err := a.printLoads([]ingest.Outcome{one}); err != nil {
					return err
				}
			default:
				fmt.Fprintln(a.stdout, one.Text())
			}
		}
		if broken == "" {
			files = seen
		}
		_ = engine.Sleep(ctx, watchEvery) // the loop's condition ends it
	}
	a.logLine(fmt.Sprintf("%s ended; %s with bad rows or errors", stamp(time.Now()), figure.Plural(failed, "file", "files")))
	return nil
}
