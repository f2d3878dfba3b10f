package tables_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/report/tables"
)

// statusFixture returns the status of a table with hours, merged days and problems.
func statusFixture() *maintain.Status {
	noon := time.Date(2026, 11, 20, 12, 30, 0, 0, time.UTC)
	s := &maintain.Status{
		Format: "rowmill.status/1", Table: "readings", Target: "mysql://ingest@db1:3306/metrics", Engine: "mariadb", At: noon, Now: "2026-11-20 12:30:00",
		Every: "1h", Ahead: "6h", Keep: "5d", Activity: maintain.Activity{
			Leader: "db1:4711",
			Changes: []maintain.ChangeStatus{{What: "merge p20261117", Step: "copy", Since: noon.Add(-time.Minute), Percent: new(42.0)},
				{What: "seal p20261118", Step: "detach", Since: noon.Add(-2 * time.Minute), Tries: 3, Error: "lock wait\ntimeout"}},
			Next: []maintain.NextStatus{{Action: "drop", What: "p20261115", At: new(noon), Why: "older than 5d"}, {Action: "rollup", What: "readings_1h", At: new(noon.Add(30 * time.Minute))}},
		}, Coverage: maintain.Coverage{Headroom: new(5.5 * 3600), HeadroomWanted: new(6.0 * 3600)},
		Rollups: []maintain.RollupStatus{{Name: "readings_1h", Every: "1h", To: "2026-11-20 12:00:00", Stale: 3, Rows: 5000},
			{Name: "readings_1d", Every: "1d", To: "2026-11-19 00:00:00", Lag: 86400, Rows: 30}},
		Blockers: []maintain.BlockerStatus{{ID: 77, User: "report", Host: "10.0.0.9", Age: 612, Statement: "SELECT sensor, avg(value) FROM readings GROUP BY sensor ORDER BY 2 DESC"}},
		Problems: []maintain.Problem{
			{Code: "blocked", Text: "drop p20261115 waits for a lock on the table, held by connection 77 of report@10.0.0.9 in a transaction of 10m12s; inserts have periods for 5h30m0s more", Try: "end that transaction, or wait for it: due tasks are retried automatically"},
			{Code: "rollup", Text: "readings_1d is 24h0m0s behind"}},
	}
	for i := range 9 {
		s.Actions = append(s.Actions, maintain.ActionStatus{At: noon.Add(-time.Duration(i) * time.Hour), Action: "create", Detail: fmt.Sprintf("p20261120_%02d", 18-i), Seconds: .004, By: "db1:4711"})
	}
	s.Actions[0] = maintain.ActionStatus{At: noon, Action: "drop", Detail: "p20261115", Seconds: 1.02, Error: "drop partition p20261115: lock wait timeout exceeded", By: "db1:4711"}
	add := func(name, state string, from time.Time, d time.Duration, rows int64) {
		const layout = "2006-01-02 15:04:05"
		s.Periods = append(s.Periods, maintain.PeriodStatus{Name: name, From: from.Format(layout), To: from.Add(d).Format(layout), State: state, Rows: rows, Bytes: rows * 120})
		s.Rows, s.Bytes = s.Rows+rows, s.Bytes+rows*120
	}
	day := noon.Truncate(24 * time.Hour)
	for i := -5; i < 0; i++ {
		from := day.AddDate(0, 0, i)
		add(from.Format("p20060102"), "sealed", from, 24*time.Hour, 2_400_000)
		s.Periods[len(s.Periods)-1].Rebuilt = true
	}
	s.Periods[0].State, s.Periods[0].Archive = "archived", "archive/readings/p20261115.parquet"
	for i := range 18 {
		from, state, rows := day.Add(time.Duration(i)*time.Hour), "ahead", int64(0)
		if i < 12 {
			state, rows = "closing", 100_000
		} else if i == 12 {
			state, rows = "open", 50_123
		}
		add(from.Format("p20060102_15"), state, from, time.Hour, rows)
	}
	return s
}

func statusTextOf(t *testing.T, s *maintain.Status, width int) string {
	t.Helper()
	var b strings.Builder
	if err := tables.Status(&b, s, width); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestStatusText(t *testing.T) {
	t.Parallel()
	well := statusFixture()
	well.Changes, well.Blockers, well.Problems, well.Keep = nil, nil, nil, ""
	well.Notes = []string{"900 periods are too many for 64 MiB of memory for pages: open on 50 connections they take about 350 MiB beside it (rowmill plan FILE --calibrate measures it); a longer period, or sealed ones merged"}
	sequence := &maintain.Status{Table: "orders", Target: "postgres://db1/shop", Engine: "postgres", At: well.At, Now: "750000", Every: "500000 rows", Ahead: "1000000 rows",
		Coverage: maintain.Coverage{HeadroomRows: new(int64(750_000)), Rows: 750_000, Bytes: 90 << 20, Periods: []maintain.PeriodStatus{
			{Name: "p0000000000000000000", From: "0", To: "500000", State: "sealed", Rows: 500_000, Bytes: 60 << 20},
			{Name: "p0000000000000500000", From: "500000", To: "1000000", State: "open", Rows: 250_000, Bytes: 30 << 20}}}}
	for name, c := range map[string]struct {
		s     *maintain.Status
		width int
	}{
		"amiss": {statusFixture(), 0}, "narrow": {statusFixture(), 80}, "well": {well, 0}, "sequence": {sequence, 0},
		"new": {&maintain.Status{Table: "readings", Target: "sqlite:m.db", Engine: "sqlite", At: well.At, Every: "1d", Ahead: "2d", Coverage: maintain.Coverage{Headroom: new(-5.0), HeadroomWanted: new(172800.0)}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, "status-"+name+".golden", statusTextOf(t, c.s, c.width))
		})
	}
}

// TestStatusTextKeepsToTheWidth: no line is too wide, and no text from a server breaks one.
func TestStatusTextKeepsToTheWidth(t *testing.T) {
	t.Parallel()
	s := statusFixture()
	const hostile = "\x1b[2J\x1b]0;title\a\r\n\u009b31mred\xff 計測値の表"
	s.Problems[0].Text, s.Blockers[0].Statement, s.Changes[0].Error, s.Actions[0].Error, s.Periods[0].Archive = hostile, hostile, hostile, hostile, hostile
	for _, width := range []int{0, 1, 40, 80, 200} {
		text := statusTextOf(t, s, width)
		if strings.ContainsAny(text, "\x1b\a\r\u009b") {
			t.Errorf("width %d: control characters of a statement reach the terminal: %q", width, text)
		}
		for line := range strings.Lines(text) {
			if w := runewidth.StringWidth(strings.TrimSuffix(line, "\n")); width > 0 && w > max(width, 40) {
				t.Errorf("width %d: a line of %d columns: %q", width, w, line)
			}
		}
	}
}
