package ingest

import (
	"bytes"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/value"
)

// keyHash returns a hash of the key of row i of the batch. Keys that differ only in
// trailing blanks or in zeros after the point, which most servers equate, have the same.
func (p *parser) keyHash(i int) uint64 {
	p.keyBuf = p.keyBuf[:0]
	for _, c := range p.primary {
		p.text = p.batch.Columns[c].AppendText(p.text[:0], i)
		p.keyBuf = append(appendKey(p.keyBuf, p.columns[c].Kind, p.text), 0xff)
	}
	return xxhash.Sum64(p.keyBuf)
}

// appendKey appends the text of a key's value without what servers ignore.
func appendKey(dst []byte, kind value.Kind, text []byte) []byte {
	switch {
	case kind == value.Text:
		text = bytes.TrimRight(text, " ")
	case kind == value.Decimal && bytes.IndexByte(text, '.') >= 0:
		text = bytes.TrimRight(bytes.TrimRight(text, "0"), ".")
	}
	return append(dst, text...)
}

// keyInShapes reports whether a key occurs in rows of different shapes.
func (p *parser) keyInShapes() bool {
	if len(p.primary) == 0 || !slices.ContainsFunc(p.rowShapes, func(s *shape) bool { return s != p.rowShapes[0] }) {
		return false
	}
	of := make(map[uint64]*shape, len(p.rowShapes))
	for i, s := range p.rowShapes {
		h := p.keyHash(i)
		if was, there := of[h]; there && was != s {
			return true
		}
		of[h] = s
	}
	return false
}

// present describes the rows that were already present, in parentheses; "" if nothing
// is known of them.
func (l Outcome) present() string {
	var parts []string
	for _, p := range []struct {
		n    int64
		what string
	}{{l.Different, "with other values"}, {l.Repeated, "twice in the source"}} {
		if p.n > 0 {
			parts = append(parts, figure.Count(p.n)+" "+p.what)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}
