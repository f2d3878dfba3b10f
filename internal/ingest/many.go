package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/state"
)

// DefaultFiles is the number of sources that a Many reads at a time.
const DefaultFiles = 4

// A Many loads several sources, of which it reads Files at a time. Together the loads use
// Options.Writers connections and the memory of one load.
type Many struct {
	Options Options
	// Files is the number of sources read at a time; 0 means DefaultFiles. It is always 1 on engines
	// with serial writes, and for loads that update rows: their result depends on the order of the
	// files.
	Files int
	// Bad returns the path of the file of bad rows of a source.
	Bad func(source string) string
	// Stdin is read for the source that is given as "-".
	Stdin io.Reader
	// Done, unless nil, is called after each source, one call at a time.
	Done func(Outcome)
	// With several sources, Progress is called each Options.Every; with one, Options.Progress is.
	Progress func(ManyProgress)
}

// A ManyProgress describes how far a Many has come.
type ManyProgress struct {
	// Files is the number of sources that are done, Of the number of all sources.
	Files, Of int
	// Progress adds up all sources, whether they are done, in progress, or not begun.
	lane.Progress
}

// Text describes the progress.
func (p ManyProgress) Text(dry bool) string {
	return fmt.Sprintf("%s of %s, %s", figure.Count(p.Files), figure.Plural(p.Of, "file", "files"), p.Progress.Text(dry))
}

// A Summary is what a Many has done.
type Summary struct {
	// Files counts all sources. Each is also counted as Loaded (it had new rows), Same (it had none),
	// Failed, Skipped (another process loads it), or NotBegun.
	Files    int `json:"files"`
	Loaded   int `json:"loaded"`
	Same     int `json:"nothing_new"`
	Failed   int `json:"failed"`
	Skipped  int `json:"held"`
	NotBegun int `json:"not_begun"`
	// Counts and the fields that follow it are the sums of the same fields of all Results.
	state.Counts
	Continued int64   `json:"continued,omitempty"`
	Before    int64   `json:"before"`
	Missing   int64   `json:"missing,omitempty"`
	Bytes     int64   `json:"bytes"`
	Seconds   float64 `json:"seconds"`
	lane.Why
	// Bad are the files that have the rejected rows.
	Bad []string `json:"bad,omitempty"`
	// Mismatch says what doesn't add up, "" if all does.
	Mismatch string `json:"mismatch,omitempty"`

	dry bool
}

// Run loads sources. It returns the outcomes and the errors of the sources that were begun, in the
// order of sources, and a summary. A failed source doesn't end the others, unless the server can't
// be reached. The last result is an error that belongs to no source: a failure of connections, or a
// context that ended between two sources.
func (m *Many) Run(ctx context.Context, sources []string) ([]Outcome, []error, Summary, error) {
	o := m.Options
	o.Writers, o.Every = cmp.Or(o.Writers, lane.DefaultWriters), cmp.Or(o.Every, lane.DefaultEvery)
	files := cmp.Or(m.Files, DefaultFiles)
	if o.DB.Capabilities().SerialWrites {
		o.Writers, files = 1, 1
	}
	if o.OnDuplicate == format.UpdateDuplicate {
		files = 1 // if several sources have a key, the last one's row must win
	}
	if n := int64(min(files, len(sources))); n > 1 {
		o.Memory = cmp.Or(o.Memory, lane.DefaultMemory) / n
	}
	o.pool = lane.NewPool(&o.Sending)
	r := &manyRun{Many: m, pool: o.pool, began: time.Now(), sources: sources, outcomes: make([]*Outcome, len(sources)),
		errs: make([]error, len(sources)), sizes: make([]int64, len(sources))}
	for i, s := range sources {
		if info, err := os.Stat(s); err == nil && info.Mode().IsRegular() {
			r.sizes[i] = info.Size()
			r.total += info.Size()
		}
	}
	ticking, end := context.WithCancel(ctx)
	defer end()
	var tick, all sync.WaitGroup
	if len(sources) > 1 {
		o.Progress = nil
	}
	if m.Progress != nil && len(sources) > 1 {
		tick.Go(func() {
			for engine.Sleep(ticking, o.Every) == nil {
				m.Progress(r.progress())
			}
		})
	}
	next := make(chan int)
	for range min(files, len(sources)) {
		all.Go(func() {
			for i := range next {
				r.one(ctx, o, i)
			}
		})
	}
	for i := range sources {
		if ctx.Err() != nil || r.gone() {
			break
		}
		next <- i
	}
	close(next)
	all.Wait()
	end()
	tick.Wait()
	err := o.pool.Close()
	outcomes, errs, sum := r.result()
	if ended := ctx.Err(); sum.NotBegun > 0 && ended != nil && !slices.ContainsFunc(errs, func(err error) bool { return errors.Is(err, ended) }) {
		err = errors.Join(err, ended)
	}
	return outcomes, errs, sum, err
}

