package state

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/rowmill/rowmill/rolling"
)

// A Publication is the rows of one source for one period, which are loaded as a whole: into a table
// of their own that then becomes the period. It is recorded before a batch with such rows is sent,
// so that the batch's line in the ledger doesn't count these rows.
type Publication struct {
	Table, Source string
	rolling.Period
	// FromByte and ToByte are offsets in the source. Rows of the period belong to the publication if
	// the offset at which their batch begins is at least FromByte and below ToByte. ToByte is 0 while
	// it is unknown.
	FromByte, ToByte int64
	// State is Routed, Published or Single.
	State string
	// Counts count the publication's rows, once State is Published.
	Counts
	// First and Last are the lowest and the highest position of the publication's rows, once State is
	// Published.
	First, Last int64
	// Merges permits that its rows are merged with those of the period; it isn't recorded.
	Merges bool
	// Compared is how many of its duplicates were compared with the period's rows; it isn't recorded.
	Compared int64
}

// States of a publication.
const (
	// Routed: none of its rows is in the table.
	Routed = "routed"
	// Published: its rows are in the table.
	Published = "published"
	// Single: the period can't be published, and its rows are sent in batches.
	Single = "single"
)

// ErrFilled is the error if a publication can no longer replace its period, for example because
// others have inserted rows into the period, or the period is gone.
var ErrFilled = errors.New("the period is no longer empty")

// Has reports whether a row at position pos, of a batch that begins at atByte, is one of p's rows.
func (p *Publication) Has(pos, atByte int64) bool {
	return p.Contains(pos) && atByte >= p.FromByte && (p.ToByte == 0 || atByte < p.ToByte)
}

// Extents returns where the publication's rows lie.
func (p *Publication) Extents() []Extent {
	if p.State != Published || p.Inserted+p.Duplicate == 0 {
		return nil
	}
	return []Extent{{Period: rolling.Period{From: p.First, To: p.Last + 1}, Rows: p.Inserted}}
}

const publicationColumns = "lower_pos, upper_pos, lower_byte, upper_byte, state, sent, inserted, duplicate, different, rejected, first_pos, last_pos"

// publications records the publications of each source.
type publications struct{ *database }

// Publications returns, in order, the publications of a source that is not loaded to its end.
func (s publications) Publications(ctx context.Context, table, source string) ([]*Publication, error) {
	all, err := list(ctx, s.database, "publications of "+table, func(r *sql.Rows, p *Publication) error {
		p.Table, p.Source = table, source
		return r.Scan(&p.From, &p.To, &p.FromByte, &p.ToByte, &p.State, &p.Sent, &p.Inserted, &p.Duplicate, &p.Different, &p.Rejected, &p.First, &p.Last)
	}, "SELECT "+publicationColumns+" FROM rowmill_publications WHERE table_name = ? AND source = ? ORDER BY lower_pos", table, source)
	out := make([]*Publication, len(all))
	for i := range all {
		out[i] = &all[i]
	}
	return out, err
}

// Publication returns what is recorded of a publication, or ErrForgotten.
func (s publications) Publication(ctx context.Context, p *Publication) (*Publication, error) {
	all, err := s.Publications(ctx, p.Table, p.Source)
	if err != nil {
		return nil, err
	}
	for _, is := range all {
		if is.From == p.From {
			return is, nil
		}
	}
	return nil, because("publications of "+p.Table, ErrForgotten)
}

// AddPublications records publications, none of whose rows is in the table.
func (s publications) AddPublications(ctx context.Context, x Exec, all []*Publication) error {
	if len(all) == 0 {
		return nil
	}
	rows := make([][]any, len(all))
	for i, p := range all {
		rows[i] = []any{p.Table, p.Source, p.From, p.To, p.FromByte, p.ToByte, p.State, p.Sent, p.Inserted, p.Duplicate, p.Different, p.Rejected, p.First, p.Last, time.Now().UnixMicro()}
	}
	return because("record the publications of "+all[0].Table,
		s.insert(ctx, x, "rowmill_publications (table_name, source, "+publicationColumns+", updated_us)", rows...))
}

// PutPublication updates the record of a publication, in the transaction of x. It returns
// ErrForgotten if the publication has no record.
func (s publications) PutPublication(ctx context.Context, x Exec, p *Publication) error {
	n, err := s.exec(ctx, x, "UPDATE rowmill_publications SET upper_byte = ?, state = ?, sent = ?, inserted = ?, duplicate = ?, different = ?, rejected = ?, "+
		"first_pos = ?, last_pos = ?, updated_us = ? WHERE table_name = ? AND source = ? AND lower_pos = ?",
		p.ToByte, p.State, p.Sent, p.Inserted, p.Duplicate, p.Different, p.Rejected, p.First, p.Last, time.Now().UnixMicro(), p.Table, p.Source, p.From)
	if err == nil && n == 0 {
		err = ErrForgotten
	}
	return because("record a publication of "+p.Table, err)
}

const removePublications = "DELETE FROM rowmill_publications WHERE table_name = ? AND source = ?"

// EndPublications records the end, to, of those of a source's publications that have none yet.
func (s publications) EndPublications(ctx context.Context, table, source string, to int64) error {
	return s.run(ctx, s.DB(), "record the publications of "+table,
		"UPDATE rowmill_publications SET upper_byte = ? WHERE table_name = ? AND source = ? AND upper_byte = 0", to, table, source)
}
