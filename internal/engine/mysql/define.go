package mysql

import (
	"context"
	"database/sql"
	"regexp"

	"github.com/rowmill/rowmill/internal/engine"
)

var _ engine.Definer = (*DB)(nil)

func (db catalog) Tables(ctx context.Context) ([]engine.ListedTable, error) {
	out, err := engine.ListOf(ctx, db, db.pool, func(r *sql.Rows, t *engine.ListedTable) error {
		return r.Scan(&t.Name, &t.Rows, &t.Data, &t.Index, &t.Partitions)
	}, "SELECT t.TABLE_NAME, COALESCE(t.TABLE_ROWS, -1), COALESCE(t.DATA_LENGTH, 0), COALESCE(t.INDEX_LENGTH, 0), COALESCE(p.n, 0) FROM information_schema.TABLES t "+
		"LEFT JOIN (SELECT TABLE_NAME, COUNT(DISTINCT PARTITION_NAME) AS n FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND PARTITION_NAME IS NOT NULL GROUP BY TABLE_NAME) p "+
		"ON p.TABLE_NAME = t.TABLE_NAME WHERE t.TABLE_SCHEMA = DATABASE() AND t.TABLE_TYPE = 'BASE TABLE' ORDER BY t.TABLE_NAME")
	return out, engine.About(ctx, err, "list tables")
}

// counter matches the option with the next AUTO_INCREMENT value, in the line of all options.
var counter = regexp.MustCompile(`(\n\).*?) AUTO_INCREMENT=\d+`)

func (db catalog) Definition(ctx context.Context, name string) (string, error) {
	text, err := db.likePeriod(ctx, db.pool, &engine.Table{Name: name}, name)
	if err != nil {
		return "", err
	}
	return counter.ReplaceAllString(text, "$1"), nil
}
