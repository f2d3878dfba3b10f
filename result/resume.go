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

	"github.com/rowmill/rowmill/internal/figure"
)

// Resumes is the point from which a run is continued. The next piece's intervals count rows and
// seconds on from this point, so that the pieces together form one run.
type Resumes struct {
	// Rows is the number of rows in the tables when the run was resumed.
	Rows int64 `json:"rows"`
	// Seconds is the duration of the run so far, without pauses. It includes an estimate for rows
	// that are in the tables but in no interval.
	Seconds float64 `json:"seconds"`
	// PausedSeconds is the length of the pause before this piece.
	PausedSeconds float64 `json:"paused_seconds"`
	// Stopped is Stopped of the previous piece's End, or StoppedKilled without an End.
	Stopped string `json:"stopped"`
	// Refilled counts the rows that were missing below the table's highest row. They are inserted
	// first. At least Missing of them had been acknowledged.
	Refilled int64 `json:"refilled,omitempty"`
	Missing  int64 `json:"missing,omitempty"`
}

// StoppedKilled is the value of Resumes.Stopped for a run without an end.
const StoppedKilled = "killed"

// Used is CPU time, in seconds. ServerKnown is true if the server's CPU time was visible.
type Used struct {
	Client, Server float64
	ServerKnown    bool
}

// Broken reports whether a run was killed, was interrupted, or failed.
func (r *Record) Broken() bool {
	return r.End == nil || r.End.Stopped != "rows" && r.End.Stopped != "max-time"
}

// Stopped returns the reason for the end of the run, or of its last piece.
func (r *Record) Stopped() string {
	if r.End == nil {
		return StoppedKilled
	}
	return r.End.Stopped
}

// Done returns the number of rows in the record, and the seconds they took.
func (r *Record) Done() (rows int64, seconds float64) {
	if n := len(r.Pieces); n > 1 {
		rows, seconds = r.Pieces[n-1].Resumes.Rows, r.Pieces[n-1].Resumes.Seconds
	}
	if n := len(r.Intervals); n > 0 {
		rows, seconds = r.Intervals[n-1].Rows, max(seconds, r.Intervals[n-1].Elapsed)
	}
	return rows, seconds
}

// Last returns the time of the last write to the record, as far as known.
func (r *Record) Last() time.Time {
	at, from := r.Run.Started, 0.0
	if n := len(r.Pieces); n > 1 {
		at, from = r.Pieces[n-1].Started, r.Pieces[n-1].Resumes.Seconds
	}
	_, seconds := r.Done()
	return at.Add(time.Duration((seconds - from) * float64(time.Second)))
}

// recentIntervals is the number of intervals whose rate is used by Unrecorded.
const recentIntervals = 3

// Unrecorded estimates how many seconds were spent on rows that are in the table but in no
// interval, because the interval was cut off.
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

// Resume adds a piece's header to the run that it continues.
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
	r.Run.Counters = union(r.Run.Counters, piece.Counters, func(c Counter) string { return c.Name })
	r.Run.Warnings = union(r.Run.Warnings, piece.Warnings, func(w string) string { return w })
	text := fmt.Sprintf("%s at %s rows, after %.1f s, and resumed %s later", from.Stopped, figure.Rounded(float64(from.Rows)), from.Seconds, figure.Duration(from.PausedSeconds))
	if from.Rows > rows && len(r.Intervals) > 0 {
		text += fmt.Sprintf("; the time of the last %s rows before that is estimated", figure.Rounded(float64(from.Rows-rows)))
	}
	r.Warnings = append(slices.DeleteFunc(r.Warnings, func(w string) bool { return w == withoutEnd }), text)
	if from.Missing > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf(
			"at least %s rows that had been acknowledged before the run was %s were not in the table when it was resumed, and were inserted again",
			figure.Rounded(float64(from.Missing)), from.Stopped))
	}
	r.End = nil
}

// union appends the elements of more whose names list lacks. It leaves list itself alone.
func union[T any](list, more []T, name func(T) string) []T {
	out := slices.Clone(list)
	for _, v := range more {
		if !slices.ContainsFunc(out, func(o T) bool { return name(o) == name(v) }) {
			out = append(out, v)
		}
	}
	return out
}

// add adds the CPU time of r's last piece. It takes the time from the End or, if there is none,
// computes it from the counters of the intervals.
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

// mendChunk is the number of bytes read at a time from the end of a file.
const mendChunk = 64 << 10

// Mend removes an incomplete last line from a record, and leaves the file positioned for the next
// line.
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
	if len(tail) > 0 && json.Valid(tail) { // only the newline was lost
		if _, err := f.WriteAt([]byte("\n"), end); err != nil {
			return err
		}
		keep = end + 1
	} else if err := f.Truncate(keep); err != nil {
		return err
	}
	_, err = f.Seek(keep, io.SeekStart)
	return err
}
