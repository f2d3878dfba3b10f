package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// A head is a table of MariaDB's storage engine Spider, partitioned BY HASH of a column. Each
// partition stands for a node, and names a server (CREATE SERVER) with the node's address and
// account.

var _ engine.Presenter = (*DB)(nil)

// A presenter presents the tables of several nodes as one table: see engine.Presenter.
type presenter struct{ *server }

// NodeOf implements engine.Presenter with the rule of PARTITION BY HASH.
func (db presenter) NodeOf(h *engine.Head, key int64) int {
	if h.Slice > 0 {
		key = h.SliceOf(key, baseOf(h))
	}
	n := key % int64(len(h.Nodes))
	if n < 0 {
		n = -n
	}
	return int(n)
}

// baseOf returns the base for Head.SliceOf, the time from which the server's function counts: for
// UNIX_TIMESTAMP this is 1970, for TO_SECONDS the year 0. For an integer column it is -1.
func baseOf(h *engine.Head) int64 {
	switch kindOf(h.Table) {
	case engine.ByInteger:
		return -1
	case engine.ByInstant:
		return 0
	}
	return engine.YearZero
}

// hashed returns the expression whose hash determines a row's node.
func (d dialect) hashed(h *engine.Head) string {
	by := d.Quote(h.By)
	if h.Slice == 0 {
		return by
	}
	var length, offset int64
	switch base := baseOf(h); base {
	case -1:
		length, offset = h.Units(h.Table.ByUnit())
	case 0:
		length, offset = h.Seconds(base)
		by = "UNIX_TIMESTAMP(" + by + ")"
	default:
		length, offset = h.Seconds(base)
		by = "TO_SECONDS(" + by + ")"
	}
	if offset != 0 {
		by = fmt.Sprintf("(%s - %d)", by, offset)
	}
	return fmt.Sprintf("%s DIV %d", by, length)
}

// plain returns an expression without characters that the server may add or omit.
func plain(expression string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(" `()", r) {
			return -1
		}
		return unicode.ToLower(r)
	}, expression)
}

// A link is what a head needs to connect to a node.
type link struct {
	node, server string // server is the node's name in mysql.servers
	options      [][2]string
	password     string
}

func (db presenter) Present(ctx context.Context, h *engine.Head) ([]engine.HeadStep, error) {
	if err := db.needSpider(ctx, h.Table.Name); err != nil {
		return nil, err
	}
	links, err := engine.Links(h, func(n engine.HeadNode) (link, error) { return linkOf(ctx, n) })
	if err != nil {
		return nil, err
	}
	steps, err := db.presentServers(ctx, links)
	if err != nil {
		return nil, err
	}
	there, current, err := db.presents(ctx, h, links)
	if err != nil {
		return nil, err
	}
	create := db.dialect.spiderTable(h, links)
	switch {
	case !current:
		what := "create"
		if there {
			what = "create anew"
		}
		steps = append(steps, engine.HeadStep{What: fmt.Sprintf("%s the Spider table %s, which presents its nodes", what, h.Table.Name), SQL: []string{create},
			Run: func(ctx context.Context) error {
				// A table that was created meanwhile may have rows, which OR REPLACE would drop.
				if _, _, err := db.presents(ctx, h, links); err != nil {
					return err
				}
				if _, err := db.keep.ExecContext(ctx, create); err != nil {
					return classify(err)
				}
				return db.checkPresents(ctx, h, links)
			}})
	case len(steps) > 0: // until FLUSH TABLES, the head keeps its old connections
		flush := "FLUSH TABLES " + db.dialect.Quote(h.Table.Name)
		steps = append(steps, engine.HeadStep{What: "have the Spider table connect anew", SQL: []string{flush}, Run: func(ctx context.Context) error {
			if _, err := db.keep.ExecContext(ctx, flush); err != nil {
				return classify(err)
			}
			return db.checkPresents(ctx, h, links)
		}})
	}
	return steps, nil
}

// Place implements engine.Presenter. A Spider table can't present a table of its own server.
func (db presenter) Place(ctx context.Context) (engine.Place, error) {
	p := engine.Place{Foreign: true}
	err := db.pool.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&p.Database)
	if err != nil {
		return p, db.unreachable(err)
	}
	err = engine.Each(ctx, db, db.pool, func(r *sql.Rows) error {
		var name, value string
		err := r.Scan(&name, &value)
		p.Server += name + "=" + value + "\n"
		return err
	}, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_uuid', 'server_uid', 'hostname', 'port', 'datadir')")
	return p, err
}

func (db presenter) needSpider(ctx context.Context, table string) error {
	// Spider takes a space for the end of a table's name. For a name with a backquote, Spider asks the
	// node for the size of another table.
	if strings.ContainsAny(table, "\"'\\`") || strings.ContainsFunc(table, unicode.IsSpace) {
		return fmt.Errorf("table %s: Spider can't present a table whose name has quotes, backquotes, backslashes or spaces", table)
	}
	_, err := db.storage(ctx, "SPIDER")
	if err == nil {
		return nil
	}
	if !db.dialect.mariadb {
		return engine.Hinted(engine.Classed(engine.ErrUnsupported, fmt.Errorf("%s can't present tables of other servers: MariaDB's storage engine Spider does", db.info.Target)), "a target of MariaDB as the head; the nodes may stay")
	}
	return engine.Hinted(engine.Classed(engine.ErrUnsupported, fmt.Errorf("%s has no storage engine Spider, which presents tables of other servers", db.info.Target)),
		"apt install mariadb-plugin-spider, then INSTALL SONAME 'ha_spider'; or rowmill sandbox start 'mariadb?spider=3'")
}

