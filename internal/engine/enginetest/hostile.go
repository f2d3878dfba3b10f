package enginetest

import (
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// RunHostile runs the suites on a server whose defaults all differ from the
// settings that sessions rely on. If whole is false, it runs a selection with a
// statement of each kind on a connection of each kind. open is as for RunKeeper.
func RunHostile(t *testing.T, whole bool, open func(testing.TB) engine.Keeper) {
	plain := func(t testing.TB) engine.DB { return open(t) }
	if whole {
		t.Run("Engine", func(t *testing.T) { Run(t, plain) })
		t.Run("Keeper", func(t *testing.T) { RunKeeper(t, open) })
		t.Run("Loader", func(t *testing.T) { RunLoader(t, open) })
		return
	}
	s, k := suite{plain}, keepers{open}
	for _, test := range []test{
		{"RoundTrip", s.roundTrip},
		{"Ignore", s.ignore},
		{"Delete", s.deletes},
		{"Detach", k.detach},
		{"AsText", k.asText},
		{"Loader", loaders{k}.together},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t)
		})
	}
}

// RunNames runs the changes of periods on tables and columns with unusual names,
// one at a time. open is as for RunKeeper.
func RunNames(t *testing.T, open func(testing.TB) engine.Keeper) { keepers{open}.oddNames(t) }
