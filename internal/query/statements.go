package query

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/parse"
	"github.com/rowmill/rowmill/internal/sqltext"
)

// A Batch is the statements of a text. Lines has the line on which each statement begins, from 1.
// State has the settings of the sessions that run the statements: the server's defaults.
type Batch struct {
	Texts []string
	Lines []int
	State engine.State
}

// Place returns the words that name statement i, counted from 0, for the beginning of a message. It
// returns "" if the batch has only one statement.
func (b *Batch) Place(i int) string {
	if len(b.Texts) < 2 {
		return ""
	}
	return fmt.Sprintf("statement %d of %d (line %d): ", i+1, len(b.Texts), b.Lines[i])
}

// Statements divides a text into statements. It returns an error if one of them isn't a query; no
// statement has run then.
func (r *Runner) Statements(ctx context.Context, text string) (*Batch, error) {
	if i := strings.IndexByte(text, 0); i >= 0 { // some servers ignore the text after it
		err := fmt.Errorf("query: the text has a zero byte on line %d", 1+strings.Count(text[:i], "\n"))
		return nil, engine.Hinted(err, "text in UTF-8, and a zero byte of a value as CHAR(0) or in hexadecimal digits")
	}
	n := r.nodes[0]
	s, err := n.ReadSession(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	st, err := n.ReadState(ctx, s)
	if err := errors.Join(err, s.Close()); err != nil {
		return nil, fmt.Errorf("query: read the session's settings: %w", err)
	}
	b := &Batch{State: st}
	b.divide(text, n.Syntax(st))
	if len(b.Texts) == 0 {
		return nil, errors.New("query: the text has no statement")
	}
	for i, one := range b.Texts {
		if err := checkReads(one, n.Syntax(st)); err != nil {
			return nil, fmt.Errorf("%s%w", b.Place(i), err)
		}
	}
	return b, nil
}

// divide divides a text into its statements. It removes the semicolons between them, and the byte
// order mark that some editors write. If the parser doesn't know a lexical element of the text, the
// whole text is one statement, and the server judges it.
func (b *Batch) divide(text string, syntax sqltext.Syntax) {
	text = strings.TrimPrefix(text, "\ufeff")
	spans, err := parse.Statements(text, syntax)
	if err != nil {
		begin := len(text) - len(strings.TrimLeft(text, " \t\r\n"))
		end := len(strings.TrimRight(text, "; \t\r\n"))
		spans = []sqltext.Span{{From: begin, To: max(begin, end)}}
	}
	line, at := 1, 0
	for _, s := range spans {
		if one := s.Of(text); one != "" {
			line += strings.Count(text[at:s.From], "\n")
			at = s.From
			b.Texts, b.Lines = append(b.Texts, one), append(b.Lines, line)
		}
	}
}

// reading are the first words of statements that change nothing. main are the first words of a main
// statement, which follows the queries of WITH.
var (
	reading = []string{"SELECT", "WITH", "VALUES", "TABLE", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "ANALYZE", "CHECKSUM", "HELP"}
	main    = []string{"SELECT", "VALUES", "TABLE", "INSERT", "UPDATE", "DELETE", "REPLACE", "MERGE"}
)

// analyzed are the words after ANALYZE in a statement that runs a query. With any other word,
// ANALYZE computes statistics of tables.
var analyzed = []string{"FORMAT", "SELECT", "WITH", "VALUES", "INSERT", "UPDATE", "DELETE", "REPLACE"}

// storing are words before an INTO that doesn't store the answer of a query, as in INSERT INTO t. A
// statement that begins with such a word is refused by checkReads; if the word is inside WITH, the
// server refuses the statement.
var storing = []string{"INSERT", "REPLACE", "MERGE"}

// hasInto finds INTO in a text that the parser doesn't divide into words.
var hasInto = regexp.MustCompile(`(?i)\bINTO\b`).MatchString

// checkReads refuses a statement that isn't a query. It also refuses a query that stores its answer
// on the server, because servers allow that even in a read-only transaction. It doesn't examine
// functions and subqueries: the read-only transaction stops them from changing anything.
func checkReads(text string, syntax sqltext.Syntax) error {
	first, second, before, verb, into, analyze, depth, at := "", "", "", "", false, false, 0, 0
	for s := sqltext.NewScanner(text, syntax); ; {
		t, err := s.Next()
		if err != nil {
			into = into || hasInto(text[at:])
			break // the server judges the rest
		}
		if t.Kind == sqltext.End {
			break
		}
		at = t.To
		word := ""
		if t.Kind == sqltext.Word {
			word = strings.ToUpper(t.Of(text))
		}
		if word == "INTO" && !slices.Contains(storing, before) || t.Kind == sqltext.Executable && hasInto(t.Of(text)) {
			into = true
		}
		if word != "" {
			before = word
		}
		analyze = analyze || word == "ANALYZE"
		if first != "" && second == "" {
			second = word
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
		case first == "WITH" && verb == "" && slices.Contains(main, word):
			verb = word
		}
	}
	name := engine.FirstWords(text)
	plans := !analyze && (first == "EXPLAIN" || first == "DESCRIBE" || first == "DESC")
	const try = "a client of the server for statements that change something"
	switch {
	case !slices.Contains(reading, first), first == "ANALYZE" && !slices.Contains(analyzed, second):
		return engine.Hinted(fmt.Errorf("%s: it is not a query, and nothing else is run", name), try)
	case verb != "" && !slices.Contains(reading, verb):
		return engine.Hinted(fmt.Errorf("%s: its main statement is %s, and nothing but queries is run", name, verb), try)
	case into && !plans:
		return engine.Hinted(fmt.Errorf("%s: INTO stores rows on the server", name), "--out FILE without INTO")
	}
	return nil
}
