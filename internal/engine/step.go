package engine

import "github.com/rowmill/rowmill/rolling"

// A Step is one request to a server, as data. Dialect.Render converts it to SQL
// text; DB.Apply executes that text.
type Step interface{ step() }

type (
	// Session prepares a connection: time zone, SQL mode, lock waits.
	// Maintenance connections run DDL, the others insert.
	Session struct{ Maintenance bool }
	// CreateTable creates t, its indexes and, if it rolls, its first partitions.
	CreateTable struct {
		Table      *Table
		Partitions []rolling.Partition
	}
	// DropTable drops t and everything that belongs to it, if it exists. For a
	// rolling table whose periods are tables of their own, Partitions names them.
	DropTable struct {
		Table      *Table
		Partitions []rolling.Partition
	}
	// CreatePartitions adds partitions after the last one. Have lists the existing
	// ones in order.
	CreatePartitions struct {
		Table *Table
		Have  []rolling.Partition
		New   []rolling.Partition
	}
	// DropPartition drops one partition with its rows. Have lists the existing ones
	// in order, including the dropped one.
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
	// Measure reads what Catalog.Sizes reports. The refresh of partition statistics
	// is not rendered, because only the server knows which ones it affects.
	Measure struct{ Table *Table }
	// Sample reads what Counters reports.
	Sample struct{ Tables []*Table }
)

func (Session) step()          {}
func (CreateTable) step()      {}
func (DropTable) step()        {}
func (CreatePartitions) step() {}
func (DropPartition) step()    {}
func (Insert) step()           {}
func (Select) step()           {}
func (Inspect) step()          {}
func (Measure) step()          {}
func (Sample) step()           {}
