package sample

import (
	"database/sql"
	"math"
	"strconv"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/internal/workload/draw"
	"github.com/rowmill/rowmill/rolling"
)

// Statistics of the distances tell orders apart, also without a server.
func TestLearnOrders(t *testing.T) {
	const rows = 100_000
	s := draw.NewStream(1, 0)
	for name, x := range map[string]struct {
		from  draw.Source
		mixed bool // spread over all numbers
		want  rolling.ValueOrder
	}{
		"counter":  {draw.Source{Share: 1}, false, rolling.OrderAscending},
		"late":     {draw.Source{Share: 1, Last: 500}, false, rolling.OrderAscending},
		"sessions": {draw.Source{Share: 0.05, Last: 100}, true, rolling.OrderRecent},
		"even":     {draw.Source{Ranks: draw.NewRanks(5000, nil, 0, 0)}, false, rolling.OrderRandom},
		"skewed":   {draw.Source{Ranks: draw.NewRanks(5000, nil, 1, 0)}, true, rolling.OrderRandom},
		"unique":   {draw.Source{Share: 1}, true, rolling.OrderRandom},
	} {
		t.Run(name, func(t *testing.T) {
			by := &learner{SchemaColumn: &engine.SchemaColumn{Name: "at", Type: value.Type{Kind: value.Int}}}
			c := &learner{SchemaColumn: &engine.SchemaColumn{Name: "x", Type: value.Type{Kind: value.Int}}, declared: "x"}
			l := &learning{TableSample: &engine.TableSample{Rows: rows}}
			d, seen := draw.Values(7), map[int64]bool{}
			for page := range 30 { // of 100 rows
				first := d.Below(rows - 100)
				for seq := first; seq < first+100; seq++ {
					if seen[seq] {
						continue
					}
					seen[seq] = true
					l.blocks = append(l.blocks, page)
					by.add(text(seq))
					n := x.from.Number(s, seq, draw.Mix(uint64(s.Row(seq))+draw.Golden))
					if x.mixed {
						n = draw.Mix(n)
					}
					c.add(text(int64(n & math.MaxInt64)))
				}
			}
			l.place([]*learner{by}, rolling.Sequence)
			if v := l.learn(c); v.Order != x.want {
				t.Errorf("%+v", v)
			} else {
				t.Logf("%+v", v)
			}
		})
	}
}

func text(n int64) sql.NullString {
	return sql.NullString{String: strconv.FormatInt(n, 10), Valid: true}
}
