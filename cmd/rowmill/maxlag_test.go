package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/probe"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/testdb"
)

// lagDeclaration merges three periods, which copies their rows.
const lagDeclaration = intsTable + `
[period]
every = "1h"
ahead = "12h"

[seal]
after = "30m"
merge = "3h"
`

// While a replica is down, also from the start on, rowmill run copies no rows: its log, the status
// and the metrics say which replica and since when. Once it is back, copying continues. The
// heartbeat is removed in the end.
func TestMaxLag(t *testing.T) {
	t.Parallel()
	for _, kind := range testdb.Kinds(t, "mariadb", "mysql", "postgres") {
		t.Run(kind, func(t *testing.T) {
			_, server := testdb.OpenOwn(t, kind+"?replicas=1")
			d := declareAt(t, kind, server.Target(), lagDeclaration)
			d.db = openKeeper(t, d.target)
			at := func(hour int) time.Time { return time.Date(2026, 3, 29, hour, 40, 0, 0, time.UTC) }
			d.tick(at(0))
			mustPass(t, d.run("apply", "--yes"))
			for hour := range 6 {
				d.insert(at(hour), hour)
			}
			d.tick(at(5))
			replica := server.Nodes[0]
			must(t, server.CatchUp(t.Context())) // on MariaDB, a kill during a replica's CREATE TABLE stops its replication for good
			replica.Kill()
			addr, name := freePort(t), target.ReplicaName(replica.Target())
			stop := keepElsewhere(t, d.file, "--clock", d.clock, "--interval", "100ms", "--listen", addr, "--max-lag", "700ms", "--replica", replica.Target())
			said := func(what string, is func() bool) {
				t.Helper()
				for end := time.Now().Add(time.Minute); !is(); time.Sleep(100 * time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("not %s:\n%s\n%s", what, d.run("status").stdout, stop().stderr)
					}
				}
			}
			waits := "half of --max-lag is reached: replica " + name + " is more than 350ms behind: it shows nothing that was committed after 20"
			said("waiting", func() bool { return strings.Contains(d.run("status").stdout, waits) })
			value := regexp.MustCompile(`(?m)^rowmill_replica_delay_seconds\{replica="` + regexp.QuoteMeta(name) + `",table="readings"\} (\S+)$`)
			delay := func() float64 {
				_, text, _ := fetch("http://" + addr + "/metrics")
				if m := value.FindStringSubmatch(text); m != nil {
					f, err := strconv.ParseFloat(m[1], 64)
					must(t, err)
					return f
				}
				return -1
			}
			said("growing", func() bool { return delay() > 2 })
			must(t, replica.Restart(t.Context()))
			said("merged", func() bool {
				parts, err := d.db.Catalog().Partitions(t.Context(), d.table)
				return err == nil && len(parts) > 0 && parts[0].To-parts[0].From == 3*3600e6
			})
			said("caught up", func() bool { s := delay(); return s >= 0 && s < 2 })
			s := stop()
			wantDone(t, s)
			contains(t, s.stderr, "will be tried again: open replica "+name, waits, "copying continues")
			if strings.Contains(d.run("status").stdout, waits) {
				t.Error("the status says still that it waits")
			}

			// So does an adoption.
			execute := func(query string) {
				t.Helper()
				_, err := d.db.SQL().ExecContext(t.Context(), query)
				must(t, err)
			}
			execute(filled("CREATE TABLE plain (sensor INT NOT NULL, ts $TIME NOT NULL, value INT NOT NULL, PRIMARY KEY (sensor, ts))", d.target, ""))
			execute("INSERT INTO plain SELECT * FROM readings")
			writeFile(t, d.file, strings.ReplaceAll(d.text, "readings", "plain"))
			s = d.run("apply", "--yes", "--max-lag", "10s", "--replica", replica.Target())
			mustPass(t, s)
			contains(t, s.stdout, "is a rolling table now")
			execute("CREATE TABLE " + probe.Heartbeat + " (n INT)") // it was removed
		})
	}
}

// What --max-lag needs is said before anything is kept.
func TestMaxLagRefused(t *testing.T) {
	t.Parallel()
	file, other := declareUnopened(t, "sqlite", lagDeclaration).file, testdb.Target(t, "mariadb").String()
	mustPass(t, rowmill(t.Context(), "apply", file, "--yes"))
	for args, want := range map[string]string{
		"run --once --max-lag 5s --replica " + other: "it is mariadb, and can't be a replica of sqlite",
		"run --max-lag 5s":                           "name each replica whose lag counts with --replica URL",
		"run --replica mysql://r@127.0.0.1:1/d":      "its delay would not be used",
		"apply --replica mysql://r@127.0.0.1:1/d":    "its delay would not be used",
		"run --max-lag 5s --replica mysql://a@127.0.0.1:1/d --replica mysql://b@127.0.0.1:1/d": "127.0.0.1:1 is named twice",
		"run --max-lag 5s --replica sqlite:x.db":                                               "want the URL of a server that repeats",
		"run --max-lag 5s --replica mysql://a:secret@127.0.0.1:1/d":                            "a password on the command line",
	} {
		name, flags, _ := strings.Cut(args, " ")
		if s := verb(t, name+" "+file+" "+flags); s.code != exitUsage || !strings.Contains(s.stderr, want) || strings.Contains(s.stderr, "secret") {
			t.Errorf("%s: exit code %d, %s", args, s.code, s.stderr)
		}
	}
}
