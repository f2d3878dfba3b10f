package testdb

import (
	"fmt"
	"os"
	"strings"

	"github.com/rowmill/rowmill/sandbox"
)

// VersionsVariable names the versions of the servers that tests use, such as
// "mysql=9.7,mariadb=11.8,postgres=18". A kind that it doesn't name, and one that
// is asked for with a version, is left alone. So the same tests run on several
// versions: see docs/servers.md.
const VersionsVariable = "ROWMILL_TEST_VERSIONS"

// setVersion chooses the version of a server that is asked for without one.
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

// requirement is the name of a server in RequireVariable: the part of it that is
// installed apart from the rest, and the version where it is a certain one, such
// as "mysql-9.7".
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

// versions is the list of VersionsVariable.
func versions() string { return os.Getenv(VersionsVariable) }
