package engine

import "context"

// A Sizer is a Keeper that can tell what each part of a plain table takes.
type Sizer interface {
	Keeper
	// Footprint measures a plain table now, to the page where the server says
	// so, and without what it has allocated ahead.
	Footprint(ctx context.Context, table string) (*Footprint, error)
	// Named lists the tables whose names begin with a prefix.
	Named(ctx context.Context, prefix string) ([]string, error)
}

// A Footprint is what the parts of a plain table take, in bytes.
type Footprint struct {
	// Heap holds the rows. Where Clustered is set they lie in the order of the
	// primary key and are its index; elsewhere in the order of insertion.
	Heap      int64
	Clustered bool
	// Indexes are the others, the primary key's where it is one.
	Indexes []IndexFootprint
	// Saved is what compression below the page leaves free on disk; it is
	// part of the sizes above. -1 is unknown.
	Saved int64
	// Rough tells that the server says no more than estimates of data and
	// index, with what is allocated ahead; Indexes has one element of no
	// columns for all of them then.
	Rough bool
}

// An IndexFootprint is what one index takes.
type IndexFootprint struct {
	Name    string
	Columns []string
	Bytes   int64
}

// Total is what all parts take on disk.
func (f *Footprint) Total() int64 {
	n := f.Heap
	for _, ix := range f.Indexes {
		n += ix.Bytes
	}
	return n - max(f.Saved, 0)
}
