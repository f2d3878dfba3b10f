package serve

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/rowmill/rowmill/internal/mysqlwire"
	"github.com/rowmill/rowmill/internal/query"
	"github.com/rowmill/rowmill/internal/query/plan"
	"github.com/rowmill/rowmill/internal/testdb"
)

// A counting Answerer counts what it answers.
type counting struct {
	*query.Runner
	ran atomic.Int64
}

func (a *counting) Run(ctx context.Context, p *plan.Plan, s query.Sink) (*query.Report, error) {
	a.ran.Add(1)
	return a.Runner.Run(ctx, p, s)
}

// TestExact compares answers through the front with those of the server byte by byte, definitions
// of columns, flags and the end of the result included: they depend on how the server executes a
// query.
func TestExact(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x, a := startCounting(t, kind, nil)
		table(t, x)
		execute(t, x.client(t),
			"CREATE TABLE m (k INT NOT NULL, d DATE NOT NULL, host VARCHAR(40) NOT NULL, v DECIMAL(10,2), n BIGINT, w DOUBLE, s VARCHAR(20), j JSON, PRIMARY KEY (k, d)) "+
				"PARTITION BY RANGE (TO_DAYS(d)) (PARTITION p1 VALUES LESS THAN (TO_DAYS('2024-02-01')), PARTITION p2 VALUES LESS THAN (TO_DAYS('2024-03-01')), PARTITION p3 VALUES LESS THAN MAXVALUE)",
			"CREATE TABLE h (host VARCHAR(40) PRIMARY KEY, site VARCHAR(20))", "INSERT INTO h VALUES ('h0', 'here'), ('h1', 'there'), ('h2', NULL)")
		for i := range 4 {
			if _, err := x.client(t).Exec("INSERT INTO m SELECT x.id * 10 + y.id + ? * 100, DATE('2024-01-10') + INTERVAL (x.id * 10 + y.id) DAY, CONCAT('h', (x.id + y.id) % 3), x.id * 1.25, y.id - 3, x.id / 4, IF(y.id = 2, NULL, CONCAT('s', x.id)), '{\"a\": 1}' FROM t x, t y", i); err != nil {
				t.Fatal(err)
			}
		}
		execute(t, x.client(t), "ANALYZE TABLE m")
		split := 0
		queries := []string{
			"SELECT COUNT(*) FROM m",
			"SELECT COUNT(*), SUM(v), AVG(v), MIN(d), MAX(host), SUM(n) FROM m WHERE d >= '2024-01-15'",
			"SELECT host, COUNT(*), SUM(v), MIN(n), MAX(d) FROM m GROUP BY host ORDER BY host",
			"SELECT d, COUNT(*) AS c FROM m GROUP BY d ORDER BY c DESC, d LIMIT 5",
			"SELECT YEAR(d), MONTH(d) AS m, AVG(n), MAX(j) FROM m GROUP BY YEAR(d), MONTH(d) ORDER BY 1, 2",
			"SELECT s, COUNT(*) FROM m GROUP BY s HAVING COUNT(*) > 1 ORDER BY s",
			"SELECT host, s, COUNT(DISTINCT n) FROM m GROUP BY host, s ORDER BY host, s",
			"SELECT DISTINCT host FROM m ORDER BY host",
			"SELECT h.site, SUM(m.v) FROM m JOIN h ON h.host = m.host GROUP BY h.site ORDER BY h.site",
			"SELECT k, d, v FROM m WHERE n > 0 ORDER BY k, d LIMIT 10",
			"SELECT host, COUNT(*) FROM m GROUP BY host WITH ROLLUP",
			"SELECT 1 + SUM(n) AS total, IF(COUNT(*) > 3, 'many', 'few') FROM m",
			"SELECT MAX(k) FROM m WHERE d > '2030-01-01'",
			"WITH c AS (SELECT host, SUM(v) AS t FROM m GROUP BY host) SELECT host, t FROM c ORDER BY t, host",
			"SELECT host, SUM(w) FROM m GROUP BY host",
			"SELECT STD(n), VARIANCE(v), BIT_OR(n), GROUP_CONCAT(DISTINCT host ORDER BY host) FROM m",
		}
		for _, caps := range []struct{ caps, extended uint32 }{{0, 0}, {mysqlwire.CapDeprecateEOF, 0x1F}} {
			direct := dialRaw(t, x.wire.Network, x.wire.Address, x.name, caps.caps, caps.extended)
			through := dialRaw(t, "tcp", x.address, x.name, caps.caps, caps.extended)
			through.command(mysqlwire.ComQuery, "SET SESSION sql_notes = 0")
			direct.command(mysqlwire.ComQuery, "SET SESSION sql_notes = 0")
			for _, q := range queries {
				before := a.ran.Load()
				got, want := through.command(mysqlwire.ComQuery, q), direct.command(mysqlwire.ComQuery, q)
				if a.ran.Load() > before {
					split++
				}
				if !sameAnswer(got, want) {
					t.Errorf("caps %x: %s: in pieces: %v\n got %q\nwant %q", caps.caps, q, a.ran.Load() > before, got, want)
				}
			}
			for _, q := range []string{"SELECT host, COUNT(*), SUM(v), AVG(n) FROM m WHERE k < ? GROUP BY host ORDER BY host", "SELECT COUNT(*), MAX(d), MIN(s) FROM m WHERE n > ?"} {
				got, want := through.execute(q, 200), direct.execute(q, 200)
				if !sameAnswer(got, want) {
					t.Errorf("caps %x: %s:\n got %q\nwant %q", caps.caps, q, got, want)
				}
			}
		}
		t.Logf("%d of %d queries in pieces", split, 2*len(queries))
		if split < 2*len(queries)/2 {
			t.Errorf("only %d of %d queries in pieces", split, 2*len(queries))
		}
	})
}
