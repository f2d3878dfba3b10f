package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rowmill/rowmill/rolling"
)

// A Step is one request to a server, as data: Dialect.Render makes it SQL text, DB.Apply runs that.
type Step interface{ step() }

type (
	// Connect prepares a new connection. Maintenance runs DDL, the others insert and query.
	Connect struct{ Maintenance bool }
	// CreateTable creates t, its indexes and, if it rolls, its first partitions.
	CreateTable struct {
		Table      *Table
		Partitions []rolling.Partition
	}
	// DropTable drops t and everything that belongs to it, if it exists. For a rolling table whose
	// periods are tables of their own, Partitions names them. Views names views that may read it;
	// they are dropped where the server would refuse to drop the table otherwise.
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
	// DropPartition drops one of the existing partitions, Have in order, with its rows.
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
	// Select reads all columns of t, of one partition if Partition is set.
	Select struct {
		Table     *Table
		Partition *rolling.Partition
	}
	// Inspect reads what Catalog.Exists and then Catalog.Partitions report.
	Inspect struct{ Table *Table }
	// Measure reads what Catalog.Sizes reports, without the refresh of statistics.
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

// Rename renames a table, and its periods accordingly, in a transaction that the caller begins, so
// that several tables can be renamed together. Have lists a rolling table's partitions in order.
type Rename struct {
	Table *Table
	Have  []rolling.Partition
	To    string
}

func (Rename) step() {}

// Release makes a rolling table, whose partitions are Have in order, an ordinary one: a table with
// partitions, without those that only rowmill needs, or, where periods are tables of their own, a
// plain table, into which all rows are copied in one transaction.
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
	// Attach makes the table From a partition, also in a gap. The caller must have checked its bounds.
	Attach struct {
		Table *Table
		Have  []rolling.Partition
		Part  rolling.Partition
		From  string
	}
	// Replace puts the rows of the table With in the place of one or more adjacent partitions, Old,
	// which become the one partition New, of the same bounds. Readers see each row exactly once.
	// The rows of each old partition are moved to the table at the same index of Out. Out must not
	// name With, because it can't be determined afterwards whether tables were exchanged. See
	// Capabilities.LastName for the name of New. After ErrDiffers, ErrRefused and ErrWritten, the one
	// partition of Old has all of its rows, and With has its own.
	//
	// Proofs, one for each of Old, say from which rows With was made. They hold while nobody can
	// write to these partitions, and the rows are replaced before anybody can again: else it is
	// ErrWritten, and nothing has changed. Without proofs, With is taken for right.
	Replace struct {
		Table  *Table
		Have   []rolling.Partition
		Old    []rolling.Partition
		New    rolling.Partition
		With   string
		Out    []string
		Proofs []Proof
	}
	// A Proof is a query about the rows of a partition, and the number and checksum that it must
	// return.
	Proof struct {
		Query string
		Sum   Checksum
	}
	// Divide makes a partition the partitions New, which have all of its rows: they are copied under
	// the table's lock. The rest of its range is removed, unless it has rows: then it is a partition
	// called RestName. Columns are the columns that can be written to.
	Divide struct {
		Table   *Table
		Part    rolling.Partition
		New     []rolling.Partition
		Columns []string
	}
	// Enclose is only rendered: what Encloser does to a partition, Tail, that has no end.
	Enclose struct {
		Table *Table
		Tail  rolling.Partition
		Part  rolling.Partition
		With  string
	}
	// AddTail adds a partition for all rows of no other one, MAXVALUE or DEFAULT, as others have it.
	AddTail struct {
		Table *Table
		Name  string
	}
	// DropTables drops the standalone tables that exist.
	DropTables struct{ Names []string }
	// AddColumn adds a column to a table and all of its periods, blocking inserts the least.
	// Definition is as in CREATE TABLE, with its name, as its owner wrote it.
	AddColumn struct {
		Table      *Table
		Have       []rolling.Partition
		Name       string
		Definition string
	}
)

// RestName is the name of what is left of a divided partition, without rows, before it is removed.
const RestName = "rowmill_rest"

// Prove returns ErrWritten unless the proofs of partitions hold.
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

// Written is the error of a partition whose proof doesn't hold.
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

// One is the rendering of a step that is one statement.
func One(statement string, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	return []string{statement}, nil
}

// Statements drops the tables one at a time: each DROP removes a file.
func (s DropTables) Statements(d Dialect) []string {
	out := make([]string, len(s.Names))
	for i, name := range s.Names {
		out[i] = "DROP TABLE IF EXISTS " + d.Quote(name)
	}
	return out
}
