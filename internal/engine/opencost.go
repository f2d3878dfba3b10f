package engine

// An OpenCost is the memory of a server beside that for pages, in bytes. The zero value is not
// known.
type OpenCost struct {
	// Base is that without open tables, Connection of a connection that has the table open, but for
	// its partitions.
	Base       float64 `json:"base_bytes"`
	Connection float64 `json:"connection_bytes"`
	// Partition is what each partition takes once, Each what it takes on each connection that has the
	// table open.
	Partition float64 `json:"partition_bytes"`
	Each      float64 `json:"partition_and_connection_bytes"`
}

// Known reports whether the costs are known.
func (c OpenCost) Known() bool { return c.Partition != 0 || c.Each != 0 }

// Partitions is what the partitions take that so many connections have open.
func (c OpenCost) Partitions(partitions, connections int) float64 {
	return max(0, float64(partitions)*(c.Partition+float64(connections)*c.Each))
}

// At is the memory of a server with so many partitions open on so many connections.
func (c OpenCost) At(partitions, connections int) float64 {
	return c.Base + float64(connections)*c.Connection + c.Partitions(partitions, connections)
}

// OpenShare is the share of the memory for pages from which on open partitions are too many, and
// OpenConnections the number of connections that is assumed.
const (
	OpenShare       = 0.5
	OpenConnections = 50
)
