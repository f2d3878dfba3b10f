package query

import (
	"fmt"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// TestGroupParts shares out partitions of several shapes: each is in one piece, in order, and
// sessions that take the longest piece next end with at most an eighth of an even share, or one
// partition, between them.
func TestGroupParts(t *testing.T) {
	even := func(n int, rows int64) (list []int64) {
		for range n {
			list = append(list, rows)
		}
		return list
	}
	for _, c := range []struct {
		name     string
		rows     []int64
		sessions int
		pieces   int
	}{
		{"one", []int64{7}, 2, 1},
		{"even", even(100, 40_000), 2, 9},
		{"one session", even(100, 40_000), 1, 4},
		{"eight sessions", even(1000, 40_000), 8, 39},
		{"empty", even(10, 0), 2, 6},
		{"unknown", even(10, -1), 2, 6},
		{"growing", []int64{1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000}, 2, 4},
		{"one large", append(even(20, 100), 1_000_000), 2, 2},
	} {
		table := &engine.TableParts{}
		var names []string
		var total, largest int64
		for i, rows := range c.rows {
			names = append(names, fmt.Sprint("p", i))
			table.Parts = append(table.Parts, engine.TablePart{Name: names[i], Rows: rows})
			total, largest = total+1+max(0, rows), max(largest, 1+rows)
		}
		pieces := groupParts(table, names, c.sessions)
		if len(pieces) != c.pieces {
			t.Errorf("%s: %d pieces, want %d", c.name, len(pieces), c.pieces)
		}
		at := 0
		order := make([]int, len(pieces))
		for i, p := range pieces {
			order[i] = i
			for _, name := range p.Parts {
				if at == len(names) || name != names[at] {
					t.Fatalf("%s: pieces %+v, want each partition once and in order", c.name, pieces)
				}
				at++
			}
			if known := c.rows[0] >= 0; known != (p.Rows >= 0) {
				t.Errorf("%s: piece %d has %d rows, want unknown only if a partition's are", c.name, i, p.Rows)
			}
		}
		if at != len(names) {
			t.Errorf("%s: %d of %d partitions are in pieces", c.name, at, len(names))
		}
		longestFirst(order, pieces)
		ends := make([]int64, c.sessions)
		for _, i := range order {
			first := 0
			for s := range ends {
				if ends[s] < ends[first] {
					first = s
				}
			}
			ends[first] += int64(len(pieces[i].Parts)) + max(0, pieces[i].Rows)
		}
		latest := int64(0)
		for _, end := range ends {
			latest = max(latest, end)
		}
		if fair := total / int64(c.sessions); latest > fair+max(fair/8, largest) {
			t.Errorf("%s: the last session ends after %d rows, want about %d", c.name, latest, fair)
		}
	}
}
