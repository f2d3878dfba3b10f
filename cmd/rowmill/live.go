package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/term"

	"github.com/rowmill/rowmill/result"
)

// isTerminal reports whether w is a terminal on which a live view can be drawn. With
// TERM=dumb, a terminal can't move its cursor.
func isTerminal(w io.Writer) bool {
	f, ok := w.(term.File)
	return ok && term.IsTerminal(f.Fd()) && os.Getenv("TERM") != "dumb"
}

// A liveView shows the runs of one command on a terminal while they are in progress.
// It is drawn below the existing output, without the alternate screen, and leaves the
// last frame of each run on the screen. Its methods return at once, however slow the
// terminal is, so that drawing never delays the measurement. They may be called from
// any goroutine.
//
// While the view is open, the terminal may be in raw mode. The caller must defer
// Close, so that the terminal is restored even after a panic.
type liveView struct {
	program *tea.Program
	restore func()        // restores the terminal if the program can't
	ended   chan struct{} // closed when the program has restored the terminal
	pumped  chan struct{} // closed when the pump has ended
	watched chan struct{} // closed when the watch for signals has ended
	quit    chan struct{} // closed to end the watch for signals

	mu     sync.Mutex
	queue  []tea.Msg
	closed bool
	wake   chan struct{} // holds a token while queue may be non-empty

	signals   chan os.Signal
	interrupt func()
	// die ends the process as the signal would have ended it without the view.
	die func(os.Signal)
}

const (
	// liveCloseTimeout bounds how long Close waits for a terminal that accepts no
	// output, before it abandons drawing the last frame.
	liveCloseTimeout = 3 * time.Second
	// liveKillTimeout bounds how long the program may then take to end by itself.
	liveKillTimeout = time.Second
	// liveFPS is the maximum number of frames per second: figures change once an
	// interval, and drawing takes CPU time from the run.
	liveFPS = 10
)

// newLiveView opens a view drawn on w. It reads keys from in if that is a terminal,
// and otherwise none; in may be nil. Ctrl-C and the first SIGINT or SIGTERM call
// interrupt, once; another signal restores the terminal and ends the process.
// interrupt must return soon, and must not call Close.
func newLiveView(w io.Writer, in io.Reader, interrupt func()) *liveView {
	v := &liveView{
		restore: func() {},
		ended:   make(chan struct{}),
		pumped:  make(chan struct{}),
		watched: make(chan struct{}),
		quit:    make(chan struct{}),
		wake:    make(chan struct{}, 1),
		// Room for a few impatient key presses; any more are dropped.
		signals:   make(chan os.Signal, 4),
		interrupt: interrupt,
		die:       dieBy,
	}
	model := newLiveModel(os.Getenv("NO_COLOR") == "", func() {
		select {
		case v.signals <- os.Interrupt:
		default:
		}
	})
	options := []tea.ProgramOption{
		tea.WithOutput(w), tea.WithFPS(liveFPS), tea.WithoutSignalHandler(), tea.WithoutBracketedPaste(),
	}
	keys := tea.WithInput(nil)
	if f, ok := in.(term.File); ok && term.IsTerminal(f.Fd()) {
		keys = tea.WithInput(f)
		if state, err := term.GetState(f.Fd()); err == nil {
			v.restore = func() { _ = term.Restore(f.Fd(), state) }
		}
	}
	v.program = tea.NewProgram(model, append(options, keys)...)
	signal.Notify(v.signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer close(v.ended)
		_, err := v.program.Run()
		killed := errors.Is(err, tea.ErrProgramKilled) && !errors.Is(err, tea.ErrProgramPanic)
		if err != nil && !killed {
			fmt.Fprintf(w, "rowmill: live view: %v; the run goes on without it\r\n", err)
		}
	}()
	go v.watch()
	go v.pump()
	return v
}

// Begin starts showing a run; its intervals follow.
func (v *liveView) Begin(run result.Run) { v.send(liveBegin{run, time.Now()}) }

// Interval shows an interval of the run that began last.
func (v *liveView) Interval(iv result.Interval) { v.send(liveInterval{iv, time.Now()}) }

// End shows the run's summary and leaves the run's last frame on the screen.
func (v *liveView) End(summary result.Summary) { v.send(liveEnd{summary}) }

// Note shows a line of text, such as a warning.
func (v *liveView) Note(text string) { v.send(liveNote(text)) }

// Close draws the remaining messages, leaves the last frame on the screen and restores
// the terminal. A second call does nothing.
func (v *liveView) Close() {
	v.mu.Lock()
	again := v.closed
	v.closed = true
	if !again {
		v.queue = append(v.queue, liveClose{})
	}
	v.mu.Unlock()
	if again {
		return
	}
	v.nudge()
	select {
	case <-v.ended:
	case <-time.After(liveCloseTimeout):
		v.kill()
	}
	<-v.pumped
	signal.Stop(v.signals)
	close(v.quit)
	<-v.watched
}

// kill ends the program without its last frame, and restores the terminal.
func (v *liveView) kill() {
	v.program.Kill()
	select {
	case <-v.ended:
	case <-time.After(liveKillTimeout):
		v.restore()
	}
}

// send puts a message into the pump's queue.
func (v *liveView) send(m tea.Msg) {
	v.mu.Lock()
	if !v.closed {
		v.queue = append(v.queue, m)
	}
	v.mu.Unlock()
	v.nudge()
}

func (v *liveView) nudge() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// pump sends the queued messages to the program in order, up to liveClose.
func (v *liveView) pump() {
	defer close(v.pumped)
	for range v.wake {
		v.mu.Lock()
		queue := v.queue
		v.queue = nil
		v.mu.Unlock()
		for _, m := range queue {
			v.program.Send(m) // returns at once when the program has ended
			if _, last := m.(liveClose); last {
				return
			}
		}
	}
}

// watch handles signals until Close.
func (v *liveView) watch() {
	defer close(v.watched)
	stopping := false
	for {
		select {
		case <-v.quit:
			return
		case s := <-v.signals:
			if !stopping {
				stopping = true
				v.send(liveStopping{})
				v.interrupt()
				continue
			}
			v.kill()
			signal.Reset(os.Interrupt, syscall.SIGTERM)
			v.die(s)
		}
	}
}

// dieBy ends the process by the signal itself, so that its parent process sees the
// cause.
func dieBy(s os.Signal) {
	if n, ok := s.(syscall.Signal); ok {
		_ = syscall.Kill(os.Getpid(), n)
	}
}
