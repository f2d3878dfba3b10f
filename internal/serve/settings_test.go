package serve

import (
	"fmt"
	"testing"

	"github.com/rowmill/rowmill/internal/mysqlwire"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestSettings sets what changes an answer, and compares the packets of an answer in pieces with
// the server's own.
func TestSettings(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x, a := startCounting(t, kind, nil)
		own := connect(t, x.config(true))
		execute(t, own, "CREATE TABLE p (id INT PRIMARY KEY, v INT, d DATE, at TIMESTAMP NULL, c CHAR(5)) PARTITION BY HASH (id) PARTITIONS 4",
			"INSERT INTO p VALUES (1, 1, '2001-03-01', '2001-01-01 03:00:00', 'x'), (2, 2, '2010-05-01', '2010-01-01 23:30:00', 'y '), (3, 4, NULL, NULL, ''), (4, 8, '2010-12-01', '2010-06-30 22:00:00', NULL)", "ANALYZE TABLE p")
		// MySQL refuses a language at its first use where the file of its messages is missing, and
		// takes it then.
		_, _ = own.Exec("SET lc_time_names = 'de_CH'")
		limit := map[string]string{"mariadb": "max_statement_time = 30.5", "mysql": "max_execution_time = 30500"}[kind]
		const sums, hours, names = "SELECT SUM(v) / 7, AVG(v), COUNT(*) FROM p", "SELECT HOUR(at), COUNT(*) FROM p GROUP BY HOUR(at) ORDER BY 1", "SELECT DATE_FORMAT(d, '%a %M %v'), SUM(v) FROM p GROUP BY 1 ORDER BY 1"
		through, direct := x.pair(t, 0, 0)
		for _, test := range []struct{ setting, query string }{
			{"sql_mode = ''", "SELECT id, COUNT(*) FROM p GROUP BY v, id ORDER BY v"}, {"sql_mode = 'ANSI_QUOTES'", "SELECT \"v\", COUNT(*) FROM p GROUP BY \"v\" ORDER BY 1"},
			{"sql_mode = 'PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES'", "SELECT v || '\\', COUNT(*) FROM p GROUP BY v || '\\' ORDER BY 1"},
			{"sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'", "SELECT LENGTH(c), COUNT(*) FROM p GROUP BY LENGTH(c) ORDER BY 1"},
			{"sql_mode = 'NO_UNSIGNED_SUBTRACTION,HIGH_NOT_PRECEDENCE'", "SELECT SUM(CAST(v AS UNSIGNED) - 4) FROM p WHERE NOT v BETWEEN -1 AND 3"},
			{"div_precision_increment = 0", sums}, {"div_precision_increment = 12", sums}, {"group_concat_max_len = 5", "SELECT GROUP_CONCAT(id ORDER BY id), COUNT(*) FROM p"},
			{"time_zone = '+05:30'", hours}, {"time_zone = '-11:00', div_precision_increment = 7", "SELECT MIN(at), MAX(at), SUM(v) / 3 FROM p"},
			{"lc_time_names = 'de_CH'", names}, {"default_week_format = 3", "SELECT WEEK(d), COUNT(*) FROM p GROUP BY WEEK(d) ORDER BY 1"},
			{limit, sums}, {limit + ", sql_mode = 'ANSI', time_zone = 'SYSTEM', lc_time_names = 'de_CH'", names},
		} {
			for _, c := range []*rawClient{through, direct} {
				c.command(mysqlwire.ComReset, "")
				if got := c.command(mysqlwire.ComQuery, "SET sql_notes = 0, "+test.setting); got[0][mysqlwire.HeaderSize] == mysqlwire.Error {
					t.Error(test.setting, mysqlwire.ReadError(got[0][mysqlwire.HeaderSize:]))
				}
			}
			clear(x.shapes[:])
			before := a.ran.Load()
			got, want := fmt.Sprintf("%q", through.command(mysqlwire.ComQuery, test.query)), fmt.Sprintf("%q", direct.command(mysqlwire.ComQuery, test.query))
			if got != want {
				t.Errorf("%s: %s:\n got %s\nwant %s", test.setting, test.query, got, want)
			}
			if a.ran.Load() == before {
				t.Logf("%s: %s: not in pieces", test.setting, test.query)
			}
		}
		if n := a.ran.Load(); n < 10 {
			t.Errorf("%d in pieces", n)
		}
	})
}
