package format

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/state"
)

// TestJoinedBatches checks that records that are joined have the rows, lines and offsets
// of the single ones, also if one ends in an open quote or without a line break.
func TestJoinedBatches(t *testing.T) {
	f := &Format{Kind: CSV, NoHeader: true}
	target := texts(f, 2)
	var all []*Batch
	var want []row
	at := int64(100)
	for i, text := range []string{"a,b\nc,d\n", "e,\"f\nstill open\n", "g,h", "one field\n\"i\nj\",k\n", ""} {
		b := &Batch{Data: []byte(text), Target: target}
		b.Cut = state.Cut{From: at, To: at + int64(len(text)) + 50, Line: int64(10*i + 1), Lines: int64(strings.Count(text, "\n")), Hash: fmt.Sprint(i)}
		all, at = append(all, b), b.To
		p := NewParser(target)
		p.Parse(b)
		want = append(want, rowsOfSource(p)...)
	}
	joined := Join(all)
	p := NewParser(target)
	p.Parse(joined)
	if got := rowsOfSource(p); !slices.Equal(got, want) {
		t.Errorf("joined:\n%v\nsingle:\n%v", got, want)
	}
	if joined.From != 100 || joined.To != at || len(joined.parts()) != len(all) {
		t.Errorf("%+v", joined.Cut)
	}
	for i, b := range joined.Split() {
		if string(b.Data) != string(all[i].Data) || b.Cut != all[i].Cut {
			t.Errorf("part %d: %q %+v", i, b.Data, b.Cut)
		}
	}
}

// rowsOfSource is rowsOf with offsets in the source.
func rowsOfSource(p *Parser) []row {
	out := rowsOf(p, 0)
	for i := range out {
		if !strings.HasPrefix(out[i].text, "rejected: ") {
			out[i].offset = p.From.offset(int(out[i].offset))
		}
	}
	slices.SortFunc(out, func(a, b row) int { return int(a.offset - b.offset) })
	return out
}
