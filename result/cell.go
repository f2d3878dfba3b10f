package result

import (
	"slices"
	"strings"
)

// A Cell is a run's cell in an insert-method matrix. It also has the design of the whole matrix, so
// that an incomplete record shows which runs are missing.
type Cell struct {
	// Factors are all factors, including those with a single level.
	Factors []Factor `json:"factors"`
	// LeftOut lists requested levels that the engine doesn't support.
	LeftOut []LeftOut `json:"left_out,omitempty"`
	// Repeats is the number of runs per cell, Runs the total number of runs.
	Repeats int `json:"repeats"`
	Runs    int `json:"runs"`
	// Levels is the run's level of each factor, in the order of Factors.
	Levels []string `json:"levels"`
	// Order is the run's position in the random order of all runs, from 1.
	Order int `json:"order"`
}

// A Factor is one variable of a matrix.
type Factor struct {
	Name   string   `json:"name"`
	Levels []string `json:"levels"`
}

// LeftOut is a level that the engine doesn't support, and the reason.
type LeftOut struct {
	Factor string `json:"factor"`
	Level  string `json:"level"`
	Why    string `json:"why"`
}

// Valid reports whether each of the run's levels is a level of its factor.
func (c *Cell) Valid() bool {
	return slices.EqualFunc(c.Factors, c.Levels, func(f Factor, level string) bool { return slices.Contains(f.Levels, level) })
}

// Key identifies the cell within its matrix.
func (c *Cell) Key() string { return strings.Join(c.Levels, "\x00") }

// Name returns the cell's name: the levels of the factors that have several levels ("method=load
// batch=1000"), or of all factors if each has one level.
func (c *Cell) Name() string {
	var some, all []string
	for i, f := range c.Factors {
		part := f.Name + "=" + c.Levels[i]
		all = append(all, part)
		if len(f.Levels) > 1 {
			some = append(some, part)
		}
	}
	if len(some) == 0 {
		some = all
	}
	return strings.Join(some, " ")
}

// A Speed identifies a run's cell of a speed test: one operation, with a number of
// clients, on one target.
type Speed struct {
	// Operation is "insert", "select-pk", "select-index", "points" or "mixed", where
	// selects run beside the inserts.
	Operation string `json:"operation"`
	// Clients is the number of concurrent clients, of which Readers selected.
	Clients int `json:"clients"`
	Readers int `json:"readers,omitempty"`
	// Counts is the unit of the run's rows and rates: "rows", "queries" or "new orders".
	Counts string `json:"counts"`
	// Points is the number of values that one select requests.
	Points int `json:"points,omitempty"`
	// TableRows counts the rows in the table at the start of the cell. Filled counts the rows with
	// which the table was filled before all cells: selects ask only for these.
	TableRows int64 `json:"table_rows"`
	Filled    int64 `json:"filled"`
	// Setting is the setting with which the run's server was started, as NAME=VALUE.
	Setting string `json:"setting,omitempty"`
}

// Units of a cell's rates.
const (
	CountsRows    = "rows"
	CountsQueries = "queries"
	CountsOrders  = "new orders"
)
