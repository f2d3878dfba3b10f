package rollup_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The raw parts of a live view read only the periods from the watermark on and
// those of stale buckets.
func TestViewReadsOnlyThePeriodsItNeeds(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		f := open(t, kind, false, levels(t)[:1])
		for i := range int64(5) {
			f.load(row{1, "a", start + i*day + hour, 1, 1.0, 1, "x"})
		}
		f.refresh(start + 4*day)
		if kind == "sqlite" {
			// SQLite searches every period, with the index on time.
			for _, line := range f.plan("EXPLAIN QUERY PLAN SELECT SUM(c) FROM r10m_live") {
				if strings.Contains(line, "readings_p") && !strings.Contains(line, "_readings_ts (ts>?") {
					t.Errorf("not by the index: %s", line)
				}
			}
			return
		}
		if got := f.periodsRead(); !slices.Equal(got, []string{f.parts[4].Name}) {
			t.Errorf("with the watermark in the last period it reads %v", got)
		}
		// A late row: its period is read too, until the row is in the roll-up.
		f.load(row{1, "a", start + day + 2*hour, 2, 1.0, 1, "x"})
		f.set.ConsumeForTest(t)
		got := f.periodsRead()
		if !slices.Contains(got, f.parts[1].Name) || slices.Contains(got, f.parts[0].Name) || slices.Contains(got, f.parts[3].Name) {
			t.Errorf("with a stale bucket in the second period it reads %v", got)
		}
	})
}

// periodsRead returns the names of the periods that a query of the view reads.
func (f *fixture) periodsRead() []string {
	f.t.Helper()
	var text string
	const q = "SELECT SUM(c) FROM r10m_live"
	switch f.db.Info().Engine {
	case "postgres":
		text = strings.Join(f.plan("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) "+q), "\n")
		var lines []string
		for _, l := range strings.Split(text, "\n") {
			if !strings.Contains(l, "never executed") {
				lines = append(lines, l)
			}
		}
		text = strings.Join(lines, "\n")
	default:
		text = strings.Join(f.plan("EXPLAIN "+map[bool]string{true: "PARTITIONS ", false: "FORMAT=TRADITIONAL "}[f.db.Info().Engine == "mariadb"]+q), "\n")
	}
	var out []string
	for _, p := range regexp.MustCompile(`p20\d{6}`).FindAllString(text, -1) {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// plan returns the lines of a query plan in order.
func (f *fixture) plan(q string) []string {
	f.t.Helper()
	rows, err := f.db.SQL().QueryContext(context.Background(), q)
	must(f.t, err)
	defer rows.Close()
	cols, err := rows.Columns()
	must(f.t, err)
	var out []string
	for rows.Next() {
		vals, dest := make([]any, len(cols)), make([]any, len(cols))
		for i := range vals {
			dest[i] = &vals[i]
		}
		must(f.t, rows.Scan(dest...))
		line := ""
		for _, v := range vals {
			if b, ok := v.([]byte); ok {
				v = string(b)
			}
			line += fmt.Sprint(v, " ")
		}
		out = append(out, line)
	}
	return out
}
