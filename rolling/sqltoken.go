package rolling

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

type sqlKind byte

const (
	sqlWord   sqlKind = iota // an unquoted name or keyword
	sqlQuoted                // a quoted name; in MySQL "..." may be a string
	sqlString
	sqlNumber
	sqlPunct // one byte
	sqlEnd
)

type sqlToken struct {
	kind sqlKind
	// text is the token's text; for a quoted token the text between the quotes.
	text     string
	from, to int
}

// is reports whether the token is a keyword or punctuation.
func (t sqlToken) is(word string) bool {
	return (t.kind == sqlWord || t.kind == sqlPunct) && strings.EqualFold(t.text, word)
}

func (t sqlToken) isAny(words ...string) bool { return slices.ContainsFunc(words, t.is) }

func (t sqlToken) isName() bool { return (t.kind == sqlWord || t.kind == sqlQuoted) && t.text != "" }

func (t sqlToken) String() string {
	switch t.kind {
	case sqlEnd:
		return "the end"
	case sqlString:
		return "a text"
	}
	if len(t.text) > 40 {
		return fmt.Sprintf("%.40q...", t.text)
	}
	return fmt.Sprintf("%q", t.text)
}

type sqlError struct {
	at         int // the offset
	text, hint string
}

func sqlTokens(text string, d *dialect) ([]sqlToken, *sqlError) {
	l := sqlLexer{dialect: d, text: text}
	for l.pos < len(text) {
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	if l.inline > 0 {
		return nil, &sqlError{l.inline - 1, "a comment that begins with /*! doesn't end", "*/"}
	}
	return l.out, nil
}

type sqlLexer struct {
	*dialect
	text string
	pos  int
	out  []sqlToken
	// inline is the offset, plus one, of an executable comment (/*!).
	inline int
}

// executable begins a comment that MySQL and MariaDB execute.
var executable = regexp.MustCompile(`^/\*M?![0-9]*`)

func (l *sqlLexer) next() *sqlError {
	c, rest := l.text[l.pos], l.text[l.pos:]
	switch {
	case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v':
		l.pos++
	case l.inline > 0 && strings.HasPrefix(rest, "*/"):
		// The last token ends with the comment, so that a text cut there doesn't leave the comment open.
		l.inline = 0
		l.pos += 2
		if n := len(l.out); n > 0 {
			l.out[n-1].to = l.pos
		}
	case strings.HasPrefix(rest, "*/"):
		return &sqlError{l.pos, "a comment ends that never began", ""}
	case l.inline > 0 && c == ';':
		return &sqlError{l.pos, "a statement ends within a comment that begins with /*!", "*/ before the semicolon"}
	case strings.HasPrefix(rest, "/*"):
		return l.comment(rest)
	case strings.HasPrefix(rest, "--"), c == '#' && l.hashComments:
		// MySQL requires a blank after --; no definition has one without it, as in 5--3.
		n := strings.IndexByte(rest, '\n')
		if n < 0 {
			n = len(rest)
		}
		l.pos += n
	case c == '\'':
		return l.quoted(sqlString, '\'', l.backslashes || l.escapes())
	case c == '"':
		return l.quoted(sqlQuoted, '"', l.backslashes)
	case c == '`' && l.backquotes:
		return l.quoted(sqlQuoted, '`', false)
	case c == '[' && l.brackets:
		n := strings.IndexByte(rest, ']')
		if n < 0 {
			return &sqlError{l.pos, "a name in [ ] doesn't end", ""}
		}
		l.add(sqlQuoted, rest[1:n], n+1)
	case c == '$' && l.dollarTexts && dollar.MatchString(rest):
		tag := dollar.FindString(rest)
		n := strings.Index(rest[len(tag):], tag)
		if n < 0 {
			return &sqlError{l.pos, "a text that begins with " + tag + " doesn't end", ""}
		}
		l.add(sqlString, rest[len(tag):len(tag)+n], n+2*len(tag))
	case wordByte(c):
		n := 1
		for n < len(rest) && wordByte(rest[n]) {
			n++
		}
		kind := sqlWord
		if number.MatchString(rest[:n]) {
			kind = sqlNumber
		}
		l.add(kind, rest[:n], n)
	case c < ' ' || c == 127 || c == '\\':
		return &sqlError{l.pos, fmt.Sprintf("unexpected character %q", c), ""}
	default:
		l.add(sqlPunct, rest[:1], 1)
	}
	return nil
}

var (
	dollar = regexp.MustCompile(`^\$([A-Za-z_\x80-\xff][A-Za-z0-9_\x80-\xff]*)?\$`)
	number = regexp.MustCompile(`^([0-9]+([eE][0-9]+)?|0[xX][0-9a-fA-F]+)$`)
)

func wordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '$' || c >= 0x80
}

func (l *sqlLexer) add(kind sqlKind, text string, n int) {
	l.out = append(l.out, sqlToken{kind, text, l.pos, l.pos + n})
	l.pos += n
}

// escapes reports whether the quote at the present position follows an E.
func (l *sqlLexer) escapes() bool {
	n := len(l.out)
	return l.escapeTexts && n > 0 && l.out[n-1].to == l.pos && l.out[n-1].is("e")
}

// comment skips a comment, or only its beginning if its text is executed.
func (l *sqlLexer) comment(rest string) *sqlError {
	if m := executable.FindString(rest); m != "" && l.executableComments && l.inline == 0 {
		l.inline = l.pos + 1
		l.pos += len(m)
		return nil
	}
	for depth, i := 1, 2; i < len(rest); {
		switch {
		case strings.HasPrefix(rest[i:], "*/"):
			i += 2
			if depth--; depth == 0 {
				l.pos += i
				return nil
			}
		case l.nestedComments && strings.HasPrefix(rest[i:], "/*"):
			depth++
			i += 2
		default:
			i++
		}
	}
	return &sqlError{l.pos, "a comment doesn't end", "*/"}
}

// quoted reads a quoted token, in which quotes are doubled.
func (l *sqlLexer) quoted(kind sqlKind, quote byte, escapes bool) *sqlError {
	rest := l.text[l.pos:]
	for i := 1; i < len(rest); i++ {
		switch {
		case rest[i] == '\\' && escapes:
			i++
		case rest[i] == quote && i+1 < len(rest) && rest[i+1] == quote:
			i++
		case rest[i] == quote:
			q := string(quote)
			l.add(kind, strings.ReplaceAll(rest[1:i], q+q, q), i+1)
			return nil
		}
	}
	what := "a name"
	if kind == sqlString {
		what = "a text"
	}
	return &sqlError{l.pos, fmt.Sprintf("%s in %c doesn't end", what, quote), fmt.Sprintf("another %c", quote)}
}
