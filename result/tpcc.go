package result

import "math"

// NotAudited goes with each figure of `bench tpcc`.
const NotAudited = "TPC-C-like, not audited"

// NewOrder is the operation that counts as a row in records of `bench tpcc`.
const NewOrder = "new-order"

// MostKeyed is the highest possible number of new orders per minute and warehouse if terminals wait
// for keying and thinking (clauses 5.2.5.2 and 5.2.5.4).
const MostKeyed = 12.86

// A TPCC describes a run of `bench tpcc`.
type TPCC struct {
	Note       string `json:"note"` // NotAudited
	Warehouses int    `json:"warehouses"`
	Terminals  int    `json:"terminals"`
	// Keying is set if terminals wait like users, who type and think.
	Keying bool `json:"keying,omitempty"`
	// Nodes is the number of servers that share the work; 0 means 1. Each server has all rows or, if
	// Sharded, the rows of some warehouses.
	Nodes   int  `json:"nodes,omitempty"`
	Sharded bool `json:"sharded,omitempty"`
	// Scale is the share of a warehouse's rows that were loaded, below 1 in tests.
	Scale float64 `json:"scale,omitempty"`
}

// A TPCCSummary is the result of a run of `bench tpcc`.
type TPCCSummary struct {
	TPCC
	// NewOrdersPerMinute includes orders that were rolled back, as the definition says.
	NewOrdersPerMinute float64          `json:"new_orders_per_minute"`
	Causes             map[string]int64 `json:"retries_by_cause,omitempty"`
	Conditions         []Condition      `json:"conditions"`
	Crossing           *Crossing        `json:"crossing,omitempty"`
}

// Crossing is about the TPC-C transactions whose rows are on several nodes. Expected is their share
// of all transactions, from 0 to 1, as it follows from the definition. Measured is their share as
// the tables show it.
type Crossing struct {
	Transactions int64   `json:"transactions"`
	Expected     float64 `json:"expected"`
	Measured     float64 `json:"measured"`
}

// A Condition is a consistency condition that was checked after the run.
type Condition struct {
	Name  string `json:"name"`
	Holds bool   `json:"holds"`
	// Found is what was found, in words or figures.
	Found string `json:"found"`
}

// tpcc returns the result of a run of `bench tpcc`, computed from the unrounded rate; nil for other
// runs.
func (s *Summary) tpcc(r *Record) *TPCCSummary {
	if r.Run.TPCC == nil {
		return nil
	}
	out := &TPCCSummary{TPCC: *r.Run.TPCC, NewOrdersPerMinute: math.Round(600*s.RowsPerSecond) / 10, Conditions: []Condition{}}
	if r.End != nil {
		out.Causes, out.Crossing = r.End.Causes, r.End.Crossing
		out.Conditions = append(out.Conditions, r.End.Conditions...)
	}
	return out
}
