package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf16"
)

// TestLoadBooleans loads each spelling of a boolean into the types for it, which must be
// the same on each server, and refuses others.
func TestLoadBooleans(t *testing.T) {
	t.Parallel()
	spellings := [2]string{"false f no n off 0 FALSE Off", "true t yes y on 1 TRUE On"}
	onEach(t, keepers, func(t *testing.T, server string) {
		l := newLoading(t, server, withColumns("b BOOLEAN, f BIT(1),")...)
		text, n := "sensor,ts,b,f\n", 0
		for value, all := range spellings {
			for _, spelling := range strings.Fields(all) {
				text += fmt.Sprintf("%d,2026-03-29 01:00:00,%s,%s\n", n*2+value, spelling, spelling)
				n++
			}
		}
		for i, wrong := range []string{"tru,1", "yess,1", "1,wahr", "1,2", "x,1", "\"\",1"} {
			text += fmt.Sprintf("%d,2026-03-29 01:00:00,%s\n", 1000+i, wrong)
		}
		text += "99,2026-03-29 01:00:00,,\\N\n"
		l.write("day.csv", text)
		l.loads(exitFailed, "Inserted 17, Rejected 6", "day.csv")
		bit := "COALESCE(f+0, 9)"
		if strings.HasPrefix(server, "postgres") {
			bit = "COALESCE(f::int, 9)"
		}
		for value, want := range []string{"0 0 8", "1 1 8"} {
			l.has(want, fmt.Sprintf("SELECT CASE WHEN b THEN 1 ELSE 0 END, %s, count(*) FROM readings r WHERE sensor %% 2 = %d AND sensor < 90 GROUP BY 1, 2", bit, value))
		}
		l.has("99", "SELECT sensor FROM readings r WHERE b IS NULL AND f IS NULL")
	})
}

// zipText returns a .zip of names and contents.
func zipText(t *testing.T, files ...string) string {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for i := 0; i < len(files); i += 2 {
		w, err := z.Create(files[i])
		must(t, err)
		_, err = io.WriteString(w, files[i+1])
		must(t, err)
	}
	must(t, z.Close())
	return out.String()
}

// TestLoadFormats loads the same three rows as programs write them.
func TestLoadFormats(t *testing.T) {
	t.Parallel()
	l := newLoading(t, "sqlite")
	excel := []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune("sensor\tts\tvalue\tnote\r\n1\t29.03.2026_01:05\t1,5\t\"a \"\"b\"\"\tc\"\r\n2\t29.3.2026_1:06\t\t\u20ac\r\n3\t29.03.2026_01:07\t-2\tplain\r\n")) {
		excel = append(excel, byte(unit), byte(unit>>8))
	}
	const want = "1 01:05 1.5 a \"b\"\tc; 2 01:06 NULL \u20ac; 3 01:07 -2 plain"
	for _, c := range []struct{ name, text, args string }{
		{"excel.txt", string(excel), "--decimal-comma --time-format %d.%m.%Y_%H:%M"},
		{"mysql.csv", "1,2026-03-29 01:05:00,1.5,\"a \\\"b\\\"\\\tc\"\n2,2026-03-29 01:06:00,\\N,\u20ac\n3,2026-03-29 01:07:00,-2,plain\n", "--header=false --escape backslash"},
		{"latin.csv", "exported by hand\n\nsensor,ts,value,note\n# note\n1,2026-03-29 01:05:00,1.5,\"a \"\"b\"\"\tc\"\n2,2026-03-29 01:06:00,NA,\x80\n3,2026-03-29 01:07:00,-2,plain\n", "--encoding latin1 --skip-lines 2 --comment # --null NA --null NULL"},
		{"array", "[\n  {\"sensor\": 1, \"ts\": \"2026-03-29T01:05:00Z\",\n   \"value\": 1.5, \"note\": \"a \\\"b\\\"\\tc\"},\n  {\"sensor\": 2, \"ts\": \"2026-03-29T01:06:00Z\", \"note\": \"\u20ac\"}, {\"sensor\": 3, \"ts\": \"2026-03-29T01:07:00Z\", \"value\": -2, \"note\": \"plain\"}\n]\n", ""},
	} {
		l.write(c.name, c.text)
		l.loads(exitDone, "Inserted 3, Rejected 0", c.name+" "+c.args)
		l.has(want, "SELECT sensor, substr(ts, 12, 5), CASE WHEN value IS NULL THEN 'NULL' WHEN value = -2 THEN '-2' ELSE value END, note FROM readings r ORDER BY sensor")
		l.remove(" WHERE sensor > 0")
	}
	// Fields that are left out, and constants.
	l.write("odd.csv", "x,sensor,value,colour\n,1,1.5,\n,5,3,red\n")
	l.loads(exitDone, "Inserted 2", "odd.csv --columns -,sensor,value,- --set ts=2026-03-29 --set note=n")
	l.has("1 n; 5 n", "SELECT sensor, note FROM readings r ORDER BY sensor")
	l.loads(exitDone, "Inserted 0, Duplicate 2", "odd.csv --skip-columns x,colour --set ts=2026-03-29 --set note=n --source again")
}

// TestLoadArrayKilled kills loads of an array and of a .zip at several points: each row is
// loaded once, also of an array that is truncated at first.
func TestLoadArrayKilled(t *testing.T) {
	onKeepers(t, func(l *loading) {
		var array strings.Builder
		array.WriteString("[")
		const rows = 200
		for i := range rows {
			fmt.Fprintf(&array, "{\"sensor\":%d,\n\"ts\":\"2026-03-29 01:00:00\"},", i)
		}
		whole := strings.TrimSuffix(array.String(), ",") + "]"
		l.write("day.json", whole[:len(whole)/2])
		l.settle("day.json")
		l.kill(5, "", "day.json --batch 20 --writers 1")
		l.prints(exitFailed, "day.json", "the JSON array isn't closed")
		l.write("day.json", whole)
		l.settle("day.json")
		l.kill(4, "", "day.json --batch 20 --writers 1")
		l.loads(exitDone, "Finished true, Rejected 0", "day.json")
		l.hasRows(rows)
		l.write("day.zip", zipText(l.T, "day.json", whole))
		l.loads(exitDone, "Inserted 0, Before 200", "day.zip")
		l.hasRows(rows)
	})
}
