package main

import (
	"math"
	"strings"
	"time"
	"unicode"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/rowmill/rowmill/result"
)

// Messages to the live view's model; at is the time at which the caller sent the
// message.
type (
	liveBegin struct {
		run result.Run
		at  time.Time
	}
	liveInterval struct {
		interval result.Interval
		at       time.Time
	}
	liveEnd      struct{ summary result.Summary }
	liveNote     string
	liveStopping struct{}
	liveClose    struct{}
	livePrinted  struct{} // a kept frame is on the screen
	liveTick     time.Time
)

const (
	// livePoints is the maximum number of points of a run's curve: beyond it,
	// neighbours are merged. It is several times the number of dots of the widest
	// chart.
	livePoints = 4096
	// liveRecent is the number of intervals from which the remaining time is
	// estimated. When the rate falls, the rate of the whole run would be too high.
	liveRecent = 10
	// liveWarmUp is the number of intervals required for that estimate.
	liveWarmUp = 3
	// liveKept is how many events and notes are stored for the frame.
	liveKept = 8
)

// A livePoint is a point of a run's curve: the rows that one or several intervals
// added.
type livePoint struct {
	rows    int64 // at the end
	newRows int64
	seconds float64
}

// A liveRun is the view's state of one run.
type liveRun struct {
	run     result.Run
	curve   []livePoint
	recent  []livePoint
	last    result.Interval
	lastAt  time.Time
	seen    int // intervals
	errors  int64
	retries int64
	events  []result.Event
	notes   []string
	summary *result.Summary
}

// add adds an interval.
func (r *liveRun) add(iv result.Interval, at time.Time) {
	r.last, r.lastAt = iv, at
	r.seen++
	r.errors += iv.Errors
	r.retries += iv.Retries
	p := livePoint{iv.Rows, iv.NewRows, iv.Seconds}
	if n := len(r.curve); n > 0 && r.run.Brief(&iv) {
		q := &r.curve[n-1]
		q.rows, q.newRows, q.seconds = p.rows, q.newRows+p.newRows, q.seconds+p.seconds
	} else {
		r.curve = append(r.curve, p)
	}
	if len(r.curve) > livePoints {
		merged := r.curve[:0]
		for i := 0; i < len(r.curve); i += 2 {
			p := r.curve[i]
			if i+1 < len(r.curve) {
				q := r.curve[i+1]
				p = livePoint{q.rows, p.newRows + q.newRows, p.seconds + q.seconds}
			}
			merged = append(merged, p)
		}
		r.curve = merged
	}
	r.recent = lastOf(append(r.recent, p), liveRecent)
	r.events = lastOf(append(r.events, iv.Events...), liveKept)
}

func (r *liveRun) note(text string) { r.notes = lastOf(append(r.notes, plainText(text)), liveKept) }

// points returns the curve as rate, in rows per second, against rows.
func (r *liveRun) points() []chartPoint {
	out := make([]chartPoint, 0, len(r.curve))
	for _, p := range r.curve {
		if p.seconds > 0 {
			out = append(out, chartPoint{float64(p.rows) - float64(p.newRows)/2, float64(p.newRows) / p.seconds})
		}
	}
	return out
}

// elapsed returns the run's time in seconds at a moment after its last interval.
func (r *liveRun) elapsed(now time.Time) float64 {
	if r.summary != nil {
		return r.summary.Seconds
	}
	return r.last.Elapsed + max(now.Sub(r.lastAt).Seconds(), 0)
}

// progress returns the completed part of the run, from 0 to 1; NaN if the run has no
// limit.
func (r *liveRun) progress(now time.Time) float64 {
	done := math.NaN()
	if r.run.Rows > 0 {
		done = float64(r.last.Rows) / float64(r.run.Rows)
	}
	if limit := r.run.MaxTimeSeconds; limit > 0 {
		if t := r.elapsed(now) / limit; !(t < done) { // also when done is NaN
			done = t
		}
	}
	return min(done, 1)
}

