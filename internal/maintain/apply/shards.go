package apply

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// PlanShards is PlanTable for a table whose rows are on several nodes. Each node gets the declared
// table, and then the head presents the nodes as one table. nodes must be in the declared order.
func PlanShards(ctx context.Context, d *rolling.Declaration, head engine.Keeper, nodes []*maintain.Table) (*Plan, error) {
	presenter, ok := head.(engine.Presenter)
	if !ok {
		return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("%s can't present tables of other servers as one", head.Info().Target))
	}
	names, servers := make([]string, len(nodes)), make([]engine.Keeper, len(nodes))
	for i, n := range nodes {
		names[i], servers[i] = n.Node, n.DB
	}
	if err := CheckPlaces(ctx, head, names, servers); err != nil {
		return nil, err
	}
	all := &Plan{}
	for _, n := range nodes {
		a, err := planner{n}.planNode(ctx)
		if err != nil {
			return nil, maintain.InNode(n.Node, err)
		}
		for _, s := range a.Steps {
			s.What = "node " + n.Node + ": " + s.What
			all.Steps = append(all.Steps, s)
		}
		for _, note := range a.Notes {
			all.Notes = append(all.Notes, "node "+n.Node+": "+note)
		}
		for _, d := range a.Dropped {
			all.Dropped = append(all.Dropped, "node "+n.Node+": "+d)
		}
	}
	h, err := engine.NewHead(nodes[0].Table, &d.Shards)
	if err != nil {
		return nil, err
	}
	h.Schema = nodes[0].Schema
	steps, err := presenter.Present(ctx, h)
	if err != nil {
		return nil, fmt.Errorf("head: %w", err)
	}
	for _, s := range steps {
		all.Steps = append(all.Steps, Step{What: "head: " + s.What, SQL: s.SQL, run: func(ctx context.Context) error {
			// The steps before have created the nodes' tables, or changed them.
			for _, n := range nodes {
				if err := n.ReadSchema(ctx); err != nil {
					return maintain.InNode(n.Node, err)
				}
			}
			if err := sameOnNodes(nodes); err != nil {
				return err
			}
			h.Schema = nodes[0].Schema
			return s.Run(ctx)
		}})
	}
	if len(all.Steps) == 0 {
		return all, sameOnNodes(nodes)
	}
	return all, nil
}

// CheckPlaces returns an error if two nodes are one database under two addresses, or if the head
// can't present a node. head may be nil. In nodes, a node that can't be reached is nil.
func CheckPlaces(ctx context.Context, head engine.Keeper, names []string, nodes []engine.Keeper) error {
	placeOf := func(db engine.Keeper) (p engine.Place, err error) {
		if at, ok := db.(engine.Presenter); ok {
			p, err = at.Place(ctx)
		}
		return p, err
	}
	of, err := placeOf(head)
	if err != nil {
		return fmt.Errorf("head: %w", err)
	}
	places := make([]engine.Place, len(nodes))
	for i, n := range nodes {
		if places[i], err = placeOf(n); err != nil {
			return maintain.InNode(names[i], err)
		}
		switch p := places[i]; {
		case p.Server == "":
			continue
		case p.Server == of.Server && p.Database == of.Database:
			return engine.Hinted(fmt.Errorf("node %s is the table's own target by another address, where all nodes are presented under the table's name", names[i]), "another server")
		case p.Server == of.Server && of.Foreign:
			return engine.Hinted(fmt.Errorf("node %s is a database of the head's own server, whose tables the head can't present", names[i]), "another server for the node, or for the head")
		}
		other, order := "the head", of.Order
		if of.Server == "" {
			other, order = "node "+names[0], places[0].Order
		}
		if order != places[i].Order {
			return engine.Hinted(fmt.Errorf("the database of node %s has the encoding and collation %s, and that of %s %s: texts would be in another order", names[i], places[i].Order, other, order),
				"CREATE DATABASE with the same encoding, collation and character types on all servers")
		}
		for k := range i {
			if places[k].Server == places[i].Server && places[k].Database == places[i].Database {
				return engine.Hinted(fmt.Errorf("nodes %s and %s are the same database by two addresses: its rows would count twice", names[k], names[i]), "a server, or a database, of its own for each")
			}
		}
	}
	return nil
}

