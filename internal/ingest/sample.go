package ingest

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// sampleRows is the number of rows at the beginning of a file that are looked up by key.
const sampleRows = 200

// sample looks for the first rows of a loaded file by their primary keys, and returns how
// many of them the table lacks. Counts of rows don't reveal that where other rows lie in
// the same range: after the table was emptied or restored, and other files were loaded. It
// looks only if all accepted rows of the file must be there with their keys.
func (l *fileLoad) sample(ctx context.Context, t *target) (missing int64, err error) {
	s, known := l.opt.Schema, int64(0)
	for _, e := range l.recordedRows() {
		known += e.Rows
	}
	n := l.known() // with fewer rows known than the file has, some were accepted as missing
	switch {
	case len(t.primary) == 0 || !l.readAlike || len(s.Unique)+len(s.UniqueOther) > 0 || foreignTriggers(s):
		return 0, nil
	case l.accepted || n.Sent == 0 || n.Rejected > 0 || known < n.Inserted+n.Updated+n.Duplicate-n.Repeated:
		return 0, nil
	}
	b, err := l.firstRows(ctx, t)
	if err != nil || b == nil {
		return 0, err
	}
	now, err := l.present(ctx)
	if err != nil {
		return 0, err
	}
	p := newParser(t)
	p.parse(b)
	var rows []int // those that have periods
	for i := range p.batch.Rows() {
		if pos := p.position(i); now.has(rolling.Period{From: pos, To: pos + 1}) {
			rows = append(rows, i)
		}
	}
	p.keep(rows)
	err = l.retry(ctx, func() error {
		missing, err = l.lacks(ctx, p)
		return err
	})
	return missing, err
}

// lacks returns how many of a parser's rows the table lacks.
func (l *fileLoad) lacks(ctx context.Context, p *parser) (missing int64, err error) {
	loader, err := l.db.Loader(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, loader.Close()) }()
	if err := loader.Begin(ctx); err != nil {
		return 0, err
	}
	for _, part := range p.parts() {
		if part.batch.Rows() == 0 || !part.hasKey() {
			continue
		}
		found := 0
		if err := loader.Compare(ctx, part.table, p.schemaOf(part), part.batch, 0, part.batch.Rows(), func(engine.Compared) { found++ }); err != nil {
			return 0, err
		}
		missing += int64(part.batch.Rows() - found)
	}
	return missing, nil
}

// firstRows returns the first rows of the file, if they are loaded; else nil.
func (l *fileLoad) firstRows(ctx context.Context, t *target) (b *batch, err error) {
	in, err := openFile(l.path, l.format.Encoding)
	if err != nil {
		return nil, err
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	c := newCutter(reading, in, &l.format, sampleRows, DefaultBytes, 0)
	defer func() {
		close(in.quit)
		c.wait(stop)
		err = errors.Join(err, in.Close())
	}()
	b, err = c.next(ctx)
	if errors.Is(err, io.EOF) || errors.Is(err, errGrowing) || err == nil && b.To > l.source.Loaded {
		return nil, nil
	}
	if err == nil {
		b.target = t
	}
	return b, err
}

// foreignTriggers reports whether a table has triggers that aren't rowmill's.
func foreignTriggers(s *engine.Schema) bool {
	return slices.ContainsFunc(s.Triggers, func(name string) bool { return !strings.HasPrefix(name, "rowmill_") })
}

// lessBy returns extents with fewer rows, in all.
func lessBy(all []state.Extent, rows int64) []state.Extent {
	for i := range all {
		n := min(rows, all[i].Rows)
		all[i].Rows -= n
		rows -= n
	}
	return all
}