// left estimates the seconds left at a moment: until the rows are inserted at the
// recent rate, or until the time limit, whichever comes first. It returns false if
// there is too little data.
func (r *liveRun) left(now time.Time) (float64, bool) {
	left := math.Inf(1)
	if limit := r.run.MaxTimeSeconds; limit > 0 {
		left = limit - r.elapsed(now)
	}
	if r.run.Rows > 0 {
		var rows, seconds float64
		for _, p := range r.recent {
			rows += float64(p.newRows)
			seconds += p.seconds
		}
		switch {
		case r.seen < liveWarmUp:
			return 0, false
		case rows > 0:
			since := max(now.Sub(r.lastAt).Seconds(), 0)
			left = min(left, float64(r.run.Rows-r.last.Rows)*seconds/rows-since)
		}
	}
	return max(left, 0), !math.IsInf(left, 1)
}

// liveModel is the state of the view. It implements tea.Model.
type liveModel struct {
	color         bool
	ctrlC         func() // called at each Ctrl-C
	width, height int
	now           time.Time
	runs          []*liveRun // the last one is shown, the earlier ones are in its chart
	notes         []string   // from before the first run
	showing       bool       // a run has begun, and its last frame isn't kept yet
	kept          []string   // frames to print above the view, in order
	printing      bool       // the first of them is being printed
	stopping      bool
	closed        bool
}

// newLiveModel returns the model of a terminal whose size isn't known yet.
func newLiveModel(color bool, ctrlC func()) *liveModel {
	return &liveModel{color: color, ctrlC: ctrlC, width: 80, height: 24}
}

// Init starts the clock that advances times between intervals.
func (m *liveModel) Init() tea.Cmd { return liveClock() }

func liveClock() tea.Cmd {
	return tea.Tick(time.Second, func(t time.Time) tea.Msg { return liveTick(t) })
}

// Update processes a message.
func (m *liveModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		// A terminal that doesn't know its size reports 0x0.
		if msg.Width > 0 && msg.Height > 0 {
			m.width, m.height = msg.Width, msg.Height
		}
	case tea.KeyMsg:
		if msg.Type == tea.KeyCtrlC {
			m.ctrlC()
		}
	case liveTick:
		m.now = time.Time(msg)
		return m, liveClock()
	case liveBegin:
		m.begin(msg)
	case liveInterval:
		if r := m.run(); m.showing {
			m.now = msg.at
			r.add(msg.interval, msg.at)
		}
	case liveEnd:
		if m.showing {
			m.run().summary = &msg.summary
			m.keep()
		}
	case liveNote:
		if r := m.run(); r != nil {
			r.note(string(msg))
			break
		}
		m.notes = lastOf(append(m.notes, plainText(string(msg))), liveKept)
	case liveStopping:
		m.stopping = true
	case liveClose:
		m.keep()
		m.closed = true
	case livePrinted:
		m.printing = false
	}
	return m, m.next()
}

// next returns a command that prints the next kept frame, or ends a closed view once
// all frames are printed. Frames are printed one at a time because commands run
// concurrently.
func (m *liveModel) next() tea.Cmd {
	switch {
	case m.printing:
		return nil
	case len(m.kept) > 0:
		frame := m.kept[0]
		m.kept, m.printing = m.kept[1:], true
		return tea.Sequence(tea.Println(frame), func() tea.Msg { return livePrinted{} })
	case m.closed:
		return tea.Quit
	}
	return nil
}

// begin starts a run. If the previous run has not ended, its frame is kept.
func (m *liveModel) begin(msg liveBegin) {
	m.keep()
	r := &liveRun{run: msg.run, lastAt: msg.at, notes: m.notes}
	m.now, m.notes = msg.at, nil
	m.runs = append(m.runs, r)
	m.showing = true
}

// keep prints the frame of the current run above the view, where it stays.
func (m *liveModel) keep() {
	if m.showing {
		m.kept = append(m.kept, m.frame())
		m.showing = false
	}
}

// run returns the current run, or nil.
func (m *liveModel) run() *liveRun {
	if len(m.runs) == 0 {
		return nil
	}
	return m.runs[len(m.runs)-1]
}

// lastOf returns the last n elements of s.
func lastOf[T any](s []T, n int) []T { return s[max(0, len(s)-n):] }

// plainText turns external text into one line without terminal control sequences.
func plainText(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}
