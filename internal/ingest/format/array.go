package format

import (
	"bytes"
	"errors"
)

// blanks are the characters that JSON allows between values.
const blanks = " \t\r\n"

var (
	errOpenArray  = errors.New("the JSON array isn't closed: the source is truncated, or still being written")
	errOpenString = errors.New("a string of the JSON array isn't closed in its line")
)

// elementEnd returns the end of p's first record; 0 means that more bytes are needed. p is a part
// of a JSON array, after the array's opening bracket. A record is an element with the comma or
// bracket after it, or the text after the array.
func elementEnd(p []byte, final bool) (int, error) {
	i := elementBegin(p)
	if i == len(p) {
		if final && len(bytes.TrimRight(p, blanks)) == 0 {
			return len(p), nil // nothing follows
		}
		return unended(p, final)
	}
	depth := 0
	for ; i < len(p); i++ {
		switch p[i] {
		case '"':
			n := stringEnd(p[i+1:])
			if n < 0 {
				return unended(p, final)
			}
			if i += 1 + n; p[i] == '\n' {
				return 0, errOpenString
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i + 1, nil
			}
			depth--
		case ',':
			if depth == 0 {
				return i + 1, nil
			}
		}
	}
	return unended(p, final)
}

func unended(p []byte, final bool) (int, error) {
	switch {
	case len(p) > maxRecord:
		return 0, errEndless
	case final:
		return 0, errOpenArray
	}
	return 0, nil
}

// elementBegin returns where the first element of p begins, behind blanks.
func elementBegin(p []byte) int { return len(p) - len(bytes.TrimLeft(p, blanks)) }

// bracketEnd returns the end of p's opening bracket, 0 if p is no array. known: p is long enough.
func bracketEnd(p []byte, final bool) (end int, known bool) {
	text := bytes.TrimLeft(bytes.TrimPrefix(p, ByteOrderMark), blanks)
	switch {
	case len(text) == 0:
		return 0, final
	case text[0] != '[':
		return 0, true
	}
	return len(p) - len(text) + 1, true
}

// stringEnd returns the position of a JSON string's closing quote, or of a line break before that
// quote, or -1.
func stringEnd(p []byte) int {
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '\\':
			i++
		case '"', '\n':
			return i
		}
	}
	return -1
}

// element returns the range of an array's element within a record, without the comma or bracket at
// the record's end. empty reports a record without an element, e.g. "]".
func element(record []byte) (from, to int, empty bool) {
	from, to = elementBegin(record), len(record)
	if from == to {
		return from, to, true // nothing follows the array
	}
	closed := record[to-1] == ']'
	to = len(bytes.TrimRight(record[:to-1], blanks))
	return from, max(from, to), closed && to <= from
}
