package rolling_test

import (
	"strings"
	"testing"

	"github.com/rowmill/rowmill/rolling"
)

// refused fails unless the declaration is refused with a text; with "" it must
// be taken.
func refused(t *testing.T, text, want string) *rolling.Declaration {
	t.Helper()
	d, err := rolling.ParseDeclaration("t.toml", []byte(text))
	switch {
	case want == "" && err != nil:
		t.Errorf("%v\n%s", err, text)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("want %q, got %v\n%s", want, err, text)
	}
	return d
}

// each declares a table on each kind of server, with columns and keys.
func each(t *testing.T, columns, period, rest string, check func(kind, text string)) {
	t.Helper()
	for kind, c := range map[string]struct{ target, time string }{
		"mariadb":  {"mariadb://h/d", "DATETIME"},
		"mysql":    {"mysql://h/d", "DATETIME"},
		"postgres": {"postgres://h/d", "timestamptz"},
		"sqlite":   {"sqlite:d.db", "TEXT"},
	} {
		check(kind, declarationOf(c.target, "CREATE TABLE t ("+strings.ReplaceAll(columns, "TIME", c.time)+")", "ts", period, rest))
	}
}

// Every unique key must contain the column that tells the partition.
func TestTrapUniqueKeyWithoutPartitionColumn(t *testing.T) {
	for columns, want := range map[string]string{
		"k INT NOT NULL, ts TIME NOT NULL, PRIMARY KEY (k)":                         "primary key doesn't contain ts",
		"k INT NOT NULL PRIMARY KEY, ts TIME NOT NULL":                              "primary key doesn't contain ts",
		"k INT NOT NULL, ts TIME NOT NULL":                                          "no primary key",
		"k INT NOT NULL, ts TIME NOT NULL, PRIMARY KEY (k, ts), UNIQUE (k)":         "unique key on k doesn't contain ts",
		"k INT NOT NULL UNIQUE, ts TIME NOT NULL, PRIMARY KEY (k, ts)":              "unique key on k doesn't contain ts",
		"k INT NOT NULL, ts TIME NOT NULL, PRIMARY KEY (k, ts), UNIQUE (ts)":        "",
		"k INT NOT NULL, ts TIME NOT NULL, CONSTRAINT p PRIMARY KEY (k, ts)":        "",
		"k INT NOT NULL, ts TIME NOT NULL, PRIMARY KEY (ts, k), UNIQUE (k, \"ts\")": "",
	} {
		each(t, columns, `every = "1d"`, "", func(_, text string) { refused(t, text, want) })
	}
}

// A row without a time has no partition.
func TestTrapNullableTime(t *testing.T) {
	each(t, "k INT NOT NULL, ts TIME, PRIMARY KEY (k), UNIQUE (k, ts)", `every = "1d"`, "", func(_, text string) { refused(t, text, "can be NULL") })
	// SQLite lets NULL into a primary key.
	refused(t, declarationOf("sqlite:d.db", "CREATE TABLE t (ts TEXT, PRIMARY KEY (ts))", "ts", `every = "1d"`, ""), "can be NULL")
}

// Partitioned tables of MySQL and MariaDB take no foreign keys, and elsewhere
// they hold up the detaching of periods.
func TestTrapForeignKey(t *testing.T) {
	for _, columns := range []string{
		"k INT NOT NULL REFERENCES o (id), ts TIME NOT NULL, PRIMARY KEY (k, ts)",
		"k INT NOT NULL, ts TIME NOT NULL, PRIMARY KEY (k, ts), FOREIGN KEY (k) REFERENCES o (id)",
		"k INT NOT NULL, ts TIME NOT NULL, PRIMARY KEY (k, ts), CONSTRAINT f FOREIGN KEY (k) REFERENCES o (id) ON DELETE SET NULL",
	} {
		each(t, columns, `every = "1d"`, "", func(_, text string) { refused(t, text, "can't have a foreign key") })
	}
}

// A table has at most 8192 partitions, a view of SQLite 500 terms; many are
// warned of everywhere, as each costs memory. Merging keeps them few.
func TestTrapTooManyPartitions(t *testing.T) {
	const columns = "k INT NOT NULL, ts TIME NOT NULL, PRIMARY KEY (k, ts)"
	for _, c := range []struct {
		period, seal string
		refusedBy    string
		warned       bool
	}{
		{"every = \"1m\"\nkeep = \"30d\"", "", "mariadb mysql sqlite", true},
		{"every = \"1h\"\nkeep = \"30d\"", "", "sqlite", false},
		{"every = \"1h\"\nkeep = \"1y\"", "", "mariadb mysql sqlite", true},
		{"every = \"1h\"\nkeep = \"1y\"", "[seal]\nmerge = \"1d\"\nafter = \"1h\"\n", "", false},
		{"every = \"1m\"\nahead = \"1d\"\nkeep = \"1h\"", "", "sqlite", true},
		{"every = \"1d\"\nkeep = \"1y\"", "", "", false},
	} {
		each(t, columns, c.period, "", func(kind, text string) {
			text += c.seal
			want := ""
			if strings.Contains(c.refusedBy, kind) {
				want = "too many periods"
			}
			d := refused(t, text, want)
			if d != nil && want == "" && (len(d.Warnings) > 0) != c.warned {
				t.Errorf("%s, %s: %v", kind, c.period, d.Warnings)
			}
		})
	}
}

// AUTO_INCREMENT in a partitioned key has open races, and a row sent twice is
// stored twice.
func TestTrapAutoIncrementKey(t *testing.T) {
	for _, scheme := range []string{"mariadb", "mysql"} {
		d := refused(t, declarationOf(scheme+"://h/d", "CREATE TABLE t (id BIGINT NOT NULL AUTO_INCREMENT, ts DATETIME NOT NULL, PRIMARY KEY (id, ts))", "ts", `every = "1d"`, ""), "")
		if d == nil || len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], "counts up on the server") {
			t.Errorf("%+v", d)
		}
	}
}

// A level is made of whole buckets of its source.
func TestTrapLevelsDivide(t *testing.T) {
	for every, want := range map[string]string{"1d": "", "1w": "", "2h": "", "90m": "isn't made of whole buckets", "30m": "isn't made of whole buckets", "1h": "nothing is left", "1mo": ""} {
		refused(t, declarationOf("mariadb://h/d", "CREATE TABLE t (k INT NOT NULL, ts DATETIME NOT NULL, PRIMARY KEY (k, ts))", "ts", `every = "1d"`, "")+
			"[[rollup]]\nname = \"a\"\nevery = \"1h\"\nselect = { n = \"count(*)\" }\n[[rollup]]\nname = \"b\"\nfrom = \"a\"\nevery = \""+every+"\"\n", want)
	}
}

// What a whole isn't made of its parts for can't be rolled up.
func TestTrapNotDecomposable(t *testing.T) {
	for f, instead := range map[string]string{
		"median(k)": "Try: percentile(k, 50)", "mode(k)": "Try: distinct(k)", "count(distinct k)": "Try: distinct(k)",
		"percentile(k, 50)": "", "distinct(k)": "", "stddev(k)": "",
	} {
		refused(t, declarationOf("postgres://h/d", "CREATE TABLE t (k INT NOT NULL, ts timestamptz NOT NULL, PRIMARY KEY (k, ts))", "ts", `every = "1d"`, "")+
			"[[rollup]]\nname = \"a\"\nevery = \"1h\"\nselect = { x = \""+f+"\" }\n", instead)
	}
}
