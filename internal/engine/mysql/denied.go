package mysql

import (
	"regexp"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
)

// allPrivileges is a hint to the list of all privileges that rowmill needs.
const allPrivileges = "docs/operations.md, Privileges, has all that rowmill needs"

var (
	commandDenied  = regexp.MustCompile("^(.+) command denied to user ('.*'@'.*') for (?:table|column) (?:`([^`]+)`\\.)?")
	databaseDenied = regexp.MustCompile("user ('.*'@'.*') to database '(.*)'")
	needed         = regexp.MustCompile(`you need (?:\(at least one of\) )?the (.+) privilege\(?s?\)? for`)
)

// denied adds the required GRANT to the error of a missing privilege.
func denied(server *mysql.MySQLError, err error) error {
	switch server.Number {
	case 1142, 1143: // ER_TABLEACCESS_DENIED_ERROR, ER_COLUMNACCESS_DENIED_ERROR
		if m := commandDenied.FindStringSubmatch(server.Message); m != nil {
			on := "DATABASE"
			if m[3] != "" {
				on = dialect{}.Quote(m[3])
			}
			return engine.Hinted(err, "GRANT %s ON %s.* TO %s; %s", m[1], on, m[2], allPrivileges)
		}
	case 1044: // ER_DBACCESS_DENIED_ERROR
		if m := databaseDenied.FindStringSubmatch(server.Message); m != nil {
			return engine.Hinted(err, "GRANT ... ON %s.* TO %s; %s", dialect{}.Quote(m[2]), m[1], allPrivileges)
		}
	case 1227: // ER_SPECIFIC_ACCESS_DENIED_ERROR
		if m := needed.FindStringSubmatch(server.Message); m != nil {
			return engine.Hinted(err, "GRANT one of %s ON *.* TO the target's user; %s", m[1], allPrivileges)
		}
	default:
		return err
	}
	return engine.Hinted(err, "a GRANT to the target's user; %s", allPrivileges)
}
