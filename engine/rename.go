package engine

import "github.com/rowmill/rowmill/rolling"

// Rename gives a table another name, and its periods the names that go with it.
// It renders the statements of a transaction that somebody else begins: those
// of several tables may belong together. Have lists the partitions of a rolling
// table, in order.
type Rename struct {
	Table *Table
	Have  []rolling.Partition
	To    string
}

func (Rename) step() {}
