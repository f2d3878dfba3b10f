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
		p, rows, err := askNodes(t, head, n1, n2, "SELECT COUNT(*), SUM(id) FROM r")
		if err != nil || rows != "4|10" || !strings.Contains(p.Through, "on node n1, and in ") {
			t.Errorf("rows %q, error %v, plan %+v", rows, err, p)
		}
	})
}

// A node's column of another type would give a sum other digits than the head gives it, which converts values to its own type.
func TestNodesWithOtherColumns(t *testing.T) {
	testdb.OnKinds(t, []string{"postgres"}, func(t *testing.T, kind string) {
		head, n1, n2 := openReader(t, kind), openReader(t, kind), openReader(t, kind)
		do(t, head, "CREATE TABLE r (id INT NOT NULL, v NUMERIC(9,2)) PARTITION BY LIST (id)", "CREATE TABLE r_n1 PARTITION OF r FOR VALUES IN (1)",
			"CREATE TABLE r_n2 PARTITION OF r FOR VALUES IN (2)", "INSERT INTO r VALUES (1, 5), (2, 6)")
		for i, n := range []engine.Reader{n1, n2} {
			do(t, n, "CREATE TABLE r (id INT NOT NULL, v NUMERIC(9,"+[]string{"2", "4"}[i]+")) PARTITION BY RANGE (id)", "CREATE TABLE p PARTITION OF r DEFAULT",
				"INSERT INTO r VALUES "+[]string{"(1, 5)", "(2, 6)"}[i])
		}
		p, rows, err := askNodes(t, head, n1, n2, "SELECT COUNT(*), SUM(v) FROM r")
		if err != nil || rows != "2|11.00" || p.Whole != "r has other columns on node n2 than on the head" {
			t.Errorf("rows %q, error %v, plan %+v", rows, err, p)
		}
	})
}

// TestNodesInOtherZones: SYSTEM is each server's own time zone. Where a node's is another one than the head's, the head reads the rows.
func TestNodesInOtherZones(t *testing.T) {
	head := openReader(t, "mariadb")
	t.Setenv("TZ", "Asia/Tokyo")
	n1, n2 := openReader(t, "mariadb?memory=67MB"), openReader(t, "mariadb?memory=67MB")
	do(t, head, "CREATE TABLE r (id INT NOT NULL PRIMARY KEY) PARTITION BY HASH (id) (PARTITION n1, PARTITION n2)", "INSERT INTO r VALUES (1), (2), (3), (4)")
	for _, n := range []engine.Reader{n1, n2} {
		do(t, n, "CREATE TABLE r (id INT NOT NULL PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN MAXVALUE)")
	}
	const other, next = "that of node n1 is another one than the head's", "on node n1, and in "
	for zone, through := range map[string]string{"SYSTEM": other, "system": other, "+00:00": next} {
		p, rows, err := askNodes(t, head, n1, n2, "SELECT COUNT(*), SUM(id) FROM r", engine.Setting{Name: "time_zone", Value: zone})
		if err != nil || rows != "4|10" || !strings.Contains(p.Through, through) {
			t.Errorf("%s: rows %q, error %v, through the head because %q", zone, rows, err, p.Through)
		}
	}
}

// askNodes asks a query about table r of two nodes, n1 and n2.
func askNodes(t *testing.T, head, n1, n2 engine.Reader, query string, settings ...engine.Setting) (p *Plan, rows string, err error) {
	t.Helper()
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
	if p, err = r.Plan(within(t), query, st.With(settings)); err != nil {
		t.Fatal(err)
	}
	sink := &rowsSink{}
	_, err = r.Run(within(t), p, sink)
	return p, strings.Join(sink.rows, ";"), err
}
