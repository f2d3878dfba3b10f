package testdb

import (
	"fmt"
	"os"
	"strings"

	"github.com/rowmill/rowmill/internal/sandbox"
)

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

// requirement returns the name of a server in RequireVariable: of a part of it
// that is installed separately, and with the version if a particular one is
// requested, such as "mysql-9.7".
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

// versions returns the list in VersionsVariable.
func versions() string { return os.Getenv(VersionsVariable) }
