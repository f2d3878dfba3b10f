package maintain

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain/archive"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// archiveDir returns the directory of the table's archives. It is absolute, because it is recorded
// for processes with other working directories.
func (t sealer) archiveDir() string {
	dir := t.Declared.Seal.Archive
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(t.Dir, dir)
	}
	dir = filepath.Join(dir, t.Node)
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}

// archive writes a sealed period to its file, reads that back, and records the result.
func (t sealer) archive(ctx context.Context, p rolling.Partition, k *state.Period) (string, error) {
	if err := t.dropper().errIfChanged(ctx); err != nil {
		return "", err
	}
	if same, err := t.sealer().unchanged(ctx, p, k); err != nil || !same {
		return p.Name + ": rows have arrived since it was sealed", err
	}
	t.Reach("archive begun")
	f, err := archive.Write(ctx, t.DB, t.Table, t.Schema, p, t.archiveDir())
	if err != nil {
		return "", err
	}
	t.Reach("archive written")
	read, err := archive.Verify(ctx, f.Path)
	if err != nil {
		return "", err
	}
	if read.Rows != f.Rows || read.Sum != f.Sum {
		return "", fmt.Errorf("archive %s: the file reads back as %s with checksum %s, and was written with %s and %s", f.Path, figure.Plural(read.Rows, "row"), read.Sum, figure.Count(f.Rows), f.Sum)
	}
	// A row that arrived while the file was written may or may not be in it.
	if same, err := t.sealer().unchanged(ctx, p, k); err != nil || !same {
		return p.Name + ": rows have arrived while it was archived", err
	}
	if f.Rows != k.Rows {
		return "", fmt.Errorf("archive %s: %s written, and %s has %s", f.Path, figure.Plural(f.Rows, "row was", "rows were"), p.Name, figure.Count(k.Rows))
	}
	done := *k
	done.State, done.Archive, done.ArchiveSum = state.Archived, f.Path, f.Sum
	err = t.inTx(ctx, func(tx *sql.Tx) error { return t.State.Put(ctx, tx, done) })
	t.Reach("archived")
	if err != nil {
		return "", err
	}
	kept, err := archive.Supersede(t.archiveDir(), f)
	if err != nil {
		return "", err
	}
	if f.Kept != "" {
		kept = append(kept, f.Kept)
	}
	for _, path := range kept {
		t.Log(ctx, string(Archive), p.Name+": the earlier archive had other rows, and is kept as "+path, 0, nil)
	}
	return fmt.Sprintf("%s: %s in %s", p.Name, figure.Plural(f.Rows, "row"), f.Path), nil
}

// Archives lists the archive files of the table's periods: in the directory that is now declared,
// and in other directories to which periods were archived before. If a file is missing, its Info
// has a Problem.
func (t *Table) Archives(ctx context.Context) ([]archive.Info, error) {
	var out []archive.Info
	if t.Declared.Seal.Archive != "" {
		dir := t.sealer().archiveDir()
		var err error
		if out, err = archive.List(dir, t.Table.Name); err != nil {
			return nil, err
		}
	}
	known, err := t.State.Periods(ctx, t.Table.Name)
	if err != nil && !isNoTable(err) {
		return nil, err
	}
	for _, k := range known {
		if k.Archive == "" || slices.ContainsFunc(out, func(i archive.Info) bool { return samePath(i.Path, k.Archive) }) {
			continue
		}
		i, err := archive.Look(k.Archive)
		if err != nil {
			i.Problem = err.Error()
			i.Table, i.Name, i.From, i.To, i.Rows, i.Sum = k.Table, k.Name, k.From, k.To, k.Rows, k.ArchiveSum
			i.Bounds = t.Table.Grid.Format(k.From) + " to " + t.Table.Grid.Format(k.To)
		}
		out = append(out, i)
	}
	slices.SortStableFunc(out, func(a, b archive.Info) int {
		return cmp.Or(cmp.Compare(a.From, b.From), strings.Compare(a.Path, b.Path))
	})
	return out, nil
}

func samePath(a, b string) bool {
	absA, errA := filepath.Abs(a)
	absB, errB := filepath.Abs(b)
	return a == b || errA == nil && errB == nil && absA == absB
}

// FindArchive returns the file of the named period.
func (t *Table) FindArchive(ctx context.Context, period string) (string, error) {
	all, err := t.Archives(ctx)
	if err != nil {
		return "", err
	}
	for _, i := range all {
		// A damaged file may not say which period it has, but its name does.
		if i.Name == period || i.Name == "" && filepath.Base(i.Path) == filepath.Base(archive.Path("", t.Table.Name, period)) {
			return i.Path, nil
		}
	}
	return "", engine.Hinted(fmt.Errorf("restore %s: table %s has no archive of that period among %s", period, t.Table.Name, figure.Plural(len(all), "archive")),
		"--list, which lists the archives; or --file FILE, where the file lies elsewhere")
}

// Release returns a restored period to retention. The next pass may drop the period, after
// verifying its archive.
func (t *Table) Release(ctx context.Context, period string) error {
	known, err := t.State.Periods(ctx, t.Table.Name)
	if err != nil {
		return err
	}
	for _, k := range known {
		if k.Name != period || k.State != state.Restored {
			continue
		}
		k.State = state.Archived
		if err := t.inTx(ctx, func(tx *sql.Tx) error { return t.State.Put(ctx, tx, k) }); err != nil {
			return err
		}
		t.Log(ctx, "release", k.Name, 0, nil)
		return nil
	}
	return engine.Hinted(fmt.Errorf("release %s: table %s has no restored period of that name", period, t.Table.Name), "rowmill status, which lists the periods")
}
