// Package sqltext reads the tokens of SQL by the lexical rules of a server, and knows its keywords.
//
// It is used by the parser of queries, the sessions of serve, and the reader of a declaration's
// CREATE TABLE. Dumps are streams with values of any length; ingest/format reads them itself.
//
// In: a text and its Syntax. Out: Tokens, or an Error with its place.
package sqltext

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A TokenKind is the kind of a token.
type TokenKind uint8

// Kinds of tokens.
const (
	End        TokenKind = iota // the end of the text
	Word                        // a keyword or a name without quotes
	Quoted                      // a name in quotes
	String                      // a string with its quotes, and a prefix such as x or E
	Number                      // a number
	Parameter                   // ? or $1
	UserVar                     // @x, @@x
	Operator                    // an operator or a punctuation mark
	Hint                        // /*+ ... */
	Executable                  // /*! ... */: text that some versions execute
)

// A Span is a part of the text, in bytes: it includes From and excludes To.
type Span struct{ From, To int }

// Of returns the span's part of the text.
func (s Span) Of(text string) string { return text[s.From:s.To] }

// A Token is a lexical element of a statement. White space and comments are no tokens.
type Token struct {
	Span
	Kind TokenKind
	// Word is the text of an Operator. If the token is a Word that is a keyword for the parser, Word
	// is the keyword in upper case. Otherwise Word is "".
	Word string
}

// Is reports whether a token is the given keyword or operator.
func (t Token) Is(word string) bool {
	return t.Word == word && (t.Kind == Word || t.Kind == Operator)
}

// IsOne reports whether a token is one of the given keywords or operators.
func (t Token) IsOne(words ...string) bool {
	return t.Word != "" && slices.Contains(words, t.Word)
}

// An Error says why a text can't be parsed.
type Error struct {
	// Reason is the cause in a few words, such as "MATCH ... AGAINST".
	Reason string
	// Line and Column are the place of the error, counted from 1; Column counts characters. At is the
	// same place in bytes, counted from 0.
	Line, Column, At int
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s, line %d column %d", e.Reason, e.Line, e.Column)
}

// ErrorAt returns an error for a place of the text.
func ErrorAt(text string, at int, reason string) *Error {
	at = min(at, len(text))
	before := text[:at]
	start := strings.LastIndexByte(before, '\n') + 1
	return &Error{reason, strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[start:]) + 1, at}
}

// A Scanner reads the tokens of a text one by one. It allocates nothing.
//
// The text is in UTF-8, or in another encoding in which each byte below 128 is an ASCII character,
// such as Latin 1. In GBK and Shift JIS, a byte within a character may look like a quote or a
// backslash. So the caller must not split or classify statements in these encodings.
type Scanner struct {
	text string
	syn  Syntax
	at   int
	prev Token // the token before
}

// NewScanner returns a scanner of a text.
func NewScanner(text string, syntax Syntax) Scanner {
	return Scanner{text: text, syn: syntax}
}

// Escape sets whether \ escapes within strings.
func (s *Scanner) Escape(yes bool) { s.syn.Backslash = yes }

const (
	charSpace  = 1 << iota // white space of all servers
	charWord               // may be within a name
	charDigit              // 0 to 9
	charOp                 // may be part of an operator of a user
	charOpTail             // lets such an operator end in + or -
)

// chars has the classes to which each byte belongs. Bytes from 128 on belong to names.
var chars = func() (t [256]uint8) {
	for c := range t {
		switch b := byte(c); {
		case b == ' ' || b == '\t' || b == '\n' || b == '\r' || b == '\f':
			t[c] |= charSpace
		case b >= '0' && b <= '9':
			t[c] |= charWord | charDigit
		case b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b == '_' || b == '$' || b >= 128:
			t[c] |= charWord
		}
		if strings.IndexByte("+-*/<>=~!@#%^&|`?", byte(c)) >= 0 {
			t[c] |= charOp
		}
		if strings.IndexByte("~!@#%^&|`?", byte(c)) >= 0 {
			t[c] |= charOpTail
		}
	}
	return t
}()

