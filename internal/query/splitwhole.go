package query

import (
	"context"

	"github.com/rowmill/rowmill/internal/engine"
)

// split describes a statement without splitting it.
func split(ctx context.Context, reader engine.Reader, s *engine.Session, statement string, _ engine.State, _ Options) (*Plan, error) {
	cols, err := reader.DescribeQuery(ctx, s, statement)
	return &Plan{Columns: cols, Whole: "statements aren't split"}, err
}
