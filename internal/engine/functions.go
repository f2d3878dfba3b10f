package engine

import "strings"

// Functions are the names, in lower case, of a server's functions that are known to be safe in a
// query that runs in pieces.
type Functions struct{ Pure, Clock, Aggregate, Window map[string]bool }

// Kind returns what a function's name stands for.
func (f *Functions) Kind(name string) FunctionKind {
	switch {
	case f.Pure[name]:
		return PureFunction
	case f.Clock[name]:
		return ClockFunction
	case f.Aggregate[name]:
		return AggregateFunction
	case f.Window[name]:
		return WindowFunction
	}
	return UnknownFunction
}

// WordSet is the set of the words in a text.
func WordSet(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(text) {
		set[w] = true
	}
	return set
}
