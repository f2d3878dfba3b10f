package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/sizing"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// A planServer is a kind of database, with its types for a time and a text.
type planServer struct{ kind, time, text string }

// onPlanServers runs a test on the databases on which the test plans a table.
func onPlanServers(t *testing.T, fn func(t *testing.T, server planServer)) {
	onEach(t, keepers, func(t *testing.T, kind string) {
		server := planServer{kind, "DATETIME", "VARCHAR(40)"}
		switch kind {
		case "sqlite":
			server.time = "TEXT"
		case "postgres":
			server.time = "timestamptz"
		}
		fn(t, server)
	})
}

// planTable writes a declaration, and opens its database.
func planTable(t *testing.T, kind, create, rest string) (file string, db engine.Sizer) {
	t.Helper()
	target := testdb.Target(t, kind)
	opened := openKeeper(t, target.String())
	file = filepath.Join(t.TempDir(), "readings.toml")
	text := fmt.Sprintf("[table]\nname = \"readings\"\ntarget = %q\ntime = \"ts\"\ncreate = '''\n%s'''\n%s", target.String(), create, rest)
	writeFile(t, file, text)
	return file, opened.(engine.Sizer)
}

func planned(t *testing.T, args ...string) *sizing.Output {
	t.Helper()
	s := rowmill(t.Context(), append([]string{"plan", "--json"}, args...)...)
	if s.code != exitDone {
		t.Fatalf("exit %d: %s", s.code, s.stderr)
	}
	var out sizing.Output
	must(t, json.Unmarshal([]byte(s.stdout), &out))
	return &out
}

// noScratch fails if a scratch table exists.
func noScratch(t *testing.T, db engine.Sizer) {
	t.Helper()
	names, err := db.Named(t.Context(), scratchName)
	if err != nil || len(names) > 0 {
		t.Errorf("left: %v, %v", names, err)
	}
}

// scratchName begins the names of scratch tables.
const scratchName = "rowmill_scratch_"

const planPeriod = "[period]\nevery = \"auto\"\nahead = \"1d\"\nkeep = \"30d\"\n[seal]\ncompress = true\n"

func TestPlanOfATableToBe(t *testing.T) {
	t.Parallel()
	onPlanServers(t, func(t *testing.T, server planServer) {
		file, db := planTable(t, server.kind, fmt.Sprintf("CREATE TABLE readings (sensor BIGINT NOT NULL, ts %s NOT NULL, value NUMERIC(12,2), note %s, flag SMALLINT,\n CONSTRAINT readings_key PRIMARY KEY (sensor, ts), UNIQUE (note, ts))", server.time, server.text), planPeriod)
		out := planned(t, file, "--rate", "50/s", "--memory", "256MB", "--sample-rows", "20000")
		noScratch(t, db)
		sum, ascending := 0.0, 0
		for _, p := range out.Pieces {
			sum += p.BytesPerRow
			if p.Ascending {
				ascending++
			}
			// The row has 8 bytes of key, 8 of time and at least 20 of note. The
			// upper limit is a sanity check.
			if p.BytesPerRow < 20 || p.BytesPerRow > 400 {
				t.Errorf("%+v", p)
			}
		}
		if math.Abs(sum-out.PerRow.Value) > 1e-6 || len(out.Pieces) < 2 {
			t.Errorf("%+v", out.Pieces)
		}
		// Only PostgreSQL's rows, and SQLite's rows beside their index, are
		// appended at an end.
		if want := server.kind == "postgres" || server.kind == "sqlite"; (ascending == 1) != want {
			t.Errorf("%d pieces ascend: %+v", ascending, out.Pieces)
		}
		if !strings.Contains(out.PerRow.From, "made-up") || out.Rate.From != "--rate" || out.Memory.From != "--memory" || out.Target == "" {
			t.Errorf("%+v", out)
		}
		if p := out.Period; p.ResidentBytes > 0.8*256*(1<<20) || p.Rows > float64(p.FitRows) || p.Every != out.Period.Fits {
			t.Errorf("%+v", p)
		}
		if out.Compressed == nil || out.Compressed.Value <= 0 || out.Compressed.Value > 1.05*out.PerRow.Value {
			t.Errorf("compressed: %+v of %v; %v", out.Compressed, out.PerRow.Value, out.Warnings)
		} else if got := strings.Contains(out.Compressed.From, "compressed"); got != (server.kind != "sqlite") {
			t.Errorf("%s compresses the rows: %v; %s", server.kind, got, out.Compressed.From)
		}
		if got := out.Period.SpareBytes > 1<<20; got != (server.kind == "mariadb" || server.kind == "mysql") {
			t.Errorf("%s: %v bytes beside the rows", server.kind, out.Period.SpareBytes)
		}
		if out.Before.First == nil || out.Before.Measured || *out.Before.Last > *out.Before.First || out.Plain.KneeRows == nil {
			t.Errorf("%+v, %+v", out.Before, out.Plain)
		}
	})
}

