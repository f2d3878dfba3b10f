package result

import "strings"

// A Cell says which cell of an insert-method matrix a run is, and what the
// whole matrix is: each run carries the design, so that any part of a record
// tells what is missing from it.
type Cell struct {
	// Factors are what is varied, and also what has but one level.
	Factors []Factor `json:"factors"`
	// LeftOut are levels that were asked for and that the engine can't do.
	LeftOut []LeftOut `json:"left_out,omitempty"`
	// Repeats is how often each cell is run, Runs how many runs that makes.
	Repeats int `json:"repeats"`
	Runs    int `json:"runs"`
	// Levels holds the level of each factor that this run has, in order.
	Levels []string `json:"levels"`
	// Order is the run's place in the random order of all runs, from 1.
	Order int `json:"order"`
}

// A Factor is one thing that a matrix varies.
type Factor struct {
	Name   string   `json:"name"`
	Levels []string `json:"levels"`
}

// LeftOut is a level that no cell has, and why.
type LeftOut struct {
	Factor string `json:"factor"`
	Level  string `json:"level"`
	Why    string `json:"why"`
}

// Valid tells whether the levels are such as the factors have.
func (c *Cell) Valid() bool {
	if len(c.Levels) != len(c.Factors) {
		return false
	}
	for i := range c.Factors {
		if c.Index(i) < 0 {
			return false
		}
	}
	return true
}

// Index returns the place of the run's level among those of a factor, -1 where
// it has none of them.
func (c *Cell) Index(factor int) int {
	for i, l := range c.Factors[factor].Levels {
		if l == c.Levels[factor] {
			return i
		}
	}
	return -1
}

// Key identifies the cell within its matrix.
func (c *Cell) Key() string { return strings.Join(c.Levels, "\x00") }

// Name names the cell by the factors that have several levels: "method=load
// batch=1000"; by all of them where none has.
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