type manyRun struct {
	*Many
	pool    *lane.Pool
	began   time.Time
	sources []string
	sizes   []int64 // the sources' sizes on disk; 0 is unknown
	total   int64   // the sum of sizes

	mu         sync.Mutex
	outcomes   []*Outcome // nil until the source is done
	errs       []error
	done       int
	bytes      int64 // the bytes on disk of the sources that are done
	rows       int64
	serverGone bool
	doing      sync.Mutex // held during Done
}

func (r *manyRun) one(ctx context.Context, o Options, i int) {
	if ctx.Err() != nil || r.gone() {
		return
	}
	source := r.sources[i]
	o.Bad = r.Bad(source)
	result, err := Load(ctx, o, source, r.Stdin)
	out := NewOutcome(o, source, result, err)
	r.mu.Lock()
	r.outcomes[i], r.errs[i] = &out, err
	r.done++
	r.rows += out.Sent
	r.bytes += r.sizes[i]
	// Other sources would fail in the same way, each after its own time of retries.
	if errors.Is(err, engine.ErrUnreachable) || errors.Is(err, engine.ErrConnectionLost) {
		r.serverGone = true
	}
	r.mu.Unlock()
	if r.Done != nil {
		r.doing.Lock()
		defer r.doing.Unlock()
		r.Done(out)
	}
}

func (r *manyRun) gone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.serverGone
}

func (r *manyRun) progress() ManyProgress {
	r.mu.Lock()
	p := ManyProgress{Files: r.done, Of: len(r.sources)}
	p.Rows, p.Bytes, p.Size, p.Elapsed = r.rows, r.bytes, r.total, time.Since(r.began)
	r.mu.Unlock()
	for _, l := range r.pool.Running() {
		one := l.ProgressNow()
		p.Rows += one.Rows
		p.Bytes += one.Bytes
	}
	p.Sent, p.Sending = p.Bytes, p.Elapsed
	return p
}

func (r *manyRun) result() (outcomes []Outcome, errs []error, sum Summary) {
	outcomes = []Outcome{}
	sum = Summary{Files: len(r.sources), Seconds: time.Since(r.began).Seconds(), dry: r.Options.Dry}
	var found lane.Reasons
	for i, out := range r.outcomes {
		if out == nil {
			sum.NotBegun++
			continue
		}
		outcomes, errs = append(outcomes, *out), append(errs, r.errs[i])
		switch {
		case out.Held:
			sum.Skipped++
		case out.Error != "":
			sum.Failed++
		case out.Sent > 0:
			sum.Loaded++
		default:
			sum.Same++
		}
		if why := mismatch(out.Counts); why != "" {
			sum.Mismatch = cmp.Or(sum.Mismatch, out.Source+": "+why)
		}
		sum.Add(out.Counts)
		sum.Continued += out.Continued
		sum.Before += out.Before
		sum.Missing += out.Missing
		sum.Bytes += out.Result.Bytes
		sum.Stopped += out.Stopped
		for _, why := range out.Reasons {
			found.Add(why)
		}
		if out.Bad != "" && !slices.Contains(sum.Bad, out.Bad) {
			sum.Bad = append(sum.Bad, out.Bad)
		}
	}
	if why := mismatch(sum.Counts); why != "" {
		sum.Mismatch = cmp.Or(sum.Mismatch, "all sources: "+why)
	}
	sum.Reasons = found.All()
	return outcomes, errs, sum
}

