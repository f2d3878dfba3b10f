package mysql

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// estimatesLast is how long the description of a table is remembered while the table's definition
// stays the same. The description's estimates of rows may be that old, which affects only speed.
const estimatesLast = 10 * time.Second

// mostTables limits the number of remembered descriptions.
const mostTables = 100

// knownTables remembers the descriptions of tables, because reading the columns and partitions
// takes most of the time of a description.
type knownTables struct {
	mu    sync.Mutex
	known map[[2]string]knownTable
}

// A knownTable is the description of a table, and the identity that the table had: its creation
// time, its collation, the SQL mode, and the statement that would create it. That statement has all
// columns, the primary key and all partitions.
type knownTable struct {
	table    *engine.TableParts
	identity []string
	at       time.Time
	// locked reports that nobody could alter the table while it was read. Otherwise the description
	// may be that of another table, which had the name for a moment.
	locked bool
}

// incomplete are parts of the names of SQL modes in which SHOW CREATE TABLE omits something.
var incomplete = []string{"_OPTIONS", "MYSQL"}

// get returns a copy of the remembered description of a table; nil if there is none, if it is too
// old, or if the table had another identity when it was read. With locked, the description must
// also have been read while the table was locked.
func (k *knownTables) get(t *engine.TableParts, identity []string, locked bool) *engine.TableParts {
	k.mu.Lock()
	defer k.mu.Unlock()
	have, ok := k.known[[2]string{t.Database, t.Name}]
	if !ok || time.Since(have.at) > estimatesLast || !slices.Equal(have.identity, identity) || locked && !have.locked {
		return nil
	}
	return copied(have.table)
}

// put remembers the description of a table that has this identity.
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
