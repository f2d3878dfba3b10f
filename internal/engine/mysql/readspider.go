package mysql

import (
	"context"
	"math"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// Spider rewrites conditions, expressions and ranges of indexes for the nodes, and the result may
// have another meaning. LIKE loses its ESCAPE, LOCATE swaps its arguments, and bit literals lose
// their bits. The last of several ranges loses its bound, so that rows come twice. Aggregates over
// several partitions lose groups. Only plain reads of rows are right.

var _ engine.RemoteReader = (*DB)(nil)

// hasSpider reports whether the server has loaded Spider.
func (db *reader) hasSpider(ctx context.Context, s *engine.Session) (bool, error) {
	return db.spider.once(func() (has bool, err error) {
		return has, s.Text(ctx, "SHOW SESSION VARIABLES WHERE Variable_name = 'spider_disable_group_by_handler'", nil, func([][]byte) error { has = true; return nil })
	})
}

// RemoteTables implements engine.RemoteReader. It also lists each view whose definition the account
// may not read, because the view may read any table.
func (db *reader) RemoteTables(ctx context.Context, s *engine.Session) ([]engine.RemoteTable, error) {
	if spider, err := db.hasSpider(ctx, s); err != nil || !spider {
		return nil, err
	}
	var list []engine.RemoteTable
	err := s.Text(ctx, "SELECT "+bytesOf("TABLE_SCHEMA", "TABLE_NAME")+" FROM information_schema.TABLES WHERE ENGINE = 'SPIDER'"+whole, nil, func(v [][]byte) error {
		list = append(list, engine.RemoteTable{Database: string(v[0]), Name: string(v[1])})
		return nil
	})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	type view struct {
		engine.RemoteTable
		definition string
	}
	var views []view
	err = s.Text(ctx, "SELECT "+bytesOf("TABLE_SCHEMA", "TABLE_NAME", "VIEW_DEFINITION")+
		" FROM information_schema.VIEWS WHERE TABLE_SCHEMA NOT IN ('sys', 'mysql', 'information_schema', 'performance_schema')"+whole, nil, func(v [][]byte) error {
		views = append(views, view{engine.RemoteTable{Database: string(v[0]), Name: string(v[1]), View: true}, string(v[2])})
		return nil
	})
	if err != nil {
		return nil, err
	}
	for n := 0; n < len(list); n++ { // list grows by views, which other views may read
		name := dialect{}.Quote(list[n].Name)
		for i := range views {
			if v := &views[i]; v.Name != "" && (v.definition == "" || strings.Contains(strings.ToLower(v.definition), strings.ToLower(name))) {
				list = append(list, v.RemoteTable)
				v.Name = ""
			}
		}
	}
	return list, nil
}

// RowsFrom implements engine.RemoteReader with a subquery. The subquery's LIMIT keeps the server
// from passing conditions of the enclosing query to Spider. USE INDEX () prevents the use of
// indexes, because Spider may read rows of an index's ranges twice. The LIMIT has 63 bits, because
// Spider would pass on a larger number as -1.
func (db *reader) RowsFrom(t *engine.TableParts, parts, columns []string, where string) string {
	from := db.qualified(t)
	if len(parts) > 0 {
		from = db.PartFrom(t, parts)
	}
	if where != "" {
		where = " WHERE " + where
	}
	return "(SELECT " + db.dialect.list(columns) + " FROM " + from + " USE INDEX ()" + where + " LIMIT " + strconv.Itoa(math.MaxInt64) + ")"
}

func (db *reader) Pushed(ctx context.Context, s *engine.Session, query string) (pushed bool, err error) {
	rows, table, extra := 0, -1, -1
	err = s.Text(ctx, "EXPLAIN "+query, func(cols []engine.ResultColumn) error {
		for i, c := range cols {
			switch c.Name {
			case "table":
				table = i
			case "Extra":
				extra = i
			}
		}
		return nil
	}, func(v [][]byte) error {
		rows++
		pushed = table >= 0 && extra >= 0 && v[table] == nil && strings.HasPrefix(string(v[extra]), "Storage engine handles")
		return nil
	})
	return pushed && rows == 1, err
}