// mismatch says how counts don't add up, "" if they do.
func mismatch(c state.Counts) string {
	if c.Sent == c.Inserted+c.Updated+c.Duplicate+c.Rejected {
		return ""
	}
	return fmt.Sprintf("%s read, but %s inserted + %s updated + %s already present + %s rejected", figure.Plural(c.Sent, "row was", "rows were"),
		figure.Count(c.Inserted), figure.Count(c.Updated), figure.Count(c.Duplicate), figure.Count(c.Rejected))
}

// Err returns an error if the numbers don't add up.
func (s Summary) Err() error {
	if s.Mismatch == "" {
		return nil
	}
	return engine.Hinted(fmt.Errorf("the numbers of the load don't add up: %s", s.Mismatch), "SELECT COUNT(*) in the table; this is an error of rowmill, please report it")
}

// Text describes the summary, in several lines.
func (s Summary) Text() string {
	var b strings.Builder
	rows := figure.Count[int64]
	fmt.Fprintf(&b, "total: %s in %.1f s", figure.Plural(s.Files, "file", "files"), s.Seconds)
	for _, part := range []struct {
		n    int
		what string
	}{{s.Loaded, "with new rows"}, {s.Same, "without"}, {s.Failed, "failed"}, {s.Skipped, "being loaded by another process"}, {s.NotBegun, "not begun"}} {
		if part.n > 0 {
			fmt.Fprintf(&b, ", %s %s", figure.Count(part.n), part.what)
		}
	}
	verb, inserted := "read", "inserted"
	if s.dry {
		verb, inserted = "checked", "could be sent"
	}
	sign := "="
	if s.Mismatch != "" {
		sign = "!="
	}
	updated := ""
	if s.Updated > 0 {
		updated = " + " + rows(s.Updated) + " updated"
	}
	fmt.Fprintf(&b, "\nrows: %s %s %s %s %s%s + %s already present + %s rejected (%s rows/s, %s/s)", rows(s.Sent), verb, sign, rows(s.Inserted), inserted, updated,
		rows(s.Duplicate), rows(s.Rejected), figure.Rounded(float64(s.Sent-s.Continued)/max(s.Seconds, 1e-3)), figure.Bytes(int64(float64(s.Bytes)/max(s.Seconds, 1e-3))))
	if s.Different > 0 {
		fmt.Fprintf(&b, "\n%s of those already present have other values", rows(s.Different))
	}
	if s.Mismatch != "" {
		fmt.Fprintf(&b, "\nTHE NUMBERS DON'T ADD UP: %s", s.Mismatch)
	}
	b.WriteString(s.Lines())
	for i, bad := range s.Bad {
		if i == lane.MaxReasons {
			fmt.Fprintf(&b, "\nand %s", figure.Plural(len(s.Bad)-lane.MaxReasons, "other file", "other files"))
			break
		}
		fmt.Fprintf(&b, "\nbad rows are in %s", bad)
	}
	return b.String()
}

// Failures returns the errors of a Many's outcomes: up to most errors, and the number of the rest.
func Failures(outcomes []Outcome, errs []error, most int) error {
	var all error
	n := 0
	for i, one := range outcomes {
		if err := cmp.Or(errs[i], one.Err()); err != nil {
			if n++; n <= most {
				all = errors.Join(all, err)
			}
		}
	}
	if n > most {
		all = errors.Join(all, fmt.Errorf("%s more, each in its line above", figure.Plural(n-most, "source", "sources")))
	}
	return all
}

// NotBegun returns the sources without an outcome.
func NotBegun(sources []string, outcomes []Outcome) []string {
	return slices.DeleteFunc(slices.Clone(sources), func(s string) bool {
		return slices.ContainsFunc(outcomes, func(o Outcome) bool { return o.Argument == s })
	})
}
