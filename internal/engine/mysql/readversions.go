package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// versions tells whether partitions have changed: see engine.PartVersioner.
type versions struct {
	*server
	traced lineages // of the partitions whose versions were asked for
}

// TimeWords implements engine.PartVersioner. It returns the functions in pureFunctions that return
// the current time, some of them only if they have no arguments.
func (db *versions) TimeWords() []string {
	return []string{"now", "curdate", "current_date", "current_time", "current_timestamp", "curtime", "localtime", "localtimestamp",
		"unix_timestamp", "utc_date", "utc_time", "utc_timestamp", "sysdate"}
}

// settled is how many seconds a change of a table by DDL must be in the past before a version is
// made. The catalog has times in whole seconds, so a second change within one second wouldn't be
// noticed.
const settled = 2

// PartVersions implements engine.PartVersioner. rowmill's triggers note all changes of rows by DML.
// Changes by DDL are found in the catalog: after TRUNCATE, EXCHANGE or REBUILD, InnoDB has another
// table for the partition; after an exchange that is undone by a second one, the partition has
// another lineage; after DDL that changes a column's values within the same InnoDB table, the table
// has another creation time. The triggers are identified by their creation times, in hundredths of
// a second.
func (db *versions) PartVersions(ctx context.Context, s *engine.Session, t *engine.TableParts, into string) (versions map[string]string, why string, err error) {
	err = whileDropped(func() error {
		versions, why, err = db.partVersions(ctx, s, t, into)
		return err
	})
	return versions, why, err
}

func (db *versions) partVersions(ctx context.Context, s *engine.Session, t *engine.TableParts, into string) (versions map[string]string, why string, err error) {
	fail := func(err error) (map[string]string, string, error) {
		return nil, "", fmt.Errorf("read versions of the partitions of %s: %w", db.qualified(t), err)
	}
	// From here on, the transaction keeps others from changing the table by DDL. The current date is
	// part of a version, because a query that converts a time of day to a date and time adds this
	// date.
	common := sha256.New()
	own, err := db.touch(ctx, s, t, "CURRENT_DATE", db.dialect.serverID())
	if err != nil {
		return fail(err)
	}
	fmt.Fprintf(common, "%q\n", own)
	why, err = db.notes(ctx, t, into, func(what string) { fmt.Fprintf(common, "%s\n", what) })
	if err != nil || why != "" {
		return nil, why, err
	}
	var created sql.NullString
	var age sql.NullInt64
	err = db.pool.QueryRowContext(ctx, "SELECT CREATE_TIME, TIMESTAMPDIFF(SECOND, CREATE_TIME, SYSDATE()) FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?",
		t.Database, t.Name).Scan(&created, &age)
	if err != nil {
		return fail(classify(err))
	}
	if !created.Valid || age.Int64 < settled {
		return nil, "its definition has just been changed", nil
	}
	fmt.Fprintf(common, "%s %s\n", created.String, t.Created)
	alters, now, server, err := db.alters(ctx)
	if err != nil {
		return fail(err)
	}
	if server != "" && own[1] != server {
		return nil, severalServers, nil
	}
	tables, err := db.innodbTables(ctx, t)
	if missing(err) {
		return nil, noProcess, nil
	}
	if err != nil {
		return fail(err)
	}
	if len(tables) == 0 {
		return nil, noInnoDB, nil
	}
	base := hex.EncodeToString(common.Sum(nil)[:16])
	versions = map[string]string{}
	for _, p := range t.Parts {
		if id := tables[fileKey(p.Name)]; id != "" && len(p.Planned) == 0 {
			versions[p.Name] = id
		}
	}
	numbers, err := db.lineages(ctx, t, versions, alters, now)
	if err != nil {
		return fail(err)
	}
	for name, id := range versions {
		versions[name] = fmt.Sprintf("%s %s %d", base, id, numbers[name])
	}
	return versions, "", nil
}

// notes checks that the table has triggers that note all changes of rows, and passes the triggers'
// identities to fn. into is the beginning of the statement in each trigger. If a trigger is
// missing, why is a message about that.
func (db *versions) notes(ctx context.Context, t *engine.TableParts, into string, fn func(string)) (why string, err error) {
	want := map[string][]string{"INSERT": {"NEW."}, "UPDATE": {"OLD.", "NEW."}, "DELETE": {"OLD."}}
	err = engine.Each(ctx, db, db.pool, func(r *sql.Rows) error {
		var event, body, created string
		if err := r.Scan(&event, &body, &created); err != nil {
			return err
		}
		rest := strings.TrimPrefix(strings.TrimSpace(body), "BEGIN ")
		for _, row := range want[event] {
			statement, after, _ := strings.Cut(rest, ";")
			if !strings.HasPrefix(strings.TrimSpace(statement), "INSERT IGNORE INTO "+into+" ") || !strings.Contains(statement, row) {
				return nil
			}
			rest = after
		}
		if strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(rest), "END")) != "" {
			return nil
		}
		delete(want, event)
		fn(event + created + body)
		return nil
	}, "SELECT EVENT_MANIPULATION, ACTION_STATEMENT, CREATED FROM information_schema.TRIGGERS "+
		"WHERE EVENT_OBJECT_SCHEMA = ? AND EVENT_OBJECT_TABLE = ? AND ACTION_TIMING = 'AFTER' AND CREATED IS NOT NULL ORDER BY EVENT_MANIPULATION, CREATED", t.Database, t.Name)
	if err == nil && len(want) > 0 {
		why = "no triggers that the account may see note all changes of its rows: declare exact = true for its roll-ups, and grant TRIGGER on the table"
	}
	return why, err
}

// innodbTables returns the rows that InnoDB's catalog has for the partitions' tables, by fileKey.
// Each row is a text of the given columns, or of all columns if none is given. If the names of
// several InnoDB tables differ only in case, their texts are joined.
func (db *versions) innodbTables(ctx context.Context, t *engine.TableParts, columns ...string) (map[string]string, error) {
	view := "INNODB_TABLES"
	if db.dialect.mariadb {
		view = "INNODB_SYS_TABLES"
	}
	name := db.dialect.stored(fileName(t.Database)) + "/" + db.dialect.stored(fileName(t.Name))
	wanted := strings.Join(columns, ", x.")
	if len(columns) == 0 {
		wanted = "*"
	}
	all := map[string]string{}
	err := engine.EachText(ctx, db, db.pool, func(_, row []string) error {
		all[row[0]] = strings.Join(row[1:], ",") + ","
		return nil
	}, "SELECT NAME, x."+wanted+" FROM information_schema."+view+" AS x WHERE LOWER(LEFT(NAME, ?)) = LOWER(?)", len(name)+3, name+"#p#")
	out := map[string]string{}
	for _, file := range slices.Sorted(maps.Keys(all)) {
		out[strings.ToLower(file[len(name)+3:])] += all[file]
	}
	return out, err
}
