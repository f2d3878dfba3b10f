package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// A head is a table partitioned BY HASH of a column, whose partitions are foreign tables of
// postgres_fdw, one per node. It has no keys: a table with such partitions can't have any.

var _ engine.Presenter = (*DB)(nil)

// A presenter presents the tables of several nodes as one: see engine.Presenter.
type presenter struct{ *server }

// NodeOf implements engine.Presenter with the server's rule for PARTITION BY HASH, which is the
// same for smallint, integer and bigint: see compute_partition_hash_value in its partbounds.c.
func (db presenter) NodeOf(h *engine.Head, key int64) int {
	if h.Slice > 0 {
		key = h.SliceOf(key, baseOf(h))
	}
	const seed, combine = 0x7A5B22367996DCFD, 0x49a0f4dd15e5a8e3 // HASH_PARTITION_SEED, hash_combine64 of 0
	low, high := uint32(key), uint32(uint64(key)>>32)
	if key < 0 {
		high = ^high
	}
	return int((hashUint32(low^high, seed) + combine) % uint64(len(h.Nodes)))
}

// baseOf returns the base for Head.SliceOf, or -1 for an integer key. The base of times is the year
// 0, which is before all times: because the division rounds towards 0, a slice that contained the
// base would be twice as long as the others.
func baseOf(h *engine.Head) int64 {
	if kindOf(h.Table) == engine.ByInteger {
		return -1
	}
	return engine.YearZero
}

// hashed returns the expression whose hash decides about a row's node.
func (d dialect) hashed(h *engine.Head) string {
	by := d.Quote(h.By)
	switch {
	case h.Slice == 0:
		return by
	case baseOf(h) < 0:
		length, offset := h.Units(h.Table.ByUnit())
		return fmt.Sprintf("((%s::bigint - %d) / %d)", by, offset, length)
	case kindOf(h.Table) == engine.ByInstant:
		by += " AT TIME ZONE 'UTC'"
	default:
		by += "::timestamp"
	}
	length, offset := h.Seconds(engine.YearZero)
	return fmt.Sprintf("((floor(extract(epoch FROM %s))::bigint + %d) / %d)", by, engine.YearZero-offset, length)
}

// hashUint32 is hash_bytes_uint32_extended of the server's hashfn.c, by Bob Jenkins.
func hashUint32(k uint32, seed uint64) uint64 {
	const begin = 0x9e3779b9 + 4 + 3923095
	a, b, c := uint32(begin)+uint32(seed>>32), uint32(begin)+uint32(seed), uint32(begin)
	for _, r := range [][2]int{{4, 6}, {8, 16}, {19, 4}} { // mix, whose steps repeat with a, b, c in turn
		for _, n := range r {
			a = a - c ^ bits.RotateLeft32(c, n)
			c += b
			a, b, c = b, c, a
		}
	}
	a += k
	c = (c ^ b) - bits.RotateLeft32(b, 14)
	a = (a ^ c) - bits.RotateLeft32(c, 11)
	b = (b ^ a) - bits.RotateLeft32(a, 25)
	c = (c ^ b) - bits.RotateLeft32(b, 16)
	a = (a ^ c) - bits.RotateLeft32(c, 4)
	b = (b ^ a) - bits.RotateLeft32(a, 14)
	c = (c ^ b) - bits.RotateLeft32(b, 24)
	return uint64(b)<<32 | uint64(c)
}

// A link is what a head needs to connect to a node.
type link struct {
	node, server string
	table        string // the foreign table
	options      [][2]string
	user         string
	password     string
}

