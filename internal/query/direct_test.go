package query

import (
	"errors"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

// A node's table in another database than the head's is never mistaken for one that the node has in a database of the head's
// name.
func TestNodesOfAnotherDatabase(t *testing.T) {
	testdb.OnKinds(t, []string{"mariadb", "mysql"}, func(t *testing.T, kind string) {
		head, n1, n2 := openReader(t, kind), openReader(t, kind), openReader(t, kind)
		do(t, head, "CREATE TABLE r (id INT NOT NULL PRIMARY KEY) PARTITION BY HASH (id) (PARTITION n1, PARTITION n2)", "INSERT INTO r VALUES (1), (2), (3), (4)")
		for i, n := range []engine.Reader{n1, n2} {
			do(t, n, "CREATE TABLE r (id INT NOT NULL PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION n1 VALUES LESS THAN (3), PARTITION n2 VALUES LESS THAN (9))",
				"INSERT INTO r VALUES "+[]string{"(2), (4)", "(1), (3)"}[i])
		}
		r := New(head, Options{Parallel: 2, Always: true})
		r.ReadShards("r", []Shard{{Name: "n1", Reader: n1}, {Name: "n2", Reader: n2}})
		defer func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}()
		s, err := head.ReadSession(within(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		st, err := head.ReadState(within(t), s)
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		p, err := r.Plan(within(t), "SELECT COUNT(*), SUM(id) FROM r", st)
		if err != nil {
			t.Fatal(err)
		}
		sink := &rowsSink{}
		if _, err := r.Run(within(t), p, sink); err != nil || strings.Join(sink.rows, ";") != "4|10" || !strings.Contains(p.Through, "on node n1, and in ") {
			t.Errorf("rows %q, error %v, through the head because %q, whole because %q", sink.rows, err, p.Through, p.Whole)
		}
	})
}
