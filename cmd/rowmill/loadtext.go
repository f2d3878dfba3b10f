package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/ingest"
	"github.com/rowmill/rowmill/internal/state"
)

// loaded is the result of loading a source, as --json prints it.
type loaded struct {
	stream bool   // can't be read again
	Table  string `json:"table"`
	Source string `json:"source"`
	// Finished reports whether the source was loaded to its end.
	Finished bool `json:"finished"`
	DryRun   bool `json:"dry_run,omitempty"`
	// Sent is the number of rows that this load sent: inserted, duplicate and rejected
	// ones. In a dry run, sent rows were checked, and inserted rows are those that
	// could be sent.
	Sent      int64 `json:"sent"`
	Inserted  int64 `json:"inserted"`
	Duplicate int64 `json:"duplicate"`
	Rejected  int64 `json:"rejected"`
	// Before is the number of rows that earlier loads of the source sent.
	Before         int64 `json:"before"`
	BeforeRejected int64 `json:"before_rejected"`
	// LoadedAt is the time of the earlier load. Of its rows, Missing are no longer in
	// the table, and Gone were in periods that the table no longer has. NotLooked is
	// the reason why not all of them were checked.
	LoadedAt  *time.Time `json:"loaded_at,omitempty"`
	Missing   int64      `json:"missing,omitempty"`
	Gone      int64      `json:"gone_with_periods,omitempty"`
	NotLooked string     `json:"not_looked,omitempty"`
	told      bool       // an earlier load has recorded NotLooked permanently
	Batches   int64      `json:"batches"`
	Bytes     int64      `json:"bytes"`
	Seconds   float64    `json:"seconds"`
	Bad       string     `json:"bad,omitempty"`
	Damaged   []string   `json:"damaged,omitempty"`
	// Unread is the number of bytes of an incomplete row that were not loaded.
	Unread int `json:"unread_bytes,omitempty"`
	// Lost is the number of rows of a stream that were read but neither loaded nor
	// spooled.
	Lost int64 `json:"not_loaded,omitempty"`
	// Held reports that another process is loading the source.
	Held  bool   `json:"held,omitempty"`
	Error string `json:"error,omitempty"`
}

func newLoaded(table, source string, o ingest.Options, r ingest.Result, err error) loaded {
	out := loaded{Table: table, Source: r.Source, Finished: r.Finished, DryRun: o.Dry, Sent: r.Sent, Inserted: r.Inserted, Duplicate: r.Duplicate, Rejected: r.Rejected,
		Before: r.Before, BeforeRejected: r.BeforeRejected, Batches: r.Batches, Bytes: r.Bytes, Seconds: r.Seconds, Damaged: r.Damaged, Unread: r.Unfinished, Lost: r.Lost}
	if !r.LoadedAt.IsZero() {
		at := r.LoadedAt.UTC()
		out.LoadedAt, out.Missing, out.Gone, out.NotLooked, out.told = &at, r.Missing, r.Gone, r.Unlooked, r.Told
	}
	if out.Source == "" {
		out.Source = source
	}
	if r.Rejected > 0 {
		out.Bad = o.Bad
	}
	if err != nil {
		out.Error, out.Held = err.Error(), errors.Is(err, ingest.ErrHeld)
	}
	return out
}

// text formats the result as text.
func (l loaded) text(dry bool) string {
	var b strings.Builder
	rows := func(n int64) string { return figure.Count(n) }
	fmt.Fprintf(&b, "%s: ", l.Source)
	switch {
	case l.Held:
		b.WriteString("another process is loading it; it is left to that one")
		return b.String()
	case dry:
		fmt.Fprintf(&b, "%s checked, %s of them could be sent, %s could not", plural(l.Sent, "row"), rows(l.Inserted), rows(l.Rejected))
	case l.Sent == 0 && l.Finished && l.Before > 0:
		fmt.Fprintf(&b, "loaded already, %s%s", plural(l.Before, "row"), l.when())
		switch {
		case l.Missing > 0:
			fmt.Fprintf(&b, "; %s of them aren't in the table any more", rows(l.Missing))
		case l.NotLooked != "" && !l.told:
			fmt.Fprintf(&b, "; whether the table still has them all was not found out: %s", l.NotLooked)
		default:
			b.WriteString("; nothing to do")
		}
		if l.BeforeRejected > 0 {
			fmt.Fprintf(&b, "; %s had been rejected", rows(l.BeforeRejected))
		}
		if l.Gone > 0 {
			fmt.Fprintf(&b, "; %s lay in periods that the table no longer has", rows(l.Gone))
		}
		b.WriteString("; --again loads all of it once more")
	default:
		fmt.Fprintf(&b, "%s in %.1f s (%s rows/s): %s inserted, %s there already, %s rejected", plural(l.Sent, "row"), l.Seconds,
			figure.Rounded(float64(l.Sent)/max(l.Seconds, 1e-3)), rows(l.Inserted), rows(l.Duplicate), rows(l.Rejected))
		if l.Before > 0 {
			fmt.Fprintf(&b, "; %s rows were sent before", rows(l.Before))
		}
		if l.Missing > 0 {
			fmt.Fprintf(&b, ", %s of which aren't in the table any more", rows(l.Missing))
		}
	}
	if l.Bad != "" {
		fmt.Fprintf(&b, "; see %s", l.Bad)
	}
	if !l.Finished {
		b.WriteString("; not loaded to its end")
	}
	if l.Lost > 0 {
		fmt.Fprintf(&b, "; %s rows were read and not loaded", rows(l.Lost))
	}
	if l.Unread > 0 {
		fmt.Fprintf(&b, "; %s bytes of a row that wasn't whole were left", figure.Count(l.Unread))
	}
	for _, d := range l.Damaged {
		fmt.Fprintf(&b, "\ndamaged in the spool: %s", d)
	}
	return b.String()
}

