package workload

import (
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/internal/testdb"
)

// shape returns a statement without its values and the names of its periods.
func shape(q string) string {
	q = strings.Join(strings.Fields(strings.TrimSuffix(q, ";")), " ")
	for _, r := range []struct{ from, to string }{
		{`p[0-9]{4,}(_[0-9]+)*`, "P"},
		{`'(\\.|[^'\\])*'`, "V"},
		{`rowmill-[0-9]+|'rowmill'`, "V"},
		{`-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?`, "V"},
		{`\((V|\?)(, ?(V|\?))*\)`, "(V)"},
		{`\(V\)(, ?\(V\))+`, "(V)"},
		{"PARTITION `P` VALUES LESS THAN \\(V\\)(, PARTITION `P` VALUES LESS THAN \\(V\\))+", "PARTITION `P` VALUES LESS THAN (V)"},
		// The run has the name of the database as a constant.
		{"CONCAT\\(DATABASE\\(\\), V\\)", "CONCAT(V)"},
		// The driver has another form of the statement of Session.
		{"^SET (SESSION )?(sql_mode = V, time_zone = V|time_zone = V, sql_mode = V)$", "SET SESSION"},
	} {
		q = regexp.MustCompile(r.from).ReplaceAllString(q, r.to)
	}
	return q
}

// unlisted are the statements that Statements omits according to its documentation: transactions
// around a batch, the queries and settings of a connection, the locks that identify it, and the
// statistics of partitions, which only the server can name.
var unlisted = regexp.MustCompile(`^(BEGIN|COMMIT|ROLLBACK|SELECT CONNECTION_ID\(\)|SHOW WARNINGS LIMIT V|SELECT @@max_allowed_packet|SET NAMES .*|SELECT @@innodb_page_size|` +
	`SET SESSION (wait_timeout|max_error_count) = V|(DO|SELECT) .*GET_LOCK\(.*|ALTER TABLE .* ANALYZE PARTITION .*)$`)

// TestStatementsAreWhatRuns checks that a run sends the statements that Statements returns: the
// server's log of a small run contains no others, and contains each of them.
func TestStatementsAreWhatRuns(t *testing.T) {
	t.Parallel()
	// The log is for the whole server, so this test needs its own server.
	const server = "mariadb?memory=16MB&redo=16MB"
	for _, o := range []InsertOptions{
		{Preset: "classic", Layout: Plain, Method: engine.Multi},
		{Preset: "classic", Layout: Rolling, Method: engine.Load, PeriodRows: 1000, KeepPeriods: 1},
		{Preset: "ibench", Layout: Rolling, Method: engine.Prepared},
		{Preset: "timeseries", Layout: Rolling, Method: engine.Multi, PeriodRows: 1000, KeepPeriods: 1},
		{Preset: "sbtest", Layout: Plain, Method: engine.Single},
	} {
		t.Run(fmt.Sprintf("%s/%s/%s", o.Preset, o.Layout, o.Method), func(t *testing.T) {
			socket, name := testdb.Database(t, server)
			target, err := engine.ParseTarget("mariadb://root@/" + name + "?socket=" + socket)
			ok(t, err)
			db, err := mysql.Open(t.Context(), target)
			ok(t, err)
			admin := raw(t, db)
			defer func() {
				exec(t, admin, "SET GLOBAL general_log = OFF")
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			}()
			exec(t, admin, "SET GLOBAL log_output = 'TABLE'", "SET GLOBAL general_log = OFF", "TRUNCATE mysql.general_log", "SET GLOBAL general_log = ON")

			o.Rows, o.Batch, o.Writers = 2500, 25, 2
			w := newTestInsert(t, db, o)
			listed, err := w.Statements(true, true)
			ok(t, err)
			ctx := t.Context()
			ok(t, w.Measure(ctx))
			for range 2 { // the second run drops the tables of the first
				if _, err := w.Setup(ctx, true); err != nil {
					t.Fatal(err)
				}
			}
			counters, err := db.Counters(ctx, w.Tables()...)
			ok(t, err)
			run(t, w, config(w))
			ok(t, counters.Close())
			if p := verify(t, w); !p.Checksum {
				t.Errorf("%+v", p)
			}
			if _, err := w.Sizes(ctx); err != nil {
				t.Fatal(err)
			}
			exec(t, admin, "SET GLOBAL general_log = OFF")

			shown := map[string]bool{} // whether each was sent
			for _, s := range listed {
				shown[shape(s.SQL)] = false
			}
			for _, q := range logged(t, admin) {
				s := shape(q)
				if _, ok := shown[s]; ok {
					shown[s] = true
				} else if !unlisted.MatchString(s) {
					t.Errorf("sent, and not shown: %.300s", s)
				}
			}
			for s, sent := range shown {
				// Measured periods are longer than the run; warnings are read only if there are any.
				if !sent && s != "SHOW WARNINGS LIMIT V" && (o.PeriodRows > 0 || !strings.Contains(s, "ADD PARTITION")) {
					t.Errorf("shown, and not sent: %.300s", s)
				}
			}
		})
	}
}

// logged returns the statements in the server's log, except those that enable it.
func logged(t *testing.T, db *sql.DB) []string {
	t.Helper()
	rows, err := db.Query("SELECT command_type, argument FROM mysql.general_log ORDER BY event_time")
	ok(t, err)
	defer rows.Close()
	var out []string
	for rows.Next() {
		var kind, text string
		ok(t, rows.Scan(&kind, &text))
		switch kind {
		case "Query", "Prepare":
			if !strings.Contains(text, "general_log") {
				out = append(out, text)
			}
		}
	}
	ok(t, rows.Err())
	return out
}
