package rolling

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/sqltext"
)

type sqlKind byte

const (
	sqlWord   sqlKind = iota // an unquoted name or keyword
	sqlQuoted                // a quoted name; in MySQL "..." may be a string
	sqlString
	sqlNumber
	sqlPunct // an operator or a punctuation mark
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

// executable begins a comment that MySQL and MariaDB execute.
var executable = regexp.MustCompile(`^/\*M?![0-9]*`)

// sqlTokens returns the tokens of a text. The text within a comment that servers execute, e.g.
// /*!80000 ... */, has tokens, too. The last of them includes the comment's end, so that a text
// that is cut after this token doesn't leave the comment open.
func sqlTokens(text string, d *dialect) (out []sqlToken, _ *sqlError) {
	s := sqltext.NewScanner(text, d.syntax)
	for {
		t, err := s.Next()
		if err != nil {
			var at *sqltext.Error
			errors.As(err, &at)
			return nil, &sqlError{at.At, at.Reason, ""}
		}
		if strings.HasPrefix(text[t.From:], "*/") {
			return nil, &sqlError{t.From, "a comment ends that never began", ""}
		}
		part := t.Of(text)
		token := sqlToken{sqlPunct, part, t.From, t.To}
		switch t.Kind {
		case sqltext.End:
			return out, nil
		case sqltext.Word:
			token.kind = sqlWord
		case sqltext.Number:
			token.kind = sqlNumber
		case sqltext.Quoted:
			token.kind, token.text = sqlQuoted, unquoted(part)
		case sqltext.String:
			if token.kind = sqlString; part[0] == '"' { // with ANSI_QUOTES, a name
				token.kind, token.text = sqlQuoted, unquoted(part)
			}
		case sqltext.Executable:
			begin := len(executable.FindString(part))
			inner, err := sqlTokens(part[begin:len(part)-len("*/")], d)
			if err != nil {
				err.at += t.From + begin
				return nil, err
			}
			for i := range inner {
				inner[i].from, inner[i].to = inner[i].from+t.From+begin, inner[i].to+t.From+begin
			}
			if out = append(out, inner...); len(out) > 0 {
				out[len(out)-1].to = t.To
			}
			continue
		}
		out = append(out, token)
	}
}

// unquoted returns a name without its quotes.
func unquoted(text string) string {
	quote := text[len(text)-1:]
	return strings.ReplaceAll(text[1:len(text)-1], quote+quote, quote)
}