// TestPlanMeasuresRows checks that the measured size is proportional to the rows:
// twice the sample takes twice the space, apart from the effect of half-full pages.
func TestPlanMeasuresRows(t *testing.T) {
	t.Parallel()
	onPlanServers(t, func(t *testing.T, server planServer) {
		file, _ := planTable(t, server.kind, fmt.Sprintf("CREATE TABLE readings (sensor BIGINT NOT NULL, ts %s NOT NULL, value NUMERIC(12,2), PRIMARY KEY (sensor, ts))", server.time), planPeriod)
		one := planned(t, file, "--rate", "50/s", "--memory", "1GB", "--sample-rows", "20000").PerRow.Value
		two := planned(t, file, "--rate", "50/s", "--memory", "1GB", "--sample-rows", "40000").PerRow.Value
		if r := two / one; r < 0.8 || r > 1.25 {
			t.Errorf("%.1f and %.1f bytes per row", one, two)
		}
	})
}

// TestPlanOfATableThatIs checks that an existing table provides the rate, and the rows
// of the sample.
func TestPlanOfATableThatIs(t *testing.T) {
	t.Parallel()
	onPlanServers(t, func(t *testing.T, server planServer) {
		create := fmt.Sprintf("CREATE TABLE readings (sensor BIGINT NOT NULL, ts %s NOT NULL, note VARCHAR(400), PRIMARY KEY (sensor, ts))", server.time)
		file, db := planTable(t, server.kind, create, planPeriod)
		execSQL(t, db, create)
		long := strings.Repeat("long ", 60)
		start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		for i := 0; i < 4000; i += 200 {
			var q strings.Builder
			q.WriteString("INSERT INTO readings VALUES ")
			for j := i; j < i+200; j++ {
				if j > i {
					q.WriteString(", ")
				}
				fmt.Fprintf(&q, "(%d, '%s', '%s')", j%7, start.Add(time.Duration(j)*time.Second).Format(time.DateTime), long)
			}
			execSQL(t, db, q.String())
		}
		out := planned(t, file, "--memory", "256MB")
		noScratch(t, db)
		if math.Abs(out.Rate.Value-1) > 0.01 || !strings.Contains(out.Rate.From, "the live table") {
			t.Errorf("%+v", out.Rate)
		}
		if out.PerRow.Value < 300 || !strings.Contains(out.PerRow.From, "4000 rows of the live table") {
			t.Errorf("%+v", out.PerRow)
		}
		var n int64
		if err := db.SQL().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM readings").Scan(&n); err != nil || n != 4000 {
			t.Errorf("%d rows in the table, %v", n, err)
		}
	})
}

