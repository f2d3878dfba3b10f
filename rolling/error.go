package rolling

import "fmt"

// An Error is an error at one place of a declaration or a definition.
type Error struct {
	// Source is the file, "" if there is none.
	Source string
	// Line and Column count from 1; 0 is unknown.
	Line, Column int
	Text         string
	// Hint is the correction to make; it may be empty.
	Hint string
}

// Error returns "file:line:column: text".
func (e *Error) Error() string {
	switch {
	case e.Source == "" && e.Line == 0:
		return e.Text
	case e.Source == "":
		return fmt.Sprintf("line %d: %s", e.Line, e.Text)
	case e.Line == 0:
		return e.Source + ": " + e.Text
	case e.Column == 0:
		return fmt.Sprintf("%s:%d: %s", e.Source, e.Line, e.Text)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.Source, e.Line, e.Column, e.Text)
}
