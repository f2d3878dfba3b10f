package maintain

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// PlanShards is PlanApply for a table whose rows are on several nodes: each of them gets the declared
// table, and then the head presents them as one. Nodes are in the declared order.
func PlanShards(ctx context.Context, d *rolling.Declaration, head engine.Keeper, nodes []*Table) (*Application, error) {
	presenter, ok := head.(engine.Presenter)
	if !ok {
		return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("%s can't present tables of other servers as one", head.Info().Target))
	}
	all := &Application{}
	for _, n := range nodes {
		a, err := n.planNode(ctx)
		if err != nil {
			return nil, InNode(n.Node, err)
		}
		for _, s := range a.Steps {
			s.What = "node " + n.Node + ": " + s.What
			all.Steps = append(all.Steps, s)
		}
		for _, note := range a.Notes {
			all.Notes = append(all.Notes, "node "+n.Node+": "+note)
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
		all.Steps = append(all.Steps, ApplyStep{What: "head: " + s.What, SQL: s.SQL, run: func(ctx context.Context) error {
			// The steps before have created the nodes' tables, or changed them.
			for _, n := range nodes {
				if err := n.readSchema(ctx); err != nil {
					return InNode(n.Node, err)
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

// InNode names the node in an error of one. Nil stays nil.
func InNode(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("node %s: %w", name, err)
}

func (t *Table) planNode(ctx context.Context) (*Application, error) {
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
	case len(was.Nodes) > 0 && (was.By != now.By || was.Every != now.Every || !reflect.DeepEqual(nodeNames(was), nodeNames(now))):
		return nil, engine.Hinted(fmt.Errorf("table %s was applied with its rows by %s on %s, and by %s on %s is declared: rows would be on the wrong nodes",
			t.Table.Name, byText(was), strings.Join(nodeNames(was), ", "), byText(now), strings.Join(nodeNames(now), ", ")),
			"[shards] as it was; or a new table with the other nodes, loaded from this one by rowmill load --from")
	case misplaced(was, now, t.Node) != "":
		return nil, engine.Hinted(fmt.Errorf("the target of node %s is that of node %s, as table %s was applied: rows would be on the wrong nodes", t.Node, misplaced(was, now, t.Node), t.Table.Name),
			"the targets as they were; of servers that have really moved, first the new target of node %s alone", misplaced(was, now, t.Node))
	case len(was.Nodes) == 0:
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
	a, err := t.PlanApply(ctx)
	if err == nil && a.Adopt {
		err = engine.Hinted(fmt.Errorf("table %s exists as a plain table, which can't become a node's", t.Table.Name), "DROP TABLE %s, as it has no rows", t.Table.Name)
	}
	return a, err
}

// misplaced returns the node whose former target a node has now, "" if it is no other's.
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

func nodeNames(s rolling.Shards) (names []string) {
	for _, n := range s.Nodes {
		names = append(names, n.Name)
	}
	return names
}

// sameOnNodes returns an error if the tables of two nodes have other columns.
func sameOnNodes(nodes []*Table) error {
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
