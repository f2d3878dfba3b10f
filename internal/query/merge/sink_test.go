package merge

import (
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// A rowsSink keeps an answer as text, with \N for NULL.
type rowsSink struct {
	columns []engine.ResultColumn
	rows    []string
}

func (s *rowsSink) Columns(cols []engine.ResultColumn) error { s.columns = cols; return nil }

func (s *rowsSink) Row(values [][]byte) error {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = `\N`
		if v != nil {
			texts[i] = string(v)
		}
	}
	s.rows = append(s.rows, strings.Join(texts, "|"))
	return nil
}

type discard struct{}

func (discard) Columns([]engine.ResultColumn) error { return nil }
func (discard) Row([][]byte) error                  { return nil }
