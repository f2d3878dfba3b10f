package tabular

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"

	"github.com/rowmill/rowmill/internal/engine"
)

const (
	// sampleRows and sampleBytes limit the rows that are held back to measure the width of the
	// columns. A wider value in a later row makes its line longer.
	sampleRows  = 10_000
	sampleBytes = 4 << 20
	// maxWidth is the largest width of a column: longer values lengthen their line alone.
	maxWidth = 256
)

// table writes boxes as the usual clients do. Values are never cut.
type table struct {
	output
	noHeader bool

	forms  []form
	widths []int
	border []byte
	// texts has the visible texts of all cells that are not yet written, one after the other. cells
	// has, for each of them, where its text ends in texts, and the text's width. The first row of
	// cells is the header, unless noHeader is set.
	texts  []byte
	cells  []cell
	hex    []byte
	header int // number of rows in cells that are the header
	fixed  bool
}

type cell struct{ end, width int }

func (t *table) Columns(cols []engine.ResultColumn) error {
	t.widths = make([]int, len(cols))
	for _, c := range cols {
		t.forms = append(t.forms, formOf(c))
	}
	if t.noHeader {
		return nil
	}
	t.header = 1
	for i, c := range cols {
		t.add(i, appendVisible(t.texts, []byte(c.Name)))
	}
	return nil
}

// add adds a cell of column i, whose text was appended to t.texts.
func (t *table) add(i int, texts []byte) {
	width := visibleWidth(texts[len(t.texts):])
	t.texts = texts
	t.cells = append(t.cells, cell{len(texts), width})
	if !t.fixed {
		t.widths[i] = max(t.widths[i], min(width, maxWidth))
	}
}

func (t *table) Row(values [][]byte) error {
	for i, v := range values {
		switch f := t.forms[i]; {
		case v == nil:
			t.add(i, append(t.texts, "NULL"...))
		case f.binary():
			t.hex = bytes.ToUpper(f.appendHex(t.hex[:0], v))
			t.add(i, append(append(t.texts, "0x"...), t.hex...))
		case f == formBits:
			t.add(i, appendBits(t.texts, v))
		default:
			t.add(i, appendVisible(t.texts, v))
		}
	}
	if !t.fixed && len(t.cells) < sampleRows*len(t.widths) && len(t.texts) < sampleBytes {
		return nil
	}
	return t.write()
}

// write writes the collected cells and fixes the widths.
func (t *table) write() error {
	if len(t.widths) == 0 {
		return nil
	}
	if !t.fixed {
		t.fixed = true
		t.border = t.border[:0]
		for _, w := range t.widths {
			t.border = append(append(t.border, '+'), bytes.Repeat([]byte{'-'}, w+2)...)
		}
		t.border = append(t.border, "+\n"...)
		t.buf = append(t.buf, t.border...)
	}
	from := 0
	for n, c := range t.cells {
		i := n % len(t.widths)
		pad := max(t.widths[i]-c.width, 0)
		head := t.header > 0
		t.buf = append(t.buf, "| "...)
		if right := t.forms[i].number() && !head; right {
			t.buf = append(pads(t.buf, pad), t.texts[from:c.end]...)
		} else {
			t.buf = pads(append(t.buf, t.texts[from:c.end]...), pad)
		}
		t.buf = append(t.buf, ' ')
		from = c.end
		if i < len(t.widths)-1 {
			continue
		}
		t.buf = append(t.buf, "|\n"...)
		if head {
			t.header--
			t.buf = append(t.buf, t.border...)
		}
		if len(t.buf) >= flushAt {
			if err := t.flush(); err != nil {
				return err
			}
		}
	}
	t.texts, t.cells = t.texts[:0], t.cells[:0]
	return nil
}

func (t *table) Close() error {
	if err := t.write(); err != nil {
		return err
	}
	t.buf = append(t.buf, t.border...)
	return t.flush()
}

func pads(dst []byte, n int) []byte {
	for range n {
		dst = append(dst, ' ')
	}
	return dst
}

func visibleWidth(text []byte) int {
	for _, c := range text {
		if c >= utf8.RuneSelf {
			return runewidth.StringWidth(string(text))
		}
	}
	return len(text)
}

// appendVisible appends a text, and escapes what a terminal would obey instead of showing: control
// characters, changes of the direction of writing, and bytes that aren't UTF-8.
func appendVisible(dst, text []byte) []byte {
	for len(text) > 0 {
		n := 0
		for n < len(text) && text[n] >= ' ' && text[n] < 0x7f {
			n++
		}
		dst, text = append(dst, text[:n]...), text[n:]
		if len(text) == 0 {
			break
		}
		r, size := utf8.DecodeRune(text)
		switch {
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == utf8.RuneError && size == 1, r < ' ', r == 0x7f:
			dst = append(dst, '\\', 'x', hexDigits[text[0]>>4], hexDigits[text[0]&15])
		case unicode.Is(unicode.Bidi_Control, r), unicode.IsControl(r), r == '\u2028', r == '\u2029':
			dst = append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
		default:
			dst = append(dst, text[:size]...)
		}
		text = text[size:]
	}
	return dst
}