// TestPlanOfARollingTable checks that a rolling table provides the rate from its
// complete periods.
func TestPlanOfARollingTable(t *testing.T) {
	t.Parallel()
	onPlanServers(t, func(t *testing.T, server planServer) {
		file, db := planTable(t, server.kind, fmt.Sprintf("CREATE TABLE readings (sensor BIGINT NOT NULL, ts %s NOT NULL, PRIMARY KEY (sensor, ts))", server.time),
			"[period]\nevery = \"1h\"\nahead = \"12h\"\n")
		clock := filepath.Join(t.TempDir(), "clock")
		at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		set := func(at time.Time) {
			writeFile(t, clock, at.Format(time.RFC3339))
		}
		set(at)
		if s := rowmill(t.Context(), "apply", file, "--yes", "--clock", clock); s.code != exitDone {
			t.Fatalf("exit %d: %s", s.code, s.stderr)
		}
		// Two rows a second for three hours, and one row in the current hour.
		for h := range 3 {
			var q strings.Builder
			for i := range 7200 {
				if i%900 == 0 {
					q.Reset()
					q.WriteString("INSERT INTO readings VALUES ")
				} else {
					q.WriteString(", ")
				}
				fmt.Fprintf(&q, "(%d, '%s')", i, at.Add(time.Duration(h)*time.Hour+time.Duration(i/2)*time.Second).Format(time.DateTime))
				if i%900 == 899 {
					execSQL(t, db, strings.Replace(q.String(), "INTO readings", "INTO "+insertInto(server.kind, at.Add(time.Duration(h)*time.Hour)), 1))
				}
			}
		}
		execSQL(t, db, "INSERT INTO "+insertInto(server.kind, at.Add(3*time.Hour))+" VALUES (1, '2026-11-20 15:00:01')")
		switch server.kind {
		case "postgres":
			execSQL(t, db, "ANALYZE readings")
		case "mysql", "mariadb":
			execSQL(t, db, "ANALYZE TABLE readings")
		}
		set(at.Add(3*time.Hour + time.Minute))
		out := planned(t, file, "--clock", clock, "--memory", "256MB", "--sample-rows", "5000")
		if math.Abs(out.Rate.Value-2) > 0.2 || !strings.Contains(out.Rate.From, "p20261120_12 to p20261120_14") {
			t.Errorf("%+v", out.Rate)
		}
		if !strings.Contains(out.PerRow.From, "5000 rows of the live table") || !out.Period.Declared || out.Period.Every != "1h" {
			t.Errorf("%+v, %+v", out.PerRow, out.Period)
		}
		noScratch(t, db)
	})
}

// insertInto returns the table into which rows of an hour are inserted: in SQLite, the
// period's own table.
func insertInto(kind string, at time.Time) string {
	if kind == "sqlite" {
		return "readings_" + at.Format("p20060102_15")
	}
	return "readings"
}

