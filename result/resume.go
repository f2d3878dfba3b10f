package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"
)

// Resumes says what a run goes on from. Its intervals count rows and seconds on
// from there, so that the pieces of a run, put behind each other, are one run.
type Resumes struct {
	// Rows had been inserted when it went on, as the tables show.
	Rows int64 `json:"rows"`
	// Seconds the run had lasted, without the time between the pieces. The time
	// of rows that no interval holds any more is an estimate by the rate before.
	Seconds float64 `json:"seconds"`
	// PausedSeconds is how long the run lay still.
	PausedSeconds float64 `json:"paused_seconds"`
	// Stopped says what broke the piece before off: as End has it, or "killed"
	// where it has no end.
	Stopped string `json:"stopped"`
	// Refilled rows were missing below the highest, and were inserted first.
	// Missing is how many at least of them the record has as acknowledged.
	Refilled int64 `json:"refilled,omitempty"`
	Missing  int64 `json:"missing,omitempty"`
}

// StoppedKilled is the Resumes.Stopped of a run without an end.
const StoppedKilled = "killed"

// Used is CPU time, in seconds. ServerKnown tells that the server's was seen.
type Used struct {
	Client, Server float64
	ServerKnown    bool
}

// Broken reports whether a run has not come to its end: it was killed,
// interrupted, or it failed.
func (r *Record) Broken() bool {
	return r.End == nil || r.End.Stopped != "rows" && r.End.Stopped != "max-time"
}

// Stopped says what ended the run, or its last piece.
func (r *Record) Stopped() string {
	if r.End == nil {
		return StoppedKilled
	}
	return r.End.Stopped
}

// Done returns how many rows the record has, in how many seconds.
func (r *Record) Done() (rows int64, seconds float64) {
	if n := len(r.Pieces); n > 1 {
		rows, seconds = r.Pieces[n-1].Resumes.Rows, r.Pieces[n-1].Resumes.Seconds
	}
	if n := len(r.Intervals); n > 0 {
		rows, seconds = r.Intervals[n-1].Rows, max(seconds, r.Intervals[n-1].Elapsed)
	}
	return rows, seconds
}

// Last returns when the record was last written to, as far as it tells.
func (r *Record) Last() time.Time {
	at, from := r.Run.Started, 0.0
	if n := len(r.Pieces); n > 1 {
		at, from = r.Pieces[n-1].Started, r.Pieces[n-1].Resumes.Seconds
	}
	_, seconds := r.Done()
	return at.Add(time.Duration((seconds - from) * float64(time.Second)))
}

// recentIntervals is over how many intervals the rate is taken at which rows
// came that no interval holds.
const recentIntervals = 3

// Unrecorded estimates the seconds that rows took which are in the table and in
// no interval: those of the interval that was cut off.
func (r *Record) Unrecorded(rows int64) float64 {
	if rows <= 0 {
		return 0
	}
	var done, took float64
	for _, iv := range r.Intervals[max(0, len(r.Intervals)-recentIntervals):] {
		done, took = done+float64(iv.NewRows), took+iv.Seconds
	}
	if done <= 0 || took <= 0 {
		return r.Run.IntervalSeconds
	}
	return math.Round(float64(rows)*took/done*1e6) / 1e6
}

// Resume adds a piece's header to the run that it goes on with.
func (r *Record) Resume(piece Run) {
	if r.Pieces == nil {
		r.Pieces = []Run{r.Run}
	}
	from := piece.Resumes
	rows, seconds := r.Done()
	r.Earlier.add(r)
	r.Pieces = append(r.Pieces, piece)
	if from.Rows > rows && from.Seconds > seconds {
		r.Intervals = append(r.Intervals, Interval{
			Type: "interval", Elapsed: from.Seconds, Seconds: from.Seconds - seconds, Rows: from.Rows, NewRows: from.Rows - rows})
	}
	for _, c := range piece.Counters {
		if !slices.ContainsFunc(r.Run.Counters, func(o Counter) bool { return o.Name == c.Name }) {
			r.Run.Counters = append(slices.Clip(r.Run.Counters), c)
		}
	}
	for _, w := range piece.Warnings {
		if !slices.Contains(r.Run.Warnings, w) {
			r.Run.Warnings = append(slices.Clip(r.Run.Warnings), w)
		}
	}
	text := fmt.Sprintf("%s at %s rows, after %.1f s, and resumed %s later", from.Stopped, grouped(float64(from.Rows)), from.Seconds, pause(from.PausedSeconds))
	if from.Rows > rows && len(r.Intervals) > 0 {
		text += fmt.Sprintf("; the time of the last %s rows before that is estimated", grouped(float64(from.Rows-rows)))
	}
	r.Warnings = append(slices.DeleteFunc(r.Warnings, func(w string) bool { return w == withoutEnd }), text)
	if from.Missing > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf(
			"at least %s rows that had been acknowledged before the run was %s were not in the table when it was resumed, and were inserted again",
			grouped(float64(from.Missing)), from.Stopped))
	}
	r.End = nil
}

// add adds what the last piece of a record used: by its end, or by the counters
// of its intervals where it has none.
func (u *Used) add(r *Record) {
	if e := r.End; e != nil {
		u.Client += e.ClientCPUSeconds
		if e.ServerCPUSeconds != nil {
			u.Server, u.ServerKnown = u.Server+*e.ServerCPUSeconds, true
		}
		return
	}
	from := 0.0
	if n := len(r.Pieces); n > 1 {
		from = r.Pieces[n-1].Resumes.Seconds
	}
	for _, iv := range r.Intervals {
		if iv.Elapsed <= from {
			continue
		}
		u.Client += iv.Counters["client_cpu"] * iv.Seconds
		if cores, ok := iv.Counters["server_cpu"]; ok {
			u.Server, u.ServerKnown = u.Server+cores*iv.Seconds, true
		}
	}
}

// pause writes how long a run lay still.
func pause(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// mendChunk is how much of a file's end is read at a time.
const mendChunk = 64 << 10

// Mend cuts off the last line of a record that was not written to its end, and
// leaves the file where the next line goes.
func Mend(f *os.File) error {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	var tail []byte
	keep := int64(0)
	for at := end; at > 0; {
		n := min(at, mendChunk)
		at -= n
		part := make([]byte, n, n+int64(len(tail)))
		if _, err := f.ReadAt(part, at); err != nil {
			return err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			keep, tail = at+int64(i)+1, append(part[i+1:], tail...)
			break
		}
		tail = append(part, tail...)
	}
	if len(tail) > 0 && json.Valid(tail) {
		_, err := f.WriteAt([]byte("\n"), end) // only its end was lost
		if err != nil {
			return err
		}
		keep = end + 1
	} else if err := f.Truncate(keep); err != nil {
		return err
	}
	_, err = f.Seek(keep, io.SeekStart)
	return err
}