// linkOf returns how the head connects to a node: in the same way as rowmill.
func linkOf(ctx context.Context, n engine.HeadNode) (link, error) {
	cfg, err := configOf(n.Target)
	if err != nil {
		return link{}, err
	}
	option, err := clientOptions(ctx, n.Target)
	if err != nil {
		return link{}, err
	}
	if t := n.Target.Query.Get("tls"); t == "true" || t == "skip-verify" {
		return link{}, engine.Hinted(fmt.Errorf("tls=%s, and the connection from the head to it is not encrypted", t),
			"a private network or a tunnel between the servers, and the node's target without tls")
	}
	l := link{node: n.Name, password: option.password}
	if cfg.Net == "unix" {
		l.options = append(l.options, [2]string{"SOCKET", cfg.Addr})
	} else {
		host, port, err := net.SplitHostPort(cfg.Addr)
		if err != nil {
			return link{}, err
		}
		l.options = append(l.options, [2]string{"HOST", host}, [2]string{"PORT", port})
	}
	l.options = append(l.options, [2]string{"USER", cmp.Or(cfg.User, option.user)}, [2]string{"DATABASE", cfg.DBName})
	l.server = n.ServerName(l.options)
	return l, nil
}

// statement returns CREATE SERVER or, to change the password, ALTER SERVER.
func (l *link) statement(verb, password string) string {
	var options []string
	if verb == "CREATE" {
		for _, o := range l.options {
			value := quoteText(o[1])
			if o[0] == "PORT" {
				value = o[1]
			}
			options = append(options, o[0]+" "+value)
		}
	}
	if l.password != "" || verb == "ALTER" {
		options = append(options, "PASSWORD "+quoteText(password))
	}
	wrapper := ""
	if verb == "CREATE" {
		wrapper = " FOREIGN DATA WRAPPER mysql"
	}
	return fmt.Sprintf("%s SERVER %s%s OPTIONS (%s)", verb, dialect{}.Quote(l.server), wrapper, strings.Join(options, ", "))
}

// presentServers returns the steps for servers that are missing or have another password.
func (db presenter) presentServers(ctx context.Context, links []link) ([]engine.HeadStep, error) {
	have, err := engine.Pairs[string](ctx, db, db.pool, "SELECT Server_name, Password FROM mysql.servers")
	if err != nil {
		return nil, engine.Hinted(fmt.Errorf("read the servers that %s knows: %w", db.info.Target, err),
			"GRANT SELECT ON mysql.servers and GRANT FEDERATED ADMIN ON *.* to the account of the head")
	}
	var steps []engine.HeadStep
	for i := range links {
		l := &links[i]
		password, there := have[l.server]
		verb, what := "CREATE", "create server %s for node %s"
		switch {
		case there && password == l.password:
			continue
		case there:
			verb, what = "ALTER", "change the password of server %s for node %s"
		}
		steps = append(steps, engine.HeadStep{What: fmt.Sprintf(what, l.server, l.node), SQL: []string{l.statement(verb, engine.HiddenPassword)},
			Run: func(ctx context.Context) error { return db.execSecret(ctx, l.statement(verb, l.password), l.password) }})
	}
	return steps, nil
}

// execSecret executes a statement that contains a password, and keeps it out of the server's logs.
func (db presenter) execSecret(ctx context.Context, statement, password string) (err error) {
	conn, err := db.keep.Conn(ctx)
	if err != nil {
		return db.unreachable(err)
	}
	defer func() { err = errors.Join(err, engine.DiscardConn(db, conn)) }()
	if _, err := conn.ExecContext(ctx, "SET SESSION sql_log_off = 1"); err != nil && password != "" {
		var logged bool
		if readErr := conn.QueryRowContext(ctx, "SELECT @@GLOBAL.general_log").Scan(&logged); readErr != nil || logged {
			return engine.Hinted(fmt.Errorf("the general log of %s would get the node's password: %w", db.info.Target, classify(errors.Join(err, readErr))),
				"SET GLOBAL general_log = 0 meanwhile, or GRANT BINLOG ADMIN ON *.* to the account of the head")
		}
	}
	_, err = conn.ExecContext(ctx, statement)
	return engine.HidePassword(classify(err), password)
}

