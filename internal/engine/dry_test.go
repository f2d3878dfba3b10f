package engine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

func TestDry(t *testing.T) {
	info := engine.Info{Engine: "x", Target: "x:y"}
	caps := engine.Capabilities{Methods: []engine.Method{engine.Load}}
	db := engine.Dry(info, caps, nil)
	if db.Info() != info || len(db.Capabilities().Methods) != 1 || db.Dialect() != nil {
		t.Error("it is not what it was made from")
	}
	ctx := t.Context()
	_, writer := db.Writer(ctx, nil, engine.Load)
	_, querier := db.Querier(ctx)
	_, settle := db.Settle(ctx, engine.Settle{})
	_, counters := db.Counters(ctx, nil)
	_, exists := db.Catalog().Exists(ctx, nil)
	_, parts := db.Catalog().Partitions(ctx, nil)
	_, sizes := db.Catalog().Sizes(ctx, nil)
	_, settings := db.Catalog().Settings(ctx)
	for name, err := range map[string]error{
		"apply": db.Apply(ctx), "writer": writer, "querier": querier, "settle": settle,
		"scan": db.Scan(ctx, nil, nil, nil), "counters": counters,
		"exists": exists, "partitions": parts, "sizes": sizes, "settings": settings,
	} {
		if !errors.Is(err, engine.ErrUnsupported) || !strings.Contains(err.Error(), "x:y was not opened") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
