package query

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/parse"
)

// A Batch is the statements of a text, and the settings of the session that they are for: those that the
// server gives to any client.
type Batch struct {
	Texts []string
	State engine.State
}

// Statements divides a text into statements, and refuses one that isn't a query before the first is run.
func (r *Runner) Statements(ctx context.Context, text string) (*Batch, error) {
	n := r.nodes[0]
	s, err := n.ReadSession(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	st, err := n.ReadState(ctx, s)
	if err := errors.Join(err, s.Close()); err != nil {
		return nil, fmt.Errorf("query: read the session's settings: %w", err)
	}
	b := &Batch{State: st, Texts: divide(text, n.Syntax(st))}
	if len(b.Texts) == 0 {
		return nil, errors.New("query: the text has no statement")
	}
	for i, one := range b.Texts {
		if err := checkReads(one, n.Syntax(st)); err != nil {
			if len(b.Texts) > 1 {
				err = fmt.Errorf("statement %d of %d: %w", i+1, len(b.Texts), err)
			}
			return nil, err
		}
	}
	return b, nil
}

// divide divides a text into its statements, without the semicolons between them. A text that has
// lexical elements that the parser doesn't know is one statement: the server judges it.
func divide(text string, syntax engine.Syntax) []string {
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

// reading are the words with which statements begin that read and change nothing, main those of the statement after
// WITH.
var (
	reading = []string{"SELECT", "WITH", "VALUES", "TABLE", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "ANALYZE", "CHECKSUM", "HELP"}
	main    = []string{"SELECT", "VALUES", "TABLE", "INSERT", "UPDATE", "DELETE", "REPLACE", "MERGE"}
)

// checkReads refuses a statement that isn't a query, and one that stores its answer on the server. What functions and
// subqueries change is refused by the read-only transaction.
func checkReads(text string, syntax engine.Syntax) error {
	first, verb, into, depth := "", "", false, 0
	for s := parse.NewScanner(text, syntax); ; {
		t, err := s.Next()
		if err != nil || t.Kind == parse.End {
			break // the server judges the rest
		}
		word := ""
		if t.Kind == parse.Word {
			word = strings.ToUpper(t.Of(text))
		}
		switch {
		case t.Word == "(":
			depth++
			continue
		case t.Word == ")":
			depth--
		case first == "" && word == "":
			first = "?" // an executable comment, or no statement
		case first == "":
			first = word
		case depth > 0:
		case word == "INTO":
			into = true
		case first == "WITH" && verb == "" && slices.Contains(main, word):
			verb = word
		}
	}
	name := engine.FirstWords(text)
	const try = "a client of the server for statements that change something"
	switch {
	case !slices.Contains(reading, first):
		return engine.Hinted(fmt.Errorf("%s: it is not a query, and nothing else is run", name), try)
	case verb != "" && !slices.Contains(reading, verb):
		return engine.Hinted(fmt.Errorf("%s: its main statement is %s, and nothing but queries is run", name, verb), try)
	case into && (first == "SELECT" || verb == "SELECT"):
		return engine.Hinted(fmt.Errorf("%s: INTO stores the answer on the server", name), "--out FILE without INTO")
	}
	return nil
}
