package ingest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest/lane"
)

const (
	// watchEvery is the interval between two looks. Polling also sees what other hosts write (NFS).
	watchEvery = time.Second
	// watchSettled is how long a file must not have changed before it is loaded.
	watchSettled = 2 * time.Second
	// watchAgain is the pause after the server was lost, or while another process loads the file.
	watchAgain = 30 * time.Second
)

// A Watch loads the files that appear in a directory. It loads a file as soon as the file hasn't
// changed for watchSettled, and again after a change. A file that fails is reported by Options.Say,
// and not tried again until it changes.
type Watch struct {
	Options Options
	// Dir is the directory. Any takes files of all names, as in Expand.
	Dir string
	Any bool
	// Bad returns the path of a source's file of bad rows, Progress the function that shows progress.
	Bad      func(source string) string
	Progress func(source string) func(lane.Progress)
	// Done is called after each load in which something happened. Its error ends the Watch.
	Done func(Outcome) error
}

type watchedFile struct {
	info  fs.FileInfo // the file after its last change
	since time.Time   // when this change was noticed
	done  bool        // the file, as info has it, was loaded or can't be
	again time.Time   // when to try again; zero means at once
}

// Run watches until ctx ends. It returns the number of loads with bad rows or errors.
func (w *Watch) Run(ctx context.Context) (failed int, err error) {
	o := w.Options
	files := map[string]*watchedFile{}
	broken, left := "", map[string]bool{}
	for ctx.Err() == nil {
		found, err := Expand([]string{w.Dir}, w.Any)
		if errors.Is(err, ErrNoFiles) {
			err = nil
		}
		if text := fmt.Sprint(err); err != nil && text != broken { // a file system that is away may come back
			o.Say(fmt.Sprintf("%s can't be read, will be tried again: %v", w.Dir, err))
			broken = text
		} else if err == nil {
			broken = ""
		}
		was := left
		left = map[string]bool{}
		for _, line := range found.Left { // leave out the files that are unfinished or hidden
			if path := line[:strings.LastIndex(line, ": ")]; leftOut(path) == "" {
				if left[line] = true; !was[line] {
					o.Say("left out: " + line)
				}
			}
		}
		seen := map[string]*watchedFile{}
		for _, path := range found.Sources {
			f := files[path]
			info, err := os.Stat(path)
			if err != nil {
				continue // the file was moved away meanwhile
			}
			if f == nil || f.info.Size() != info.Size() || !f.info.ModTime().Equal(info.ModTime()) || !os.SameFile(f.info, info) {
				f = &watchedFile{info: info, since: time.Now()}
			}
			seen[path] = f
			if f.done || time.Since(f.since) < watchSettled || time.Now().Before(f.again) || ctx.Err() != nil {
				continue
			}
			o.Progress, o.Bad = w.Progress(path), w.Bad(path)
			r, err := Load(ctx, o, path, nil)
			if errors.Is(err, fs.ErrNotExist) {
				delete(seen, path)
				continue
			}
			one := NewOutcome(o, path, r, err)
			stopped := ctx.Err() != nil && err != nil // the next Watch continues this load
			passes := stopped || one.Held || errors.Is(err, engine.ErrUnreachable) || errors.Is(err, engine.ErrConnectionLost) || engine.Retryable(err)
			if f.done = !passes; passes {
				f.again = time.Now().Add(watchAgain)
			}
			if err := errors.Join(err, one.Err()); err != nil && !stopped {
				if f.done {
					failed++
				}
				o.Say(fmt.Sprintf("%s: %v", path, err))
			}
			nothing := stopped && one.Sent == 0
			known := one.Sent == 0 && one.Finished && one.Before > 0 && one.Err() == nil
			if nothing || known {
				continue
			}
			if err := w.Done(one); err != nil {
				return failed, err
			}
		}
		if broken == "" {
			files = seen
		}
		_ = engine.Sleep(ctx, watchEvery) // the loop's condition ends it
	}
	return failed, nil
}
