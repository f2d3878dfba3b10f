package query

import (
	"errors"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/plan"
	"github.com/rowmill/rowmill/internal/testdb"
)

// A node's table in another database than the head's is never mistaken for one that the node has in
// a database of the head's name.
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

// A node's column of another type would give a sum other digits than the head gives it, which
// converts values to its own type.
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

// CONVERT_TZ reads each server's own tables of time zones.
func TestNodesConvertTimes(t *testing.T) {
	testdb.OnKinds(t, []string{"mariadb"}, func(t *testing.T, kind string) {
		head, n1, n2 := openReader(t, kind), openReader(t, kind), openReader(t, kind)
		do(t, head, "CREATE TABLE r (id INT NOT NULL PRIMARY KEY) PARTITION BY HASH (id) (PARTITION n1, PARTITION n2)", "INSERT INTO r VALUES (1), (2), (3), (4)")
		p, rows, err := askNodes(t, head, n1, n2, "SELECT COUNT(*), MAX(convert_tz('2026-01-01', '+00:00', '+01:00')) FROM r")
		if err != nil || !strings.HasPrefix(rows, "4|2026-01-01 01:00:00") || !strings.Contains(p.Through, "convert_tz may have another value on node n1") {
			t.Errorf("rows %q, error %v, through the head because %q", rows, err, p.Through)
		}
	})
}

// TestNodesWithOtherDefinitions: where what users have made is another thing on a node than on the
// head, the head reads the rows.
func TestNodesWithOtherDefinitions(t *testing.T) {
	t.Parallel()
	head, n1, n2 := openReader(t, "postgres"), openReader(t, "postgres"), openReader(t, "postgres")
	all := []engine.Reader{head, n1, n2}
	for i, n := range all {
		do(t, n, "CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE DOMAIN amount AS numeric(10,2)", "CREATE COLLATION own (provider = icu, locale = 'en')",
			"CREATE FUNCTION plus(int, text) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 + 1'", "CREATE OPERATOR + (LEFTARG = int, RIGHTARG = text, FUNCTION = plus)")
		if i > 0 {
			do(t, n, "CREATE TABLE r (id int NOT NULL, m mood) PARTITION BY RANGE (id)", "CREATE TABLE r_p PARTITION OF r DEFAULT")
		}
	}
	do(t, head, "CREATE TABLE r (id int NOT NULL, m mood) PARTITION BY HASH (id)", "CREATE TABLE r_n1 PARTITION OF r FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
		"CREATE TABLE r_n2 PARTITION OF r FOR VALUES WITH (MODULUS 2, REMAINDER 1)", "INSERT INTO r VALUES (1), (2), (3), (4)")
	expect := func(query, through string, settings ...engine.Setting) {
		t.Helper()
		p, _, err := askNodes(t, head, n1, n2, query, settings...)
		if err != nil || (p.Through == "") != (through == "") || !strings.Contains(p.Through, through) {
			t.Errorf("%s: error %v, through the head because %q, want %q", query, err, p.Through, through)
		}
	}
	const query = "SELECT count(*), sum(id) FROM r"
	expect(query, "", engine.Setting{Name: "TimeZone", Value: "Europe/Berlin"})
	expect("SELECT count(*), max('r'::REGCLASS::oid::bigint) FROM r", "REGCLASS may have another value on node n1")
	for _, x := range []struct{ change, back, through string }{
		{"ALTER TYPE mood ADD VALUE 'fine' BEFORE 'ok'", "", "type mood is another one on node n1"},
		{"CREATE TYPE pair AS (a int, b int)", "DROP TYPE pair", "type pair is another one on node n1"},
		{"DROP DOMAIN amount; CREATE DOMAIN amount AS numeric(12,3)", "DROP DOMAIN amount; CREATE DOMAIN amount AS numeric(10,2)", "type amount is another one"},
		{"DROP COLLATION own; CREATE COLLATION own (provider = icu, locale = 'de')", "DROP COLLATION own; CREATE COLLATION own (provider = icu, locale = 'en')", "collation public.own is another one"},
		{"CREATE OR REPLACE FUNCTION plus(int, text) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 + 2'",
			"CREATE OR REPLACE FUNCTION plus(int, text) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 + 1'", "operator public.+ of integer and text is another one"},
		{"CREATE FUNCTION flag(int) RETURNS mood IMMUTABLE LANGUAGE sql AS 'SELECT NULL::mood'; CREATE CAST (int AS mood) WITH FUNCTION flag(int)",
			"DROP FUNCTION flag CASCADE", "cast from integer to mood is another one on node n1"},
	} {
		do(t, n1, strings.Split(x.change, "; ")...)
		expect(query, x.through)
		if x.back == "" { // a value of an enumeration stays
			do(t, head, x.change)
			do(t, n2, x.change)
			continue
		}
		do(t, n1, strings.Split(x.back, "; ")...)
		expect(query, "")
	}
	do(t, head, "CREATE EXTENSION postgres_fdw", "CREATE SERVER s FOREIGN DATA WRAPPER postgres_fdw", "ALTER TABLE r DETACH PARTITION r_n1", "DROP TABLE r_n1")
	for options, through := range map[string]string{"(table_name 'r')": "", "(table_name 'r_p')": "of other names", "(schema_name 'public')": "of other names", "(table_name 'r', schema_name 'public')": "",
		"(table_name 'r', schema_name 'other')": "of other names"} {
		do(t, head, "CREATE FOREIGN TABLE r_n1 PARTITION OF r FOR VALUES WITH (MODULUS 2, REMAINDER 0) SERVER s OPTIONS "+options)
		p, r := planNodes(t, head, n1, n2, query)
		if err := r.Close(); err != nil || (p.Through == "") != (through == "") || !strings.Contains(p.Through, through) {
			t.Errorf("%s: error %v, through the head because %q, want %q", options, err, p.Through, through)
		}
		do(t, head, "DROP FOREIGN TABLE r_n1")
	}
}

// askNodes asks a query about table r of two nodes, n1 and n2.
func askNodes(t *testing.T, head, n1, n2 engine.Reader, query string, settings ...engine.Setting) (p *plan.Plan, rows string, err error) {
	t.Helper()
	p, r := planNodes(t, head, n1, n2, query, settings...)
	sink := &rowsSink{}
	_, err = r.Run(within(t), p, sink)
	return p, strings.Join(sink.rows, ";"), errors.Join(err, r.Close())
}

// planNodes plans a query about table r of two nodes, n1 and n2.
func planNodes(t *testing.T, head, n1, n2 engine.Reader, query string, settings ...engine.Setting) (*plan.Plan, *Runner) {
	t.Helper()
	r := New(head, Options{Parallel: 2, Always: true})
	r.ReadShards("r", []Shard{{Name: "n1", Reader: n1}, {Name: "n2", Reader: n2}})
	s, err := head.ReadSession(within(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	st, err := head.ReadState(within(t), s)
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	p, err := r.Plan(within(t), query, st.With(settings))
	if err != nil {
		t.Fatal(err)
	}
	return p, r
}