// CheckNode returns an error unless d was applied on a node, with the shards that d has now. If the
// shards differ, a query could read rows twice, or miss some.
func CheckNode(ctx context.Context, d *rolling.Declaration, node string, db engine.Keeper) error {
	stored, err := state.New(db).Declared(ctx, d.Name)
	if err != nil && !errors.Is(err, engine.ErrNoTable) {
		return engine.Hinted(fmt.Errorf("read what was applied for %s: %w", d.Name, err), "SELECT on the node's rowmill_tables for the account that queries")
	}
	if err != nil || stored == nil {
		return engine.Hinted(fmt.Errorf("table %s was not applied on it", d.Name), "rowmill apply %s", d.Source)
	}
	applied, err := maintain.DeclaredOf(stored, "")
	if err != nil {
		return err
	}
	return otherNodes(d.Name, node, applied.Shards, d.Shards)
}

// otherNodes returns an error if a table was applied with other nodes than are declared now.
func otherNodes(table, node string, was, now rolling.Shards) error {
	switch other := misplaced(was, now, node); {
	case was.By != now.By || was.Every != now.Every || was.Names() != now.Names():
		return engine.Hinted(fmt.Errorf("table %s was applied with its rows by %s on %s, and by %s on %s is declared: rows would be on the wrong nodes",
			table, byText(was), was.Names(), byText(now), now.Names()),
			"[shards] as it was; or a new table with the other nodes, loaded from this one by rowmill load --from")
	case other != "":
		return engine.Hinted(fmt.Errorf("the target of node %s is that of node %s, as table %s was applied: rows would be on the wrong nodes", node, other, table),
			"the targets as they were; of servers that have really moved, first the new target of node %s alone", other)
	}
	return nil
}

func (t planner) planNode(ctx context.Context) (*Plan, error) {
	applied, err := t.Applied(ctx)
	if err != nil {
		return nil, err
	}
	was, now := rolling.Shards{}, t.Declared.Shards
	if applied != nil {
		was = applied.Shards
	}
	switch {
	case t.Schema == nil: // there are no rows
	case len(was.Nodes) > 0:
		if err := otherNodes(t.Table.Name, t.Node, was, now); err != nil {
			return nil, err
		}
	default:
		// A former apply may have been killed before it recorded the declaration.
		var one int
		err := t.DB.SQL().QueryRowContext(ctx, "SELECT 1 FROM "+t.DB.Dialect().Quote(t.Table.Name)+" LIMIT 1").Scan(&one)
		if err == nil {
			return nil, engine.Hinted(fmt.Errorf("table %s exists with rows, which may belong to other nodes", t.Table.Name),
				"another name or database for the nodes' tables, loaded from this one by rowmill load --from")
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return nil, t.DB.Classify(err)
		}
	}
	a, err := PlanTable(ctx, t.table)
	if err == nil && a.Adopt {
		err = engine.Hinted(fmt.Errorf("table %s exists as a plain table, which can't become a node's", t.Table.Name), "DROP TABLE %s, as it has no rows", t.Table.Name)
	}
	return a, err
}

// misplaced returns which other node had the node's present target before; "" if none had.
func misplaced(was, now rolling.Shards, node string) string {
	for _, n := range now.Nodes {
		for _, other := range was.Nodes {
			if n.Name == node && other.Name != node && other.Target == n.Target {
				return other.Name
			}
		}
	}
	return ""
}

func byText(s rolling.Shards) string {
	if s.Every.Valid() {
		return s.By + " every " + s.Every.String()
	}
	return s.By
}

// sameOnNodes returns an error if two nodes have tables with different columns.
func sameOnNodes(nodes []*maintain.Table) error {
	first := nodes[0]
	for _, n := range nodes[1:] {
		if first.Schema == nil || n.Schema == nil || reflect.DeepEqual(first.Schema.Columns, n.Schema.Columns) && reflect.DeepEqual(first.Schema.PrimaryKey, n.Schema.PrimaryKey) {
			continue
		}
		return engine.Hinted(fmt.Errorf("table %s has other columns, types, collations or defaults on node %s than on node %s", first.Table.Name, n.Node, first.Node),
			"the same type of server with the same defaults for each node, or CHARSET and COLLATE within create")
	}
	return nil
}
