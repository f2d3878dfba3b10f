package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rowmill/rowmill/rolling"
)

// A Step is one request to a server, as data: Dialect.Render makes it SQL text, DB.Apply runs it.
type Step interface{ step() }

type (
	// Connect prepares a new connection: for DDL if Maintenance is set, else for inserts and queries.
	Connect struct{ Maintenance bool }
	// CreateTable creates t, its indexes and, if it rolls, its first partitions.
	CreateTable struct {
		Table      *Table
		Partitions []rolling.Partition
	}
	// DropTable drops t, if it exists, and everything that belongs to it. If t's periods are tables of
	// their own, Partitions names them. Views are views that may read t. A server that would otherwise
	// refuse to drop t also drops the views.
	DropTable struct {
		Table      *Table
		Partitions []rolling.Partition
		Views      []string
	}
	// CreatePartitions adds partitions: after the last one, before the first one, or in gaps. New
	// lists them and Have the existing ones, both in order.
	CreatePartitions struct {
		Table *Table
		Have  []rolling.Partition
		New   []rolling.Partition
	}
	// DropPartition drops one partition with its rows. Have lists the existing partitions in order.
	DropPartition struct {
		Table *Table
		Have  []rolling.Partition
		Drop  rolling.Partition
	}
	// Insert inserts the rows of a batch by a method.
	Insert struct {
		Table  *Table
		Method Method
		Batch  *Batch
	}
	// Select reads all columns of t, or only of one partition if Partition is set.
	Select struct {
		Table     *Table
		Partition *rolling.Partition
	}
	// Inspect reads what Catalog.Exists and Catalog.Partitions report, in this order.
	Inspect struct{ Table *Table }
	// Measure reads what Catalog.Sizes reports, but doesn't refresh the statistics.
	Measure struct{ Table *Table }
	// Sample reads what Counters reports.
	Sample struct{ Tables []*Table }
)

func (Connect) step()          {}
func (CreateTable) step()      {}
func (DropTable) step()        {}
func (CreatePartitions) step() {}
func (DropPartition) step()    {}
func (Insert) step()           {}
func (Select) step()           {}
func (Inspect) step()          {}
func (Measure) step()          {}
func (Sample) step()           {}

// Rename renames a table and, accordingly, its periods. The caller begins the transaction, so that
// it can rename several tables together. Have lists a rolling table's partitions in order.
type Rename struct {
	Table *Table
	Have  []rolling.Partition
	To    string
}

func (Rename) step() {}

// Release makes a rolling table an ordinary one. The table keeps its partitions, except those that
// only rowmill needs. If the table's periods are tables of their own, all rows are copied into one
// plain table instead, in one transaction. Have lists the partitions in order.
type Release struct {
	Table *Table
	Have  []rolling.Partition
}

func (Release) step() {}

