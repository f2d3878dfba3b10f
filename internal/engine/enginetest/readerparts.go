package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// A partsCase is a table whose partitions are read. The statements are separated by semicolons; T
// is the table.
type partsCase struct {
	name, create string
	// rows are the values of each row, selected from a recursive table n (i).
	rows      string
	parts, by []string
	refusal   string // the beginning of TableParts.Refusal
	period    bool
}

var partsCases = map[string][]partsCase{
	"mysql": {
		{"range", "CREATE TABLE T (a INT, b INT, PRIMARY KEY (b, a)) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10), PARTITION `p ``1` VALUES LESS THAN MAXVALUE)",
			"i, 1", []string{"p0", "p `1"}, []string{"a"}, "", true},
		{"range of a function", "CREATE TABLE T (a DATE, b INT) PARTITION BY RANGE (TO_DAYS(a)) (PARTITION p0 VALUES LESS THAN (TO_DAYS('2026-01-10')), PARTITION p1 VALUES LESS THAN MAXVALUE)",
			"DATE'2026-01-01' + INTERVAL i DAY, i", []string{"p0", "p1"}, []string{"a"}, "", true},
		{"range of two", "CREATE TABLE T (a INT, b INT) PARTITION BY RANGE (a + b * 2) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)",
			"i, i", []string{"p0", "p1"}, []string{"a", "b"}, "", false},
		{"range columns", "CREATE TABLE T (a DATETIME, `b,c` VARCHAR(10)) PARTITION BY RANGE COLUMNS (`b,c`, a) (PARTITION p0 VALUES LESS THAN ('5', '2026-01-01'), PARTITION p1 VALUES LESS THAN (MAXVALUE, MAXVALUE))",
			"'2026-01-01', i", []string{"p0", "p1"}, []string{"b,c", "a"}, "", false},
		{"list", "CREATE TABLE T (a INT) PARTITION BY LIST (a % 3) (PARTITION x VALUES IN (0), PARTITION y VALUES IN (1, NULL), PARTITION z VALUES IN (2))", "NULLIF(i, 5)", []string{"x", "y", "z"}, []string{"a"}, "", false},
		{"list columns", "CREATE TABLE T (a VARCHAR(5)) PARTITION BY LIST COLUMNS (a) (PARTITION x VALUES IN ('1', '2'), PARTITION y VALUES IN ('0', '3'))", "i % 4", []string{"x", "y"}, []string{"a"}, "", false},
		{"hash", "CREATE TABLE T (a INT) PARTITION BY HASH (a) PARTITIONS 3", "i", []string{"p0", "p1", "p2"}, []string{"a"}, "", false},
		{"linear hash", "CREATE TABLE T (a INT) PARTITION BY LINEAR HASH (a) PARTITIONS 3", "i", []string{"p0", "p1", "p2"}, []string{"a"}, "", false},
		{"key", "CREATE TABLE T (a VARCHAR(9), b INT) PARTITION BY KEY (a) PARTITIONS 2", "CONCAT('x', i), i", []string{"p0", "p1"}, []string{"a"}, "", false},
		{"key of the primary key", "CREATE TABLE T (a INT, b INT, PRIMARY KEY (b, a)) PARTITION BY KEY () PARTITIONS 2", "i, i", []string{"p0", "p1"}, []string{"b", "a"}, "", false},
		{"linear key", "CREATE TABLE T (a INT) PARTITION BY LINEAR KEY (a) PARTITIONS 2", "i", []string{"p0", "p1"}, []string{"a"}, "", false},
		{"key of binary fractions", "CREATE TABLE T (a DOUBLE) PARTITION BY KEY (a) PARTITIONS 2", "i", []string{"p0", "p1"}, nil, "", false},
		{"subpartitions", "CREATE TABLE T (a INT, b INT) PARTITION BY RANGE (a) SUBPARTITION BY HASH (b) SUBPARTITIONS 2 (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)",
			"i, i", []string{"p0", "p1"}, []string{"a"}, "", true},
		{"none", "CREATE TABLE T (a INT PRIMARY KEY)", "i", nil, nil, "", false},
		{"MyISAM", "CREATE TABLE T (a INT) ENGINE=MyISAM", "i", nil, nil, "", false},
	},
	"postgres": {
		{"range", `CREATE TABLE T (a INT, b TIMESTAMP) PARTITION BY RANGE (b); CREATE TABLE "p ""0" PARTITION OF T FOR VALUES FROM (MINVALUE) TO ('2026-01-10');
			CREATE TABLE pd PARTITION OF T DEFAULT`, "i, '2026-01-01'::timestamp + i * interval '1 day'", []string{`"public"."p ""0"`, `"public"."pd"`}, []string{"b"}, "", true},
		{"other order", `CREATE TABLE T (a INT, b INT) PARTITION BY LIST (a); CREATE TABLE l0 (b INT, x INT, a INT); ALTER TABLE l0 DROP COLUMN x; ALTER TABLE T ATTACH PARTITION l0 FOR VALUES IN (1, 2);
			CREATE TABLE l1 PARTITION OF T DEFAULT`, "i % 4, i", []string{`"public"."l0"`, `"public"."l1"`}, []string{"a"}, "", false},
		{"hash", `CREATE TABLE T (a INT, b INT) PARTITION BY HASH (b, a); CREATE TABLE h0 PARTITION OF T FOR VALUES WITH (MODULUS 2, REMAINDER 0);
			CREATE TABLE h1 PARTITION OF T FOR VALUES WITH (MODULUS 2, REMAINDER 1)`, "i, i", []string{`"public"."h0"`, `"public"."h1"`}, []string{"b", "a"}, "", false},
		{"an expression", `CREATE TABLE T (a TEXT) PARTITION BY LIST (lower(a)); CREATE TABLE e0 PARTITION OF T DEFAULT`, "'X' || i", []string{`"public"."e0"`}, nil, "", false},
		{"another collation", `CREATE TABLE T (a TEXT) PARTITION BY LIST (a COLLATE "C"); CREATE TABLE c0 PARTITION OF T DEFAULT`, "'X' || i", []string{`"public"."c0"`}, nil, "", false},
		{"partitions of partitions", `CREATE TABLE T (a INT, b INT) PARTITION BY RANGE (a); CREATE TABLE s0 PARTITION OF T FOR VALUES FROM (0) TO (10) PARTITION BY HASH (b);
			CREATE TABLE s00 PARTITION OF s0 FOR VALUES WITH (MODULUS 2, REMAINDER 0); CREATE TABLE s01 PARTITION OF s0 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
			CREATE TABLE s1 PARTITION OF T FOR VALUES FROM (10) TO (10000)`, "i, i", []string{`"public"."s0"`, `"public"."s1"`}, []string{"a"}, "", true},
		{"inheritance", `CREATE TABLE T (a INT); CREATE TABLE i0 () INHERITS (T)`, "i", nil, nil, "other tables inherit", false},
		{"row security", `CREATE TABLE T (a INT) PARTITION BY RANGE (a); CREATE TABLE r0 PARTITION OF T DEFAULT; ALTER TABLE T ENABLE ROW LEVEL SECURITY; ALTER TABLE T FORCE ROW LEVEL SECURITY;
			CREATE POLICY p ON T USING (a < 10)`, "i", []string{`"public"."r0"`}, []string{"a"}, "", true}, // a superuser bypasses row security
		{"none", "CREATE TABLE T (a INT PRIMARY KEY)", "i", nil, nil, "", false},
	},
	"sqlite": {
		{"none", "CREATE TABLE T (a INTEGER PRIMARY KEY)", "i", nil, nil, "", false},
	},
}

