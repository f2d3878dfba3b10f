package ingest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/spool"
	"github.com/rowmill/rowmill/internal/value"
)

// A spooled is the first line of a spool record, as JSON. It describes how to read the rows below.
type spooled struct {
	Table   string   `json:"table"`
	Columns []string `json:"columns"`
	// Named means that the options named the columns: other keys of objects are skipped.
	Named bool `json:"named,omitempty"`
	format.Format
	value.Notation
	// Zone replaces the notation's zone. Duplicates is Options.OnDuplicate.
	Zone       string `json:"zone"`
	Duplicates string `json:"duplicates"`
	// Line is the number of the first line in the stream, and Lines the number of lines.
	Line  int64 `json:"line"`
	Lines int64 `json:"lines"`
	// Key and Sum identify the Post that the record is; see Post.Key.
	Key string `json:"key,omitempty"`
	Sum string `json:"key_sum,omitempty"`
}

// shape returns the head without what differs between records that are read alike.
func (s *spooled) shape() (string, error) {
	shape := *s
	shape.Line, shape.Lines, shape.Key, shape.Sum = 0, 0, "", ""
	text, err := json.Marshal(shape)
	return string(text), err
}

func (s *spooled) target(db engine.DB, r format.Reading) (_ *format.Target, err error) {
	f := s.Format
	f.NoHeader = true
	if f.Columns = nil; s.Named {
		f.Columns = s.Columns
	}
	if err := f.Validate(); err != nil {
		return nil, err
	}
	r.OnDuplicate, r.Values = s.Duplicates, s.Notation
	if r.Values.Zone, err = value.ParseZone(s.Zone); err != nil {
		return nil, fmt.Errorf("its time zone %q: %w", s.Zone, err)
	}
	return format.NewTarget(db.Capabilities(), &f, s.Columns, &r)
}

// zoneName is what value.ParseZone reads as the zone.
func zoneName(zone *time.Location) string {
	if zone == nil {
		zone = time.UTC
	}
	return zone.String()
}

func (l *streamLoad) unspool(rec spool.Record, targets map[string]*format.Target) (*format.Batch, error) {
	first, data, _ := bytes.Cut(rec.Data, []byte("\n"))
	var head spooled
	if err := json.Unmarshal(first, &head); err != nil {
		return nil, fmt.Errorf("it isn't one of rowmill load's: %w", err)
	}
	if head.Table != l.opt.Table.Name {
		return nil, engine.Hinted(fmt.Errorf("its rows are for table %s, not for %s", head.Table, l.opt.Table.Name), "a spool of its own for each table")
	}
	key, err := head.shape()
	if err != nil {
		return nil, err
	}
	t := targets[key]
	if t == nil {
		if t, err = head.target(l.opt.DB, l.opt.Reading); err != nil {
			return nil, err
		}
		if len(targets) >= mostShapes { // senders may name any columns
			clear(targets)
		}
		targets[key] = t
	}
	b := &format.Batch{Data: data, Target: t}
	b.From, b.To, b.Line, b.Lines, b.Hash = rec.From, rec.To, head.Line, head.Lines, fmt.Sprintf("%016x", rec.Sum)
	return b, nil
}