// TestPlanInterruptedAndKilled checks that an interrupted plan drops its scratch table
// itself, and that the next plan drops the scratch table of a killed one.
func TestPlanInterruptedAndKilled(t *testing.T) {
	t.Parallel()
	onPlanServers(t, func(t *testing.T, server planServer) {
		file, db := planTable(t, server.kind, fmt.Sprintf("CREATE TABLE readings (sensor BIGINT NOT NULL, ts %s NOT NULL, PRIMARY KEY (sensor, ts))", server.time), planPeriod)
		args := []string{"plan", file, "--rate", "1/s", "--memory", "1GB", "--sample-rows", "5000000"}
		appears := func() {
			for {
				names, err := db.Named(t.Context(), scratchName)
				if err != nil {
					t.Error(err)
					return
				}
				if len(names) > 0 {
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
		}
		ctx, interrupt := context.WithCancel(t.Context())
		go func() {
			appears()
			interrupt()
		}()
		if s := rowmill(ctx, args...); s.code != exitInterrupted {
			t.Errorf("exit %d: %s", s.code, s.stderr)
		}
		noScratch(t, db)

		c := exec.Command(os.Args[0], args...)
		c.Env = append(os.Environ(), processVariable+"=1")
		must(t, c.Start())
		appears()
		if err := c.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = c.Wait()
		if names, err := db.Named(t.Context(), scratchName); err != nil || len(names) == 0 {
			t.Errorf("nothing is left by a killed plan: the test shows nothing (%v)", err)
		}
		planned(t, file, "--rate", "1/s", "--memory", "1GB", "--sample-rows", "1000")
		noScratch(t, db)
	})
}

// TestPlanCleansUp checks that a plan drops copies whose defaults depend on each other, also those
// that a killed plan left, and that one that it can't drop is a warning that names the statement.
func TestPlanCleansUp(t *testing.T) {
	t.Parallel()
	onEach(t, []string{"postgres"}, func(t *testing.T, kind string) {
		const create = "CREATE TABLE readings (id bigserial, ts timestamptz NOT NULL, PRIMARY KEY (id, ts))"
		file, db := planTable(t, kind, create, planPeriod)
		const left = scratchName + "00000000_1_1" // of another host, 1970
		execSQL(t, db, strings.Replace(create, "readings", left, 1))
		execSQL(t, db, fmt.Sprintf("CREATE TABLE %s_c (LIKE %[1]s INCLUDING ALL)", left))
		args := []string{"plan", file, "--rate", "50/s", "--memory", "256MB", "--sample-rows", "1000"}
		mustPass(t, rowmill(t.Context(), args...))
		noScratch(t, db)
		execSQL(t, db, "CREATE TABLE "+left+" (id BIGINT)")
		execSQL(t, db, "CREATE VIEW needs AS SELECT * FROM "+left)
		s := rowmill(t.Context(), args...)
		if s.code != exitDone || !strings.Contains(s.stderr, "warning: ") || !strings.Contains(s.stderr, `DROP TABLE IF EXISTS "`+left+`"`) {
			t.Errorf("exit %d, %s", s.code, s.stderr)
		}
	})
}

// TestPlanOfSparseRows checks that made-up rows stay within the type of the time, however few rows
// arrive.
func TestPlanOfSparseRows(t *testing.T) {
	t.Parallel()
	onEach(t, []string{"postgres", "mariadb"}, func(t *testing.T, kind string) {
		for _, c := range []struct{ column, epoch, rows string }{
			{"INTEGER", "epoch = \"s\"\n", "(1764000000), (1764500000)"},
			{"TIMESTAMP", "", "('2026-11-20 10:00:00'), ('2026-11-29 10:00:00')"},
			{"DATE", "", "('2026-11-20'), ('2026-11-29')"},
		} {
			create := "CREATE TABLE readings (ts " + c.column + " NOT NULL, PRIMARY KEY (ts))"
			file, db := planTable(t, kind, create, c.epoch+planPeriod)
			execSQL(t, db, create)
			execSQL(t, db, "INSERT INTO readings VALUES "+c.rows)
			for _, rate := range [][]string{nil, {"--rate", "0.0000001/s"}} {
				out := planned(t, append([]string{file, "--memory", "256MB"}, rate...)...)
				if c.column != "DATE" && !strings.Contains(out.PerRow.From, "50000 made-up rows") {
					t.Errorf("%s: %s", c.column, out.PerRow.From)
				}
			}
		}
	})
}

func TestPlanWithoutAServer(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "field.toml")
	text := "[table]\nname = \"field\"\ntarget = \"mariadb://db1/metrics\"\ntime = \"ts\"\ncreate = \"CREATE TABLE field (k BIGINT NOT NULL, ts DATETIME NOT NULL, PRIMARY KEY (k, ts))\"\n" + planPeriod
	writeFile(t, file, text)
	s := rowmill(t.Context(), "plan", file, "--row-bytes", "102", "--rate", "509.26", "--memory", "2GB")
	if s.code != exitDone {
		t.Fatalf("exit %d: %s", s.code, s.stderr)
	}
	golden(t, here(t), "plan-field.txt", s.stdout)
	for _, c := range []struct {
		args string
		says string
	}{
		{"--row-bytes 102 --memory 2GB", "--rate 5000/s"},
		{"--row-bytes 102 --rate 1", "--memory 8GB"},
		{"--row-bytes 102 --rate 1 --memory much", "want a size such as 8GB"},
		{"--row-bytes 102 --rate 1 --record x.jsonl", "one of them"},
		{"--row-bytes -1", "want 0 to 1e9"},
		{"--sample-rows 3", "want 1000"},
		{"--record " + file + " --row-bytes 100 --memory 1GB", ""},
	} {
		s := rowmill(t.Context(), append([]string{"plan", file}, strings.Fields(c.args)...)...)
		if s.code == exitDone || !strings.Contains(s.stderr, c.says) {
			t.Errorf("%s: exit %d, %s", c.args, s.code, s.stderr)
		}
	}
}

// TestPlanFromARecord checks that a benchmark's record provides the rates of the plain
// and the rolling table.
func TestPlanFromARecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	record := filepath.Join(dir, "run.jsonl")
	s := rowmill(t.Context(), "bench", "insert", "--target", "null:", "--preset", "classic", "--layout", "plain,rolling", "--rows", "200000", "--out", record)
	if s.code != exitDone {
		t.Fatal(s.stderr)
	}
	file := filepath.Join(dir, "field.toml")
	text := "[table]\nname = \"field\"\ntarget = \"mariadb://db1/metrics\"\ntime = \"ts\"\ncreate = \"CREATE TABLE field (k BIGINT NOT NULL, ts DATETIME NOT NULL, PRIMARY KEY (k, ts))\"\n" + planPeriod
	writeFile(t, file, text)
	out := planned(t, file, "--row-bytes", "100", "--memory", "64GB", "--record", record)
	if !out.Before.Measured || !out.After.Measured || !strings.Contains(out.Rate.From, "run.jsonl") || out.Rate.Value <= 0 || out.Before.LastRows != 200000 {
		t.Errorf("%+v\n%+v\n%+v", out.Rate, out.Before, out.After)
	}
}

