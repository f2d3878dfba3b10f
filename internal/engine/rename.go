package engine

import "github.com/rowmill/rowmill/rolling"

// Rename renames a table, and its periods accordingly. It renders the statements of
// a transaction that the caller begins, so that several tables can be renamed
// together. Have lists the partitions of a rolling table, in order.
type Rename struct {
	Table *Table
	Have  []rolling.Partition
	To    string
}

func (Rename) step() {}
