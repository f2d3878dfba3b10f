package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/live"
	"github.com/rowmill/rowmill/internal/query"
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
func (a *app) newProgress(ctx context.Context) progress {
	if live.IsTerminal(a.stderr) {
		return live.New(ctx, a.stderr)
	}
	return &lines{w: a.stderr}
}

// lines prints a line for each interval. Its methods may be called from
// several goroutines.
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

// runLines are the progress of an experiment of many short runs: a line for each that has ended.
func (a *app) runLines(line func(result.Summary) string) func(context.Context) progress {
	return func(context.Context) progress { return &runLines{lines{w: a.stderr}, line} }
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

// The formats of intervals; the zero value of a flag is the first.
const (
	formatRowmill intervalFormat = "rowmill"
	formatIbench  intervalFormat = "ibench"
)

// Set implements pflag.Value.
func (f *intervalFormat) Set(s string) error {
	switch v := intervalFormat(s); v {
	case formatRowmill, formatIbench:
		*f = v
		return nil
	}
	return fmt.Errorf("unknown format %q: there are %s", s, strings.Join([]string{string(formatRowmill), string(formatIbench)}, ", "))
}

// String implements pflag.Value.
func (f *intervalFormat) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *intervalFormat) Type() string { return "string" }

// ibenchLines prints the insert benchmark's 17 columns for each interval, and all
// other output as comments.
type ibenchLines struct {
	lines
	ibench oneline.Ibench
	// rec has the last interval, which a brief one may still extend.
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

// flush prints the intervals, except for the last ones to keep.
func (l *ibenchLines) flush(keep int) {
	for ; len(l.rec.Intervals) > keep; l.rec.Intervals = l.rec.Intervals[1:] {
		l.print(l.ibench.Line(&l.rec.Intervals[0]))
	}
}

func (l *ibenchLines) End(result.Summary) { l.flush(0) }

func (l *ibenchLines) Note(text string) { l.print("# " + text) }

// A queryProgress shows on a terminal how far a query is.
type queryProgress struct {
	a     *app
	mu    sync.Mutex
	began time.Time
	last  query.Progress
}

func (p *queryProgress) note(now query.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = now
}

// begin shows a query every second until the returned function is called. A nil p shows nothing.
func (p *queryProgress) begin() (end func()) {
	if p == nil {
		return func() {}
	}
	p.began, p.last = time.Now(), query.Progress{}
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				p.a.statusLine("")
				return
			case <-tick.C:
				p.a.statusLine(p.text())
			}
		}
	})
	return func() { close(stop); all.Wait() }
}

func (p *queryProgress) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last.Text(time.Since(p.began))
}
