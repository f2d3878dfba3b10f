package postgres

import (
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowmill/rowmill/internal/engine"
)

var (
	permissionDenied = regexp.MustCompile(`^permission denied for (schema|table|view|database|sequence) (\S+)$`)
	mustOwn          = regexp.MustCompile(`^must be owner of (table|relation|view|sequence|function) (\S+)$`)
)

// denied adds the statement that grants a missing privilege to its error.
func denied(server *pgconn.PgError, err error) error {
	var grant string
	if m := permissionDenied.FindStringSubmatch(server.Message); m != nil {
		grant = map[string]string{"schema": "USAGE, CREATE", "database": "CONNECT, CREATE"}[m[1]]
		if grant != "" {
			grant = fmt.Sprintf("GRANT %s ON %s %s TO the target's user", grant, m[1], m[2])
		} else {
			grant = fmt.Sprintf("ALTER %s %s OWNER TO the target's user, which creates and drops its partitions", m[1], m[2])
		}
	} else if m := mustOwn.FindStringSubmatch(server.Message); m != nil {
		kind := m[1]
		if kind == "relation" {
			kind = "TABLE"
		}
		grant = fmt.Sprintf("ALTER %s %s OWNER TO the target's user", kind, m[2])
	} else {
		grant = "a GRANT to the target's user"
	}
	return engine.Hinted(err, "%s; docs/operations.md, Privileges, has all that rowmill needs", grant)
}
