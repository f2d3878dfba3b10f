package engine

import "strings"

// Functions are the functions of a server that are known to be safe in pieces, by their names in
// lower case.
type Functions struct{ Pure, Clock, Aggregate, Window map[string]bool }

// Kind returns what a name stands for.
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

// WordSet is the set of the words of a text.
func WordSet(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(text) {
		set[w] = true
	}
	return set
}
