package lane

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/ingest/format"
)

// A Why says why rows were rejected.
type Why struct {
	// Reasons are the most frequent first.
	Reasons []Reason `json:"reasons,omitempty"`
	// Stopped counts the bad rows at which loads ended because there were too many. Reasons and the
	// file of bad rows include them; Counts doesn't.
	Stopped int64 `json:"stopped_at,omitempty"`
}

// A Reason is a reason for which rows were rejected.
type Reason struct {
	// Column is the column concerned, "" if unknown. Reason omits the values of single rows.
	Column string `json:"column,omitempty"`
	Reason string `json:"reason"`
	Rows   int64  `json:"rows"`
	// Source and Line are where one of these rows is.
	Source string `json:"source"`
	Line   int64  `json:"line"`
}

// Lines describes the reasons, in lines that begin with a line break.
func (w *Why) Lines() string {
	var b strings.Builder
	for i, reason := range w.Reasons {
		if i == 0 {
			b.WriteString("\nbad rows by reason:")
		}
		text := reason.Reason
		if reason.Column != "" {
			text = "column " + reason.Column + ": " + text
		}
		fmt.Fprintf(&b, "\n%12s  %s, as in %s, line %d", figure.Count(reason.Rows), text, reason.Source, reason.Line)
		if i == MaxReasons-1 && len(w.Reasons) > MaxReasons {
			fmt.Fprintf(&b, "\n              and %s", figure.Plural(len(w.Reasons)-MaxReasons, "other reason", "other reasons"))
			break
		}
	}
	if w.Stopped > 0 {
		fmt.Fprintf(&b, "\n%s of these ended their load, and weren't counted as read (--max-bad)", figure.Count(w.Stopped))
	}
	return b.String()
}

const (
	// MaxReasons limits the printed reasons and files, keptReasons the reasons counted separately.
	MaxReasons  = 10
	keptReasons = 1000
)

// Reasons count rejected rows by reason.
type Reasons struct {
	mu sync.Mutex
	by map[[2]string]*Reason
}

var (
	// leadingValue is the value with which the reader of a column begins a reason.
	leadingValue = regexp.MustCompile(`^"(?:[^"\\]|\\.)*"(?:\.\.\.)?: `)
	// serverValue is a value in a server's message.
	serverValue = regexp.MustCompile(`(value:?|entry|syntax for type [a-z ]+:) (?:'[^']*'|"[^"]*")`)
	numbers     = regexp.MustCompile(`[-+]?\b\d+(?:[-:., T+]*\d+)*Z?\b`)
)

// withoutValues returns a reason without the values of its row.
func withoutValues(reason string) string {
	reason, _, _ = strings.Cut(reason, "\n")
	reason = leadingValue.ReplaceAllString(reason, "")
	reason = serverValue.ReplaceAllString(reason, "$1 ...")
	return numbers.ReplaceAllString(reason, "N")
}

func (r *Reasons) reject(source string, rows []format.Rejected) {
	for _, row := range rows {
		r.Add(Reason{Column: row.Column, Reason: withoutValues(row.Reason), Rows: 1, Source: source, Line: row.Line})
	}
}

// Add adds the rows of a reason.
func (r *Reasons) Add(more Reason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[[2]string]*Reason{}
	}
	key := [2]string{more.Column, more.Reason}
	if r.by[key] == nil && len(r.by) >= keptReasons {
		key = [2]string{"", "other reasons"}
	}
	if was := r.by[key]; was != nil {
		was.Rows += more.Rows
		return
	}
	more.Column, more.Reason = key[0], key[1]
	r.by[key] = &more
}

// All returns the reasons, the most frequent first.
func (r *Reasons) All() []Reason {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Reason
	for _, one := range r.by {
		out = append(out, *one)
	}
	slices.SortFunc(out, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Column, b.Column))
	})
	return out
}
