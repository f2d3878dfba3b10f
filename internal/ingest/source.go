package ingest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/value"
)

// findSource finds the recorded source of the file, given its head: the newest source with the same
// name and head, or else a source of another name whose bytes the file contains.
func (l *fileLoad) findSource(ctx context.Context, head []byte) error {
	s := l.Source
	var all []state.Source
	err := l.Tidy(ctx)
	if err == nil {
		all, err = lane.Retried(ctx, l.Load, func() ([]state.Source, error) {
			return l.State.FilesLike(ctx, s.Table, s.Path, int64(len(head)), func(n int64, hash string) bool { return format.HashOf(head[:n]) == hash })
		})
	}
	if err != nil || len(all) == 0 {
		return err
	}
	var same, other []state.Source // sources with the file's head: of the same path, of another path
	var newest *state.Source
	for i, was := range all {
		if was.Path == s.Path && newest == nil {
			newest = &all[i]
		}
		if was.Head > int64(len(head)) || format.HashOf(head[:was.Head]) != was.HeadHash {
			continue
		}
		switch {
		case was.Path == s.Path:
			same = append(same, was)
		case l.opt.Name == "" && was.Head > 0 && (was.Sent > 0 || !was.Finished): // a header alone doesn't identify a file
			other = append(other, was)
		}
	}
	if len(head) == 0 && newest != nil && newest.Head > 0 {
		return fmt.Errorf("%s: %w", l.path, shorter(0, newest.Loaded))
	}
	if len(same) == 1 && len(other) == 0 {
		l.Source = &same[0]
		return nil
	}
	for _, was := range append(slices.Clone(same), other...) {
		is, err := l.agrees(ctx, &was)
		if err != nil {
			return err
		}
		if !is {
			continue
		}
		if l.Source = &was; was.Path != s.Path {
			l.Say("%s has what was loaded already as %s, the first %s of it: only what follows is loaded", s.Path, was.Path, figure.Plural(was.Loaded, "byte", "bytes"))
		}
		return nil
	}
	if len(same) > 0 {
		l.Source = &same[0]
		return nil
	}
	if newest != nil && !newest.Finished {
		l.Say("%s is not the file whose load of %s is incomplete: it is loaded from its start", s.Path, minute(newest.Started))
	}
	return nil
}

func (l *fileLoad) cutsOf(ctx context.Context, s *state.Source) ([]state.Cut, error) {
	return lane.Retried(ctx, l.Load, func() ([]state.Cut, error) { return l.State.Cuts(ctx, s.Table, s.Key) })
}

// agrees reports whether the file has the bytes of a recorded source: those of its loaded part, and
// those of the recorded cuts after that part. It reads the cuts before it reads where the loaded
// part ends, because a load that ends replaces the cuts by the loaded part.
func (l *fileLoad) agrees(ctx context.Context, s *state.Source) (bool, error) {
	var parts, cuts []state.Cut
	if !s.Finished {
		var err error
		if cuts, err = l.cutsOf(ctx, s); err != nil {
			return false, err
		}
		now, err := lane.Retried(ctx, l.Load, func() (*state.Source, error) { return l.State.Source(ctx, s.Table, s.Key) })
		if err != nil || now == nil {
			return false, err
		}
		*s = *now
	}
	if s.Loaded > 0 {
		parts = []state.Cut{{To: s.Loaded, Hash: s.Hash}}
	}
	for _, cut := range cuts {
		if cut.From >= s.Loaded {
			parts = append(parts, cut)
		}
	}
	agree := len(parts) > 0
	err := format.WithFile(ctx, l.path, l.open, func(_ *format.Input, r io.Reader) error {
		for _, part := range parts {
			sum := xxhash.New()
			_, err := io.CopyN(sum, r, part.To-part.From)
			if agree = err == nil && fmt.Sprintf("%016x", sum.Sum64()) == part.Hash; !agree {
				if errors.Is(err, io.EOF) {
					return nil
				}
				return err
			}
		}
		return nil
	})
	return agree && err == nil, err
}

// optionsText returns, as JSON, the options that determine how a file's bytes become rows. With
// other options, the rest of the file would become other rows than its beginning did.
func (l *fileLoad) optionsText() string {
	f, v := &l.format, &l.opt.Values
	m := map[string]string{"on-duplicate": l.opt.OnDuplicate, "format": string(f.Kind), "columns": strings.Join(f.Columns, ","), "bytes": cmp.Or(v.Bytes, value.Hex),
		"time-zone": zoneName(v.Zone), "truncate-times": strconv.FormatBool(v.TruncateTimes), "unix-times": v.Unix}
	if l.parquet {
		m["format"] = string(format.Parquet)
	}
	if f.Kind == format.LineProtocol {
		m["measurement"] = f.Measurement
	}
	m["encoding"], m["null-quoted"], m["decimal-comma"] = f.Encoding, strconv.FormatBool(f.NullQuoted), strconv.FormatBool(v.DecimalComma)
	m["skip-columns"], m["set"], m["time-format"] = strings.Join(f.SkipColumns, ","), "", v.TimeFormatsText()
	for _, c := range f.Set {
		m["set"] += c.Column + "=" + c.Value + "\n"
	}
	if !f.Kind.Keyed() || f.NullQuoted {
		m["null"] = strings.Join(f.Nulls, "\n")
	}
	if !f.Kind.Keyed() {
		m["header"], m["delimiter"] = strconv.FormatBool(f.HasHeader()), string(f.Separator())
		m["comment"], m["escape"], m["skip-lines"] = f.Comment, strconv.FormatBool(f.Escape), strconv.Itoa(f.SkipLines)
	}
	text, _ := json.Marshal(m) // contains only strings
	return string(text)
}

// begunOtherwise compares the options of an interrupted load with the present ones. If they differ,
// it returns true if none of the load's rows is in the table, so that the load can begin anew;
// otherwise it returns an error.
func (l *fileLoad) begunOtherwise() (bool, error) {
	s := l.Source
	is, was := map[string]string{}, map[string]string{}
	now := l.optionsText()
	if !s.Finished && s.Options != "" && !s.Started.IsZero() {
		if err := errors.Join(json.Unmarshal([]byte(now), &is), json.Unmarshal([]byte(s.Options), &was)); err != nil {
			return false, fmt.Errorf("options with which %s was being loaded: %w", s.Path, err)
		}
	}
	s.Options = now
	var differ []string
	for name, now := range is {
		if now != was[name] {
			differ = append(differ, fmt.Sprintf("--%s was %q and is now %q", name, was[name], now))
		}
	}
	if len(differ) == 0 {
		return false, nil
	}
	slices.Sort(differ)
	if all := l.known(); all.Inserted+all.Updated+all.Duplicate == 0 {
		l.Say("%s: its load begins anew, because no row of it is in the table, and %s", s.Path, strings.Join(differ, ", "))
		return true, nil
	}
	return false, engine.Hinted(fmt.Errorf("its load is incomplete, and was begun with other options: %s", strings.Join(differ, ", ")),
		"the same options; --again, which loads all of it and skips rows whose key is in the table")
}

func newKey() string { return fmt.Sprintf("%016x", rand.Uint64()) }
