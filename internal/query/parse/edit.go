package parse

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/sqltext"
)

// An Edit replaces a span of a text.
type Edit struct {
	sqltext.Span
	Text string
}

// Replace returns the text with spans replaced. The edits are in any order. Replace panics if spans
// overlap. Several insertions at one place, which have empty spans, stay in the order of the list.
func Replace(text string, edits []Edit) string {
	if !slices.IsSortedFunc(edits, byPlace) {
		edits = slices.Clone(edits)
		slices.SortStableFunc(edits, byPlace)
	}
	var b strings.Builder
	at := 0
	for _, e := range edits {
		if e.From < at || e.To < e.From || e.To > len(text) {
			panic(fmt.Sprintf("parse: replace %d to %d after %d in a text of %d bytes", e.From, e.To, at, len(text)))
		}
		b.WriteString(text[at:e.From])
		b.WriteString(e.Text)
		at = e.To
	}
	b.WriteString(text[at:])
	return b.String()
}

func byPlace(a, b Edit) int {
	if a.From != b.From {
		return a.From - b.From
	}
	return a.To - b.To
}

// Statements returns the spans of the statements of a text, without the semicolons between them,
// and without empty statements. It fails if a statement may contain others, such as CREATE
// PROCEDURE with BEGIN: the parser can't find the end of such a statement.
func Statements(text string, syntax sqltext.Syntax) ([]sqltext.Span, error) {
	var list []sqltext.Span
	var first, second string
	var at sqltext.Span
	n := 0
	routine, compound := false, false
	for s := sqltext.NewScanner(text, syntax); ; {
		t, err := s.Next()
		if err != nil {
			return nil, err
		}
		if t.Kind == sqltext.End || t.Is(";") {
			if n > 0 {
				list = append(list, at)
			}
			if n > 0 && t.Kind != sqltext.End && (routine && compound || compoundFirst[first] || first == "BEGIN" && second == "NOT") {
				return nil, sqltext.ErrorAt(text, at.From, "a compound statement")
			}
			if t.Kind == sqltext.End {
				return list, nil
			}
			n, routine, compound, first, second = 0, false, false, "", ""
			continue
		}
		switch n++; n {
		case 1:
			at.From, first = t.From, t.Word
		case 2:
			second = t.Word
		}
		at.To = t.To
		if t.Kind == sqltext.Word && (first == "CREATE" || first == "ALTER") {
			routine = routine || t.IsOne("PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE")
			compound = compound || t.IsOne("BEGIN", "IF", "CASE", "LOOP", "REPEAT", "WHILE", "DECLARE", "FOR")
		}
	}
}

// compoundFirst are first words of statements that contain statements.
var compoundFirst = engine.WordSet("IF CASE LOOP WHILE REPEAT FOR DECLARE")

// Normal returns the same text for statements that differ only in white space, comments, the case
// of reserved words, and a semicolon at the end. Such statements have the same answer, except for
// the names of columns: the server may name a column by the text of its expression.
func Normal(text string, syntax sqltext.Syntax) (string, error) {
	var b strings.Builder
	b.Grow(len(text))
	var prev sqltext.Token
	semicolon := false
	for s := sqltext.NewScanner(text, syntax); ; {
		t, err := s.Next()
		if err != nil {
			return "", err
		}
		if t.Kind == sqltext.End {
			return b.String(), nil
		}
		if semicolon {
			return "", sqltext.ErrorAt(text, t.From, "several statements")
		}
		if semicolon = t.Is(";"); semicolon {
			continue
		}
		// Two minus signs in a row would begin a comment if white space came after them.
		if b.Len() > 0 && (t.From > prev.To || t.Is("-") && prev.Is("-")) {
			b.WriteByte(' ')
		}
		switch reserved := t.Kind == sqltext.Word && sqltext.LookUp(t.Word).Reserved; {
		case reserved && !prev.Is(".") && !prev.Is("AS"):
			b.WriteString(t.Word)
		default:
			b.WriteString(text[t.From:t.To])
		}
		prev = t
	}
}