func (db presenter) Present(ctx context.Context, h *engine.Head) ([]engine.HeadStep, error) {
	links, err := engine.Links(h, func(n engine.HeadNode) (link, error) { return linkOf(ctx, h, n) })
	if err != nil {
		return nil, err
	}
	steps, err := db.presentServers(ctx, links)
	if err != nil {
		return nil, err
	}
	is, err := db.presents(ctx, h, links)
	if err != nil {
		return nil, err
	}
	columns := headColumns(h)
	if statements, what := db.headStatements(h, links, columns, is); len(statements) > 0 {
		steps = append(steps, engine.HeadStep{What: what, SQL: statements, Run: func(ctx context.Context) error {
			is, err := db.presents(ctx, h, links) // since the plan, a table with rows may have been created
			if err != nil {
				return err
			}
			statements, _ := db.headStatements(h, links, headColumns(h), is)
			err = engine.InTx(ctx, db, db.pool, nil, func(tx *sql.Tx) error {
				for _, q := range statements {
					if _, err := tx.ExecContext(ctx, q); err != nil {
						return fmt.Errorf("%s: %w", engine.FirstWords(q), classify(err))
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			return db.checkPresents(ctx, links)
		}})
	}
	return steps, nil
}

// Place implements engine.Presenter. The place includes the time of the server's start: a copy of a
// server has the same identifier, but did not start in the same microsecond.
func (db presenter) Place(ctx context.Context) (engine.Place, error) {
	var p engine.Place
	err := db.plain.QueryRowContext(ctx, "SELECT concat_ws(' ', (SELECT system_identifier FROM pg_control_system()), current_setting('port'), extract(epoch FROM pg_postmaster_start_time())),"+
		" concat_ws('.', current_database(), current_schema()),"+
		// The columns of pg_database depend on the version.
		" concat_ws(' ', pg_encoding_to_char(d.encoding), d.datcollate, d.datctype, COALESCE(to_jsonb(d)->>'datlocprovider', 'c'), to_jsonb(d)->>'daticulocale', to_jsonb(d)->>'datlocale')"+
		" FROM pg_database d WHERE d.datname = current_database()").Scan(&p.Server, &p.Database, &p.Order)
	return p, classifyIn(ctx, err)
}

// linkOf returns what the head needs to connect to a node with the same account as rowmill.
func linkOf(ctx context.Context, h *engine.Head, n engine.HeadNode) (link, error) {
	cfg, err := configOf(ctx, n.Target)
	if err != nil {
		return link{}, err
	}
	l := link{node: n.Name, table: h.Table.Name + "_" + n.Name, user: cfg.User, password: cfg.Password}
	l.options = [][2]string{{"host", cfg.Host}, {"port", strconv.Itoa(int(cfg.Port))}, {"dbname", cfg.Database}}
	if mode := n.Target.Query.Get("sslmode"); mode != "" {
		l.options = append(l.options, [2]string{"sslmode", mode})
	}
	l.server = n.ServerName(l.options, l.user)
	return l, nil
}

func optionList(options [][2]string) string {
	var out []string
	for _, o := range options {
		out = append(out, o[0]+" "+quoteText(o[1]))
	}
	return strings.Join(out, ", ")
}

// mapping returns the options of the account with which the head connects.
func (l *link) mapping(password string) [][2]string {
	if l.password == "" { // trusted, or authenticated by the socket: only a superuser may map an account so
		return [][2]string{{"user", l.user}, {"password_required", "false"}}
	}
	return [][2]string{{"user", l.user}, {"password", password}}
}

// presentServers returns the steps that create the extension, the foreign servers that are missing,
// and the user mappings that are missing or have another account or password.
func (db presenter) presentServers(ctx context.Context, links []link) ([]engine.HeadStep, error) {
	var steps []engine.HeadStep
	plain := func(what string, statements ...string) {
		steps = append(steps, engine.HeadStep{What: what, SQL: statements, Run: func(ctx context.Context) error {
			for _, q := range statements {
				if _, err := db.pool.ExecContext(ctx, q); err != nil {
					return classify(err)
				}
			}
			return nil
		}})
	}
	var available, installed bool
	err := db.plain.QueryRowContext(ctx, "SELECT true, installed_version IS NOT NULL FROM pg_available_extensions WHERE name = 'postgres_fdw'").Scan(&available, &installed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, engine.Hinted(engine.Classed(engine.ErrUnsupported, fmt.Errorf("%s has no extension postgres_fdw, which presents tables of other servers", db.info.Target)),
			"the package of the server's contrib modules; or rowmill sandbox start 'postgres?fdw=3'")
	}
	if err != nil {
		return nil, classifyIn(ctx, err)
	}
	if !installed {
		plain("create the extension postgres_fdw", "CREATE EXTENSION postgres_fdw")
	}
	servers, err := engine.List[string](ctx, db, db.plain, "SELECT srvname FROM pg_foreign_server")
	if err != nil {
		return nil, err
	}
	mapped, err := engine.Pairs[string](ctx, db, db.plain, "SELECT srvname, COALESCE(array_to_string(ARRAY(SELECT unnest(umoptions) ORDER BY 1), E'\\n'), '') FROM pg_user_mappings WHERE usename = current_user")
	if err != nil {
		return nil, err
	}
	for i := range links {
		l := &links[i]
		if !slices.Contains(servers, l.server) {
			// So that a query reads several nodes at once, 10,000 rows at a time.
			options := append(slices.Clone(l.options), [2]string{"fetch_size", "10000"}, [2]string{"async_capable", "true"})
			plain(fmt.Sprintf("create server %s for node %s", l.server, l.node),
				fmt.Sprintf("CREATE SERVER %s FOREIGN DATA WRAPPER postgres_fdw OPTIONS (%s)", db.dialect.Quote(l.server), optionList(options)))
		}
		var want []string
		for _, o := range l.mapping(l.password) {
			want = append(want, o[0]+"="+o[1])
		}
		slices.Sort(want)
		have, there := mapped[l.server]
		if there && have == strings.Join(want, "\n") {
			continue
		}
		statement := func(password string) string {
			return fmt.Sprintf("CREATE USER MAPPING FOR CURRENT_USER SERVER %s OPTIONS (%s)", db.dialect.Quote(l.server), optionList(l.mapping(password)))
		}
		drop := fmt.Sprintf("DROP USER MAPPING IF EXISTS FOR CURRENT_USER SERVER %s", db.dialect.Quote(l.server))
		steps = append(steps, engine.HeadStep{What: fmt.Sprintf("connect to node %s as %s", l.node, l.user), SQL: []string{drop, statement(engine.HiddenPassword)},
			Run: func(ctx context.Context) error { return db.execSecret(ctx, l.password, drop, statement(l.password)) }})
	}
	return steps, nil
}

// execSecret executes statements with a password in one transaction. The password must not get into
// a log of the server.
func (db presenter) execSecret(ctx context.Context, password string, statements ...string) error {
	err := engine.InTx(ctx, db, db.pool, nil, func(tx *sql.Tx) error {
		if password != "" {
			var logs bool
			err := tx.QueryRowContext(ctx, "SELECT current_setting('log_statement') <> 'none' OR current_setting('log_min_duration_statement') <> '-1' "+
				"OR current_setting('log_min_error_statement') NOT IN ('fatal', 'panic')").Scan(&logs)
			if err != nil {
				return err
			}
			if logs {
				for _, q := range []string{"SET LOCAL log_statement = 'none'", "SET LOCAL log_min_duration_statement = -1", "SET LOCAL log_min_error_statement = 'panic'"} {
					if _, err := tx.ExecContext(ctx, q); err != nil {
						return engine.Hinted(fmt.Errorf("the log of %s could get the node's password: %w", db.info.Target, err), "the steps as a superuser; --dry-run prints them")
					}
				}
			}
		}
		for _, q := range statements {
			if _, err := tx.ExecContext(ctx, q); err != nil {
				return err
			}
		}
		return nil
	})
	return engine.HidePassword(classify(err), password)
}

// presents returns the table by which the head h presents its nodes, or nil if there is none. It
// returns an error for any other table of the name, and for one that divides its rows among the
// nodes otherwise than h declares. Option "servers" of the result is "current" if each partition
// uses the foreign server of its node.
func (db presenter) presents(ctx context.Context, h *engine.Head, links []link) (*engine.Schema, error) {
	is, err := db.catalog().Describe(ctx, h.Table.Name)
	if errors.Is(err, engine.ErrNoTable) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	of := db.dialect.regclass(h.Table.Name)
	var by, servers, found, want []string
	foreign := is.Partitioned
	err = engine.Each(ctx, db, db.plain, func(r *sql.Rows) error {
		var name, kind, bound, server string
		err := r.Scan(&name, &kind, &bound, &server)
		foreign = foreign && kind == "f"
		found, servers = append(found, name+" "+bound), append(servers, server)
		return err
	}, "SELECT c.relname, c.relkind::text, pg_get_expr(c.relpartbound, c.oid), COALESCE(s.srvname, '') FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "+
		"LEFT JOIN pg_foreign_table f ON f.ftrelid = c.oid LEFT JOIN pg_foreign_server s ON s.oid = f.ftserver WHERE i.inhparent = "+of)
	if err != nil {
		return nil, err
	}
	if by, err = engine.List[string](ctx, db, db.plain, "SELECT COALESCE(obj_description("+of+", 'pg_class'), '')"); err != nil {
		return nil, err
	}
	if !foreign || len(found) == 0 {
		return nil, engine.Hinted(fmt.Errorf("%s has a table %s of its own, which is not replaced", db.info.Target, h.Table.Name), "another database as target; or ALTER TABLE ... RENAME first")
	}
	current := true
	for i, l := range links {
		bound := fmt.Sprintf("%s FOR VALUES WITH (modulus %d, remainder %d)", l.table, len(links), i)
		want = append(want, bound)
		if at := slices.Index(found, bound); at < 0 || servers[at] != l.server {
			current = false
		}
	}
	slices.Sort(found)
	slices.Sort(want)
	if !slices.Equal(found, want) || by[0] != ruleOf(h) {
		return nil, engine.Hinted(fmt.Errorf("table %s of %s has its nodes by another rule or in another order than declared: rows would be looked for on the wrong nodes", h.Table.Name, db.info.Target),
			"the nodes and by as they were; or, if the nodes have no rows, DROP TABLE %s on the head", h.Table.Name)
	}
	if current {
		is.Options["servers"] = "current"
	}
	return is, nil
}

// ruleOf returns the comment of a head, which states the rule by which rows belong to nodes.
// rowmill can't take the rule from the head's expression, because the server rewrites that.
func ruleOf(h *engine.Head) string {
	if h.Slice == 0 {
		return "rowmill: rows on nodes by " + h.By
	}
	return fmt.Sprintf("rowmill: rows on nodes by %s, in slices of %d from %d", h.By, h.Slice, h.Origin)
}

// headColumns returns the columns of the nodes' tables, followed by the declared columns that these
// tables still lack.
func headColumns(h *engine.Head) []engine.SchemaColumn {
	if h.Schema != nil && len(h.Schema.Columns) >= len(h.Table.Definition.Columns) {
		return h.Schema.Columns
	}
	var out []engine.SchemaColumn
	for i, c := range h.Table.Definition.Columns {
		if h.Schema != nil && i < len(h.Schema.Columns) {
			out = append(out, h.Schema.Columns[i])
			continue
		}
		out = append(out, engine.SchemaColumn{Name: c.Name, Native: c.Type, Null: !c.NotNull})
	}
	return out
}

// headStatements returns statements that create the head or add its columns, nil if it is complete.
func (db presenter) headStatements(h *engine.Head, links []link, columns []engine.SchemaColumn, is *engine.Schema) (statements []string, what string) {
	quote := db.dialect.Quote
	define := func(c engine.SchemaColumn) string {
		text := quote(c.Name) + " " + c.Native
		if c.Collation != "" {
			text += " COLLATE " + c.Collation
		}
		if c.Default != "" {
			text += " DEFAULT " + c.Default
		}
		if !c.Null {
			text += " NOT NULL"
		}
		return text
	}
	table := quote(h.Table.Name)
	if is != nil && is.Options["servers"] != "" {
		same := min(len(is.Columns), len(columns))
		typed := same // columns compared by type: not declared ones, as types have several names
		if h.Schema == nil {
			typed = 0
		}
		if len(is.Columns) <= len(columns) && slices.EqualFunc(is.Columns[:typed], columns[:typed], alike) && slices.EqualFunc(is.Columns[typed:same], columns[typed:same], named) {
			for _, c := range columns[same:] {
				statements = append(statements, "ALTER TABLE "+table+" ADD COLUMN "+define(c))
			}
			return statements, "add columns to table " + h.Table.Name
		}
	}
	what = fmt.Sprintf("create table %s of foreign tables, which presents its nodes", h.Table.Name)
	if is != nil {
		statements = append(statements, "DROP TABLE "+table) // with its partitions, which have no rows
		what = fmt.Sprintf("create table %s of foreign tables anew", h.Table.Name)
	}
	var defs []string
	for _, c := range columns {
		defs = append(defs, define(c))
	}
	statements = append(statements, fmt.Sprintf("CREATE TABLE %s (\n  %s\n) PARTITION BY HASH (%s)", table, strings.Join(defs, ",\n  "), db.dialect.hashed(h)),
		fmt.Sprintf("COMMENT ON TABLE %s IS %s", table, quoteText(ruleOf(h))))
	for i, l := range links {
		statements = append(statements, fmt.Sprintf("CREATE FOREIGN TABLE %s PARTITION OF %s FOR VALUES WITH (MODULUS %d, REMAINDER %d) SERVER %s OPTIONS (table_name %s)",
			quote(l.table), table, len(links), i, quote(l.server), quoteText(h.Table.Name)))
	}
	return statements, what
}

func alike(a, b engine.SchemaColumn) bool {
	return named(a, b) && a.Native == b.Native && a.Null == b.Null && a.Collation == b.Collation && a.Default == b.Default
}

func named(a, b engine.SchemaColumn) bool { return a.Name == b.Name }

// checkPresents proves that the head reaches each node.
func (db presenter) checkPresents(ctx context.Context, links []link) error {
	for _, l := range links {
		var one int
		err := db.pool.QueryRowContext(ctx, "SELECT 1 FROM "+db.dialect.Quote(l.table)+" LIMIT 1").Scan(&one)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return engine.Hinted(fmt.Errorf("the head can't read node %s: %w", l.node, classify(err)),
				"check that the server of the head reaches the node at the address in its target, with the same account and password")
		}
	}
	return nil
}
