package query

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/parse"
)

// Statements divides a text into its statements, without the semicolons between them. A text that has
// lexical elements that the parser doesn't know is one statement: the server judges it.
func Statements(text string, syntax engine.Syntax) []string {
	spans, err := parse.Statements(text, syntax)
	if err != nil {
		text = strings.TrimRight(text, "; \t\r\n")
		if strings.TrimSpace(text) == "" {
			return nil
		}
		return []string{text}
	}
	out := make([]string, len(spans))
	for i, s := range spans {
		out[i] = s.Of(text)
	}
	return out
}

// reading are the words with which statements begin that read and change nothing.
var reading = []string{"SELECT", "WITH", "VALUES", "TABLE", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "ANALYZE", "CHECKSUM", "HELP"}

// CheckReads refuses a statement that isn't a query. It judges by the first word alone: what
// a query calls or changes beside that is for the server's read-only transaction, and for privileges.
func CheckReads(text string, syntax engine.Syntax) error {
	first := ""
	for s := parse.NewScanner(text, syntax); ; {
		t, err := s.Next()
		if err != nil {
			first = strings.ToUpper(engine.FirstWords(text))
			break
		}
		if t.Word == "(" {
			continue
		}
		if t.Kind == parse.Word {
			first = strings.ToUpper(t.Of(text))
		}
		break
	}
	first, _, _ = strings.Cut(strings.TrimLeft(first, "( \t\r\n"), " ")
	if slices.Contains(reading, first) {
		return nil
	}
	return engine.Hinted(fmt.Errorf("%s is not a query, and nothing else is run", engine.FirstWords(text)), "a client of the server for statements that change something")
}