// fill executes a case's statements with a table's name.
func (c partsCase) fill(t testing.TB, w *engine.Session, name string) {
	t.Helper()
	for q := range strings.SplitSeq(c.create, ";") {
		for _, before := range []string{"TABLE ", "OF ", "ON ", "INHERITS ("} { // where T is the table
			for _, after := range []string{" ", ")", "\n"} {
				q = strings.ReplaceAll(q+" ", before+"T"+after, before+name+after)
			}
		}
		run(t, w, -1, strings.TrimSpace(q))
	}
	run(t, w, -1, "INSERT INTO "+name+" WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 29) SELECT "+c.rows+" FROM n")
}

// keyless lets a session create tables without a primary key, and reports whether the session can:
// a server with hostile settings may refuse such tables.
func keyless(t testing.TB, db reader, w *engine.Session) bool {
	t.Helper()
	switch db.Info().Engine {
	case "mysql":
		run(t, w, -1, "SET SESSION sql_require_primary_key = OFF")
	case "mariadb":
		rows := ask(t, w, oneText, "SELECT @@innodb_force_primary_key + 0")
		return rows[0] == "0"
	}
	return true
}

// parts checks for partitions of all kinds that the reader finds them, and that reading them one by
// one returns each row of the table exactly once.
func (s readers) parts(t *testing.T) {
	db := s.open(t)
	w, c := session(t, db), readSession(t, db, nil)
	free := keyless(t, db, w)
	d := db.Dialect()
	for i, x := range partsCases[caseName(db)] {
		if !free && !strings.Contains(x.create, "PRIMARY KEY") {
			continue
		}
		plain := fmt.Sprintf("t %d `\"'", i)
		if db.Info().Engine == "mysql" || db.Info().Engine == "mariadb" {
			plain = fmt.Sprintf("t %d \"'", i)
		}
		name := d.Quote(plain)
		x.fill(t, w, name)
		p, err := db.TableParts(within(t), c, "", plain)
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		if p.Name != plain || p.Database == "" || !strings.HasPrefix(p.Refusal, x.refusal) || x.refusal == "" && p.Refusal != "" || p.Period != x.period || p.Created == "" {
			t.Errorf("%s: got %+v", x.name, p)
		}
		if p.Versioned == (x.name == "MyISAM") {
			t.Errorf("%s: versioned %v", x.name, p.Versioned)
		}
		var names []string
		total := 0
		for _, part := range p.Parts {
			names = append(names, part.Name)
			_, rows := textsOf(t, c, "SELECT COUNT(*) FROM "+db.PartFrom(p, []string{part.Name})+" AS x")
			n, err := strconv.Atoi(rows[0])
			Must(t, err)
			total += n
		}
		if !slices.Equal(names, x.parts) || !slices.Equal(p.By, x.by) {
			t.Errorf("%s: partitions %q by %q, want %q by %q", x.name, names, p.By, x.parts, x.by)
		}
		if len(names) == 0 {
			continue
		}
		whole, all := textsOf(t, c, "SELECT * FROM "+name+" ORDER BY 1")
		parts, pieces := textsOf(t, c, "SELECT * FROM "+db.PartFrom(p, names)+" AS x ORDER BY 1")
		if total != 30 || !slices.Equal(all, pieces) || len(all) != 30 {
			t.Errorf("%s: the partitions have %d rows one by one and %d together, the table %d", x.name, total, len(pieces), len(all))
		}
		for k := range whole {
			if whole[k].Name != parts[k].Name || whole[k].Native != parts[k].Native {
				t.Errorf("%s: column %+v, and of partitions %+v", x.name, whole[k], parts[k])
			}
		}
		again, err := db.TableParts(within(t), c, p.Database, plain)
		Must(t, err)
		if again.Created != p.Created {
			t.Errorf("%s: it has changed by itself", x.name)
		}
		run(t, w, -1, "ALTER TABLE "+name+" ADD COLUMN more INT")
		if again, err = db.TableParts(within(t), c, p.Database, plain); err != nil || again.Created == p.Created || len(again.Columns) != len(p.Columns)+1 {
			t.Errorf("%s: after ALTER TABLE: %+v, %v", x.name, again, err)
		}
	}
	if db.Info().Engine == "sqlite" {
		return
	}
	// A rolling table's partitions are its periods.
	k := created(t, db, "rolled", "time", 4)
	s.rolled(t, db, c, k)
	run(t, w, -1, "CREATE VIEW seen AS SELECT 1 AS a")
	storage := ""
	if strings.EqualFold(db.Info().Storage, "rocksdb") { // RocksDB has no temporary tables
		storage = " ENGINE=InnoDB"
	}
	run(t, c, -1, "CREATE TEMPORARY TABLE rolled (a INT PRIMARY KEY)"+storage)
	_, err := db.TableParts(within(t), c, "", "seen")
	wantError(t, err, engine.ErrNoTable)
	_, err = db.TableParts(within(t), c, "", "nix")
	wantError(t, err, engine.ErrNoTable)
	if p, err := db.TableParts(within(t), c, "", "rolled"); err != nil || p.Refusal == "" {
		t.Errorf("a temporary table hides it: %+v, %v", p, err)
	}
}

