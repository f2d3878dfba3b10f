package lane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/state"
)

// An insert skips a row whose key is already in the table, and servers don't tell which rows it has
// skipped. So all rows of the insert are compared with the table's rows. A row with other values
// was skipped, and so was one whose key occurs earlier in the batch. All other rows are in the
// table, whoever inserted them.

const (
	// The first compareRows rows are always compared, more for at most compareShare of a load's time.
	compareRows  = 100_000
	compareShare = 0.1
)

// errCompare is the error of a comparison that the server refuses.
var errCompare = errors.New("rows that are there already can't be compared")

// mayCompare reports whether the rows of a part may be compared. If so, it counts them.
func (l *Load) mayCompare(rows int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &l.comparing
	if c.off || c.rows >= compareRows && float64(c.took) > compareShare*float64(time.Since(l.began)) {
		return false
	}
	c.rows += rows
	return true
}

// compare is called after the insert of a part has skipped rows. It compares all rows of the part
// with the table's rows of the same keys, adds its findings to counts, and returns the rows to
// list.
func (s *sender) compare(ctx context.Context, part *format.Part, skipped int64, counts *state.Counts) (list []format.Rejected, compared bool, err error) {
	p, rows := s.parser, part.Batch.Rows()
	if !p.Comparable || !part.HasKey() || !s.mayCompare(rows) {
		return nil, false, nil
	}
	began := time.Now()
	defer func() {
		s.mu.Lock()
		s.comparing.took += time.Since(began)
		s.mu.Unlock()
	}()
	cols := p.SchemaOf(part)
	var all []engine.Compared
	if err := s.loader.Compare(ctx, part.Table, cols, part.Batch, 0, rows, func(c engine.Compared) { all = append(all, c) }); err != nil {
		if !Transient(err) && ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", errCompare, err)
		}
		return nil, false, err
	}
	slices.SortFunc(all, func(a, b engine.Compared) int { return a.Row - b.Row })
	first := make(map[string]int64, len(all)) // the line of each key's first row
	var different, repeated, marked int64
	for _, c := range all {
		where, key := p.Places[part.Place(c.Row)], strings.Join(c.Key, "\xff")
		line, again := first[key]
		if !again {
			first[key] = where.Line
		}
		var why []string
		column := ""
		if c.Column >= 0 {
			different++
			column = cols[c.Column].Name
			why = append(why, fmt.Sprintf("the table's row with this key differs: column %s is %s in the table", column, storedText(c.Stored)))
		}
		if again {
			repeated++
			why = append(why, fmt.Sprintf("it has the same key as line %d of this %s", line, s.Source.Kind))
		}
		if len(why) > 0 {
			marked++
			if s.Opt.ListSkipped {
				r := p.RejectedAt(where, column, strings.Join(why, "; "))
				r.Skipped = true
				list = append(list, r)
			}
		}
	}
	if marked > skipped { // other clients are changing the table's rows
		return nil, false, nil
	}
	counts.Different += different
	counts.Repeated += repeated
	return list, true, nil
}

func storedText(text *string) string {
	if text == nil {
		return "NULL"
	}
	return strconv.Quote(*text)
}
