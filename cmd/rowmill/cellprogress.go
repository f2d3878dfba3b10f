package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/result"
)

// A cellProgress shows the progress of a matrix: a line for each cell, with the time
// left. It implements progress.
type cellProgress struct {
	mu          sync.Mutex
	w           io.Writer
	cells, done int
	began       time.Time
	run         result.Run
}

func newCellProgress(w io.Writer) *cellProgress { return &cellProgress{w: w} }

// Expect announces the number of cells to be measured, each taking the given number of
// seconds. It is called before the tables are filled.
func (p *cellProgress) Expect(cells int, seconds float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cells = cells
	least := time.Duration(seconds * float64(cells) * float64(time.Second))
	fmt.Fprintf(p.w, "measuring %s of %v s each: at least %v, and before it the tables are filled\n", plural(cells, "cell"), seconds, least.Round(100*time.Millisecond))
}

func (p *cellProgress) Begin(run result.Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run = run
	if p.began.IsZero() {
		p.began = time.Now()
	}
}

func (p *cellProgress) Interval(result.Interval) {}

func (p *cellProgress) End(s result.Summary) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	left := ""
	if p.done < p.cells {
		each := time.Since(p.began) / time.Duration(p.done)
		left = fmt.Sprintf(", about %v left", (each * time.Duration(p.cells-p.done)).Round(time.Second))
	}
	fmt.Fprintf(p.w, "%d/%d  %s: %s%s\n", p.done, p.cells, p.run.Name, report.CellLine(s), left)
}

func (p *cellProgress) Note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintln(p.w, text)
}

func (p *cellProgress) Close() {}
