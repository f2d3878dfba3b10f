package query

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/plan"
)

// sample learns the types of Provisional columns, which depend on how the server computes the
// answer. It runs the statement over only one partition, the smallest that the statement reads.
func (r *Runner) sample(ctx context.Context, s *engine.Session, p *plan.Plan) error {
	at := slices.IndexFunc(p.Columns, func(c engine.ResultColumn) bool { return c.Provisional })
	if p.Whole != "" || at < 0 {
		return nil
	}
	why := fmt.Sprintf("the type of %s depends on how the server computes it", p.Columns[at].Name)
	sorted := p.Merge.Rows || slices.ContainsFunc(p.Columns, func(c engine.ResultColumn) bool { return c.Provisional && c.Width > 0 })
	if sorted && p.Joined {
		p.Whole = why // the type depends on which table is sorted: for few rows, the server may sort another one
		return nil
	}
	smallest := -1
	for i, part := range p.Table.Parts {
		if slices.Contains(p.Parts, part.Name) && (smallest < 0 || part.Rows < p.Table.Parts[smallest].Rows) {
			smallest = i
		}
	}
	if smallest < 0 {
		p.Whole = why
		return nil
	}
	part := p.Table.Parts[smallest].Name
	var cols []engine.ResultColumn
	err := s.Text(ctx, p.Sample[0]+r.nodes[0].PartFrom(p.Table, []string{part})+p.Sample[1],
		func(c []engine.ResultColumn) error { cols = slices.Clone(c); return nil },
		func([][]byte) error { return nil })
	switch {
	case ctx.Err() != nil || errors.Is(err, engine.ErrConnectionLost) || errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case err != nil || len(cols) != len(p.Columns):
		p.Whole = why
		return nil
	}
	for i, c := range cols {
		if d := &p.Columns[i]; d.Provisional {
			if c.Name != d.Name || c.Unsigned != d.Unsigned {
				p.Whole = why
				return nil
			}
			d.Native, d.Packet = c.Native, c.Packet
		}
	}
	return nil
}
