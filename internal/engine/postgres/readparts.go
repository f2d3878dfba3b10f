package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// Queries of the catalog in a client's session name the schema pg_catalog, because the search path
// is the client's.

// A planNode is a node of EXPLAIN (FORMAT JSON).
type planNode struct {
	Kind     string     `json:"Node Type"`
	Relation string     `json:"Relation Name"`
	Schema   string     `json:"Schema"`
	Alias    string     `json:"Alias"`
	Rows     float64    `json:"Plan Rows"`
	Workers  int        `json:"Workers Planned"`
	Plans    []planNode `json:"Plans"`
}

// childAlias matches the alias that the server gives a partition in a plan: the table's alias,
// followed by a number unless the plan has only one partition. If a query itself uses such an alias
// for another table, that table's estimates may be taken for the partition's.
var childAlias = regexp.MustCompile(`^(.*)_\d+$`)

// ExplainQuery implements engine.Reader. The plan names the partitions, with aliases that the
// server makes from the table's alias.
func (db reader) ExplainQuery(ctx context.Context, s *engine.Session, query string) (*engine.QueryPlan, error) {
	var text []byte
	if err := s.Text(ctx, "EXPLAIN (FORMAT JSON, VERBOSE) "+query, nil, func(v [][]byte) error {
		text = append(text, v[0]...)
		return nil
	}); err != nil {
		return nil, err
	}
	var top []struct{ Plan planNode }
	if err := json.Unmarshal(text, &top); err != nil || len(top) != 1 {
		return nil, fmt.Errorf("read the server's plan: %w", err)
	}
	scans, workers, hidden := scansOf(&top[0].Plan)
	known, err := relationsOf(ctx, s, scans)
	if err != nil {
		return nil, err
	}
	plan := &engine.QueryPlan{Tables: []engine.PlannedTable{}, ByRelation: true, Parallel: workers + 1, Result: int64(top[0].Plan.Rows)}
	for _, n := range scans {
		name := quoted(n.Schema, n.Relation)
		r := known[name]
		rows := int64(n.Rows)
		if r.rows > rows {
			rows = r.rows
		}
		plan.Rows += rows
		alias, parts := n.Alias, []string(nil)
		if r.part {
			parts = []string{name}
			if m := childAlias.FindStringSubmatch(alias); m != nil {
				alias = m[1]
			}
		}
		i := slices.IndexFunc(plan.Tables, func(t engine.PlannedTable) bool { return t.Alias == alias })
		if i < 0 || parts == nil || plan.Tables[i].Parts == nil {
			plan.Tables = append(plan.Tables, engine.PlannedTable{Alias: alias, Parts: parts, Rows: rows})
			continue
		}
		plan.Tables[i].Parts = append(plan.Tables[i].Parts, name)
		plan.Tables[i].Rows += rows
	}
	if hidden {
		plan.Tables = nil
	}
	return plan, nil
}

// scansOf returns the plan's nodes that read a relation, and the largest number of parallel
// workers. hidden reports whether other nodes read relations without naming them: a join or an
// aggregate that another server computes.
func scansOf(n *planNode) (scans []*planNode, workers int, hidden bool) {
	workers = n.Workers
	if n.Relation != "" {
		scans = append(scans, n)
	} else {
		hidden = n.Kind == "Foreign Scan" || n.Kind == "Custom Scan"
	}
	for i := range n.Plans {
		more, w, h := scansOf(&n.Plans[i])
		scans, workers, hidden = append(scans, more...), max(workers, w), hidden || h
	}
	return scans, workers, hidden
}

// quoted returns a qualified name with quotes.
func quoted(schema, name string) string { return dialect{}.Quote(schema) + "." + dialect{}.Quote(name) }

// A plannedRelation is what the catalog knows of a relation in a plan.
type plannedRelation struct {
	part bool  // it is a partition
	rows int64 // the estimate of the last ANALYZE
}

// relationsOf reads the relations of a plan, by their quoted names.
func relationsOf(ctx context.Context, s *engine.Session, scans []*planNode) (map[string]plannedRelation, error) {
	out := map[string]plannedRelation{}
	if len(scans) == 0 {
		return out, nil
	}
	list := make([]string, len(scans))
	for i, n := range scans {
		list[i] = "(" + escaped(n.Schema) + ", " + escaped(n.Relation) + ")"
	}
	err := s.Text(ctx, "SELECT n.nspname, c.relname, c.relispartition, c.reltuples::bigint FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "+
		"WHERE (n.nspname, c.relname) IN ("+strings.Join(list, ", ")+")", nil, func(v [][]byte) error {
		rows, err := strconv.ParseInt(string(v[3]), 10, 64)
		out[quoted(string(v[0]), string(v[1]))] = plannedRelation{string(v[2]) == "t", rows}
		return err
	})
	return out, err
}

func (db reader) LockedParts(ctx context.Context, s *engine.Session, database, table string) (*engine.TableParts, error) {
	return db.TableParts(ctx, s, database, table)
}

