// Package live shows runs on a terminal while they are in progress: a chart of the rate against the
// rows, the current figures, and the time left. A View is drawn below the existing output and
// leaves the last frame of each run there. It sends no query to the terminal and reads no keys:
// Ctrl-C is a signal, and the first signal ends ctx.
package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"

	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/result"
)

// SameSignal is the time after a signal within which another signal counts as the same one.
const SameSignal = 200 * time.Millisecond

const (
	// tick is the interval between frames; drawing takes CPU time from the run.
	tick = 250 * time.Millisecond
	// Close waits closeTimeout for a terminal that accepts no output, then killTimeout.
	closeTimeout, killTimeout = 3 * time.Second, time.Second
)

// IsTerminal reports whether w is a terminal on which a View can be drawn.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(term.File)
	return ok && term.IsTerminal(f.Fd()) && os.Getenv("TERM") != "dumb" // a dumb terminal can't move its cursor
}

// A View shows the runs of one command on a terminal. Its methods may be called from any
// goroutine and return at once, so that drawing never delays the measurement. The caller must
// defer Close, so that the terminal is restored even after a panic.
type View struct {
	program *tea.Program
	restore func()        // turns on the echo of keys
	ended   chan struct{} // closed when the program has ended
	mu      sync.Mutex
	screen
}

// New opens a view drawn on w. Once ctx ends, the view says that the runs are stopping. After that,
// SIGINT or SIGTERM restores the terminal and ends the process at once.
func New(ctx context.Context, w io.Writer) *View {
	v := &View{restore: quieten(w), ended: make(chan struct{}),
		screen: screen{width: 80, height: 24, plain: os.Getenv("NO_COLOR") != ""}}
	v.program = tea.NewProgram(program{v}, tea.WithOutput(w), tea.WithInput(nil), tea.WithoutSignalHandler())
	go func() {
		defer close(v.ended)
		defer v.restore()
		if _, err := v.program.Run(); err != nil && (!errors.Is(err, tea.ErrProgramKilled) || errors.Is(err, tea.ErrProgramPanic)) {
			fmt.Fprintf(w, "rowmill: live view: %v; the run continues without it\r\n", err)
		}
	}()
	go v.watch(ctx)
	return v
}

// quieten turns off the echo of keys, which would destroy the drawing. The returned
// function turns it on again.
func quieten(w io.Writer) (restore func()) {
	if f, ok := w.(term.File); ok {
		if before, err := term.GetState(f.Fd()); err == nil {
			quiet := *before
			quiet.Lflag &^= syscall.ECHO
			_ = term.SetState(f.Fd(), &quiet) // at worst keys are echoed
			return func() { _ = term.Restore(f.Fd(), before) }
		}
	}
	return func() {}
}

// Begin starts showing a run; its intervals follow.
func (v *View) Begin(header result.Run) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keep()
	v.runs, v.showing = append(v.runs, &run{Run: header}), true
	v.note("!", header.Warnings...)
}

// Interval shows an interval of the run that began last.
func (v *View) Interval(iv result.Interval) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.showing {
		v.run().add(iv)
	}
	for _, e := range iv.Events {
		v.note(figure.Clock(e.Elapsed), e.What+" "+e.Object)
	}
}

// End shows the run's summary and leaves the run's last frame on the screen.
func (v *View) End(summary result.Summary) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.showing {
		v.run().summary = &summary
		v.note("!", summary.Warnings...)
		v.keep()
	}
}

// Note shows a line of text, such as a warning.
func (v *View) Note(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.note("·", text)
}

// Close leaves the last frame on the screen and restores the terminal. It may be repeated.
func (v *View) Close() {
	v.mu.Lock()
	v.keep()
	v.closed = true
	v.mu.Unlock()
	select {
	case <-v.ended:
	case <-time.After(closeTimeout):
		v.kill()
	}
}

// kill ends the program without its last frame, and restores the terminal.
func (v *View) kill() {
	go v.program.Kill() // Kill waits for the terminal
	select {
	case <-v.ended:
	case <-time.After(killTimeout):
	}
	v.restore()
}

// watch waits for the end of ctx, and then for a signal, until the program has ended.
func (v *View) watch(ctx context.Context) {
	select {
	case <-v.ended:
		return
	case <-ctx.Done():
	}
	v.mu.Lock()
	v.stopping = true
	v.mu.Unlock()
	again := make(chan os.Signal, 1)
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(again)
	for since := time.Now(); ; {
		select {
		case <-v.ended:
			return
		case s := <-again:
			if time.Since(since) < SameSignal {
				continue
			}
			v.kill()
			signal.Reset(os.Interrupt, syscall.SIGTERM)
			// The signal itself ends the process, so that its parent sees the cause.
			_ = syscall.Kill(os.Getpid(), s.(syscall.Signal))
			return
		}
	}
}

// A program draws a view: its messages are the terminal's size, and the time at each tick.
type program struct{ v *View }

func (p program) Init() tea.Cmd { return tea.Tick(tick, func(t time.Time) tea.Msg { return t }) }

// Update prints the frames that are to stay above the view. It ends a closed view.
func (p program) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	v := p.v
	v.mu.Lock()
	defer v.mu.Unlock()
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		if msg.Width > 0 && msg.Height > 0 { // 0 is a terminal that doesn't know its size
			v.width, v.height = msg.Width, msg.Height
		}
	case time.Time:
		var then []tea.Cmd
		for _, frame := range v.kept {
			then = append(then, tea.Println(frame))
		}
		v.kept = nil
		if v.closed {
			return p, tea.Sequence(append(then, tea.Quit)...)
		}
		return p, tea.Sequence(append(then, p.Init())...)
	}
	return p, nil
}

func (p program) View() tea.View {
	p.v.mu.Lock()
	defer p.v.mu.Unlock()
	return tea.View{Content: p.v.draw(), DisableBracketedPasteMode: true}
}
