package result

// A Speed says which cell of a speed test a run is: one operation, with so
// many clients, on one target.
type Speed struct {
	// Operation is "insert", "select-pk", "select-index", "mixed" or "points".
	// Of a mixed one the main load inserts, and the selects are beside it.
	Operation string `json:"operation"`
	// Clients is how many ran at once, Readers how many of them selected.
	Clients int `json:"clients"`
	Readers int `json:"readers,omitempty"`
	// Counts is what the run's rows and rates count: "rows" or "queries".
	Counts string `json:"counts"`
	// Points is how many values one select asked for.
	Points int `json:"points,omitempty"`
	// TableRows is how many rows the table had as the cell began, Filled how
	// many it was filled with: selects ask for these.
	TableRows int64 `json:"table_rows"`
	Filled    int64 `json:"filled"`
	// Setting is what was changed on the server for this run, as NAME=VALUE,
	// SettingValue what the server then said, and SettingHow "running" where
	// the one server was changed for each run, "started" where each value has a
	// server of its own; all empty where nothing was.
	Setting      string `json:"setting,omitempty"`
	SettingValue string `json:"setting_value,omitempty"`
	SettingHow   string `json:"setting_how,omitempty"`
}

// What a cell's rates count.
const (
	CountsRows    = "rows"
	CountsQueries = "queries"
)

// How a cell's setting was changed.
const (
	SettingRunning = "running"
	SettingStarted = "started"
)
