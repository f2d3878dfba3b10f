package enginetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// A Heads opens what the tests of engine.Presenter and engine.RemoteReader need.
type Heads struct {
	// Open opens a database of a server that no other test uses meanwhile, and that may be head and
	// node at once. Other opens a database of another server.
	Open, Other func(testing.TB) engine.Keeper
	// Refused reports that the server can't present tables of others.
	Refused bool
}

// RunHead runs the tests of engine.Presenter and engine.RemoteReader.
func RunHead(t *testing.T, h Heads) {
	t.Run("Place", h.place)
	t.Run("Present", h.present)
}

// place checks that Place tells databases, and servers, apart.
func (h Heads) place(t *testing.T) {
	of := func(db engine.Keeper) engine.Place {
		p, err := db.(engine.Presenter).Place(within(t))
		Must(t, err)
		return p
	}
	db := h.Open(t)
	a, b, other := of(db), of(h.Open(t)), of(h.Other(t))
	if again := of(db); a != again || a.Server == "" || a.Database == "" {
		t.Errorf("one database is %+v and %+v", a, again)
	}
	if a.Server != b.Server || a.Database == b.Database || a.Order != b.Order || a.Foreign != b.Foreign {
		t.Errorf("two databases of one server are %+v and %+v", a, b)
	}
	if a.Server == other.Server {
		t.Errorf("two servers are %+v and %+v", a, other)
	}
}

// present makes a head present the tables of two databases, whose names need quotes, as one table,
// and reads the rows through the head.
func (h Heads) present(t *testing.T) {
	head, nodes := h.Open(t).(engine.Presenter), []engine.Keeper{h.Open(t), h.Open(t)}
	mysql, quote := caseName(head) == "mysql", head.Dialect().Quote
	name, key, value, hidden, text := "tab-lé?", "kéy `x", `va"l 'ue\`, "hidden INT", "VARCHAR(9)"
	if !mysql {
		name = `ta"b 'le\ ä`
	}
	if head.Info().Engine == "mariadb" {
		hidden += " INVISIBLE"
	}
	d, err := rolling.ReadDefinition(fmt.Sprintf("CREATE TABLE %s (%s BIGINT NOT NULL, %s %s, %s, PRIMARY KEY (%[2]s))", quote(name), quote(key), quote(value), text, hidden))
	Must(t, err)
	to := &engine.Head{Table: &engine.Table{Name: name, Definition: d}, By: key}
	for i, n := range nodes {
		_, err := n.SQL().ExecContext(within(t), d.Text)
		Must(t, err)
		at, err := engine.ParseTarget(n.Info().Target)
		Must(t, err)
		to.Nodes = append(to.Nodes, engine.HeadNode{Name: fmt.Sprintf("n%d", i+1), Target: at})
	}
	steps, err := head.Present(within(t), to)
	if h.Refused {
		wantError(t, err, engine.ErrUnsupported)
		return
	}
	Must(t, err)
	for _, s := range steps {
		if err := s.Run(within(t)); err != nil {
			t.Fatalf("%s: %v\n%s", s.What, err, strings.Join(s.SQL, "\n"))
		}
	}
	if steps, err := head.Present(within(t), to); err != nil || len(steps) > 0 {
		t.Errorf("it isn't done: %+v, %v", steps, err)
	}

	want := make([][]string, len(nodes))
	for i := range int64(20) {
		k, v := i*i-50, fmt.Sprintf(`%d'"\ä`, i%4)
		_, err := head.SQL().ExecContext(within(t), head.Bind(fmt.Sprintf("INSERT INTO %s (%s, %s) VALUES (?, ?)", quote(name), quote(key), quote(value))), k, v)
		Must(t, err)
		n := head.NodeOf(to, k)
		want[n] = append(want[n], fmt.Sprintf("%d|%s", k, v))
	}
	r := head.(reader)
	s, w := readSession(t, r, nil), session(t, head)
	p, err := r.TableParts(within(t), s, "", name)
	Must(t, err)
	remote, rewrites := head.(engine.RemoteReader)
	if !p.Remote || p.Versioned || p.Refusal != "" || p.Rewritten != rewrites || len(p.Parts) != len(nodes) || !slices.Equal(p.By, []string{key}) {
		t.Fatalf("%+v", p)
	}
	columns := quote(key) + ", " + quote(value)
	for i, part := range p.Parts {
		if part.Name != to.Nodes[i].Name && part.Period != to.Nodes[i].Name {
			t.Errorf("partition %+v, want that of %s", part, to.Nodes[i].Name)
		}
		_, direct := textsOf(t, readSession(t, nodes[i].(reader), nil), "SELECT "+columns+" FROM "+quote(name)+" ORDER BY 1")
		_, through := textsOf(t, s, "SELECT "+columns+" FROM "+r.PartFrom(p, []string{part.Name})+" AS x ORDER BY 1")
		if !slices.Equal(direct, want[i]) || !slices.Equal(through, want[i]) {
			t.Errorf("node %d has %q, through the head %q, want %q", i, direct, through, want[i])
		}
	}
	if !rewrites {
		return
	}
	if !slices.Equal(p.Invisible, []string{"hidden"}) {
		t.Errorf("invisible are %q", p.Invisible)
	}
	for _, q := range []string{"CREATE VIEW v1 AS SELECT * FROM " + quote(name), "CREATE VIEW v2 AS SELECT 1 FROM v1", "CREATE VIEW v3 AS SELECT 1", "CREATE TABLE own (i INT PRIMARY KEY)"} {
		run(t, w, -1, q)
	}
	list, err := remote.RemoteTables(within(t), s)
	Must(t, err)
	list = slices.DeleteFunc(list, func(t engine.RemoteTable) bool { return t.Database != p.Database })
	if fmt.Sprint(list) != fmt.Sprintf("[{%s %s false} {%[1]s v1 true} {%[1]s v2 true}]", p.Database, name) {
		t.Errorf("tables of other servers: %v", list)
	}
	first := []string{p.Parts[0].Name}
	_, got := textsOf(t, s, "SELECT * FROM "+remote.RowsFrom(p, first, []string{key, value}, quote(key)+" < 10")+" AS x ORDER BY 1")
	few := slices.DeleteFunc(slices.Clone(want[0]), func(row string) bool { return !strings.HasPrefix(row, "-") && strings.IndexByte(row, '|') > 1 })
	if !slices.Equal(got, few) {
		t.Errorf("rows below 10: %q, want %q", got, few)
	}
	// The head evaluates a condition that Spider would write wrongly for a node.
	wantText(t, s, "5", "SELECT COUNT(*) FROM "+remote.RowsFrom(p, nil, []string{value}, "")+" AS x WHERE "+quote(value)+" LIKE '3|''%' ESCAPE '|'")
	for q, want := range map[string]bool{
		"SELECT COUNT(*) FROM " + r.PartFrom(p, first): true, "SELECT COUNT(*) FROM " + quote(name): false, "SELECT COUNT(*) FROM own": false,
		"SELECT COUNT(*) FROM " + r.PartFrom(p, first) + " JOIN own": false, "SELECT 1": false,
	} {
		if got, err := remote.Pushed(within(t), s, q); err != nil || got != want {
			t.Errorf("%s: passed on %t, %v, want %t", q, got, err, want)
		}
	}
	if _, err := remote.Pushed(within(t), s, "SELECT FROM"); err == nil {
		t.Error("a query that the server refuses is passed on")
	}
}