type (
	// Detach makes a partition, one of Have, a standalone table called Into.
	Detach struct {
		Table *Table
		Have  []rolling.Partition
		Part  rolling.Partition
		Into  string
	}
	// Attach makes the table From a partition, which may fill a gap. The caller must have checked that
	// all rows of From lie within the partition's bounds.
	Attach struct {
		Table *Table
		Have  []rolling.Partition
		Part  rolling.Partition
		From  string
	}
	// Replace puts the rows of the table With in the place of one or more adjacent partitions, Old.
	// These become one partition, New, with the same bounds. Readers see each row exactly once. The
	// rows of each old partition are moved to the table at the same index of Out. Out must not name
	// With: nobody could tell afterwards whether the tables were exchanged. See
	// Capabilities.LastName for the name of New. If Old is one partition, no row has moved after
	// ErrDiffers, ErrRefused and ErrWritten.
	//
	// Proofs, one for each of Old, say from which rows With was made. Replace checks them while nobody
	// can write to these partitions, and replaces the rows before writes are possible again. If a
	// proof fails, Replace returns ErrWritten, and nothing has changed. Without proofs, Replace
	// doesn't check With.
	Replace struct {
		Table  *Table
		Have   []rolling.Partition
		Old    []rolling.Partition
		New    rolling.Partition
		With   string
		Out    []string
		Proofs []Proof
	}
	// A Proof is a query about the rows of a partition, with the number of rows and the checksum that
	// the query must return.
	Proof struct {
		Query string
		Sum   Checksum
	}
	// Divide replaces the partition Part by the partitions New. The server copies the rows of Part
	// into New under the table's lock. If New ends before the end of Part, the range behind New has no
	// partition afterwards; but on MySQL and MariaDB, it becomes a partition called RestName if rows
	// have arrived in it. Columns are the table's columns that can be written to.
	Divide struct {
		Table   *Table
		Part    rolling.Partition
		New     []rolling.Partition
		Columns []string
	}
	// Enclose is only rendered, never executed. It shows what Encloser does to the partition Tail,
	// which has no upper bound.
	Enclose struct {
		Table *Table
		Tail  rolling.Partition
		Part  rolling.Partition
		With  string
	}
	// AddTail adds a partition MAXVALUE or DEFAULT, for all rows that no other partition takes.
	AddTail struct {
		Table *Table
		Name  string
	}
	// DropTables drops those of the standalone tables that exist.
	DropTables struct{ Names []string }
	// AddColumn adds a column to a table and all of its periods, in the way that blocks inserts for
	// the shortest time. Definition is as in CREATE TABLE, with the column's name.
	AddColumn struct {
		Table      *Table
		Have       []rolling.Partition
		Name       string
		Definition string
	}
)

// RestName is the name of the rest of a divided partition until the rest is removed.
const RestName = "rowmill_rest"

// Prove returns ErrWritten unless the proofs of all partitions in of hold.
func (s *Replace) Prove(of []rolling.Partition, ask func(query string) (Checksum, error)) error {
	for i, p := range s.Proofs {
		if !slices.ContainsFunc(of, func(q rolling.Partition) bool { return q.To == s.Old[i].To }) {
			continue
		}
		is, err := ask(p.Query)
		if err != nil {
			return fmt.Errorf("compare the rows of %s: %w", s.Old[i].Name, err)
		}
		if is != p.Sum {
			return Written(s.Old[i])
		}
	}
	return nil
}

// Written is the error for a partition whose proof doesn't hold.
func Written(p rolling.Partition) error {
	return Classed(ErrWritten, fmt.Errorf("others wrote rows of %s meanwhile", p.Name))
}

// Check returns an error if the Replace contradicts itself.
func (s *Replace) Check() error {
	n := len(s.Old)
	switch {
	case n == 0 || len(s.Out) != n:
		return fmt.Errorf("%d partitions, and %d tables for their rows", n, len(s.Out))
	case s.Proofs != nil && len(s.Proofs) != n:
		return fmt.Errorf("%d partitions, and %d proofs", n, len(s.Proofs))
	case s.New.From != s.Old[0].From || s.New.To != s.Old[n-1].To:
		return fmt.Errorf("%s has other bounds than what it replaces", s.New.Name)
	case s.With == s.Table.Name || slices.Contains(s.Out, s.Table.Name):
		return errors.New("a table can't replace its own partition")
	}
	for i, p := range s.Old[1:] {
		if p.From != s.Old[i].To {
			return fmt.Errorf("%s and %s are not adjacent", s.Old[i].Name, p.Name)
		}
	}
	return nil
}

func (Detach) step()     {}
func (Attach) step()     {}
func (Replace) step()    {}
func (Divide) step()     {}
func (Enclose) step()    {}
func (AddTail) step()    {}
func (DropTables) step() {}
func (AddColumn) step()  {}

// One renders a step that is a single statement.
func One(statement string, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	return []string{statement}, nil
}

// Statements drops one table at a time, because each DROP removes a file.
func (s DropTables) Statements(d Dialect) []string {
	out := make([]string, len(s.Names))
	for i, name := range s.Names {
		out[i] = "DROP TABLE IF EXISTS " + d.Quote(name)
	}
	return out
}
