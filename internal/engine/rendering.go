package engine

// RenderWords are Words of a server on which the text of a value, and so a checksum
// of rows, depends on settings of the session that computes it.
type RenderWords interface {
	// Renderings returns settings that render the columns differently from the
	// pool's: each is the statements that set them for one transaction. The
	// account's own settings come first, then those that differ in few settings.
	Renderings(cols []SchemaColumn) [][]string
}