// Prefixed reports whether a string has a prefix, as N'x' has.
func Prefixed(text string) bool { return chars[text[0]]&charWord != 0 }

// UserOperator reports whether a user may have defined an operator, on a server that permits this.
func UserOperator(op string) bool { return chars[op[0]]&charOp != 0 }

// is reports whether the byte at a place is of a class.
func (s *Scanner) is(at int, class uint8) bool {
	return at < len(s.text) && chars[s.text[at]]&class != 0
}

// byteAt returns the byte at a place, 0 beyond the end.
func (s *Scanner) byteAt(at int) byte {
	if at < len(s.text) {
		return s.text[at]
	}
	return 0
}

func (s *Scanner) fail(at int, reason string) (Token, error) {
	return Token{}, ErrorAt(s.text, at, reason)
}

// Next returns the next token. After the last, it returns a token of kind End.
func (s *Scanner) Next() (Token, error) {
	t, err := s.next()
	if err == nil {
		s.at, s.prev = t.To, t
	}
	return t, err
}

// token returns the token from s.at up to, but without, to.
func (s *Scanner) token(kind TokenKind, to int) (Token, error) {
	return Token{Span: Span{s.at, to}, Kind: kind}, nil
}

func (s *Scanner) next() (Token, error) {
	if err := s.skip(); err != nil {
		return Token{}, err
	}
	at := s.at
	if at >= len(s.text) {
		return s.token(End, at)
	}
	c := s.text[at]
	switch {
	case c == '\'' || c == '"' && s.syn.DoubleQuoted:
		return s.quoted(String, at, s.syn.Backslash)
	case c == '"', c == '`' && s.syn.Backquoted:
		return s.quoted(Quoted, at, false)
	case c == '[' && s.syn.Bracketed:
		i := strings.IndexByte(s.text[at:], ']')
		if i < 0 {
			return s.fail(at, "a [ without its ]")
		}
		return s.token(Quoted, at+i+1)
	case c == '/' && strings.HasPrefix(s.text[at:], "/*+"):
		i := strings.Index(s.text[at+3:], "*/")
		if i < 0 || strings.Contains(s.text[at+3:at+3+i], "/*") {
			return s.fail(at, "an optimizer hint without an end")
		}
		return s.token(Hint, at+3+i+2)
	case c == '/' && s.executable(at):
		return s.executableComment()
	case c == '$':
		return s.dollar()
	case chars[c]&charDigit != 0:
		return s.number()
	case c == '.' && s.is(at+1, charDigit) && !(s.prev.To == at && (s.prev.Kind == Word || s.prev.Kind == Quoted)):
		return s.number()
	case chars[c]&charWord != 0:
		return s.Keyword()
	case c == '@' && s.syn.UserVars:
		return s.userVar()
	case c == '?' && !s.syn.Casts:
		at++
		for s.syn.Bracketed && s.is(at, charDigit) {
			at++
		}
		return s.token(Parameter, at)
	}
	return s.operator()
}

// executable reports whether an executable comment begins at a place.
func (s *Scanner) executable(at int) bool {
	return s.syn.ExecutableComments && (strings.HasPrefix(s.text[at:], "/*!") || strings.HasPrefix(s.text[at:], "/*M!"))
}

// skip moves over white space and comments.
func (s *Scanner) skip() error {
	for s.at < len(s.text) {
		c := s.text[s.at]
		rest := s.text[s.at:]
		switch {
		case chars[c]&charSpace != 0 || c == '\v' && s.syn.Introducer:
			s.at++
		case c == '#' && s.syn.HashComments, c == '-' && strings.HasPrefix(rest, "--") && (!s.syn.DashSpace || len(rest) == 2 || rest[2] <= ' ' || rest[2] == 127):
			i := strings.IndexByte(rest, '\n')
			if i < 0 {
				i = len(rest)
			}
			if cr := strings.IndexByte(rest[:i], '\r'); cr >= 0 && (cr < i-1 || i == len(rest)) {
				// Some servers end the comment here, others don't.
				return ErrorAt(s.text, s.at+cr, "a carriage return within a comment")
			}
			s.at += i
		case c == '/' && strings.HasPrefix(rest, "/*") && !strings.HasPrefix(rest, "/*+") && !s.executable(s.at):
			end := s.commentEnd(s.at)
			if end < 0 {
				return ErrorAt(s.text, s.at, "a comment without an end")
			}
			s.at = end
		default:
			return nil
		}
	}
	return nil
}