// when returns the time at which earlier rows of a source were loaded.
func (l loaded) when() string {
	if l.LoadedAt == nil {
		return ""
	}
	return ", on " + l.LoadedAt.Format("2006-01-02 15:04") + " UTC"
}

// amiss returns the error for the parts of a source that were not loaded or are
// missing; nil if there are none.
func (l loaded) amiss() error {
	var all []error
	if l.Rejected > 0 {
		all = append(all, fmt.Errorf("%s of %s rows of %s couldn't be loaded: see %s", figure.Count(l.Rejected), figure.Count(l.Sent), l.Source, l.Bad))
	}
	if l.Missing > 0 {
		all = append(all, engine.Hinted(fmt.Errorf("%s rows of %s that were loaded%s aren't in the table any more", figure.Count(l.Missing), l.Source, l.when()),
			"--again, which loads all of the file and passes over rows whose key is in the table; --accept-missing, if they were removed on purpose"))
	}
	if len(l.Damaged) > 0 {
		all = append(all, fmt.Errorf("%d parts of the spool are damaged, and weren't loaded", len(l.Damaged)))
	}
	return errors.Join(all...)
}

// sourceKnown is a source that was loaded or is being loaded, as --list --json prints
// it.
type sourceKnown struct {
	Source string `json:"source"`
	Kind   string `json:"kind"`
	// Finished reports whether it was loaded to the end that it had.
	Finished bool `json:"finished"`
	// Bytes is the length of the part that is completely in the table. The row counts
	// include that part and the later batches that were committed.
	Bytes     int64 `json:"bytes"`
	Sent      int64 `json:"sent"`
	Inserted  int64 `json:"inserted"`
	Duplicate int64 `json:"duplicate"`
	Rejected  int64 `json:"rejected"`
	// Open is the number of batches that were cut but not committed.
	Open    int       `json:"open_batches"`
	Started time.Time `json:"started"`
	Updated time.Time `json:"updated"`
}

// listLoaded prints what was loaded into a table, the newest first.
func (a *app) listLoaded(ctx context.Context, k *kept, withJSON bool) error {
	all, err := k.State.Sources(ctx, k.Declared.Name, "", "")
	if errors.Is(err, engine.ErrNoTable) {
		all, err = nil, nil // an older rowmill applied the declaration, and nothing was loaded
	}
	if err != nil {
		return err
	}
	out := []sourceKnown{}
	for _, s := range all {
		open, err := addCuts(ctx, k.State, &s)
		if err != nil {
			return err
		}
		out = append(out, sourceKnown{Source: s.Path, Kind: s.Kind, Finished: s.Finished, Bytes: s.Loaded, Sent: s.Sent, Inserted: s.Inserted,
			Duplicate: s.Duplicate, Rejected: s.Rejected, Open: open, Started: s.Started.UTC(), Updated: s.Updated.UTC()})
	}
	if withJSON {
		return a.printJSON(struct {
			Format  string        `json:"format"`
			Table   string        `json:"table"`
			Sources []sourceKnown `json:"sources"`
		}{"rowmill.sources/1", k.Declared.Name, out})
	}
	if len(out) == 0 {
		fmt.Fprintf(a.stdout, "nothing has been loaded into %s\n", k.Declared.Name)
		return nil
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "UPDATED (UTC)\tSTATE\tROWS\tINSERTED\tTHERE ALREADY\tREJECTED\tSOURCE")
	rows := func(n int64) string { return figure.Count(n) }
	for _, s := range out {
		how := "loaded"
		switch {
		case s.Kind == state.SpoolSource:
			how = "spool"
		case !s.Finished && s.Kind == state.StreamSource:
			how = "broken off"
		case !s.Finished:
			how = "begun, " + figure.Plural(s.Open, "batch", "batches") + " to send"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Updated.Format("2006-01-02 15:04:05"), how, rows(s.Sent), rows(s.Inserted), rows(s.Duplicate), rows(s.Rejected), s.Source)
	}
	return w.Flush()
}

// addCuts adds the counts of the committed batches of a source that isn't loaded to
// its end, and returns the number of batches that aren't committed.
func addCuts(ctx context.Context, st *state.Store, s *state.Source) (open int, err error) {
	cuts, err := st.Cuts(ctx, s.Table, s.Key)
	if err != nil || len(cuts) == 0 {
		return 0, err
	}
	noted, err := st.NotedOf(ctx, s.Table, s.Key, cuts)
	for _, b := range noted {
		s.Add(b.Counts)
	}
	return len(cuts) - len(noted), err
}