// presents looks for a table with the head's name. there reports whether the table exists; current,
// whether it is as h declares. presents returns an error if the table isn't a Spider table, or
// divides its rows among the nodes otherwise than h declares.
func (db presenter) presents(ctx context.Context, h *engine.Head, links []link) (there, current bool, err error) {
	is, err := db.catalog().Describe(ctx, h.Table.Name)
	if errors.Is(err, engine.ErrNoTable) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	if storage := is.Options["engine"]; is.View || !strings.EqualFold(storage, "SPIDER") {
		return true, false, engine.Hinted(fmt.Errorf("%s has a table %s of its own, which is not replaced: %s", db.info.Target, h.Table.Name, cmp.Or(storage, "a view")),
			"another database as target; or RENAME TABLE first")
	}
	var names, comments []string
	same := true
	err = engine.Each(ctx, db, db.pool, func(r *sql.Rows) error {
		var name, method, expression, comment sql.NullString
		err := r.Scan(&name, &method, &expression, &comment)
		names, comments = append(names, name.String), append(comments, comment.String)
		same = same && method.String == "HASH" && plain(expression.String) == plain(db.dialect.hashed(h))
		return err
	}, "SELECT PARTITION_NAME, PARTITION_METHOD, PARTITION_EXPRESSION, PARTITION_COMMENT FROM information_schema.PARTITIONS "+
		"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? ORDER BY PARTITION_ORDINAL_POSITION", h.Table.Name)
	if err != nil {
		return true, false, err
	}
	var want, servers []string
	for _, l := range links {
		want, servers = append(want, l.node), append(servers, l.comment())
	}
	if !same || !slices.Equal(names, want) {
		return true, false, engine.Hinted(fmt.Errorf("the Spider table %s of %s has the nodes %s by another rule or in another order than declared: rows would be looked for on the wrong nodes", h.Table.Name, db.info.Target, strings.Join(names, ", ")),
			"the nodes and by as they were; or, if the nodes have no rows, DROP TABLE %s on the head", h.Table.Name)
	}
	declared := slices.EqualFunc(is.Columns, h.Table.Definition.Columns, func(a engine.SchemaColumn, b rolling.DefinedColumn) bool { return strings.EqualFold(a.Name, b.Name) })
	return true, declared && slices.Equal(comments, servers) && (h.Schema == nil || alike(is, h.Schema) == ""), nil
}

// alike returns the first difference between the columns and keys of two tables, "" if there is
// none.
func alike(head, node *engine.Schema) string {
	for i, c := range node.Columns {
		if i >= len(head.Columns) || !reflect.DeepEqual(head.Columns[i], c) {
			return "column " + c.Name
		}
	}
	switch {
	case len(head.Columns) != len(node.Columns):
		return "the number of columns"
	case !slices.Equal(head.PrimaryKey, node.PrimaryKey):
		return "the primary key"
	case !reflect.DeepEqual(head.Indexes, node.Indexes):
		return "the indexes"
	}
	return ""
}

// checkPresents returns an error unless the head reaches each node, and has the nodes' columns.
func (db presenter) checkPresents(ctx context.Context, h *engine.Head, links []link) error {
	is, err := db.catalog().Describe(ctx, h.Table.Name)
	if err != nil {
		return err
	}
	if h.Schema != nil {
		if what := alike(is, h.Schema); what != "" {
			return engine.Hinted(fmt.Errorf("%s of %s differs between the head and its nodes", what, h.Table.Name),
				"DEFAULT CHARSET and COLLATE within create, so that the defaults of the databases don't decide")
		}
	}
	for _, l := range links {
		var any int
		err := db.keep.QueryRowContext(ctx, fmt.Sprintf("SELECT 1 FROM %s PARTITION (%s) LIMIT 1", db.dialect.Quote(h.Table.Name), db.dialect.Quote(l.node))).Scan(&any)
		if err != nil && err != sql.ErrNoRows {
			return engine.Hinted(fmt.Errorf("the head can't read node %s: %w", l.node, classify(err)),
				"check that the server of the head reaches the node at the address in its target, with the same account and password")
		}
	}
	return nil
}

func (l *link) comment() string { return `srv "` + l.server + `"` }

// tableCharset matches the character set and the collation in the options of a table.
var tableCharset = regexp.MustCompile(`(?i)\b(?:(?:DEFAULT\s+)?(?:CHARSET|CHARACTER\s+SET)|(?:DEFAULT\s+)?COLLATE)\s*=?\s*\w+`)

// spiderTable returns the statement that creates a head's table. It has the declared columns and
// keys and, of the declared table options, only the character set and the collation.
func (d dialect) spiderTable(h *engine.Head, links []link) string {
	q, options := h.Table.Definition.Split(d.Quote(h.Table.Name))
	q = "CREATE OR REPLACE TABLE" + strings.TrimPrefix(q, "CREATE TABLE")
	for _, o := range tableCharset.FindAllString(quotedText.ReplaceAllString(options, " "), -1) {
		q += " " + o
	}
	parts := make([]string, len(links))
	for i := range links {
		parts[i] = fmt.Sprintf("PARTITION %s COMMENT = %s", d.Quote(links[i].node), quoteText(links[i].comment()))
	}
	return fmt.Sprintf("%s ENGINE=SPIDER COMMENT=%s\nPARTITION BY HASH (%s) (\n  %s\n)", q,
		quoteText(fmt.Sprintf(`wrapper "mysql", table "%s"`, h.Table.Name)), d.hashed(h), strings.Join(parts, ",\n  "))
}
