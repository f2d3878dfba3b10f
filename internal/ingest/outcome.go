package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/state"
)

// An Outcome is what a program is told about the load of one source.
type Outcome struct {
	Table string `json:"table"`
	lane.Result
	DryRun bool `json:"dry_run,omitempty"`
	// Argument is the source as it was given.
	Argument string `json:"-"`
	// Bad is the file with the rejected rows of this load.
	Bad string `json:"bad,omitempty"`
	// Held reports that another process is loading the source.
	Held  bool   `json:"held,omitempty"`
	Error string `json:"error,omitempty"`
}

// NewOutcome returns the outcome of a load. source names the source unless r does.
func NewOutcome(o Options, source string, r lane.Result, err error) Outcome {
	out := Outcome{Table: o.Table.Name, Result: r, DryRun: o.Dry, Argument: source}
	out.Source, out.LoadedAt = cmp.Or(r.Source, source), r.LoadedAt.UTC()
	var many *lane.TooManyError
	if r.Rejected > 0 || o.ListSkipped && r.Different+r.Repeated > 0 || errors.As(err, &many) {
		out.Bad = o.Bad
	}
	if err != nil {
		out.Error, out.Held = err.Error(), errors.Is(err, lane.ErrHeld)
	}
	return out
}

// Text describes the outcome.
func (l Outcome) Text() string {
	var b strings.Builder
	rows := figure.Count[int64]
	say := func(n int64, format string, args ...any) {
		if n > 0 {
			fmt.Fprintf(&b, format, args...)
		}
	}
	fmt.Fprintf(&b, "%s: ", l.Source)
	switch {
	case l.Held:
		b.WriteString("another process is loading it: skipped")
		return b.String()
	case l.DryRun:
		fmt.Fprintf(&b, "%s checked, %s of them could be sent, %s could not", figure.Plural(l.Sent, "row"), rows(l.Inserted), rows(l.Rejected))
	case l.Sent == 0 && l.Finished && l.Before > 0:
		fmt.Fprintf(&b, "loaded already, %s%s", figure.Plural(l.Before, "row"), l.when())
		switch {
		case l.Missing > 0:
			fmt.Fprintf(&b, "; %s of them aren't in the table any more", rows(l.Missing))
		case l.Unlooked != "":
			fmt.Fprintf(&b, "; not checked whether the table still has all of them: %s", l.Unlooked)
		default:
			b.WriteString("; nothing to do")
		}
		say(l.BeforeRejected, "; %s had been rejected", rows(l.BeforeRejected))
		say(l.Gone, "; %s lay in periods that the table no longer has", rows(l.Gone))
		b.WriteString("; --again loads all of it once more")
	default:
		fmt.Fprintf(&b, "%s in %.1f s (%s rows/s): %s inserted, ", figure.Plural(l.Sent, "row"), l.Seconds,
			figure.Rounded(float64(l.Sent-l.Continued)/max(l.Seconds, 1e-3)), rows(l.Inserted))
		say(l.Updated, "%s updated, ", rows(l.Updated))
		fmt.Fprintf(&b, "%s already present%s, %s rejected", rows(l.Duplicate), l.present(), rows(l.Rejected))
		say(l.Continued, "; %s of them were sent before the load was interrupted", rows(l.Continued))
		say(l.Before, "; %s rows were sent before", rows(l.Before))
		say(l.Missing, ", %s of which aren't in the table any more", rows(l.Missing))
	}
	if n := len(l.Created); n > 0 {
		would := ""
		if l.DryRun {
			would = "would be "
		}
		first, last := slices.Min(l.Created), slices.Max(l.Created)
		fmt.Fprintf(&b, "; %s %screated, %s", figure.Plural(n, "period", "periods"), would, first)
		say(int64(n-1), " to %s", last)
	}
	say(l.TooOld, "; %s older than the table's keep", figure.Plural(l.TooOld, "row is", "rows are"))
	if l.Bad != "" {
		fmt.Fprintf(&b, "; see %s", l.Bad)
	}
	if !l.Finished {
		b.WriteString("; not loaded completely")
	}
	say(l.Lost, "; %s rows were read and not loaded", rows(l.Lost))
	say(int64(l.Unfinished), "; %s bytes of an incomplete row were left", figure.Count(l.Unfinished))
	b.WriteString(l.Lines())
	for _, d := range l.Damaged {
		fmt.Fprintf(&b, "\ndamaged in the spool: %s", d)
	}
	return b.String()
}

