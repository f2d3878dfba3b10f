package enginetest

import (
	"slices"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// household creates and drops a database, and checks that Household counts the tables it opens.
func (s keepers) household(t *testing.T) {
	db, ok := s.open(t).(engine.Housekeeper)
	if !ok {
		t.Skip("the engine is no server")
	}
	name, has := "rowmill_household`\"'", func() bool {
		t.Helper()
		found, err := db.HasDatabase(within(t), "rowmill_household`\"'")
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if err := db.DropDatabase(within(t), name); err != nil || has() {
		t.Fatalf("a database that doesn't exist: %v", err)
	}
	if err := db.CreateDatabase(within(t), name); err != nil || !has() {
		t.Fatalf("create: %v", err)
	}
	if err := db.DropDatabase(within(t), name); err != nil || has() {
		t.Fatalf("drop: %v", err)
	}
	var names []string
	for _, n := range []string{"one", "two"} {
		names = append(names, n)
		table := &engine.Table{Name: n, Columns: []engine.Column{{Name: "id", Type: engine.Int64}}, PrimaryKey: []string{"id"}}
		if err := db.Apply(within(t), engine.CreateTable{Table: table}); err != nil {
			t.Fatal(err)
		}
	}
	before, err := db.Household(within(t))
	if err != nil || before.DictionaryBytes <= 0 || before.Caches["max_connections"] == "" {
		t.Fatalf("%+v, %v", before, err)
	}
	session, err := engine.Talk(within(t), db)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range db.HoldTables(names) {
		if _, err := session.Exec(within(t), q); err != nil {
			t.Errorf("%s: %v", q, err)
		}
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	if after, err := db.Household(within(t)); err != nil || before.Opened >= 0 && after.Opened < before.Opened+2 {
		t.Errorf("opened %d tables before, %d after two: %v", before.Opened, after.Opened, err)
	}
	if found, err := db.Named(within(t), "t"); err != nil || !slices.Equal(found, []string{"two"}) {
		t.Errorf("tables named t...: %q, %v", found, err)
	}
}
