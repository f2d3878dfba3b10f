package query

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/plan"
)

// A Shard is a server that has a part of a table's rows, in a table of the same name in the
// Reader's own database. The head, which is the Runner's first server, presents the shard as a
// partition called Name.
type Shard struct {
	Name   string
	Reader engine.Reader
	// Err is why the server can't be reached: Reader is nil, and a query that needs it fails.
	Err error
}

// ReadShards makes the Runner read the rows of a table directly from these servers, in queries that
// read no other table. Each server reads its own periods in parallel. The head plans these queries,
// merges the rows, and answers all queries that read other tables. Call ReadShards before the first
// Plan.
func (r *Runner) ReadShards(table string, shards []Shard) {
	r.sharded = table
	for _, s := range shards {
		n := &node{name: s.Name, err: s.Err}
		if s.Err == nil {
			n = r.newNode(s.Reader)
			n.name = s.Name
		}
		r.nodes = append(r.nodes, n)
	}
}

// shards returns the pieces that the nodes run, and sets p.EstimatedRows to the sum of the nodes'
// estimates. If the head has to read the table, shards returns no pieces, and the reason. If pieces
// might give another answer even if the head reads the table, it also sets p.Whole.
func (r *Runner) shards(ctx context.Context, p *plan.Plan) (pieces []plan.Piece, why string, err error) {
	switch {
	case r.sharded == "" || p.Table.Name != r.sharded || len(p.Parts) == 0:
		return nil, "", nil
	case !p.Alone:
		return nil, "the nodes of " + p.Table.Name + " have no other table, which it reads as well", nil
	}
	own, err := r.nodes[0].ownDatabase(ctx, p.Table.Name)
	if err != nil {
		return nil, "", err
	}
	if own != p.Table.Database {
		return nil, "the declared table is in database " + own + ", and the query is about that in " + p.Table.Database, nil
	}
	var rows int64
	for _, part := range p.Table.Parts {
		if !slices.Contains(p.Parts, part.Name) {
			continue
		}
		i := slices.IndexFunc(r.nodes, func(n *node) bool { return n.name != "" && (n.name == part.Name || n.name == part.Period) })
		if i < 0 {
			return nil, fmt.Sprintf("partition %s of %s is not one of the declared nodes", part.Name, p.Table.Name), nil
		}
		if part.Renamed {
			return nil, fmt.Sprintf("partition %s of %s presents a table, or columns, of other names", part.Name, p.Table.Name), nil
		}
		of, estimate, why, err := r.shard(ctx, p, i)
		if err != nil || why != "" {
			return nil, why, err
		}
		pieces = append(pieces, of...)
		if rows += estimate; estimate < 0 {
			rows = -1 << 62
		}
	}
	p.EstimatedRows = max(rows, -1)
	return pieces, "", nil
}

