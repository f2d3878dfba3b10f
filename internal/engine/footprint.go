package engine

import "context"

// A Sizer is a Keeper that can measure each part of a plain table.
type Sizer interface {
	Keeper
	// Footprint measures a plain table now, to the page if the server reports that,
	// and without preallocated space.
	Footprint(ctx context.Context, table string) (*Footprint, error)
	// Named returns the tables whose names begin with a prefix.
	Named(ctx context.Context, prefix string) ([]string, error)
}

// A Footprint is the sizes of the parts of a plain table, in bytes.
type Footprint struct {
	// Heap is the size of the rows. If Clustered is set, they are stored in the
	// order of the primary key and are its index; otherwise in the order of
	// insertion.
	Heap      int64
	Clustered bool
	// Indexes are the other indexes, including that of the primary key if it is
	// separate.
	Indexes []IndexFootprint
	// Saved is the space on disk saved by compression below the page level; it is
	// included in the sizes above. -1 is unknown.
	Saved int64
	// Rough reports that the server provides only estimates of data and index,
	// including preallocated space. Indexes then has one element without columns for
	// all of them.
	Rough bool
}

// An IndexFootprint is the size of one index.
type IndexFootprint struct {
	Name    string
	Columns []string
	Bytes   int64
}

// Total is the size of all parts on disk.
func (f *Footprint) Total() int64 {
	n := f.Heap
	for _, ix := range f.Indexes {
		n += ix.Bytes
	}
	return n - max(f.Saved, 0)
}
