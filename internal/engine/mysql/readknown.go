package mysql

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// estimatesLast is how long a table's description is remembered if its definition stays the same:
// the estimates of rows in it may be as old. They decide about speed alone.
const estimatesLast = 10 * time.Second

// mostTables limits the descriptions that are remembered.
const mostTables = 100

// knownTables remembers the descriptions of tables, whose columns and partitions take most of the
// time of reading the catalog.
type knownTables struct {
	mu    sync.Mutex
	known map[[2]string]knownTable
}

// A knownTable was read when the table had an identity: the time of its creation, its collation,
// the SQL mode, and the statement that would create it, which has all columns, the primary key and
// all partitions.
type knownTable struct {
	table    *engine.TableParts
	identity []string
	at       time.Time
	// locked reports that it was read while it couldn't be altered. Otherwise a table that was renamed
	// to and fro meanwhile may be in it.
	locked bool
}

// incomplete are parts of the names of SQL modes under which that statement leaves something out.
var incomplete = []string{"_OPTIONS", "MYSQL"}

// get returns the description of a table that has this identity now, nil if it isn't known, or if
// it has to be one that was read while the table was locked. The caller may change it.
func (k *knownTables) get(t *engine.TableParts, identity []string, locked bool) *engine.TableParts {
	k.mu.Lock()
	defer k.mu.Unlock()
	have, ok := k.known[[2]string{t.Database, t.Name}]
	if !ok || time.Since(have.at) > estimatesLast || !slices.Equal(have.identity, identity) || locked && !have.locked {
		return nil
	}
	return copied(have.table)
}

// put remembers the description of a table with this identity.
func (k *knownTables) put(t *engine.TableParts, identity []string, locked bool) {
	mode := identity[len(identity)-2]
	if slices.ContainsFunc(incomplete, func(part string) bool { return strings.Contains(mode, part) }) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil || len(k.known) >= mostTables {
		k.known = map[[2]string]knownTable{}
	}
	k.known[[2]string{t.Database, t.Name}] = knownTable{copied(t), identity, time.Now(), locked}
}

func copied(t *engine.TableParts) *engine.TableParts {
	c := *t
	c.Columns, c.Parts = slices.Clone(t.Columns), slices.Clone(t.Parts)
	return &c
}
