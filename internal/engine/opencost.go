package engine

// An OpenCost is the memory in bytes that a server needs in addition to the memory for pages. The
// zero value means that it is unknown.
type OpenCost struct {
	// Base is the memory needed without open tables. Connection is the memory for each connection that
	// has the table open, in addition to the memory for the table's partitions.
	Base       float64 `json:"base_bytes"`
	Connection float64 `json:"connection_bytes"`
	// Partition is needed once for each open partition. Each is needed for each open partition on each
	// connection that has the table open.
	Partition float64 `json:"partition_bytes"`
	Each      float64 `json:"partition_and_connection_bytes"`
}

// Known reports whether the costs are known.
func (c OpenCost) Known() bool { return c.Partition != 0 || c.Each != 0 }

// Partitions is the memory for the partitions that so many connections have open.
func (c OpenCost) Partitions(partitions, connections int) float64 {
	return max(0, float64(partitions)*(c.Partition+float64(connections)*c.Each))
}

// At is the memory of a server with so many partitions open on so many connections.
func (c OpenCost) At(partitions, connections int) float64 {
	return c.Base + float64(connections)*c.Connection + c.Partitions(partitions, connections)
}

// OpenShare limits what open partitions may cost: this share of the memory for pages.
// OpenConnections is the assumed number of connections.
const (
	OpenShare       = 0.5
	OpenConnections = 50
)
