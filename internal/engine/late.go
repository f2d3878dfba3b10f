package engine

// LateWords are the pieces of SQL that refuse rows whose period is sealed.
type LateWords interface {
	// Refuse returns triggers that fail the INSERT of a row whose position lies
	// below the boundary, with a message that states the reason. The boundary is a
	// scalar subquery for a position. Periods are the tables that hold t's periods,
	// if they are tables of their own.
	Refuse(t *Table, periods []string, boundary string) []Trigger
	// HaveTriggers is that of SumWords.
	HaveTriggers(table string) string
}