func (l Outcome) when() string {
	if l.LoadedAt.IsZero() {
		return ""
	}
	return ", on " + minute(l.LoadedAt) + " UTC"
}

// Err returns an error for rows that were not loaded or are missing, or nil.
func (l Outcome) Err() error {
	var all []error
	if l.Rejected > 0 {
		all = append(all, fmt.Errorf("%s of %s rows of %s couldn't be loaded: see %s", figure.Count(l.Rejected), figure.Count(l.Sent), l.Source, l.Bad))
	}
	if l.Missing > 0 {
		all = append(all, engine.Hinted(fmt.Errorf("%s rows of %s that were loaded%s aren't in the table any more", figure.Count(l.Missing), l.Source, l.when()),
			"--again, which loads all of the file and skips rows whose key is in the table; --accept-missing, if they were removed on purpose"))
	}
	if len(l.Damaged) > 0 {
		all = append(all, fmt.Errorf("%d parts of the spool are damaged, and weren't loaded", len(l.Damaged)))
	}
	return errors.Join(all...)
}

// A Known is a source that was loaded or is being loaded.
type Known struct {
	Source string `json:"source"`
	Kind   string `json:"kind"`
	// Finished reports whether the source was loaded to the end that it had then.
	Finished bool `json:"finished"`
	// Bytes is the length of the part that is loaded; the counts also include later batches.
	Bytes int64 `json:"bytes"`
	state.Counts
	// Open is the number of batches that were cut but not committed.
	Open    int       `json:"open_batches"`
	Started time.Time `json:"started"`
	// LoadedAt is when its counts were last recorded.
	LoadedAt time.Time `json:"loaded_at"`
}

// State says in a word or two how far the source is loaded.
func (k Known) State() string {
	switch {
	case k.Kind == state.SpoolSource:
		return "spool"
	case k.Finished:
		return "loaded"
	case k.Kind == state.StreamSource:
		return "broken off"
	case k.Kind == state.ServerSource:
		return "begun"
	}
	return "begun, " + figure.Plural(k.Open, "batch", "batches") + " to send"
}

// Sources returns the sources that were loaded into a table, the newest first.
func Sources(ctx context.Context, st *state.Store, table string) ([]Known, error) {
	all, err := st.Sources(ctx, table, "", "")
	if err != nil {
		return nil, err
	}
	out := []Known{}
	for _, s := range all {
		// The counts of a source that isn't loaded to its end lack the batches in the ledger.
		cuts, published, noted, err := lane.RecordedOf(ctx, st, &s)
		if err != nil {
			return nil, err
		}
		open := 0
		for _, cut := range cuts {
			if _, there := noted[cut.ID(s.Key)]; !there {
				open++
			}
		}
		for _, p := range published {
			s.Add(p.Counts)
		}
		for _, b := range noted {
			s.Add(b.Counts)
		}
		out = append(out, Known{Source: s.Path, Kind: s.Kind, Finished: s.Finished, Bytes: s.Loaded, Counts: s.Counts,
			Open: open, Started: s.Started.UTC(), LoadedAt: s.At.UTC()})
	}
	return out, nil
}

// present describes the duplicates in parentheses, e.g. " (3 with other values)"; "" if nothing is
// known about them.
func (l Outcome) present() string {
	var parts []string
	for _, p := range []struct {
		n    int64
		what string
	}{{l.Different, "with other values"}, {l.Repeated, "twice in the source"}, {l.NotCompared, "not compared"}} {
		if p.n > 0 {
			parts = append(parts, figure.Count(p.n)+" "+p.what)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}
