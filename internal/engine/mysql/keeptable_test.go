package mysql_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/rolling"
)

// day is in microseconds; first is 2026-11-20 as a position.
const (
	day   = int64(24 * time.Hour / time.Microsecond)
	first = int64(1795132800e6)
)

// A kept is a declared table with daily periods.
type kept struct {
	*engine.Table
	t     *testing.T
	db    *mysql.DB
	parts []rolling.Partition
}

// keep creates a table with n daily periods whose column ts has the given type.
func keep(t *testing.T, db *mysql.DB, tsType string, epoch time.Duration, n int) *kept {
	t.Helper()
	d, err := rolling.ReadDefinition("CREATE TABLE readings (id INT NOT NULL, ts " + tsType + " NOT NULL, v INT, PRIMARY KEY (id, ts), KEY v (v))")
	if err != nil {
		t.Fatal(err)
	}
	g, err := rolling.Parse("1d")
	if err != nil {
		t.Fatal(err)
	}
	k := &kept{t: t, db: db, Table: &engine.Table{Name: "readings", Definition: d, Grid: g, By: "ts", Epoch: epoch}}
	for i := range int64(n) {
		p, err := g.At(first + i*day)
		if err != nil {
			t.Fatal(err)
		}
		k.parts = append(k.parts, g.Named(p))
	}
	if err := db.Try(within(t), engine.CreateTable{Table: k.Table, Partitions: k.parts}); err != nil {
		t.Fatal(err)
	}
	return k
}

func (k *kept) run(statements ...string) {
	k.t.Helper()
	for _, q := range statements {
		if _, err := k.db.SQL().ExecContext(within(k.t), q); err != nil {
			k.t.Fatalf("%s: %v", q, err)
		}
	}
}

// insert inserts n rows at a position, with ids starting at from.
func (k *kept) insert(pos int64, from, n int) {
	k.t.Helper()
	k.run(fmt.Sprintf("INSERT INTO readings (id, ts, v) WITH RECURSIVE seq (n) AS (SELECT %d UNION ALL SELECT n + 1 FROM seq WHERE n < %d) SELECT n, %s, n FROM seq",
		from, from+n-1, k.db.Words().Literal(k.Table, pos)))
}

// ids returns the number of rows of a FROM clause and the sum of their ids.
func (k *kept) ids(from string) string {
	k.t.Helper()
	var n, sum sql.NullInt64
	if err := k.db.SQL().QueryRowContext(within(k.t), "SELECT COUNT(*), SUM(id) FROM "+from).Scan(&n, &sum); err != nil {
		k.t.Fatalf("%s: %v", from, err)
	}
	return fmt.Sprintf("%d rows, %d", n.Int64, sum.Int64)
}

func (k *kept) part(i int) string { return k.db.Words().From(k.Table, k.parts[i]) }

func (k *kept) want(from, want string) {
	k.t.Helper()
	if got := k.ids(from); got != want {
		k.t.Errorf("%s has %s, want %s", from, got, want)
	}
}

// have returns the partitions in the catalog, as text.
func (k *kept) have() string {
	k.t.Helper()
	parts, err := k.db.Catalog().Partitions(within(k.t), k.Table)
	if err != nil {
		k.t.Fatal(err)
	}
	return fmt.Sprint(parts)
}

func (k *kept) try(s engine.Step) {
	k.t.Helper()
	if err := k.db.Try(within(k.t), s); err != nil {
		k.t.Fatalf("%T: %v", s, err)
	}
}

// fill creates a table with the rows of periods.
func (k *kept) fill(name string, parts ...int) {
	k.t.Helper()
	k.run(k.db.Words().CreateTemplate(k.Table, name, engine.Storage{})...)
	for _, i := range parts {
		k.run("INSERT INTO " + name + " SELECT * FROM " + k.part(i))
	}
}

// replace returns the Replace of periods [from, to) by the table with_it.
func (k *kept) replace(from, to int) engine.Replace {
	r := engine.Replace{Table: k.Table, Have: k.parts, Old: k.parts[from:to], With: "with_it"}
	r.New = rolling.Partition{Name: k.parts[to-1].Name, Period: rolling.Period{From: k.parts[from].From, To: k.parts[to-1].To}}
	for i := from; i < to; i++ {
		r.Out = append(r.Out, fmt.Sprintf("out_%d", i))
	}
	return r
}
