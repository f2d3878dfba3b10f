package measure

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/experiment/record"
	"github.com/rowmill/rowmill/internal/live"
	"github.com/rowmill/rowmill/internal/report/oneline"
	"github.com/rowmill/rowmill/result"
)

// progress shows runs while they are in progress. A live.View draws them on a terminal;
// lines prints them anywhere else.
type progress interface {
	Begin(result.Run)
	Interval(result.Interval)
	End(result.Summary)
	Note(text string)
	Close()
}

// newProgress returns the implementation of progress that suits stderr. ctx ends when
// the user interrupts the runs.
func (a benchmarks) newProgress(ctx context.Context) progress {
	if live.IsTerminal(a.Stderr) {
		return live.New(ctx, a.Stderr)
	}
	return &lines{w: a.Stderr}
}

// lines prints a line for each interval. Its methods may be called from several goroutines.
type lines struct {
	mu    sync.Mutex
	w     io.Writer
	run   result.Run
	lines oneline.Progress
}

func (l *lines) print(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(l.w, text)
}

func (l *lines) Begin(run result.Run) {
	l.run = run
	l.lines = oneline.Progress{Run: &l.run}
	l.print(run.Name + ", " + run.Target)
	l.print(l.lines.Header())
}

func (l *lines) Interval(iv result.Interval) { l.print(l.lines.Line(iv)) }

func (l *lines) End(result.Summary) {}

func (l *lines) Note(text string) { l.print(text) }

// runLines returns the progress for an experiment of many short runs: it prints one line when a run
// has ended.
func (a benchmarks) runLines(line func(result.Summary) string) func(context.Context) progress {
	return func(context.Context) progress { return &runLines{lines{w: a.Stderr}, line} }
}

type runLines struct {
	lines
	line func(result.Summary) string
}

func (l *runLines) Begin(run result.Run) { l.run = run }

func (l *runLines) Interval(result.Interval) {}

func (l *runLines) End(s result.Summary) { l.print(l.run.Name + ": " + l.line(s)) }

func (l *lines) Close() {}

// An intervalFormat is how intervals are printed.
type intervalFormat string

const (
	formatRowmill intervalFormat = "rowmill" // for people
	formatIbench  intervalFormat = "ibench"  // the insert benchmark's 17 columns
)

var intervalFormats = []intervalFormat{formatRowmill, formatIbench}

// ibenchLines prints the insert benchmark's 17 columns for each interval, and all
// other output as comments.
type ibenchLines struct {
	lines
	ibench oneline.Ibench
	// rec has the last interval. It isn't printed yet: a brief next interval may be joined to it.
	rec result.Record
}

func (l *ibenchLines) Begin(run result.Run) {
	l.Note(run.Name + ", " + run.Target)
	l.ibench, l.rec = oneline.Ibench{}, result.Record{Run: run}
	if run.Loads() {
		l.print(oneline.IbenchHeader())
	}
}

func (l *ibenchLines) Interval(iv result.Interval) {
	l.rec.Add(iv)
	l.flush(1)
}

// flush prints all intervals except the last keep intervals.
func (l *ibenchLines) flush(keep int) {
	for ; len(l.rec.Intervals) > keep; l.rec.Intervals = l.rec.Intervals[1:] {
		l.print(l.ibench.Line(&l.rec.Intervals[0]))
	}
}

func (l *ibenchLines) End(result.Summary) { l.flush(0) }

func (l *ibenchLines) Note(text string) { l.print("# " + text) }

// Unrecorded returns the environment for runs without a record. Only the runs' notes are shown.
func Unrecorded(app *cli.App) (*experiment.Env, error) {
	out, err := record.Create("")
	return &experiment.Env{Out: out, Show: quiet{app.Note}, Rowmill: app.Version}, err
}

// quiet shows only the notes of runs.
type quiet struct{ note func(string) }

func (quiet) Begin(result.Run)         {}
func (quiet) Interval(result.Interval) {}
func (quiet) End(result.Summary)       {}
func (q quiet) Note(text string)       { q.note(text) }
