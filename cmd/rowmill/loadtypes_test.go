package main

import (
	"slices"
	"testing"

	"github.com/rowmill/rowmill/internal/testdb"
)

// TestLoadRefusesWhatTypesDoNotHave checks that values that typed servers refuse are
// refused on all servers, even if the server's columns accept any value.
func TestLoadRefusesWhatTypesDoNotHave(t *testing.T) {
	for _, server := range testdb.Kinds(t, keepers...) {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			l := newLoadingWith(t, server, "d DATE, price DECIMAL(8,2), small SMALLINT, name VARCHAR(3), doc JSON, ")
			const at = ",2026-03-29 00:40:01,"
			got, _ := l.load(exitFailed, l.write("types.csv", "sensor,ts,d,price,small,name,doc\n"+
				"1"+at+"2024-12-31,999999.99,32767,äöü,{}\n"+
				"2"+at+"12/31/2024,1,1,a,{}\n"+
				"3"+at+"2024-12-31,1000000,1,a,{}\n"+
				"4"+at+"2024-12-31,1,32768,a,{}\n"+
				"5"+at+"2024-12-31,1,1,abcd,{}\n"+
				"6"+at+"2024-12-31,1,1,a,{\n"))
			if got[0].Inserted != 1 || got[0].Rejected != 5 {
				l.Errorf("%+v", got[0])
			}
			var lines []int64
			for _, b := range l.bad("types.csv.bad.jsonl") {
				lines = append(lines, b.Line)
			}
			if want := []int64{3, 4, 5, 6, 7}; !slices.Equal(lines, want) {
				l.Errorf("refused are lines %v, want %v", lines, want)
			}
		})
	}
}

// TestLoadSpellsInstants checks that a row of another client and a loaded row have the
// same key, however many fractional digits of a second either writes.
func TestLoadSpellsInstants(t *testing.T) {
	t.Parallel()
	l := newLoading(t, "sqlite")
	for _, ts := range []string{"2026-03-29 00:40:01.123", "2026-03-29 00:40:02.000", "2026-03-29 00:40:03.5"} {
		if _, err := l.db.SQL().ExecContext(l.Context(), "INSERT INTO readings (sensor, ts) VALUES (1, '"+ts+"')"); err != nil {
			l.Fatal(err)
		}
	}
	got, _ := l.load(exitDone, l.write("a.csv", "sensor,ts\n1,2026-03-29 00:40:01.123000\n1,2026-03-29T00:40:02Z\n1,2026-03-29 00:40:03.50\n1,2026-03-29 00:40:04.25\n"))
	if got[0].Inserted != 1 || got[0].Duplicate != 3 {
		l.Errorf("%+v", got[0])
	}
	if n := len(l.rows()); n != 4 {
		l.Errorf("%d rows, want 4", n)
	}
	if _, err := l.db.SQL().ExecContext(l.Context(), "INSERT INTO readings (sensor, ts) VALUES (1, '2026-03-29 00:40:04.25')"); err == nil {
		l.Error("a row that was loaded is there a second time")
	}
}