// TestPlanWithADisk checks that the estimate of a plain table takes the random reads of the disk's
// record: the more, the faster it stays.
func TestPlanWithADisk(t *testing.T) {
	t.Parallel()
	const record = "../../internal/report/testdata/records/disk.jsonl"
	disk := filepath.Join(here(t), record)
	file, _ := planTable(t, "sqlite", "CREATE TABLE readings (sensor BIGINT NOT NULL, ts TEXT NOT NULL, value NUMERIC(12,2), PRIMARY KEY (sensor, ts))", planPeriod)
	args := []string{file, "--rate", "5000/s", "--memory", "16MB", "--sample-rows", "2000"}
	with, slow := planned(t, append(args, "--disk", disk)...), planned(t, append(args, "--disk-reads", "10")...)
	if !strings.Contains(with.Before.From, "at 13087 random reads a second") || !strings.Contains(with.Before.From, "disk.jsonl: random reads of 16 KiB at queue depth 1") {
		t.Errorf("from %s", with.Before.From)
	}
	if with.Before.Last == nil || slow.Before.Last == nil || *with.Before.Last <= *slow.Before.Last {
		t.Errorf("%+v, with 10 reads/s %+v", with.Before, slow.Before)
	}
	for args, want := range map[string]string{"--disk-reads 5 --disk " + disk: "one of them", "--disk " + file: "--disk: ", "--disk nowhere.jsonl": "nowhere.jsonl"} {
		if s := rowmill(t.Context(), append([]string{"plan", file}, strings.Fields(args)...)...); s.code == exitDone || !strings.Contains(s.stderr, want) {
			t.Errorf("%s: exit %d, %s", args, s.code, s.stderr)
		}
	}
}

// TestApplyFindsThePeriod checks that every = "auto" becomes the suitable period.
func TestApplyFindsThePeriod(t *testing.T) {
	t.Parallel()
	onPlanServers(t, func(t *testing.T, server planServer) {
		file, db := planTable(t, server.kind, fmt.Sprintf("CREATE TABLE readings (sensor BIGINT NOT NULL, ts %s NOT NULL, PRIMARY KEY (sensor, ts))", server.time), planPeriod)
		s := rowmill(t.Context(), "apply", file, "--yes")
		if s.code != exitUsage || !strings.Contains(s.stderr, "--rate 5000/s") {
			t.Fatalf("exit %d: %s", s.code, s.stderr)
		}
		if s = rowmill(t.Context(), "apply", file, "--yes", "--rate", "20/s", "--memory", "64MB"); s.code != exitDone {
			t.Fatalf("exit %d: %s", s.code, s.stderr)
		}
		noScratch(t, db)
		parts, err := db.Catalog().Partitions(t.Context(), &engine.Table{Name: "readings", By: "ts", Grid: mustGrid(t, "1d")})
		if err != nil || len(parts) < 2 {
			t.Fatalf("%v, %v", parts, err)
		}
		p := parts[len(parts)-1]
		want := planned(t, file, "--rate", "20/s", "--memory", "64MB").Period.Fits
		if g := mustGrid(t, want); p.To-p.From != g.Span().Micros {
			t.Errorf("periods of %v, and %s fits", time.Duration(p.To-p.From)*time.Microsecond, want)
		}
	})
}

func mustGrid(t *testing.T, text string) rolling.Grid {
	t.Helper()
	g, err := rolling.Parse(text)
	must(t, err)
	return g
}