// TableParts implements engine.Reader. Partitions are the table's children, by schema and quoted
// name. A child that is partitioned itself counts as one partition. database is the name of a
// schema.
func (db reader) TableParts(ctx context.Context, s *engine.Session, database, table string) (*engine.TableParts, error) {
	name := dialect{}.Quote(table)
	if database != "" {
		name = quoted(database, table)
	}
	fail := func(err error) (*engine.TableParts, error) {
		return nil, fmt.Errorf("read table %s from the catalog: %w", name, err)
	}
	t := &engine.TableParts{}
	var oid, kind, temporary, guarded, strategy, key, virtual string
	err := s.Text(ctx, "SELECT c.oid, n.nspname, c.relname, c.relkind, c.relpersistence = 't', pg_catalog.row_security_active(c.oid), COALESCE(p.partstrat::text, ''), "+
		// The names of the key's columns, or nothing if the key has an expression, or compares
		// values by other rules than its column.
		"COALESCE((SELECT pg_catalog.string_agg(a.attname::text, E'\\x01' ORDER BY k.i) FROM pg_catalog.generate_series(0, p.partnatts - 1) k(i) "+
		"JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = p.partattrs[k.i] AND a.attcollation = p.partcollation[k.i] "+
		"JOIN pg_catalog.pg_opclass o ON o.oid = p.partclass[k.i] AND o.opcdefault "+
		"HAVING pg_catalog.count(*) = p.partnatts), '') "+
		"FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "+
		"LEFT JOIN pg_catalog.pg_partitioned_table p ON p.partrelid = c.oid "+
		"WHERE c.oid = pg_catalog.to_regclass("+escaped(name)+") AND c.relkind IN ('r', 'p', 'f')", nil, func(v [][]byte) error {
		oid, t.Database, t.Name, kind = string(v[0]), string(v[1]), string(v[2]), string(v[3])
		temporary, guarded, strategy, key = string(v[4]), string(v[5]), string(v[6]), string(v[7])
		return nil
	})
	if err == nil && oid == "" {
		err = engine.Classed(engine.ErrNoTable, errors.New("no such table"))
	}
	if err != nil {
		return fail(err)
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %q\n", oid, kind, strategy)
	err = s.Text(ctx, "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, COALESCE(b.typname, t.typname), a.attgenerated, a.attidentity <> '', "+
		"COALESCE((SELECT pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(co.collname) FROM pg_catalog.pg_collation co "+
		"JOIN pg_catalog.pg_namespace n ON n.oid = co.collnamespace WHERE co.oid = a.attcollation AND a.attcollation <> COALESCE(b.typcollation, t.typcollation)), '') "+
		"FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid LEFT JOIN LATERAL ("+
		"WITH RECURSIVE d (oid) AS (SELECT t.typbasetype WHERE t.typtype = 'd' UNION ALL SELECT x.typbasetype FROM d JOIN pg_catalog.pg_type x ON x.oid = d.oid AND x.typtype = 'd') "+
		"SELECT x.typname, x.typcollation FROM d JOIN pg_catalog.pg_type x ON x.oid = d.oid AND x.typtype <> 'd') b ON true "+
		"WHERE a.attrelid = "+oid+" AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum", nil, func(v [][]byte) error {
		fmt.Fprintf(sum, "%q\n", v)
		c := engine.SchemaColumn{
			Name: string(v[0]), Native: string(v[1]), Null: string(v[2]) == "t", Type: typeOf(string(v[3]), string(v[1])),
			Generated: len(v[4]) > 0, Auto: string(v[5]) == "t", Collation: string(v[6]),
		}
		t.Columns = append(t.Columns, c)
		if string(v[4]) == "v" {
			virtual = c.Name
		}
		return nil
	})
	if err != nil {
		return fail(err)
	}
	err = s.Text(ctx, "SELECT a.attname FROM pg_catalog.pg_index i CROSS JOIN LATERAL pg_catalog.generate_series(1, i.indnkeyatts) k "+
		"JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[k - 1] WHERE i.indisprimary AND i.indrelid = "+oid+" ORDER BY k", nil, func(v [][]byte) error {
		t.PrimaryKey = append(t.PrimaryKey, string(v[0]))
		return nil
	})
	if err != nil {
		return fail(err)
	}
	t.Versioned = kind != "f"
	children, err := db.dialect.childrenOf(ctx, s, t, oid, kind)
	if err != nil {
		return fail(err)
	}
	for _, c := range children {
		fmt.Fprintf(sum, "%q\n", c)
	}
	t.Created = hex.EncodeToString(sum.Sum(nil)[:16])
	switch {
	case temporary == "t":
		t.Refusal = "it is a temporary table, which only its session can read"
	case guarded == "t":
		t.Refusal = "it has row security, whose policies hold for the table and not for its partitions"
	case kind != "p" && len(children) > 0:
		t.Refusal = "other tables inherit from it"
	case virtual != "":
		t.Refusal = "the generated column " + virtual + " is virtual, and may have another expression in each partition"
	}
	if kind == "p" && key != "" {
		t.By = strings.Split(key, "\x01")
	}
	t.Period = strategy == "r" && len(t.By) == 1
	return t, nil
}

// attached is the condition for children that are read: not those that are being detached.
const attached = " AND NOT i.inhdetachpending"

// childrenOf fills in the partitions, and returns what identifies each child. It orders the
// partitions by the texts of their bounds, the default partition last.
func (d dialect) childrenOf(ctx context.Context, s *engine.Session, t *engine.TableParts, oid, kind string) (identities [][]string, err error) {
	order := map[string]bool{} // whether a child has the columns in the table's order
	at := map[string]int{}
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	err = s.Text(ctx, "WITH RECURSIVE tree (child, oid) AS (SELECT i.inhrelid, i.inhrelid FROM pg_catalog.pg_inherits i WHERE i.inhparent = "+oid+attached+" "+
		"UNION SELECT tree.child, i.inhrelid FROM tree JOIN pg_catalog.pg_inherits i ON i.inhparent = tree.oid"+attached+") "+
		"SELECT tree.child = tree.oid, tree.child, tn.nspname, top.relname, n.nspname, c.relname, c.relkind, c.reltuples::bigint, c.relpages::bigint * 8192, "+
		"pg_catalog.has_table_privilege(c.oid, 'SELECT'), pg_catalog.row_security_active(c.oid), pg_catalog.pg_get_expr(top.relpartbound, top.oid), "+
		"CASE WHEN tree.child = tree.oid THEN (SELECT pg_catalog.string_agg(a.attname::text, E'\\x01' ORDER BY a.attnum) FROM pg_catalog.pg_attribute a "+
		"WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) END, "+
		// CASE, because the server would otherwise read the column options of all tables.
		"CASE WHEN c.relkind = 'f' THEN EXISTS (SELECT FROM pg_catalog.pg_foreign_table f WHERE f.ftrelid = c.oid AND (f.ftoptions IS NULL "+
		"OR NOT 'table_name=' || (SELECT r.relname FROM pg_catalog.pg_class r WHERE r.oid = "+oid+") = ANY (f.ftoptions) "+
		"OR EXISTS (SELECT FROM pg_catalog.unnest(f.ftoptions) o WHERE o LIKE 'schema\\_name=%' AND o <> 'schema_name=' || tn.nspname))) OR "+
		"EXISTS (SELECT FROM pg_catalog.pg_attribute a, pg_catalog.unnest(a.attfdwoptions) o WHERE a.attrelid = c.oid AND NOT a.attisdropped AND o LIKE 'column\\_name=%') ELSE false END "+
		"FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.oid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "+
		"JOIN pg_catalog.pg_class top ON top.oid = tree.child JOIN pg_catalog.pg_namespace tn ON tn.oid = top.relnamespace "+
		"ORDER BY pg_catalog.pg_get_expr(top.relpartbound, top.oid) = 'DEFAULT', pg_catalog.pg_get_expr(top.relpartbound, top.oid) COLLATE \"C\", tree.child, tree.oid <> tree.child", nil,
		func(v [][]byte) error {
			name, leaf := quoted(string(v[2]), string(v[3])), quoted(string(v[4]), string(v[5]))
			if string(v[0]) == "t" {
				identities = append(identities, []string{string(v[1]), name, string(v[11])})
				order[name] = string(v[12]) == strings.Join(names, "\x01")
				at[name] = len(t.Parts)
				part := partitionName(&engine.Table{Name: t.Name}, string(v[3]))
				t.Parts = append(t.Parts, engine.TablePart{Name: name, Period: part})
			}
			p := &t.Parts[at[name]]
			if leaf != name {
				p.Planned = append(p.Planned, leaf)
			}
			if string(v[6]) == "f" {
				t.Versioned, t.Remote = false, true
			}
			p.Renamed = p.Renamed || string(v[13]) == "t"
			if string(v[6]) != "p" {
				p.Estimate(v[7], v[8])
			}
			switch {
			case v[9] == nil || v[11] == nil:
				t.Refusal = "its partition " + leaf + " was dropped while its definition was read"
			case string(v[9]) != "t" && name == leaf: // its own partitions are read through it
				t.Refusal = "the account may not read its partition " + name + " by itself: GRANT SELECT ON ALL TABLES IN SCHEMA " + d.Quote(string(v[2])) + " TO it"
			case string(v[10]) == "t":
				t.Refusal = "its partition " + leaf + " has row security"
			}
			return nil
		})
	if kind != "p" {
		t.Parts = nil
	}
	for i := range t.Parts {
		t.Parts[i].Reordered = !order[t.Parts[i].Name]
	}
	return identities, err
}

// PartFrom implements engine.Reader. It returns the name of a single partition whose columns have
// the table's order; otherwise it returns a query of the partitions that names the columns.
func (db reader) PartFrom(t *engine.TableParts, parts []string) string {
	plain := len(parts) == 1
	for _, p := range t.Parts {
		if plain && p.Name == parts[0] {
			plain = !p.Reordered
		}
	}
	if plain {
		return parts[0]
	}
	return t.Union(dialect{}, parts)
}
