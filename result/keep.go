package result

import "time"

// Unmaintained is the Run.Side of inserts that were made while nobody maintained the table, for
// comparison.
const Unmaintained = "unmaintained"

// Keep is the result of inserts beside a table's maintenance.
type Keep struct {
	// Longest is the insert that took longest.
	Longest KeepStall `json:"longest"`
	// An insert counts as slow if it takes StallMS milliseconds or longer. Stalls are the periods of
	// time in which inserts were slow, in order. Slow is the number of slow inserts.
	StallMS float64     `json:"stall_ms"`
	Stalls  []KeepStall `json:"stalls"`
	Slow    int64       `json:"slow_inserts"`
	// Errors counts the inserts' errors by their text, including errors before a retry.
	Errors map[string]int64 `json:"errors"`
	// Found is how many rows the run has added to the table, including rows of periods that were
	// dropped meanwhile; null if the rows weren't counted. Dropped is the number of all rows in the
	// dropped periods.
	Found   *int64 `json:"found"`
	Dropped int64  `json:"dropped_rows"`
	// Actions counts the actions of maintenance by name; Failed describes each that failed.
	Actions map[string]int `json:"actions"`
	Failed  []string       `json:"failed_actions"`
	// Disk is omitted if syncs of the server's disk can't be timed.
	Disk *KeepDisk `json:"disk,omitempty"`
}

// KeepStall is a time during which inserts were slow.
type KeepStall struct {
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"` // how long its longest insert took
	Inserts int       `json:"inserts"`
	// During lists what maintenance did at that time.
	During []string `json:"during"`
	// Sync is how long it took during the stall to sync another file on the server's disk, in seconds:
	// if the disk is slow, this sync is slow, too. 0 means less than 10 ms, or not measured.
	Sync float64 `json:"sync_seconds,omitempty"`
}

// KeepDisk is how long syncs of a separate file took.
type KeepDisk struct {
	Syncs   int64   `json:"syncs"`
	Slow    int     `json:"slow"`            // 10 ms and longer
	Longest float64 `json:"longest_seconds"` // of all
	Error   string  `json:"error,omitempty"` // why measuring ended early
}
