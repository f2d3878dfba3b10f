package mysql

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// tableHead matches the beginning of SHOW CREATE TABLE: the name as the server
// stores it, in lower case on some, quoted by the session's rules. The text after
// it is a period's complete definition, which the catalog views don't have.
var tableHead = regexp.MustCompile("^CREATE TABLE `(?:[^`]|``)*`")

// partitionClause matches the beginning of the partitioning clause in SHOW CREATE
// TABLE, which is the last clause. A line break in a comment or a default is shown
// as \n.
var partitionClause = regexp.MustCompile(`\n(/\*!\d+)? ?PARTITION BY `)

// likePeriod returns the statement that creates an empty table with the definition
// of a period of t. CREATE TABLE ... LIKE would first create all partitions of t,
// which takes seconds for hundreds of them.
func (db *DB) likePeriod(ctx context.Context, from querent, t *engine.Table, name string) (string, error) {
	var shown, text string
	if err := from.QueryRowContext(ctx, "SHOW CREATE TABLE "+db.dialect.Quote(t.Name)).Scan(&shown, &text); err != nil {
		return "", fmt.Errorf("create a table like %s: %w", t.Name, classify(err))
	}
	head := tableHead.FindString(text)
	if head == "" {
		return "", fmt.Errorf("create a table like %s: the server shows it as %.60q", t.Name, text)
	}
	rest := text[len(head):]
	if at := partitionClause.FindStringIndex(rest); at != nil {
		rest = rest[:at[0]]
	}
	return "CREATE TABLE " + db.dialect.Quote(name) + rest, nil
}

// A speaker is a dialect that can query the server.
type speaker struct {
	dialect
	db *DB
}

// likeTimeout limits the query of CreateTemplate.
const likeTimeout = 5 * time.Second

// CreateTemplate implements engine.Words. It reads the table's definition from the
// server; if that fails, it returns the statements of a dry run.
func (s speaker) CreateTemplate(t *engine.Table, name string, o engine.Storage) []string {
	ctx, cancel := context.WithTimeout(context.Background(), likeTimeout)
	defer cancel()
	q, err := s.db.likePeriod(ctx, s.db.pool, t, name)
	if err != nil {
		return s.dialect.CreateTemplate(t, name, o)
	}
	return append([]string{q}, s.compress(name, o)...)
}
