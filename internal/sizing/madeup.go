package sizing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/internal/workload/column"
	"github.com/rowmill/rowmill/internal/workload/draw"
	"github.com/rowmill/rowmill/rolling"
)

// makeUp fills the scratch table with generated rows. Their times ascend by a second from row to
// row, or by a day if the table is divided by a date.
func (s *Sample) makeUp(ctx context.Context, into string) (err error) {
	const hint = "put some %d rows into the table first, or --row-bytes N"
	s.source = "made-up rows"
	t, columns, err := s.generators(into)
	if err != nil {
		return engine.Hinted(err, hint, fewestLive)
	}
	method := s.DB.Capabilities().Methods[0]
	if slices.Contains(s.DB.Capabilities().Methods, engine.Multi) {
		method = engine.Multi
	}
	w, err := s.DB.Writer(ctx, t, method)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	b, stream := engine.NewBatch(t.Columns), draw.NewStream(1, 0)
	for s.loaded < s.Rows {
		b.Reset()
		n := min(s.perStatement(), s.Rows-s.loaded)
		for i := range columns {
			for seq := s.loaded; seq < s.loaded+n; seq++ {
				columns[i].Append(&b.Columns[i], stream, int64(seq), draw.Salt(draw.Golden, columns[i].Name))
			}
		}
		b.EndRows(n)
		began := time.Now()
		if _, err := w.Write(ctx, b); err != nil {
			return engine.Hinted(fmt.Errorf("insert made-up rows: %w", err), hint, fewestLive)
		}
		s.took += time.Since(began)
		s.loaded += n
	}
	return nil
}

// generators returns the scratch table with the columns to be written, and their generators.
func (s *Sample) generators(into string) (*engine.Table, []column.Generator, error) {
	t := &engine.Table{Name: into, PrimaryKey: []string{s.Table.By}}
	var all []column.Generator
	for i := range s.schema.Columns {
		c := &s.schema.Columns[i]
		by := strings.EqualFold(c.Name, s.Table.By)
		if c.Generated || c.Auto && !by {
			continue
		}
		of := column.Column{SchemaColumn: c, Values: s.Declared.Values.Of(c.Name), Clock: draw.Clock{Seconds: 1, Rows: 1}, Salt: draw.Salt(draw.Golden, c.Name)}
		if of.Values.Order == 0 {
			of.Values.Order = rolling.OrderRandom
		}
		if by {
			of.Values = rolling.ColumnValues{Order: rolling.OrderAscending}
			if c.Logical == value.Date {
				of.Clock.Seconds = 86400
			}
		}
		g, space, err := of.Generator()
		if err == nil {
			g.Source, err = of.NumberSource(space)
		}
		if errors.Is(err, column.ErrNoValues) && (c.Null || c.Default != "") {
			continue // the server fills in the column
		}
		if err != nil {
			return nil, nil, fmt.Errorf("column %s of type %s: %w", c.Name, c.Native, err)
		}
		if epoch := s.Table.Epoch.Microseconds(); by && epoch > 0 {
			g.Put = func(v *engine.Vector, n uint64) { v.Ints = append(v.Ints, (draw.VirtualStart+int64(n)*1e6)/epoch) }
		}
		t.Columns, all = append(t.Columns, g.Column), append(all, g)
	}
	return t, all, nil
}