// rolled checks a rolling table's partitions.
func (s readers) rolled(t *testing.T, db reader, c *engine.Session, k *kept) {
	t.Helper()
	p, err := db.TableParts(within(t), c, "", k.Name)
	Must(t, err)
	var want, got []string
	for _, part := range k.parts {
		want = append(want, part.Name)
	}
	for _, part := range p.Parts {
		got = append(got, part.Period)
	}
	if got = slices.DeleteFunc(got, func(name string) bool { return !slices.Contains(want, name) }); !slices.Equal(got, want) || !p.Period || p.Refusal != "" {
		t.Errorf("periods %q, want %q: %+v", got, want, p)
	}
	if len(p.PrimaryKey) == 0 || len(p.Columns) < 5 {
		t.Errorf("key %q, %d columns", p.PrimaryKey, len(p.Columns))
	}
}

// plans checks that a plan tells which partitions of which table are read.
func (s readers) plans(t *testing.T) {
	db := s.open(t)
	w, c := session(t, db), readSession(t, db, nil)
	for _, q := range []string{"SELECT * FROM nix", "SELECT FROM FROM"} {
		if _, err := db.ExplainQuery(within(t), c, q); err == nil || q == "SELECT * FROM nix" && !errors.Is(err, engine.ErrNoTable) {
			t.Errorf("%s: %v", q, err)
		}
	}
	if db.Info().Engine == "sqlite" {
		if p, err := db.ExplainQuery(within(t), c, "SELECT 1"); err != nil || p.Parallel != 1 {
			t.Errorf("%+v, %v", p, err)
		}
		k := created(t, db, "rolled", "time", 4)
		s.rolled(t, db, c, k)
		p, err := db.TableParts(within(t), c, "", k.Name)
		Must(t, err)
		run(t, w, -1, "DROP VIEW "+k.quote(k.Name))
		run(t, w, -1, "CREATE VIEW "+k.quote(k.Name)+" AS SELECT 1")
		if changed, err := db.TableParts(within(t), c, "", k.Name); err != nil || changed.Refusal == "" || changed.Created == p.Created {
			t.Errorf("with another view: %+v, %v", changed, err)
		}
		return
	}
	for _, x := range partsCases[caseName(db)] {
		if x.name != "subpartitions" && x.name != "partitions of partitions" {
			continue
		}
		if !keyless(t, db, w) {
			continue
		}
		x.fill(t, w, "cut")
		run(t, w, -1, "ANALYZE "+map[bool]string{true: "TABLE "}[caseName(db) == "mysql"]+"cut")
		p, err := db.TableParts(within(t), c, "", "cut")
		Must(t, err)
		for where, want := range map[string][]int{
			"": {0, 1}, " WHERE x.a < 3": {0}, " WHERE x.a > 20": {1}, " WHERE x.a IN (1, 20)": {0, 1},
		} {
			plan, err := db.ExplainQuery(within(t), c, "SELECT COUNT(*) FROM cut AS x JOIN (SELECT 1 AS k) AS y ON y.k = 1"+where)
			Must(t, err)
			i := slices.IndexFunc(plan.Tables, func(t engine.PlannedTable) bool { return t.Alias == "x" })
			if i < 0 {
				t.Errorf("%q: %+v", where, plan)
				continue
			}
			if got := p.Read(plan.Tables[i].Parts); !slices.Equal(got, want) {
				t.Errorf("%q: partitions %v of %q, want %v", where, got, plan.Tables[i].Parts, want)
			}
			if plan.Rows < 1 || plan.Parallel < 1 {
				t.Errorf("%q: %+v", where, plan)
			}
		}
		if got := p.Read([]string{"nix"}); len(got) != 2 {
			t.Errorf("a name that is none of a partition: %v", got)
		}
		plan, err := db.ExplainQuery(within(t), c, "SELECT 1 FROM cut WHERE 1 = 0")
		Must(t, err)
		if len(plan.Tables) > 0 {
			t.Errorf("without rows: %+v", plan)
		}
	}
}
