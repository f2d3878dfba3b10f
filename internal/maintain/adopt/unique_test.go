package adopt

import (
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

func TestLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schema engine.Schema
		key    []string   // the primary key of the rolling table
		unique [][]string // its other unique keys
		want   []string
	}{
		"primary key":        {engine.Schema{PrimaryKey: []string{"id"}}, []string{"id", "ts"}, nil, []string{"PRIMARY KEY (id)"}},
		"kept":               {engine.Schema{PrimaryKey: []string{"ts", "id"}}, []string{"id", "ts"}, nil, nil},
		"kept by a part":     {engine.Schema{PrimaryKey: []string{"id", "ts", "n"}}, []string{"ID", "ts"}, nil, nil},
		"kept by another":    {engine.Schema{PrimaryKey: []string{"id", "ts"}, Unique: [][]string{{"k", "ts"}}}, []string{"id", "ts"}, [][]string{{"ts", "k"}}, nil},
		"unique key":         {engine.Schema{PrimaryKey: []string{"id", "ts"}, Unique: [][]string{{"k"}}}, []string{"id", "ts"}, [][]string{{"k", "ts"}}, []string{"UNIQUE (k)"}},
		"both, and an index": {engine.Schema{PrimaryKey: []string{"id"}, Unique: [][]string{{"a", "b"}}, UniqueOther: []string{"odd"}}, []string{"id", "ts"}, nil, []string{"PRIMARY KEY (id)", "UNIQUE (a, b)", "unique index odd"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Lost(&c.schema, &engine.Table{PrimaryKey: c.key}, &rolling.Definition{Unique: c.unique})
			if !slices.Equal(got, c.want) {
				t.Errorf("lost %q, want %q", got, c.want)
			}
		})
	}
}

// TestLostIsRefused: keys that would lose uniqueness are reported, and stop the
// adoption before anything is changed, unless permitted.
func TestLostIsRefused(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		w.fill(20)
		w.exec("CREATE UNIQUE INDEX by_name ON events (name, ver, id)")
		want := []string{"PRIMARY KEY (id)", "UNIQUE (name, ver, id)"}
		switch w.kind {
		case "sqlite", "postgres":
			w.exec("CREATE UNIQUE INDEX of_some ON events (id, ver) WHERE ver > 5")
			want = append(want, "unique index of_some")
		case "mysql":
			w.exec("CREATE UNIQUE INDEX of_sums ON events ((ver + 0), name)")
			want = append(want, "unique index of_sums")
		}
		had, o := w.tables(), w.options()
		_, notes, err := Plan(t.Context(), o.DB, o.State, o.Table, o.Schema, o.Declared)
		if err != nil {
			t.Fatal(err)
		}
		list := "no longer unique: " + strings.Join(want, ", ")
		if !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, list) }) {
			t.Errorf("the plan doesn't say %q: %q", list, notes)
		}
		o.AllowDuplicates = false
		err = Run(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), strings.Replace(list, "unique:", "unique afterwards:", 1)) {
			t.Fatalf("not allowed: %v", err)
		}
		if got := w.tables(); !slices.Equal(got, had) {
			t.Errorf("tables %v, had %v", got, had)
		}
		o.AllowDuplicates = true
		if err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		w.check("events")
	})
}
