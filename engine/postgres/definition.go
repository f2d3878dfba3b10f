package postgres

import (
	"errors"
	"strconv"
	"strings"
)

// splitDefinition cuts a CREATE TABLE statement behind the list of its columns,
// which is where PARTITION BY stands: before WITH, TABLESPACE and USING.
func splitDefinition(q string) (upTo, rest string, err error) {
	depth := 0
	for i := 0; i < len(q); {
		if n := skipToken(q[i:]); n > 0 {
			i += n
			continue
		}
		switch q[i] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return q[:i+1], strings.TrimRight(q[i+1:], " \t\r\n;"), nil
			}
		}
		i++
	}
	return "", "", errors.New("its declaration has no list of columns that ends")
}

// skipToken is the length of the quoted identifier, the literal or the comment
// that q begins with, and 0 where it begins with something else. What doesn't
// end goes to the end of q.
func skipToken(q string) int {
	until := func(from int, end string) int {
		if i := strings.Index(q[from:], end); i >= 0 {
			return from + i + len(end)
		}
		return len(q)
	}
	switch {
	case strings.HasPrefix(q, "--"):
		return until(2, "\n")
	case strings.HasPrefix(q, "/*"): // which nest
		depth := 1
		for i := 2; i < len(q); i++ {
			switch {
			case strings.HasPrefix(q[i:], "/*"):
				depth++
				i++
			case strings.HasPrefix(q[i:], "*/"):
				i++
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
		return len(q)
	case strings.HasPrefix(q, "'"), strings.HasPrefix(q, `"`):
		// A doubled quote is two tokens, one behind the other.
		return until(1, q[:1])
	case len(q) > 1 && (q[0] == 'e' || q[0] == 'E') && q[1] == '\'':
		for i := 2; i < len(q); i++ {
			switch q[i] {
			case '\\':
				i++
			case '\'':
				return i + 1
			}
		}
		return len(q)
	case isWord(q[0]): // whose dollars are its own, and whose last letter begins no literal
		n := 1
		for n < len(q) && (isWord(q[n]) || q[n] == '$') {
			n++
		}
		return n
	case q[0] == '$':
		n := 1
		for n < len(q) && isWord(q[n]) {
			n++
		}
		if n < len(q) && q[n] == '$' {
			return until(n+1, q[:n+1])
		}
	}
	return 0
}

// isWord reports whether c can stand in a name that isn't quoted.
func isWord(c byte) bool {
	return c == '_' || c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// bind rewrites question marks, none of them in a literal, into $1, $2, ..., with
// a space where one would be read as a part of the word beside it.
func bind(q string) string {
	if !strings.Contains(q, "?") {
		return q
	}
	var out strings.Builder
	out.Grow(len(q) + 16)
	n := 0
	for i := 0; i < len(q); {
		if k := skipToken(q[i:]); k > 0 {
			out.WriteString(q[i : i+k])
			i += k
			continue
		}
		if q[i] == '?' {
			n++
			if i > 0 && isWord(q[i-1]) {
				out.WriteByte(' ')
			}
			out.WriteString("$" + strconv.Itoa(n))
			if i+1 < len(q) && isWord(q[i+1]) {
				out.WriteByte(' ')
			}
		} else {
			out.WriteByte(q[i])
		}
		i++
	}
	return out.String()
}
