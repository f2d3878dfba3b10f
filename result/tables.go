package result

// A Tables describes a run of `bench tables`.
type Tables struct {
	// Tables is the number of tables, Partitions the number of partitions of each; 0 is none.
	Tables     int `json:"tables"`
	Partitions int `json:"partitions,omitempty"`
	// At the end, as many as Connections connections each open Held tables.
	Connections int `json:"connections"`
	Held        int `json:"held"`
	// Definitions is the number of different table definitions; 1 for a declared table.
	Definitions int `json:"definitions"`
	// Caches are the server's settings of its caches of open tables, such as table_open_cache.
	Caches map[string]string `json:"caches,omitempty"`
}

// Objects returns the number of tables to create or, with partitions, of partitions.
func (t *Tables) Objects() int { return t.Tables * max(t.Partitions, 1) }

// Object returns "tables" or "partitions".
func (t *Tables) Object() string {
	if t.Partitions > 0 {
		return "partitions"
	}
	return "tables"
}

// Phases of a run of `bench tables`, in order.
const (
	TablesCreated   = "create"      // while they are created
	TablesRestarted = "restart"     // the server was restarted
	TablesOpened    = "open"        // one connection opens them
	TablesReopened  = "open again"  // another connection opens all of them
	TablesIdle      = "connect"     // connections without open tables
	TablesHeld      = "connections" // connections that each open Held tables
)

// A TablesCost is the cost of a number of tables or partitions at one moment. A figure that is 0
// was not measured.
type TablesCost struct {
	Phase string `json:"phase"`
	// Objects is the number of tables or partitions. Opened is how many of them one connection has
	// opened. Connections is the number of connections; in phase TablesHeld, each connection has
	// opened some of the tables.
	Objects     int `json:"objects"`
	Opened      int `json:"opened,omitempty"`
	Connections int `json:"connections,omitempty"`

	// PSSBytes is the memory of all processes of the server, OpenFiles and Processes their number.
	PSSBytes  int64 `json:"pss_bytes,omitempty"`
	OpenFiles int   `json:"open_files,omitempty"`
	Processes int   `json:"processes,omitempty"`
	// DiskBytes and Files are the total size and the number of the files in the data directory.
	// ListSeconds is the time to list the directory, as a backup does.
	DiskBytes   int64   `json:"disk_bytes,omitempty"`
	Files       int     `json:"files,omitempty"`
	ListSeconds float64 `json:"list_seconds,omitempty"`
	// DictionaryBytes is the size of the data dictionary. OpenedTables is the number of times a table
	// was opened since the server's start.
	DictionaryBytes int64 `json:"dictionary_bytes,omitempty"`
	OpenedTables    int64 `json:"opened_tables,omitempty"`
	// CreateSeconds is the mean time to create a table, over the tables created since the previous
	// TablesCost. SchemaSeconds is the time to read all columns from information_schema. AddSeconds is
	// the time to add one partition, during which the table is locked.
	CreateSeconds float64 `json:"create_seconds,omitempty"`
	SchemaSeconds float64 `json:"schema_seconds,omitempty"`
	AddSeconds    float64 `json:"add_seconds,omitempty"`
	// Seconds is how long a restart took, or opening the tables since the previous TablesCost.
	Seconds float64 `json:"seconds,omitempty"`
}

// A TablesSummary is the result of a run of `bench tables`.
type TablesSummary struct {
	Tables
	Costs []TablesCost `json:"costs"`
}

// TablesCosts returns the costs of all phases of a run, in order.
func (r *Record) TablesCosts() (out []TablesCost) {
	for i := range r.Intervals {
		out = append(out, r.Intervals[i].Costs...)
	}
	if r.End != nil {
		out = append(out, r.End.Costs...)
	}
	return out
}

// tables returns the result of a run of `bench tables`; nil for other runs.
func (s *Summary) tables(r *Record) *TablesSummary {
	if r.Run.Tables == nil {
		return nil
	}
	return &TablesSummary{Tables: *r.Run.Tables, Costs: append([]TablesCost{}, r.TablesCosts()...)}
}
