package ingest

import (
	"fmt"
	"strings"
	"testing"
)

// TestSeenKnowsTheLatestKeys checks that the first line of a key is known for as many rows
// as promised, that memory is bounded, and that equal keys have equal hashes.
func TestSeenKnowsTheLatestKeys(t *testing.T) {
	p := parserOf(t, &Format{Kind: CSV, NoHeader: true}, "sensor,ts,value,note")
	p.primary = []int{0, 3}
	var s seen
	line := int64(1)
	var first uint64
	for n := 0; n < 3*seenRows; n += 5000 {
		var text strings.Builder
		for i := range 5000 {
			fmt.Fprintf(&text, "%d,2026-03-29 01:00:00,1,k %d \n", n+i, n+i)
		}
		p.parse(bytesOf([]byte(text.String()), line, 0, false))
		s.add(p)
		if n == 0 {
			first = p.keyHash(0, nil)
			if s.other(first, 1) != 0 || s.other(first, 7) != 1 {
				t.Errorf("the first key is known of lines %d and %d", s.other(first, 1), s.other(first, 7))
			}
			if p.keyHash(3, []string{"", "k 3"}) != p.keyHash(3, nil) || p.keyHash(3, []string{"", "K 3"}) == p.keyHash(3, nil) {
				t.Error("the hash of a stored key")
			}
		} else if n < seenRows-5000 && s.other(first, 7) != 1 {
			t.Fatalf("the first key is forgotten after %d rows", n)
		}
		if all := max(len(s.now.slots), len(s.before.slots)); all > 2*seenRows {
			t.Fatalf("a table of %d keys", all)
		}
		line += 5000
	}
	if s.other(first, 7) != 0 {
		t.Error("the first key is known after three generations")
	}
}