// shard returns the pieces of one node, and its estimate of the rows that are read.
func (r *Runner) shard(ctx context.Context, p *plan.Plan, i int) (pieces []plan.Piece, rows int64, why string, err error) {
	n := r.nodes[i]
	if n.err != nil {
		return nil, 0, "", fmt.Errorf("node %s: %w", n.name, n.err)
	}
	if l, ok := r.nodes[0].Reader.(engine.LocalReader); ok {
		if word := l.LocalWord(p.Text); word != "" {
			return nil, 0, fmt.Sprintf("%s may have another value on node %s than on the head", word, n.name), nil
		}
	}
	own, err := n.ownDatabase(ctx, p.Table.Name)
	if err != nil {
		return nil, 0, "", fmt.Errorf("node %s: %w", n.name, err)
	}
	if own != p.Table.Database { // the node may have an older table of the same name in p.Table.Database
		return nil, 0, fmt.Sprintf("%s is in database %s on node %s, and in %s on the head", p.Table.Name, own, n.name, p.Table.Database), nil
	}
	s, err := n.plain.get(ctx, p.State)
	if err != nil {
		if !plan.Unanswered(ctx, err) {
			return nil, 0, fmt.Sprintf("node %s doesn't have the session's settings: %v", n.name, err), nil
		}
		return nil, 0, "", fmt.Errorf("node %s: %w", n.name, err)
	}
	defer func() { err = errors.Join(err, n.plain.put(ctx, s)) }()
	if why, err = r.local(ctx, p, n, s); err != nil || why != "" {
		return nil, 0, why, err
	}
	t, err := n.TableParts(ctx, s.Session, p.Table.Database, p.Table.Name)
	if err != nil {
		return nil, 0, "", fmt.Errorf("node %s: %w", n.name, err)
	}
	same := slices.EqualFunc(t.Columns, p.Table.Columns, func(a, b engine.SchemaColumn) bool {
		return a.Name == b.Name && a.Native == b.Native && a.Null == b.Null && a.Collation == b.Collation
	}) && slices.Equal(t.Invisible, p.Table.Invisible)
	switch {
	case !same: // the head converts values to the types of its own columns; in pieces it may not
		p.Whole = fmt.Sprintf("%s has other columns on node %s than on the head", t.Name, n.name)
		return nil, 0, p.Whole, nil
	case t.Refusal != "":
		return nil, 0, fmt.Sprintf("%s on node %s: %s", t.Name, n.name, t.Refusal), nil
	case len(t.Parts) == 0:
		return nil, 0, fmt.Sprintf("%s on node %s has no periods", t.Name, n.name), nil
	}
	planned, err := n.ExplainQuery(ctx, s.Session, p.Text)
	if err != nil {
		return nil, 0, "", fmt.Errorf("node %s: %w", n.name, err)
	}
	read, rows := planned.Of(t, p.Alias, p.Namesakes)
	if read == nil { // the node knows an answer without reading, but only for its own rows: read them
		read = t.Read(nil)
	}
	var parts []string
	for _, k := range read {
		parts = append(parts, t.Parts[k].Name)
	}
	switch {
	case len(parts) == 0:
	case p.Disjoint: // a group may have rows in all periods of its node
		pieces = []plan.Piece{joinParts(partRows(t), parts)}
	default:
		pieces = groupParts(t, parts, r.parallel(n.Reader))
	}
	for k := range pieces {
		pieces[k].Node, pieces[k].Server, pieces[k].Table = i, n.name, t
	}
	return pieces, rows, "", nil
}

// local returns why a node may give another answer than the head: a time zone, type or function
// differs, or is only on one of them. It also sets p.Whole to this reason, because the head may
// leave a part of each piece to the node. If the head only fetches the node's rows
// (Table.Rewritten), p.Whole stays as it was.
func (r *Runner) local(ctx context.Context, p *plan.Plan, n *node, s *session) (why string, err error) {
	head, is := r.nodes[0].Reader.(engine.LocalReader)
	of, also := n.Reader.(engine.LocalReader)
	if !is || !also {
		return "", nil
	}
	theirs, err := of.Locals(ctx, s.Session, p.State)
	if err != nil {
		return "", fmt.Errorf("node %s: %w", n.name, err)
	}
	if p.Locals == nil { // once for all nodes
		own, err := r.nodes[0].plain.get(ctx, p.State)
		if err != nil {
			return "", err
		}
		p.Locals, err = head.Locals(ctx, own.Session, p.State)
		if err = errors.Join(err, r.nodes[0].plain.put(ctx, own)); err != nil {
			return "", err
		}
	}
	ours := maps.Clone(p.Locals)
	for name := range theirs {
		if _, both := ours[name]; !both {
			ours[name] = ""
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		if theirs[name] != ours[name] {
			why = fmt.Sprintf("%s is another one on node %s than on the head, or only on one of them", name, n.name)
			break
		}
	}
	if why != "" && !p.Table.Rewritten {
		p.Whole = why
	}
	return why, nil
}

// ownDatabase returns the database, or the schema, of the declared table on the node: the one in
// which a session with default settings finds the table. It asks the node once.
func (n *node) ownDatabase(ctx context.Context, table string) (_ string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.database != "" {
		return n.database, nil
	}
	s, err := n.plain.get(ctx, nil)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }() // no query uses a session without settings
	t, err := n.TableParts(ctx, s.Session, "", table)
	if err != nil {
		return "", err
	}
	n.database = t.Database
	return n.database, nil
}
