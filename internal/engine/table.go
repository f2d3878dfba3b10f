package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/rolling"
)

// A Type is a column's type; engines map it to their own types.
type Type int

// Column types, with the field of a Batch's Vector that has their values.
const (
	Int32   Type = iota // Ints
	Int64               // Ints
	Float32             // Floats, each exactly a float32
	Float64             // Floats
	Time                // Ints: microseconds since the epoch, UTC
	Varchar             // Bytes: at most Size characters
	Char                // Bytes: at most Size characters, no trailing blanks
	Decimal             // Bytes: decimal text, Size digits, Scale after the point
	Binary              // Bytes: anything
)

// A Column of a table. Columns are NOT NULL unless Null is set.
type Column struct {
	Name        string
	Type        Type
	Size, Scale int
	Null        bool
	// Auto columns are AUTO_INCREMENT (or the engine's equivalent).
	Auto bool
	// Default is SQL text of the declaration, from code, never from a user.
	Default string
}

// An Index is a secondary index, not unique.
type Index struct {
	Name    string
	Columns []string
}

// A Table as rowmill creates and fills it.
type Table struct {
	Name       string
	Columns    []Column
	PrimaryKey []string
	Indexes    []Index
	// With a Grid, the table rolls by By, a column of its primary key; without, it is plain.
	Grid rolling.Grid
	By   string
	// Bounds names the expression of By that bounds the partitions of a table that rowmill did not
	// create. Describe returns it.
	Bounds string
	// Epoch is the unit of an integer By that counts since 1970: a second, a milli- or microsecond.
	Epoch time.Duration
	// Values, if it isn't 0, gives each value of By a partition of its own. By is then an integer
	// column of the primary key, with values from 0 to Values-1. The table isn't rolling.
	Values int
	// Definition is the user's CREATE TABLE, which is executed: Columns and keys may be empty.
	Definition *rolling.Definition
	// Compress asks for compressed sealed periods, on engines that compress a table as a whole.
	Compress bool
	// Ignore makes inserts skip rows whose primary key exists, in the table or earlier in the batch,
	// and no other rows. It is INSERT IGNORE on MySQL, and ON CONFLICT DO NOTHING on others.
	Ignore bool
	// Update: if the primary key of a row exists, in the table or earlier in the batch, a Loader
	// replaces all other Columns of the existing row. The primary key must be the only unique key.
	Update bool
	// ServerKey names the Auto column whose values the server assigns; batches don't have that column.
	ServerKey string
}

// Rolling reports whether the table is divided into periods.
func (t *Table) Rolling() bool { return t.Grid.Valid() }

// Column returns the index of the named column, or -1.
func (t *Table) Column(name string) int {
	return slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
}

// Inserted returns the columns of the batches that are inserted into the table, in order.
func (t *Table) Inserted() []Column {
	if t.ServerKey == "" {
		return t.Columns
	}
	return slices.DeleteFunc(slices.Clone(t.Columns), func(c Column) bool { return c.Name == t.ServerKey })
}

// Replaced returns the columns whose values an insert with Update replaces: all but those of the
// primary key.
func (t *Table) Replaced() []Column {
	if !t.Update {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(t.Inserted()), func(c Column) bool { return slices.Contains(t.PrimaryKey, c.Name) })
}

// Names returns the names of columns.
func Names(cols []Column) []string {
	names := make([]string, len(cols))
	for i, c := range cols {
		names[i] = c.Name
	}
	return names
}

// TableNames returns the names of tables.
func TableNames(tables []*Table) []string {
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = t.Name
	}
	return names
}

// Declaration returns the column's definition without its name. types have %d for sizes.
func (c Column) Declaration(types map[Type]string) string {
	s := types[c.Type]
	switch strings.Count(s, "%d") {
	case 1:
		s = fmt.Sprintf(s, c.Size)
	case 2:
		s = fmt.Sprintf(s, c.Size, c.Scale)
	}
	if c.Default != "" {
		s += " DEFAULT " + c.Default
	}
	if !c.Null {
		s += " NOT NULL"
	}
	return s
}

// Validate returns an error if the table is impossible on any engine.
func (t *Table) Validate() error {
	if t.Name == "" || strings.ContainsRune(t.Name, 0) {
		return errors.New("table without a usable name")
	}
	if len(t.Columns) == 0 || len(t.PrimaryKey) == 0 {
		return fmt.Errorf("table %s: needs columns and a primary key", t.Name)
	}
	for _, c := range t.Columns {
		if (c.Type == Varchar || c.Type == Char || c.Type == Decimal) && (c.Size < 1 || c.Scale < 0 || c.Scale > c.Size) {
			return fmt.Errorf("table %s: column %s has size %d and scale %d", t.Name, c.Name, c.Size, c.Scale)
		}
		if c.Auto && c.Type != Int32 && c.Type != Int64 {
			return fmt.Errorf("table %s: auto-increment column %s is not an integer", t.Name, c.Name)
		}
	}
	has := func(cols []string, what string) error {
		for _, c := range cols {
			if t.Column(c) < 0 {
				return fmt.Errorf("table %s: %s names column %s, which it doesn't have", t.Name, what, c)
			}
		}
		return nil
	}
	if err := has(t.PrimaryKey, "primary key"); err != nil {
		return err
	}
	for _, ix := range t.Indexes {
		if err := has(ix.Columns, "index "+ix.Name); err != nil {
			return err
		}
	}
	if t.ServerKey != "" {
		if i := t.Column(t.ServerKey); i < 0 || !t.Columns[i].Auto {
			return fmt.Errorf("table %s: server key %s is not an auto-increment column", t.Name, t.ServerKey)
		}
		if t.Ignore {
			return fmt.Errorf("table %s: the server assigns new keys, so no row can be skipped because its key exists", t.Name)
		}
	}
	if t.Values < 0 || t.Values > 0 && t.Rolling() {
		return fmt.Errorf("table %s: %d partitions by value of a table that rolls, or less than one", t.Name, t.Values)
	}
	if !t.Rolling() && t.Values == 0 {
		return nil
	}
	if !slices.Contains(t.PrimaryKey, t.By) {
		return fmt.Errorf("table %s: the primary key must contain %s, by which the table is divided", t.Name, t.By)
	}
	fits := []Type{Int32, Int64}
	if by := t.Columns[t.Column(t.By)]; t.Values > 0 {
		if by.Null || !slices.Contains(fits, by.Type) {
			return fmt.Errorf("table %s: column %s is not an integer, which may not be NULL", t.Name, t.By)
		}
		return nil
	}
	if t.Grid.Axis() == rolling.Time {
		fits = []Type{Time}
	}
	if by := t.Columns[t.Column(t.By)]; by.Null || !slices.Contains(fits, by.Type) {
		return fmt.Errorf("table %s: periods of %s don't fit the type of column %s", t.Name, t.Grid, t.By)
	}
	return nil
}
