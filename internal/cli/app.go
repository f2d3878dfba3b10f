// Package cli is what the verbs of the command line have in common: the streams they print to, the
// log on stderr, the question before a change, errors with a hint, and the syntax of flags.
package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/live"
	"github.com/rowmill/rowmill/internal/textfile"
)

// An App is the environment of a verb. Results go to Stdout, everything else to Stderr.
type App struct {
	Stdin   io.Reader
	Stdout  *Results
	Stderr  io.Writer
	Args    []string // the command line, without the program's name
	Version string   // rowmill's version

	// mu is held while a line of the log is written.
	mu sync.Mutex
	// status is the text of StatusLine that stands on the terminal, or "".
	status string
}

// Note prints a line about a long operation.
func (a *App) Note(line string) { fmt.Fprintln(a.Stderr, line) }

// Log writes a line of the log, with the current time. It may be called from several goroutines.
func (a *App) Log(format string, args ...any) {
	a.LogLine(Stamp(time.Now()) + " " + fmt.Sprintf(format, args...))
}

// Say is Log without a format.
func (a *App) Say(line string) { a.Log("%s", line) }

// LogLine is Say without the time.
func (a *App) LogLine(line string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.status != "" { // the next call of StatusLine writes it again
		line, a.status = clearLine+line, ""
	}
	fmt.Fprintln(a.Stderr, line)
}

// clearLine makes a terminal clear the current line.
const clearLine = "\r\x1b[K"

// StatusLine shows a text in the last line of the terminal, in place of the previous text. The
// text stays until the next line of the log; "" removes it.
func (a *App) StatusLine(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if text == "" && a.status == "" {
		return
	}
	if width := columns(a.Stderr); width > 0 && len(text) >= width {
		text = text[:width-1] // a wrapped line can't be rewritten
	}
	a.status = text
	fmt.Fprint(a.Stderr, clearLine+text)
}

// EveryTenth returns a function that shows the progress of an operation. Callers call it once a
// second. On a terminal, the function is StatusLine; elsewhere, it logs every tenth text.
func (a *App) EveryTenth() func(text string) {
	if live.IsTerminal(a.Stderr) {
		return a.StatusLine
	}
	n := 0
	return func(text string) {
		if n++; n%10 == 0 {
			a.LogLine(text)
		}
	}
}

// Meanwhile begins to call text every second and to pass its result to say. This ends when the
// returned function is called, which also clears the status line.
func (a *App) Meanwhile(say func(string), text func() string) (end func()) {
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				a.StatusLine("")
				return
			case <-tick.C:
				say(text())
			}
		}
	})
	return func() { close(stop); all.Wait() }
}

// Stamp formats the time of a log line.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// PrintJSON prints a result as indented JSON.
func (a *App) PrintJSON(v any) error {
	out := json.NewEncoder(a.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(v)
}

// PrintFormat prints a result as JSON with the version of its format, such as "rowmill.load/1".
func (a *App) PrintFormat(format string, fields map[string]any) error {
	fields["format"] = format
	return a.PrintJSON(fields)
}

// WriteOutput writes a file completely or not at all. The path "-" is standard output,
// which gets nothing if write fails.
func (a *App) WriteOutput(path string, write func(io.Writer) error) error {
	if path != "-" {
		return textfile.Replace(path, write)
	}
	var buf bytes.Buffer
	if err := write(&buf); err != nil {
		return err
	}
	_, err := a.Stdout.Write(buf.Bytes())
	return err
}