// commentEnd returns the end of the comment that begins at a place; -1 if the comment has no end.
func (s *Scanner) commentEnd(at int) int {
	depth := 1
	for i := at + 2; i+1 < len(s.text); i++ {
		switch {
		case s.text[i] == '*' && s.text[i+1] == '/':
			if depth--; depth == 0 {
				return i + 2
			}
			i++
		case s.text[i] == '/' && s.text[i+1] == '*' && s.syn.NestedComments:
			depth++
			i++
		}
	}
	return -1
}

// executableComment returns an executable comment as one token. A server executes or skips the text
// in it, depending on the server's version. If the comment ends at another place when it is
// skipped, that is an error.
func (s *Scanner) executableComment() (Token, error) {
	begin := strings.IndexByte(s.text[s.at:], '!') + 1
	n := strings.Index(s.text[s.at+begin:], "*/")
	if n < 0 {
		return s.fail(s.at, "an executable comment without an end")
	}
	inner := NewScanner(s.text[s.at+begin:s.at+begin+n], s.syn)
	for {
		t, err := inner.Next()
		switch {
		case err != nil || t.Kind == Hint || t.Kind == Executable || t.Word == ";":
			return s.fail(s.at, "an executable comment of uncertain end")
		case t.Kind == End:
			if strings.Contains(inner.text, "/*") || strings.Contains(inner.text, "--") || strings.Contains(inner.text, "#") {
				return s.fail(s.at, "an executable comment of uncertain end")
			}
			return s.token(Executable, s.at+begin+n+2)
		}
	}
}

// quoted returns a text or a name in quotes, which begins at a place with its first quote.
func (s *Scanner) quoted(kind TokenKind, at int, backslash bool) (Token, error) {
	quote := s.text[at]
	for i := at + 1; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == 0:
			return s.fail(i, "a zero byte")
		case c == '\\' && backslash:
			i++
		case c == quote:
			if s.byteAt(i+1) != quote {
				return s.token(kind, i+1)
			}
			i++
		}
	}
	return s.fail(at, fmt.Sprintf("a %c without its end", quote))
}

func (s *Scanner) dollar() (Token, error) {
	if !s.syn.Dollar {
		return s.fail(s.at, "a name that begins with $")
	}
	i := s.at + 1
	if s.is(i, charDigit) {
		for s.is(i, charDigit) {
			i++
		}
		if s.is(i, charWord) {
			return s.fail(s.at, "a name after a number without a space")
		}
		return s.token(Parameter, i)
	}
	for s.is(i, charWord) && s.text[i] != '$' {
		i++
	}
	if s.byteAt(i) != '$' {
		return s.fail(s.at, "an unknown use of $")
	}
	tag := s.text[s.at : i+1]
	n := strings.Index(s.text[i+1:], tag)
	if n < 0 {
		return s.fail(s.at, "a "+tag+" without its end")
	}
	return s.token(String, i+1+n+len(tag))
}

func (s *Scanner) number() (Token, error) {
	i := s.at
	digits := func() {
		for s.is(i, charDigit) {
			i++
		}
	}
	if s.text[i] == '0' && (s.byteAt(i+1) == 'x' || s.byteAt(i+1) == 'b' && s.syn.Introducer) && !s.syn.Casts {
		hex := s.text[i+1] == 'x'
		i += 2
		for c := s.byteAt(i); c == '0' || c == '1' || hex && (chars[c]&charDigit != 0 || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'); c = s.byteAt(i) {
			i++
		}
		if i == s.at+2 || s.is(i, charWord) {
			return s.fail(s.at, "a name that begins with a digit")
		}
		return s.token(Number, i)
	}
	digits()
	if s.byteAt(i) == '.' {
		i++
		digits()
	}
	if c := s.byteAt(i); c == 'e' || c == 'E' {
		j := i + 1
		if sign := s.byteAt(j); sign == '+' || sign == '-' {
			j++
		}
		if s.is(j, charDigit) {
			i = j
			digits()
		}
	}
	if s.is(i, charWord) {
		return s.fail(s.at, "a name that begins with a digit")
	}
	if s.byteAt(i) == '.' {
		return s.fail(i, "a number with two points")
	}
	return s.token(Number, i)
}

