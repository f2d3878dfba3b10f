package rolling

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/tomlfile"
)

// Shards says on which servers the rows of a table are. The zero value is a table on one server.
type Shards struct {
	// By is the integer column whose hash decides which node stores a row. Each unique key contains
	// it. If Every is set, By is the column by which the table rolls, and the number of the row's
	// slice is hashed instead. A slice has the length Every, and consists of whole periods.
	By    string
	Every Grid
	// Nodes are the servers, in the order in which the hash counts them.
	Nodes []Node
}

// Names returns the names of the nodes, for messages: "n1, n2, n3".
func (s Shards) Names() string {
	var names []string
	for _, n := range s.Nodes {
		names = append(names, n.Name)
	}
	return strings.Join(names, ", ")
}

// A Node is a server that has some of a table's rows, in a table of the same name.
type Node struct {
	// Name identifies it in messages, and in the head's partitions. Target is its database as a URL.
	Name, Target string
}

const (
	// maxNodes limits the connections that a single query through the head opens.
	maxNodes = 64
	// maxNodeName leaves room in the names of partitions and foreign tables.
	maxNodeName = 16
)

// shards reads [shards], once all sections but [values] are read.
func (r *declarationReader) shards(shards *tomlfile.Value) {
	if shards == nil {
		return
	}
	if !r.headed && r.servers != "" {
		r.fail(shards, headForms, "%s can't present tables of other servers as one", r.servers)
		return
	}
	if r.d.Auto {
		r.fail(r.every, `every = "1d", or another length`, "every = \"auto\" measures one server, and [shards] has several")
	}
	every, everyAt := r.length(shards, "every")
	r.d.Shards.Every = every
	r.shardColumn(shards, everyAt)
	r.slices(everyAt)
	nodes := shards.Find("nodes")
	switch {
	case nodes == nil:
		r.fail(shards, nodesForm, "[shards] has no nodes")
		return
	case nodes.Kind != tomlfile.Table:
		r.fail(nodes, nodesForm, "nodes is %s; want a table of names and targets", nodes.What())
		return
	case len(nodes.In) < 2 || len(nodes.In) > maxNodes:
		r.fail(nodes, nodesForm, "nodes has %d; want 2 to %d", len(nodes.In), maxNodes)
	}
	for _, n := range nodes.In {
		r.node(n)
	}
}

func (r *declarationReader) node(v *tomlfile.Value) {
	why := badName(v.Key, maxNodeName)
	if why == "" && (v.Key == "" || v.Key != strings.ToLower(v.Key)) {
		why = "it is empty, or has a capital"
	}
	switch {
	case why != "":
		r.fail(v, "n1, n2 and so on: at most 16 small letters, digits and _", "a node can't be called %q: %s", v.Key, why)
		return
	case v.Kind != tomlfile.Text:
		r.fail(v, v.Key+" = "+nodeForm, "%s is %s; want a target as a quoted string", v.Key, v.What())
		return
	}
	scheme, rest, ok := strings.Cut(v.Text, ":")
	scheme = strings.ToLower(scheme)
	_, err := url.Parse(v.Text)
	switch {
	case anyPassword(v.Text):
		r.fail(v, passwordForms, "the target of node %s holds a password, which would be stored and printed", v.Key)
	case !ok || err != nil || !strings.HasPrefix(rest, "//"):
		r.fail(v, v.Key+" = "+nodeForm, "the target of node %s is not the URL of a server", v.Key)
	case r.servers != "" && !slices.Contains(r.schemes, scheme):
		r.fail(v, r.schemes[0]+"://USER@HOST/DB", "node %s has scheme %q, and the table's target is of %s", v.Key, scheme, r.servers)
	case v.Text == r.written: // not r.d.Target, which in a node's own declaration is the node's
		r.fail(v, "another server", "node %s is the table's own target, where all nodes are presented under the table's name", v.Key)
	default:
		for _, n := range r.d.Shards.Nodes {
			if n.Target == v.Text {
				r.fail(v, "a server, or a database, of its own for each", "nodes %s and %s have the same target", n.Name, v.Key)
			}
		}
		r.d.Shards.Nodes = append(r.d.Shards.Nodes, Node{v.Key, v.Text})
	}
}

// slices checks the length of slices, each of which is on one node.
func (r *declarationReader) slices(every *tomlfile.Value) {
	g, p := r.d.Shards.Every, r.d.Period
	switch {
	case every == nil || !g.Valid():
	case g.months > 0:
		r.fail(every, `every = "4w", or another length in weeks, days or hours`, "every = %q has no fixed length, by which nodes take turns", g)
	case p.Valid() && !p.Divides(g):
		r.fail(every, "a multiple of the period, such as "+multiple(p), "every = %q isn't made of whole periods of %s: one would be on two nodes", g, p)
	case r.d.WholeDays() && !dayGrid.Divides(g):
		r.fail(every, `every = "1d" or longer`, "every = %q is shorter than the resolution of column %s: whole days", g, r.d.Time)
	}
}

// shardColumn reads the column that decides about a row's node.
func (r *declarationReader) shardColumn(shards, every *tomlfile.Value) {
	by, v := r.must(shards, "[shards]", "by", "sensor")
	def := r.d.Definition
	if v == nil || def == nil {
		return
	}
	c := def.Column(by)
	if c == nil || c.Name != by && r.exactNames {
		r.fail(v, tomlfile.DidYouMean(by, r.columns), "by = %q is not a column of %s", by, def.Name)
		return
	}
	r.d.Shards.By = c.Name
	if every != nil {
		if !r.sameName(c.Name, r.d.Time) {
			r.fail(v, fmt.Sprintf("by = %q, or leave every out", r.d.Time), "by = %q isn't the column by which the table rolls, and every divides that into slices", by)
		}
	}
	words := strings.Fields(strings.ToLower(strings.ReplaceAll(c.Type, "(", " ")))
	switch {
	case c.Auto:
		r.failDefinition(c.Line, 0, "a column that rows bring", "column %s counts up on each node, and decides about a row's node", c.Name)
	case c.Generated:
		r.failDefinition(c.Line, 0, "a column that rows bring", "column %s is computed by the server, and decides about a row's node", c.Name)
	case every != nil: // timeColumn checks the type, because the table rolls by the column
	case len(words) == 0 || !slices.Contains([]string{"tinyint", "smallint", "mediumint", "int", "integer", "bigint", "int2", "int4", "int8"}, words[0]) ||
		slices.Contains(words, "unsigned") && (words[0] == "bigint" || words[0] == "int8"):
		r.failDefinition(c.Line, 0, "an integer column of at most 64 bits with a sign", "column %s is of type %s, and rows are distributed by the hash of an integer, or with every by slices of the column by which the table rolls", c.Name, c.Type)
	}
	r.keysContain(def, c.Name, "rows are distributed by it, and each node checks its own rows only")
	for _, other := range def.Columns {
		if other.Auto {
			r.failDefinition(other.Line, 0, "a column that rows bring", "column %s counts up on each node, so that its values are not unique", other.Name)
		}
	}
}
