package format

import (
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/rowmill/rowmill/internal/state"
)

// A Batch is a byte range of a source that begins and ends at record boundaries.
type Batch struct {
	state.Cut
	Data []byte
	// Target is the destination of its rows and describes its fields.
	Target *Target
	// First reports that it begins with the source's first byte, and so has the header, if any.
	First bool
	// torn, unless nil, is the reason to reject its first row, which starts in the middle of a line.
	torn error
	// Rows is the number of its rows as counted by the cutter.
	Rows int
	// Numbered reports that From and To are numbers of rows and not offsets.
	Numbered bool
	// spans are the records of a spool that the batch joins; nil for a single record.
	spans []span
}

// HashOf returns the hash of a batch's bytes: xxHash64 as 16 hexadecimal digits.
func HashOf(data []byte) string { return fmt.Sprintf("%016x", xxhash.Sum64(data)) }

// A span is a record of a spool within a batch that Join made of several records.
type span struct {
	state.Cut
	at, end int // where its rows begin and end in the batch's data
}

// Join makes one batch of several batches that follow each other in a spool and have one target.
// Each of them still gets its own line of the ledger, so that the next load may join them in other
// groups.
func Join(all []*Batch) *Batch {
	if len(all) == 1 {
		return all[0]
	}
	out := &Batch{Cut: all[0].Cut, Target: all[0].Target}
	size := 0
	for _, b := range all {
		size += len(b.Data) + 1
	}
	out.Data, out.Lines = make([]byte, 0, size), 0
	for _, b := range all {
		at := len(out.Data)
		out.Data = append(out.Data, b.Data...)
		out.spans = append(out.spans, span{b.Cut, at, len(out.Data)})
		out.To, out.Lines = b.To, out.Lines+b.Lines
	}
	return out
}

// parts are the spans of a batch. A batch that wasn't joined is one span.
func (b *Batch) parts() []span {
	if b.spans == nil {
		return []span{{b.Cut, 0, len(b.Data)}}
	}
	return b.spans
}

// IDs returns the ID in the ledger of each record that the batch has.
func (b *Batch) IDs(source string) []string {
	var out []string
	for _, s := range b.parts() {
		out = append(out, s.ID(source))
	}
	return out
}

// Split returns the batches of which Join made the batch.
func (b *Batch) Split() []*Batch {
	var out []*Batch
	for _, s := range b.spans {
		out = append(out, &Batch{Cut: s.Cut, Data: b.Data[s.at:s.end:s.end], Target: b.Target})
	}
	return out
}

// offset returns the offset in the source of a position in the batch's data.
func (b *Batch) offset(at int) int64 {
	if b.spans == nil {
		return b.From + int64(at)
	}
	i, found := slices.BinarySearchFunc(b.spans, at, func(s span, at int) int { return s.at - at })
	if !found {
		i--
	}
	return b.spans[i].From + int64(at-b.spans[i].at)
}