func (s *Scanner) Keyword() (Token, error) {
	i := s.at + 1
	for i < len(s.text) && chars[s.text[i]]&charWord != 0 {
		i++
	}
	if next := s.byteAt(i); next == '\'' || next == '&' {
		if kind, escapes := s.prefix(i, next); kind == String {
			return s.quoted(String, i, escapes)
		} else if kind != Word {
			return s.fail(s.at, "U& escapes")
		}
	}
	t, _ := s.token(Word, i)
	t.Word = LookUp(s.text[s.at:i]).text
	return t, nil
}

// prefix checks whether the word that ends before i begins a string, as x does in x'00'. If so, it
// returns String; escapes says whether \ escapes in this string. For U&, whose escapes the Scanner
// doesn't read, it returns Quoted. Otherwise it returns Word.
func (s *Scanner) prefix(i int, next byte) (kind TokenKind, escapes bool) {
	if i != s.at+1 {
		return Word, false
	}
	switch c := s.text[s.at] | 0x20; {
	case c == 'u' && next == '&' && s.syn.Prefixed && (s.byteAt(i+1) == '\'' || s.byteAt(i+1) == '"'):
		return Quoted, false
	case next == '&':
		return Word, false
	case c == 'x':
		return String, false
	case c == 'b' && (s.syn.Prefixed || s.syn.Introducer):
		return String, false
	case c == 'n' && (s.syn.Prefixed || s.syn.Introducer):
		return String, s.syn.Backslash
	case c == 'e' && s.syn.Prefixed:
		return String, true
	}
	return Word, false
}

func (s *Scanner) userVar() (Token, error) {
	i := s.at + 1
	if s.byteAt(i) == '@' {
		i++
	}
	if c := s.byteAt(i); c == '\'' || c == '"' || c == '`' {
		return s.quoted(UserVar, i, c != '`' && s.syn.Backslash)
	}
	for s.is(i, charWord) || s.byteAt(i) == '.' {
		i++
	}
	return s.token(UserVar, i)
}

// operators are the operators of more than one byte on servers whose users can't define operators,
// the longest first. If a server lacks one of them, the server itself reports an error for it.
var operators = []string{"->>", "<=>", "->", "<<", ">>", "<=", ">=", "<>", "!=", "||", "&&", ":=", "=="}

func (s *Scanner) operator() (Token, error) {
	rest := s.text[s.at:]
	n := 1
	switch c := rest[0]; {
	case c <= ' ' || c == 127:
		return s.fail(s.at, "a control character")
	case s.syn.Casts && chars[c]&charOp != 0:
		n = userOperator(rest)
	case s.syn.Casts && strings.HasPrefix(rest, "::"):
		n = 2
	case !s.syn.Casts:
		for _, op := range operators {
			if strings.HasPrefix(rest, op) {
				n = len(op)
				break
			}
		}
	}
	t, _ := s.token(Operator, s.at+n)
	t.Word = rest[:n]
	return t, nil
}

// userOperator returns the length of the operator at the beginning of rest, on servers whose users
// can define operators. It takes all operator characters up to a comment. An operator may end in +
// or - only if it contains one of ~!@#%^&|`?.
func userOperator(rest string) int {
	n := 0
	tail := false
	for n < len(rest) && chars[rest[n]]&charOp != 0 && !strings.HasPrefix(rest[n:], "--") && !strings.HasPrefix(rest[n:], "/*") {
		tail = tail || chars[rest[n]]&charOpTail != 0
		n++
	}
	for n > 1 && !tail && (rest[n-1] == '+' || rest[n-1] == '-') {
		n--
	}
	return max(n, 1)
}
