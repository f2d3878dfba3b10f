package rolling

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/sqltext"
)

// A dialect is what a group of servers has in common for declarations: how they read the text of a
// definition, and which limits they have. The zero dialect is for an unknown target. This table is
// the only place of the package that names servers.
type dialect struct {
	// servers is their name in messages.
	servers string
	schemes []string
	// file means that a target is the path of a file.
	file bool

	syntax sqltext.Syntax
	// exactNames means that case counts in names, and that unquoted names become lower case.
	exactNames bool
	// tableKeys means that CREATE TABLE has all keys, by KEY or INDEX, and no CREATE INDEX follows.
	tableKeys bool
	// untyped means that columns may have no type. keysMayBeNull means that columns of a primary
	// key may be NULL, unless they are declared NOT NULL or are an INTEGER.
	untyped, keysMayBeNull bool
	// headed means that a server can present tables of other servers as one.
	headed bool
	// shortKeys means that keys can't contain columns of long texts. countedKeys means that a
	// declaration gets a warning if a column of the table's primary key is counted up by the server
	// (AUTO_INCREMENT).
	shortKeys, countedKeys bool

	// mostPeriods limits the periods of a table; 0 is no limit. why is the reason, for messages.
	mostPeriods int64
	why         string
	// longestName is the longest table name that leaves room for its periods' names; 0 is maxName.
	longestName int
	// noCompression means that sealed periods are only sorted.
	noCompression bool

	// times has the class of each time type by the type's first word. bestTime is the type to
	// recommend. anyInt means that every type name with INT in it is an integer.
	times    map[string]timeClass
	anyInt   bool
	bestTime string
}

const (
	targetForms   = "mysql://USER@HOST:PORT/DB, mariadb://..., postgres://..., sqlite:PATH"
	targetExample = "mysql://ingest@db1:3306/metrics"
	headForms     = "a target of MariaDB or PostgreSQL"
	nodeForm      = `"mariadb://ingest@db1:3306/metrics"`
	nodesForm     = `nodes = { n1 = "mariadb://ingest@db1/metrics", n2 = "mariadb://ingest@db2/metrics" }`
	passwordForms = "?password-file=FILE, or MYSQL_PWD and ~/.my.cnf, PGPASSWORD and ~/.pgpass"
)

const (
	maxPartitions = 8192 // of a table of MySQL and MariaDB
	maxTerms      = 500  // of a compound SELECT of SQLite: the view has one for each period
)

func timeTypes(others map[string]timeClass) map[string]timeClass {
	out := map[string]timeClass{"date": timeOfDate, "timestamp": timeOfTime}
	for _, name := range []string{"bigint", "int8", "bigserial", "serial8"} {
		out[name] = timeOfInteger
	}
	for _, name := range []string{"serial", "int", "integer", "int4", "serial4", "mediumint", "smallint", "int2", "smallserial", "tinyint"} {
		out[name] = timeOfSeconds32
	}
	maps.Copy(out, others)
	return out
}

// dialectOf returns the dialect of a target's server, or nil.
func dialectOf(target string) *dialect {
	kind, rest, _ := strings.Cut(target, ":")
	if kind = strings.ToLower(kind); kind == "sandbox" {
		kind, _, _ = strings.Cut(rest, "?")
	}
	if i := slices.IndexFunc(dialects, func(d *dialect) bool { return slices.Contains(d.schemes, kind) }); i >= 0 {
		return dialects[i]
	}
	return nil
}

// dialects are in the order in which a definition of an unknown target is tried.
var dialects = []*dialect{
	{
		servers: "MySQL and MariaDB", schemes: []string{"mysql", "mariadb"},
		syntax: sqltext.Syntax{
			Backslash: true, DoubleQuoted: true, Backquoted: true, Introducer: true, HashComments: true, DashSpace: true,
			ExecutableComments: true, UserVars: true,
		},
		tableKeys: true, shortKeys: true, countedKeys: true, headed: true,
		mostPeriods: maxPartitions, why: fmt.Sprintf("MySQL and MariaDB have at most %d partitions of a table", maxPartitions),
		times:    timeTypes(map[string]timeClass{"serial": timeOfInteger /* BIGINT UNSIGNED */, "datetime": timeOfTime}),
		bestTime: "DATETIME(6) NOT NULL in UTC, or a BIGINT that counts since 1970 and epoch = \"s\"",
	}, {
		servers: "PostgreSQL", schemes: []string{"postgres", "postgresql"},
		syntax:      sqltext.Syntax{Dollar: true, Prefixed: true, NestedComments: true, Casts: true},
		exactNames:  true,
		longestName: maxPeriodTable, headed: true,
		times:    timeTypes(map[string]timeClass{"timestamptz": timeOfTime}),
		bestTime: "timestamptz NOT NULL, or a bigint that counts since 1970 and epoch = \"s\"",
	}, {
		servers: "SQLite", schemes: []string{"sqlite"}, file: true,
		syntax:  sqltext.Syntax{Backquoted: true, Bracketed: true},
		untyped: true, keysMayBeNull: true,
		mostPeriods: maxTerms, why: fmt.Sprintf("SQLite joins the periods in one view, which has at most %d", maxTerms),
		noCompression: true, anyInt: true,
		times:    map[string]timeClass{"text": timeOfTime, "datetime": timeOfTime, "timestamp": timeOfTime, "varchar": timeOfTime, "char": timeOfTime},
		bestTime: "TEXT NOT NULL ('2026-11-20 18:30:00' in UTC), or an INTEGER that counts since 1970 and epoch = \"s\"",
	},
}
