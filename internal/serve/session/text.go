package session

import (
	"bytes"
	"strings"
)

// kindOf classifies a statement by its first word.
func kindOf(text []byte) Kind {
	switch word, _ := firstWord(SkipBlank(text)); {
	case equalFold(word, "select"), equalFold(word, "with"):
		return Query
	case equalFold(word, "kill"):
		return Kill
	case equalFold(word, "show"):
		return Show
	}
	return Other
}

// SkipBlank skips white space, parentheses, and comments that aren't executed.
func SkipBlank(p []byte) []byte {
	for {
		p = bytes.TrimLeft(p, " \t\r\n\v\f(")
		end := -1
		switch {
		case bytes.HasPrefix(p, []byte("/*")) && len(p) > 3 && p[2] != '!' && (p[2] != 'M' || p[3] != '!'):
			if end = bytes.Index(p[2:], []byte("*/")); end >= 0 {
				end += 4
			}
		case len(p) > 0 && p[0] == '#', len(p) > 2 && p[0] == '-' && p[1] == '-' && p[2] <= ' ':
			if end = bytes.IndexByte(p, '\n'); end >= 0 {
				end++
			}
		default:
			return p
		}
		if end < 0 {
			return p
		}
		p = p[end:]
	}
}

func firstWord(p []byte) (word, rest []byte) {
	i := 0
	for i < len(p) && (p[i]|0x20 >= 'a' && p[i]|0x20 <= 'z' || p[i] == '_') {
		i++
	}
	return p[:i], p[i:]
}

func equalFold(p []byte, lower string) bool {
	return len(p) == len(lower) && strings.EqualFold(string(p), lower)
}

// containsFold looks for a word in lower case.
func containsFold(p []byte, lower string) bool {
	for i := 0; i+len(lower) <= len(p); i++ {
		if p[i]|0x20 == lower[0] && strings.EqualFold(string(p[i:i+len(lower)]), lower) {
			return true
		}
	}
	return false
}

// ShowsWarnings reports SHOW WARNINGS.
func ShowsWarnings(text []byte) bool {
	words := strings.Fields(strings.TrimRight(string(text), "; \t\r\n"))
	return strings.EqualFold(strings.Join(words, " "), "show warnings")
}

// AsksAboutLast reports a statement whose answer depends on the statement before it.
func AsksAboutLast(t []byte) bool {
	for _, word := range []string{"found_rows", "warning_count", "error_count", "row_count", "diagnostics"} {
		if containsFold(t, word) {
			return true
		}
	}
	return kindOf(t) == Show && (containsFold(t, "warnings") || containsFold(t, "errors"))
}

// Shape returns a hash (FNV-1a of 64 bits) of a statement in which numbers and strings are left
// out: statements that differ only in values have the same hash. The hash includes the account,
// because the server may refuse the statement to another account.
func Shape(p []byte, account string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	inName := false
	for i := 0; i < len(p); i++ {
		b := p[i]
		switch {
		case b == '\'' || b == '"':
			for i++; i < len(p) && p[i] != b; i++ {
				if p[i] == '\\' {
					i++
				}
			}
			b = '?'
		case b >= '0' && b <= '9' && !inName:
			for i+1 < len(p) && (p[i+1] >= '0' && p[i+1] <= '9' || p[i+1] == '.') {
				i++
			}
			b = '?'
		}
		inName = b|0x20 >= 'a' && b|0x20 <= 'z' || b >= '0' && b <= '9' || b == '_' || b == '`' || b >= 0x80
		h = (h ^ uint64(b)) * prime
	}
	for i := range len(account) {
		h = (h ^ uint64(account[i])) * prime
	}
	return max(1, h)
}
