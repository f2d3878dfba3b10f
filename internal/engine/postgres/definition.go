package postgres

import (
	"strconv"
	"strings"
)

// skipToken returns the length of the quoted name, literal or comment at the start of q, or 0. One
// that does not end extends to the end of q.
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
	case strings.HasPrefix(q, "/*"): // comments nest
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
		// A doubled quote counts as two adjacent tokens.
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
	case isWord(q[0]): // a word may contain dollar signs, and its last letter is no prefix of a literal
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

// isWord reports whether c can be part of an unquoted identifier.
func isWord(c byte) bool {
	return c == '_' || c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// bind makes question marks outside literals $1, $2, ..., with a space where one would merge with a
// word.
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
