package format

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

const utf8Name = "utf-8"

// Encoding returns an encoding's name in the WHATWG standard (latin1 is windows-1252); UTF-8 is "".
func Encoding(name string) (string, error) {
	e, err := htmlindex.Get(strings.TrimSpace(name))
	if err != nil || e == encoding.Replacement {
		return "", fmt.Errorf("encoding %q is unknown", name)
	}
	canonical, err := htmlindex.Name(e)
	if canonical == utf8Name {
		canonical = ""
	}
	return canonical, err
}

// Encodings returns names of frequent encodings.
func Encodings() []string {
	return []string{utf8Name, "windows-1252", "latin1", "iso-8859-15", "utf-16le", "utf-16be", "windows-1250", "windows-1251", "gb18030", "shift_jis", "euc-kr"}
}

// decode returns a reader of r's text in UTF-8. name is the encoding's name. If name is "", the
// text is UTF-8, or UTF-16 if it begins with a byte order mark of UTF-16; wide reports such a mark.
// An invalid character becomes an invalid byte of UTF-8.
func decode(r *bufio.Reader, name string) (_ *bufio.Reader, wide bool, err error) {
	var e encoding.Encoding
	if name == "" || strings.HasPrefix(name, "utf-16") {
		if e, err = markOf(r); err != nil {
			return nil, false, err
		}
		wide = e != nil
	}
	if e == nil && name == "" {
		return r, false, nil
	}
	if e == nil {
		if e, err = htmlindex.Get(name); err != nil {
			return nil, false, fmt.Errorf("encoding %q: %w", name, err)
		}
	}
	in := transform.NewReader(r, transform.Chain(e.NewDecoder(), marked{}))
	return bufio.NewReaderSize(in, blockSize), wide, nil
}

// markOf skips a byte order mark of UTF-16 and returns its encoding, nil if there is none.
func markOf(r *bufio.Reader) (encoding.Encoding, error) {
	head, err := r.Peek(1)
	if len(head) == 1 && head[0] >= 0xfe { // never the first byte of UTF-8
		head, err = r.Peek(2)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var e encoding.Encoding
	switch string(head) {
	case "\xff\xfe":
		e = unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case "\xfe\xff":
		e = unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	default:
		return nil, nil
	}
	_, err = r.Discard(2)
	return e, err
}

// marked turns U+FFFD, which decoders write for invalid bytes, back into an invalid byte, so that
// the row is bad.
type marked struct{ transform.NopResetter }

const invalidByte = 0xff

var replacement = []byte(string(utf8.RuneError))

func (marked) Transform(dst, src []byte, end bool) (int, int, error) {
	to, from := 0, 0
	for from < len(src) {
		i := bytes.IndexByte(src[from:], replacement[0])
		if i < 0 {
			i = len(src) - from
		}
		n := copy(dst[to:], src[from:from+i])
		to, from = to+n, from+n
		switch rest := src[from:]; {
		case n < i || len(rest) > 0 && to == len(dst):
			return to, from, transform.ErrShortDst
		case len(rest) == 0:
		case bytes.HasPrefix(rest, replacement):
			dst[to] = invalidByte
			to, from = to+1, from+len(replacement)
		case len(rest) < len(replacement) && !end:
			return to, from, transform.ErrShortSrc
		default:
			dst[to] = rest[0]
			to, from = to+1, from+1
		}
	}
	return to, from, nil
}
