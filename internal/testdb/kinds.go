package testdb

import (
	"hash/fnv"
	"os"
	"slices"
	"testing"
)

// NightlyVariable is the environment variable with which the tests do what a
// change need not wait for: every server, every crash point, random seeds.
const NightlyVariable = "ROWMILL_TEST_NIGHTLY"

// Nightly reports whether NightlyVariable is set. A test that does less without
// it has a line in docs/testing.md.
func Nightly() bool { return os.Getenv(NightlyVariable) != "" }

// SkipUnlessNightly skips a test that only `make nightly` runs. instead names
// the test that stands for it in `make test`.
func SkipUnlessNightly(t testing.TB, instead string) {
	t.Helper()
	if !Nightly() {
		t.Skipf("runs in make nightly (%s=1); until then %s stands for it", NightlyVariable, instead)
	}
}

// Kinds returns which of the given kinds of database a test of what lies above
// the engines runs on: "sqlite", if it is among them, and one server, chosen by
// a hash of the test's name, so that all tests together cover each kind evenly
// and one test always runs on the same. In the nightly run it returns all, and in
// either those only that KindsVariable allows. Tests of an engine itself
// (engine/enginetest) run on every kind and don't use it.
func Kinds(t testing.TB, kinds ...string) []string {
	t.Helper()
	if !Nightly() {
		kinds = choose(t.Name(), kinds)
	}
	kinds = slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return !allowed(kind) })
	if len(kinds) == 0 {
		t.Skipf("%s=%s leaves none of this test's kinds", KindsVariable, os.Getenv(KindsVariable))
	}
	return kinds
}

// choose returns the kinds of Kinds, for a test of the given name.
func choose(test string, kinds []string) []string {
	var chosen, servers []string
	for _, kind := range kinds {
		if kind == "sqlite" {
			chosen = append(chosen, kind)
		} else {
			servers = append(servers, kind)
		}
	}
	if len(servers) == 0 {
		return chosen
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(test))
	return append(chosen, servers[h.Sum32()%uint32(len(servers))])
}
