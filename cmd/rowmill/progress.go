package main

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/rowmill/rowmill/internal/live"
	"github.com/rowmill/rowmill/internal/report"
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
	mu  sync.Mutex
	w   io.Writer
	run result.Run
}

func (l *lines) print(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(l.w, text)
}

func (l *lines) Begin(run result.Run) {
	l.run = run
	l.print(run.Name + ", " + run.Target)
	l.print(report.LineHeader())
}

func (l *lines) Interval(iv result.Interval) { l.print(report.Line(iv, &l.run)) }

func (l *lines) End(result.Summary) {}

func (l *lines) Note(text string) { l.print(text) }

func (l *lines) Close() {}
