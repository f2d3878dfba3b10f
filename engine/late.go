package engine

// LateWords are the pieces of SQL that refuse rows whose period is sealed.
type LateWords interface {
	// Refuse returns triggers that fail an INSERT of a row whose position lies
	// below the boundary, a scalar subquery for a position, with a message that
	// says so. Periods are the tables that hold t's periods, where they are
	// tables of their own.
	Refuse(t *Table, periods []string, boundary string) []Trigger
	// HaveTriggers is that of SumWords.
	HaveTriggers(table string) string
}
