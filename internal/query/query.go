// Package query answers one query over a partitioned table with several sessions. It splits the
// query into pieces: each reads one or several partitions, and aggregates their rows itself. It
// runs the pieces in parallel in one snapshot, and merges their results.
//
// Exactness comes before speed: the answer has the values, types, names and order of the server's
// own answer. If that isn't certain, the query is passed through whole, and Plan.Whole says why.
//
//	parse.Parse -> plan.Split -> Runner.Run -> merge.Memory, merge.Ordered, or the server
//
// In: the text of a statement, an engine.Reader and the client's session settings. Out: rows, whose
// values are texts as the server writes them, passed to a Sink as they come. The package doesn't
// print, and knows no server by its name.
package query

import (
	"fmt"
	"math"
	"time"

	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/query/merge"
	"github.com/rowmill/rowmill/internal/query/plan"
)

// Options are the settings of a Runner. The zero value has the defaults.
type Options struct {
	// Parallel is the number of sessions that run pieces. 0 means the number of this machine's
	// cores if the server runs on it, else DefaultParallel.
	Parallel int
	// Memory limits the memory for merging, in bytes; 0 is DefaultMemory. If a merge needs more
	// memory, the server merges, in a temporary table.
	Memory int64
	// Always splits a query that can be split, even if it is small or the server's own plan is
	// expected to be as fast.
	Always bool
	// Inexact also splits aggregates whose last digits depend on the order of additions: sums and
	// averages of binary fractions (FLOAT, DOUBLE), and variances.
	Inexact bool
	// Lock permits a brief lock against writes for a common snapshot: see engine.Reader.OneSnapshot.
	Lock bool
	// Require passes a query through whole unless all pieces provably see one snapshot.
	Require bool
	// ByRange also splits a table without partitions, by ranges of its primary key.
	ByRange bool
	// ReadOnly runs whole statements in read-only transactions, as pieces are in any case.
	ReadOnly bool
	// Progress is called while pieces run, one call at a time; nil if nobody looks.
	Progress func(Progress)
	// NoRerun returns an error in place of running a query again whole.
	NoRerun bool
	// Rollups describes the roll-ups of tables. If it is nil, none is read.
	Rollups Rollups
	// NoRollups doesn't read roll-ups, NoCache doesn't use cached partial results.
	NoRollups, NoCache bool
}

// DefaultMemory is the limit of the memory for merging.
const DefaultMemory = 256 << 20

// DefaultParallel is the number of sessions for a server on another machine.
const DefaultParallel = 4

// A Progress says how far the pieces of a query are.
type Progress struct {
	Done, Pieces int
	// Moved is the number of rows that finished pieces have returned.
	Moved int64
	// Took is the time since the first piece began. Left is the expected time until the last piece
	// ends; 0 is unknown.
	Took, Left time.Duration
}

// Text describes the progress of a query that began took ago.
func (p *Progress) Text(took time.Duration) string {
	line := figure.Duration(math.Floor(took.Seconds()))
	if p.Pieces > 0 {
		line += fmt.Sprintf(": %d of %s", p.Done, figure.Plural(p.Pieces, "piece"))
	}
	// The time left was computed when a piece ended.
	if left := p.Left - (took - p.Took); p.Left > 0 && left > 0 {
		line += fmt.Sprintf(", about %s left", figure.Duration(math.Ceil(left.Seconds())))
	}
	return line
}

// A Sink takes the answer: first its columns, as the server describes them, then its rows. Calls
// come from one goroutine.
type Sink = merge.Sink

// A Report says how a query was answered.
type Report struct {
	Plan *plan.Plan
	// Rows is the number of rows of the answer, Moved the number of rows that pieces returned.
	Rows, Moved int64
	// Proof is why all pieces saw one snapshot; "" if they may not have: then Warnings say so.
	Proof string
	// Warned is the number of warnings of the server about values in pieces, such as a division by
	// zero.
	Warned int64
	// Cached is the number of periods whose partial results came from the cache. Uncached is why no
	// period could be cached; "" if some could.
	Cached   int
	Uncached string
	// Rerun is why the query was run again, whole, after its pieces. For example, rows tie at a
	// limit, so that SQL doesn't determine the answer. Rerun is "" if the query wasn't run again.
	Rerun string
	// Server reports that the merge was finished in a temporary table of the server.
	Server   bool
	Took     time.Duration
	Warnings []string
}
