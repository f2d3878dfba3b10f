package mysql

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
)

// TestDenied: the servers' errors about missing privileges get the GRANT as a hint.
func TestDenied(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		number        uint16
		message, want string
	}{
		{1142, "CREATE command denied to user 'u'@'localhost' for table 'readings'", "GRANT CREATE ON DATABASE.* TO 'u'@'localhost'"},
		{1142, "SELECT, INSERT command denied to user 'u'@'%' for table `d`.`readings`", "GRANT SELECT, INSERT ON `d`.* TO 'u'@'%'"},
		{1044, "Access denied for user 'u'@'localhost' to database 'd'", "GRANT ... ON `d`.* TO 'u'@'localhost'"},
		{1227, "Access denied; you need (at least one of) the SUPER privilege(s) for this operation", "GRANT one of SUPER ON *.*"},
		{1142, "anything else", "a GRANT to"},
		{1064, "You have an error in your SQL syntax", ""},
	} {
		err := classify(&mysql.MySQLError{Number: c.number, Message: c.message})
		var hint *engine.HintError
		if got := errors.As(err, &hint); got != (c.want != "") {
			t.Errorf("%s: hinted %v", c.message, got)
		} else if got && (!strings.Contains(hint.Hint, c.want) || !strings.Contains(hint.Hint, "docs/operations.md")) {
			t.Errorf("%s: %s", c.message, hint.Hint)
		}
	}
}
