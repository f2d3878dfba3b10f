package enginetest

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// defined are plain tables as users have them, %s standing for the name.
var defined = map[string]string{
	"mariadb": "CREATE TABLE %s (`id` bigint unsigned NOT NULL AUTO_INCREMENT, at datetime DEFAULT NULL COMMENT 'when; (null)', `odd ``name` decimal(8,2) NOT NULL DEFAULT 0.5, " +
		"note varchar(40) CHARACTER SET latin1 DEFAULT 'it''s', twice bigint AS (`odd ``name` * 2) VIRTUAL, PRIMARY KEY (id), UNIQUE KEY u (note(5)), KEY `odd ``name` (`odd ``name`, at DESC)) AUTO_INCREMENT=77 COMMENT=' AUTO_INCREMENT=3 PARTITION BY '",
	"mysql": "CREATE TABLE %s (`id` bigint unsigned NOT NULL AUTO_INCREMENT, at datetime DEFAULT NULL COMMENT 'when; (null)', `odd ``name` decimal(8,2) NOT NULL DEFAULT 0.5, " +
		"note varchar(40) CHARACTER SET latin1 DEFAULT 'it''s', twice bigint AS (`odd ``name` * 2) VIRTUAL, PRIMARY KEY (id), UNIQUE KEY u (note(5)), KEY `odd ``name` (`odd ``name`, at DESC)) AUTO_INCREMENT=77 COMMENT=' AUTO_INCREMENT=3 PARTITION BY '",
	"postgres": `CREATE TABLE %s (id bigserial PRIMARY KEY, at timestamptz, "odd ""name" numeric(8,2) DEFAULT 0.5 NOT NULL CHECK ("odd ""name" > 0), note varchar(40) COLLATE "C" DEFAULT 'it''s' UNIQUE, ` +
		`twice bigint GENERATED ALWAYS AS (id * 2) STORED, u uuid); CREATE UNIQUE INDEX part ON %s USING btree (lower(note), at DESC) INCLUDE (u) WHERE at IS NOT NULL; CREATE INDEX ON %s (at)`,
	"sqlite": "CREATE TABLE %s (\"id\" INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT -- when; (null)\n, [odd name] NUMERIC NOT NULL DEFAULT 0.5 CHECK ([odd name] > 0), note TEXT DEFAULT 'it''s' UNIQUE, twice AS (id * 2)); CREATE INDEX part ON %s (at DESC, note) WHERE at IS NOT NULL",
}

// define reads a table's definition. From it, define creates the same table again, and then another
// table that can roll.
func (s keepers) define(t *testing.T) {
	db := s.open(t)
	definer, ok := db.(engine.Definer)
	if !ok {
		t.Skip("it tells nothing of its tables")
	}
	q := db.Dialect().Quote
	const name = "Plain \"one's"
	text := strings.ReplaceAll(defined[db.Info().Engine], "%s", q(name))
	execute(t, db, strings.Split(text, "; CREATE")[0])
	for _, more := range strings.Split(text, "; CREATE")[1:] {
		execute(t, db, "CREATE"+more)
	}
	got, err := definer.Definition(within(t), name)
	Must(t, err)
	d, err := rolling.ReadDefinition(got)
	if err != nil {
		t.Fatalf("%v:\n%s", err, got)
	}
	if d.Name != name || strings.Contains(d.Text, "=77") {
		t.Errorf("%s", got)
	}
	was, err := db.Describe(within(t), name)
	Must(t, err)
	rolls, changes, err := d.Rolled("at", q("at"))
	Must(t, err)
	if len(changes) < 3 {
		t.Errorf("changes %q", changes)
	}
	execute(t, db, "DROP TABLE "+q(name))
	for _, text := range []string{got, rolls} {
		again, err := rolling.ReadDefinition(text)
		if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		execute(t, db, again.Text)
		for _, ix := range again.Indexes {
			execute(t, db, ix.Text)
		}
		is, err := db.Describe(within(t), name)
		Must(t, err)
		if text == got {
			for _, s := range []*engine.Schema{was, is} {
				for i := range s.Columns { // a sequence has become an identity
					if s.Columns[i].Auto {
						s.Columns[i].Default = ""
					}
				}
			}
			if !reflect.DeepEqual(was, is) {
				t.Errorf("is\n%+v, was\n%+v, by\n%s", is, was, text)
			}
		} else if !slices.Equal(is.PrimaryKey, []string{"id", "at"}) || is.Column("at").Null || len(is.Indexes) != len(was.Indexes) {
			t.Errorf("%+v, by\n%s", is, text)
		}
		listed, err := definer.Tables(within(t))
		Must(t, err)
		i := slices.IndexFunc(listed, func(l engine.ListedTable) bool { return l.Name == name })
		if i < 0 || listed[i].Data+listed[i].Index < 1 || listed[i].Partitions != 0 {
			t.Errorf("%+v", listed)
		}
		execute(t, db, "DROP TABLE "+q(name))
	}
	if _, err := definer.Definition(within(t), "nothing"); err == nil {
		t.Error("the definition of no table")
	}
}

func execute(t testing.TB, db engine.Keeper, q string) {
	t.Helper()
	if _, err := db.SQL().ExecContext(within(t), q); err != nil {
		t.Fatalf("%v, by\n%s", err, q)
	}
}
