package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/testdb"
)

// TestLoadBits checks that a BIT column accepts decimal integers on every server, as
// SELECT b+0 prints them, and that bits of all widths are stored unchanged.
func TestLoadBits(t *testing.T) {
	for _, server := range testdb.Kinds(t, keepers...) {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			l := newLoadingWith(t, server, "b1 BIT(1), b8 BIT(8), b64 BIT(64), n INT, ")
			const rows = "sensor,ts,b1,b8,b64,n\n" +
				"1,2026-03-29 00:40:01,1,10,9223372036854775807,1\n" +
				"2,2026-03-29 00:40:01,0,b'10',0x10,2\n" +
				"3,2026-03-29 00:40:01,0,00001010,100,3\n" +
				"4,2026-03-29 00:40:01,,255,0,4\n" +
				"5,2026-03-29 00:40:01,2,1,1,5\n" + // too many bits
				"6,2026-03-29 00:40:01,1,256,1,6\n" +
				"7,2026-03-29 00:40:01,t,1,1,7\n" + // COPY refuses it as an integer
				"8,2026-03-29 00:40:01,1,1,1,t\n" +
				"9,2026-03-29 00:40:01,1,1,1,true\n"
			got, _ := l.load(exitFailed, l.write("bits.csv", rows))
			if got[0].Inserted != 4 || got[0].Rejected != 5 {
				l.Fatalf("%+v", got[0])
			}
			columns := []string{"6 b1", "7 b8", "8 b1", "9 n", "10 n"}
			var refused []string
			for _, b := range l.bad("bits.csv.bad.jsonl") {
				refused = append(refused, fmt.Sprintf("%d %s", b.Line, b.Column))
			}
			if !slices.Equal(refused, columns) {
				l.Errorf("refused are %v, want %v", refused, columns)
			}
			decimal := func(c string) string {
				if server == "postgres" {
					return "CAST(" + c + " AS BIGINT)"
				}
				return c + "+0"
			}
			query := fmt.Sprintf("SELECT sensor, %s, %s, %s FROM readings ORDER BY sensor", decimal("CAST(b1 AS BIT(1))"), decimal("b8"), decimal("b64"))
			if server != "postgres" {
				query = strings.Replace(query, "CAST(b1 AS BIT(1))", "b1", 1)
			}
			want := []string{"1 1 10 9223372036854775807", "2 0 2 16", "3 0 10 100", "4 <nil> 255 0"}
			if got := l.strings(query, 4); !slices.Equal(got, want) {
				l.Errorf("the table has %q, want %q", got, want)
			}
			// The numbers that the server prints for them load as the same values.
			export := strings.Builder{}
			export.WriteString(`{"sensor":0,"ts":"2026-03-29 00:40:01"}` + "\n")
			for _, row := range l.strings(query, 4) {
				f := strings.Fields(strings.ReplaceAll(row, "<nil>", "null"))
				fmt.Fprintf(&export, `{"sensor":1%s,"ts":"2026-03-29 00:40:01","b1":%s,"b8":%s,"b64":%s}`+"\n", f[0], f[1], f[2], f[3])
			}
			l.load(exitDone, l.write("export.jsonl", export.String()))
			var again []string
			for _, row := range l.strings(strings.Replace(query, " ORDER", " WHERE sensor > 10 ORDER", 1), 4) {
				again = append(again, strings.TrimPrefix(row, "1"))
			}
			if !slices.Equal(again, want) {
				l.Errorf("exported and loaded again: %q, want %q", again, want)
			}
		})
	}
}
