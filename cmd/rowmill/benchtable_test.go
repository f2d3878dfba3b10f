package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/testdb"
)

// tableDeclaration declares a table on a database that is never opened.
const tableDeclaration = `
[table]
name   = "orders"
target = "%s"
time   = "at"
create = '''
CREATE TABLE orders (customer INTEGER NOT NULL, at TIMESTAMP NOT NULL, price DECIMAL(10,2), note VARCHAR(40),
  PRIMARY KEY (customer, at))'''
[period]
%s
[values.customer]
distinct = 20000
`

// unreachable is a target of the same kind that nobody must connect to.
func unreachable(url string) string { return url[:strings.Index(url, ":")] + "://nobody@nowhere/x" }

func TestBenchTable(t *testing.T) {
	for _, kind := range testdb.Kinds(t, keepers...) {
		t.Run(kind, func(t *testing.T) {
			url, declared := "sqlite:", "sqlite:nowhere/x.db"
			if kind != "sqlite" {
				url = testdb.Target(t, kind).String()
				declared = unreachable(url)
			}
			t.Chdir(t.TempDir())
			writeFile(t, "orders.toml", fmt.Sprintf(tableDeclaration, declared, "every = \"3s\"\nahead = \"6s\""))
			s := benched(t, "insert --table orders.toml --layout plain,rolling --rows 5k --batch 100 --out run.jsonl --target "+url)
			if !strings.Contains(s.stdout, "orders rolling on") || !strings.Contains(s.stdout, "5,000 rows found of 5,000 expected, checksum equal") {
				t.Errorf("%s", s.stdout)
			}
			for i, rec := range records(t, "run.jsonl") {
				v := rec.End.Verified
				if v == nil || !v.Sound() || v.Expected != 5000 || rec.Run.Preset != "orders" || (rec.Run.PeriodRows == 3000) != (i == 1) || len(rec.Run.Deviations) == 0 {
					t.Errorf("%s: %+v, %d rows a period", rec.Run.Name, v, rec.Run.PeriodRows)
				}
			}
			if s := verb(t, "report run.jsonl"); s.code != exitDone {
				t.Errorf("exit %d, %s", s.code, s.stderr)
			}
			if kind == "sqlite" {
				return
			}
			if s := verb(t, "bench insert --table orders.toml --rows 10 --target "+url); s.code == exitDone || !strings.Contains(s.stderr, "table orders exists") {
				t.Errorf("existing table: exit %d, %s", s.code, s.stderr)
			}
		})
	}
}

// TestBenchTableRefuses checks what a declared table can't have, before anything is touched.
func TestBenchTableRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	right := fmt.Sprintf(tableDeclaration, "sqlite:x.db", `every = "auto"`)
	writeFile(t, "right.toml", right)
	writeFile(t, "key.toml", strings.Replace(right, "distinct", "distinkt", 1))
	writeFile(t, "epoch.toml", strings.NewReplacer("at TIMESTAMP", "at INTEGER", `time   = "at"`, "time = 'at'\nepoch = 's'").Replace(right))
	writeFile(t, "date.toml", strings.Replace(strings.Replace(right, "sqlite:x.db", "mysql://db/x", 1), "at TIMESTAMP", "at DATE", 1))
	for args, want := range map[string]string{
		"--table right.toml":                                                "--table needs --target",
		"--table none.toml --target sqlite:":                                "no such file",
		"--table key.toml --target sqlite:":                                 `key.toml:12:1: unknown key "distinkt" in [values.customer]`,
		"--table right.toml --target sqlite: --preset classic":              "--preset is for presets",
		"--table right.toml --target sqlite: --indexes 1":                   "--indexes is for presets",
		"--table right.toml --target null:":                                 "stores nothing",
		"--table right.toml --target sqlite: --print-sql":                   "only the server knows the types",
		"--table epoch.toml --target sqlite:":                               "epoch.toml: column at: a table that rolls by a date or by an integer with an epoch",
		"--table date.toml --target sandbox:mysql":                          "date.toml: column at: a table that rolls by a date",
		"--table right.toml --target sqlite: --readers 1":                   "has no queries",
		"--table right.toml --target sqlite: --keep-rows 100k --batch 150 ": "whole seconds",
	} {
		s := verb(t, "bench insert "+args)
		if s.code != exitUsage || !strings.Contains(s.stderr, want) || !strings.Contains(s.stderr, "Try: ") {
			t.Errorf("%s: exit %d, %s\nwant %s", args, s.code, s.stderr, want)
		}
	}
}
