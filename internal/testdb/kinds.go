package testdb

import (
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/sandbox"
)

// NightlyVariable is the environment variable that enables the parts of tests that
// are too slow for every change: every server, every crash point, random seeds.
const NightlyVariable = "ROWMILL_TEST_NIGHTLY"

// Nightly reports whether NightlyVariable is set. Every test that does less
// without it has a line in docs/testing.md.
func Nightly() bool { return os.Getenv(NightlyVariable) != "" }

// SkipUnlessNightly skips a test that only `make nightly` runs. instead names
// the test that covers it in `make test`.
func SkipUnlessNightly(t testing.TB, instead string) {
	t.Helper()
	if !Nightly() {
		t.Skipf("runs in make nightly (%s=1); until then %s stands for it", NightlyVariable, instead)
	}
}

// Kinds returns which of the given kinds of database a test of a package above the engines uses:
// "sqlite", if it is among them, and one server. A hash of the test's name chooses the server, so
// that all tests together cover each kind evenly and a test always runs on the same server. In the
// nightly run, Kinds returns all. In both cases only kinds allowed by KindsVariable are returned.
// Tests of an engine itself (engine/enginetest) run on every kind and don't use Kinds.
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

// OneKind returns one of the given kinds, chosen by a hash of the test's name, for a suite of many
// tests that together cover each kind. In the nightly run it returns all.
func OneKind(t testing.TB, kinds ...string) []string {
	t.Helper()
	if Nightly() {
		return kinds
	}
	return []string{kinds[hash(t.Name())%uint32(len(kinds))]}
}

// OnKinds runs a test on those of the kinds that Kinds returns, in parallel with other tests.
func OnKinds(t *testing.T, kinds []string, test func(t *testing.T, kind string)) {
	t.Helper()
	t.Parallel()
	for _, kind := range Kinds(t, kinds...) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, kind)
		})
	}
}

// choose returns the kinds that Kinds chooses for a test name.
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
	return append(chosen, servers[hash(test)%uint32(len(servers))])
}

func hash(test string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(test))
	return h.Sum32()
}

// VersionsVariable lists the server versions that tests use, such as
// "mysql=9.7,mariadb=11.8,postgres=18", so that the same tests can run on
// several versions: see docs/servers.md. It does not affect kinds that it
// doesn't list, or kinds that are requested with a version.
const VersionsVariable = "ROWMILL_TEST_VERSIONS"

// setVersion sets the version of a server that is requested without one.
func setVersion(o *sandbox.Options, list string) error {
	if o.Version != "" || list == "" {
		return nil
	}
	for part := range strings.SplitSeq(list, ",") {
		kind, version, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return fmt.Errorf("%s: %q is not kind=version", VersionsVariable, part)
		}
		if kind == o.Kind {
			o.Version = version
		}
	}
	return o.Validate()
}

// requirement returns the name by which RequireVariable lists a server: its kind, or "rocksdb",
// because that storage is installed separately. A version of the options follows, as in
// "mysql-9.7".
func requirement(o sandbox.Options) string {
	name := o.Kind
	if o.Storage == sandbox.RocksDB {
		name = sandbox.RocksDB
	}
	if o.Version != "" {
		name += "-" + o.Version
	}
	return name
}
