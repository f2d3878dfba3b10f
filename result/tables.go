package result

// A Tables describes a run of `bench tables`.
type Tables struct {
	// Tables is how many there are, Partitions how many of each; 0 is none.
	Tables     int `json:"tables"`
	Partitions int `json:"partitions,omitempty"`
	// Connections is how many open them in the end, each Held of the tables.
	Connections int `json:"connections"`
	Held        int `json:"held"`
	// Definitions is the number of different definitions; 1 for a declared table.
	Definitions int `json:"definitions"`
	// Caches are the server's settings that limit what is kept of open tables.
	Caches map[string]string `json:"caches,omitempty"`
}

// Objects counts what was to be created: tables, or partitions if there are any.
func (t *Tables) Objects() int { return t.Tables * max(t.Partitions, 1) }

// HeldObjects counts the tables or partitions that each connection opens in the end.
func (t *Tables) HeldObjects() int { return t.Held * max(t.Partitions, 1) }

// Object is what is counted, in plural.
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
	TablesIdle      = "connect"     // connections that open nothing
	TablesHeld      = "connections" // connections that open some
)

// A TablesCost is what so many tables, or partitions, cost at one moment. Zero figures were not
// measured.
type TablesCost struct {
	Phase string `json:"phase"`
	// Objects is how many exist, Opened how many of them one connection has opened, Connections how
	// many have opened Held.
	Objects     int `json:"objects"`
	Opened      int `json:"opened,omitempty"`
	Connections int `json:"connections,omitempty"`

	// PSSBytes is the memory of all processes of the server, OpenFiles and Processes their number.
	PSSBytes  int64 `json:"pss_bytes,omitempty"`
	OpenFiles int   `json:"open_files,omitempty"`
	Processes int   `json:"processes,omitempty"`
	// DiskBytes and Files are the data directory, ListSeconds the time to list it, as a backup does.
	DiskBytes   int64   `json:"disk_bytes,omitempty"`
	Files       int     `json:"files,omitempty"`
	ListSeconds float64 `json:"list_seconds,omitempty"`
	// DictionaryBytes is the data dictionary, OpenedTables how often a table was opened since the
	// server's start.
	DictionaryBytes int64 `json:"dictionary_bytes,omitempty"`
	OpenedTables    int64 `json:"opened_tables,omitempty"`
	// CreateSeconds is the mean time of creating one, since the cost before; SchemaSeconds the time of
	// reading all columns from information_schema; AddSeconds that of adding one more partition to the
	// table, for which it is locked.
	CreateSeconds float64 `json:"create_seconds,omitempty"`
	SchemaSeconds float64 `json:"schema_seconds,omitempty"`
	AddSeconds    float64 `json:"add_seconds,omitempty"`
	// Seconds is how long the phase took to get here: the restart, or opening since the cost before.
	Seconds float64 `json:"seconds,omitempty"`
}

// A TablesSummary is the result of a run of `bench tables`.
type TablesSummary struct {
	Tables
	Costs []TablesCost `json:"costs"`
}

// TablesCosts are those of all phases of a run, in order.
func (r *Record) TablesCosts() (out []TablesCost) {
	for i := range r.Intervals {
		out = append(out, r.Intervals[i].Costs...)
	}
	if r.End != nil {
		out = append(out, r.End.Costs...)
	}
	return out
}

// tables returns the result of a run of `bench tables`; nil for others.
func (s *Summary) tables(r *Record) *TablesSummary {
	if r.Run.Tables == nil {
		return nil
	}
	return &TablesSummary{Tables: *r.Run.Tables, Costs: append([]TablesCost{}, r.TablesCosts()...)}
}
