package result

// A Speed identifies a run's cell of a speed test: one operation, with a number of
// clients, on one target.
type Speed struct {
	// Operation is "insert", "select-pk", "select-index", "points" or "mixed", where
	// selects run beside the inserts.
	Operation string `json:"operation"`
	// Clients is the number of concurrent clients, of which Readers selected.
	Clients int `json:"clients"`
	Readers int `json:"readers,omitempty"`
	// Counts is the unit of the run's rows and rates: "rows" or "queries".
	Counts string `json:"counts"`
	// Points is the number of values that one select requests.
	Points int `json:"points,omitempty"`
	// TableRows counts the rows in the table at the start of the cell, Filled those it
	// was filled with, which selects request.
	TableRows int64 `json:"table_rows"`
	Filled    int64 `json:"filled"`
	// Setting is the server setting changed for this run, as NAME=VALUE, SettingValue
	// the value then reported by the server. SettingHow is "running" if one server was
	// changed for each run, "started" if each value has its own server.
	Setting      string `json:"setting,omitempty"`
	SettingValue string `json:"setting_value,omitempty"`
	SettingHow   string `json:"setting_how,omitempty"`
}

// Units of a cell's rates.
const (
	CountsRows    = "rows"
	CountsQueries = "queries"
)

// Ways of changing a cell's setting.
const (
	SettingRunning = "running"
	SettingStarted = "started"
)
