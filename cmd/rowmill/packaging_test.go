package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/testdb"
)

// TestUnits checks that systemd accepts the units, and that rowmill accepts the
// command lines in them and in the container file.
func TestUnits(t *testing.T) {
	packaging := filepath.Join(here(t), "..", "..", "packaging")
	units, err := filepath.Glob(filepath.Join(packaging, "systemd", "rowmill*@.*"))
	if err != nil || len(units) != 3 {
		t.Fatalf("found %d units: %v", len(units), err)
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "rowmill")
	must(t, os.WriteFile(binary, []byte("#!/bin/sh\n"), 0o755))
	args := []string{"verify", "--man=no"}
	command := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/rowmill (.*)$`)
	for _, path := range units {
		text := readFile(t, path)
		if m := command.FindStringSubmatch(string(text)); m != nil {
			line := strings.NewReplacer("%i", "readings", "$ROWMILL_OPTIONS", "--listen 127.0.0.1:0").Replace(m[1])
			takesCommand(t, strings.Fields(line))
		}
		name := strings.Replace(filepath.Base(path), "@.", "@readings.", 1)
		unit := strings.ReplaceAll(string(text), "/usr/bin/rowmill", binary)
		for _, as := range []string{name, filepath.Base(path)} {
			writeFile(t, filepath.Join(dir, as), unit)
		}
		args = append(args, filepath.Join(dir, name))
	}
	text := readFile(t, filepath.Join(packaging, "Containerfile"))
	for _, m := range regexp.MustCompile(`(?m)^ *CMD \[(.*)\]$`).FindAllStringSubmatch(string(text), -1) {
		line := strings.Split(strings.NewReplacer(`"`, "", " ", "").Replace(m[1]), ",")
		if line[0] == "rowmill" { // the health check; the command comes after the entry point
			line = line[1:]
		}
		takesCommand(t, line)
	}
	analyze := testdb.RequireTool(t, "systemd", "systemd-analyze")
	if out, err := exec.Command(analyze, args...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// notThere matches rowmill's error for a missing declaration.
var notThere = regexp.MustCompile(`read the declaration: \w+ /etc/rowmill/.*: no such file`)

// takesCommand checks that rowmill accepts a command line: its only error is the
// missing declaration.
func takesCommand(t *testing.T, args []string) {
	t.Helper()
	if s := rowmill(t.Context(), args...); s.code != exitFailed || !notThere.MatchString(s.stderr) {
		t.Errorf("rowmill %s: exit %d, %s", strings.Join(args, " "), s.code, s.stderr)
	}
}

// dashboardQueries returns the queries of the Grafana dashboard for all tables, with
// rates over a minute.
func dashboardQueries(t *testing.T) []string {
	t.Helper()
	var d struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	must(t, json.Unmarshal(readFile(t, filepath.Join(here(t), "..", "..", "packaging", "grafana", "rowmill.json")), &d))
	var out []string
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			out = append(out, strings.NewReplacer("$table", ".*", "$__rate_interval", "1m").Replace(q.Expr))
		}
	}
	if len(out) < 20 {
		t.Fatalf("the dashboard has %d queries", len(out))
	}
	return out
}

// TestPrometheus checks that Prometheus, which scrapes rowmill run on a table with a
// roll-up and an archive that can't be written, has data for each query of the
// dashboard, evaluates each alert rule, and fires the alert on the problem.
func TestPrometheus(t *testing.T) {
	testdb.SkipUnlessNightly(t, "internal/monitor.TestDashboard")
	t.Parallel()
	program := testdb.RequireTool(t, "prometheus", "prometheus")
	d := declare(t, "sqlite", intsTable+`
[period]
every = "1h"
ahead = "6h"
keep  = "2h"

[seal]
after   = "1h"
archive = "$DIR/archive"

[[rollup]]
name   = "readings_1h"
every  = "1h"
by     = ["sensor"]
select = { n = "count(*)" }
`)
	past := time.Now().UTC().Add(-5 * time.Hour)
	d.tick(past)
	wantDone(t, d.run("apply", "--yes"))
	d.insert(past, 1)
	must(t, os.RemoveAll(filepath.Join(d.dir, "archive")))
	writeFile(t, filepath.Join(d.dir, "archive"), "a file where a folder should be")

	rules := filepath.Join(d.dir, "rules.yml") // alerts that fire at once
	text := readFile(t, filepath.Join(here(t), "..", "..", "packaging", "prometheus", "rowmill.rules.yml"))
	writeFile(t, rules, regexp.MustCompile(`(?m)^ +for: .*\n`).ReplaceAllString(string(text), ""))
	scraped, addr := freePort(t), freePort(t)
	writeFile(t, filepath.Join(d.dir, "prometheus.yml"), fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs: [{job_name: rowmill, static_configs: [{targets: [%q]}]}]
`, rules, scraped))
	stop := keepElsewhere(t, d.file, "--listen", scraped, "--interval", "1s")
	ctx, cancel := context.WithCancel(t.Context())
	server := exec.CommandContext(ctx, program, "--config.file", filepath.Join(d.dir, "prometheus.yml"),
		"--storage.tsdb.path", filepath.Join(d.dir, "data"), "--web.listen-address", addr)
	server.Cancel = func() error { return server.Process.Signal(os.Interrupt) }
	server.WaitDelay = 10 * time.Second
	var log strings.Builder
	server.Stderr = &log
	must(t, server.Start())
	defer func() {
		kept := stop()
		cancel()
		_ = server.Wait() // it was interrupted
		if t.Failed() {
			t.Logf("kept:\n%s\nprometheus:\n%s", kept.stderr, log.String())
		}
	}()

	waiting := append(dashboardQueries(t), `ALERTS{alertname="RowmillNeedsPerson",code="failed",table="readings"}`)
	for end := time.Now().Add(time.Minute); len(waiting) > 0; time.Sleep(time.Second) {
		if time.Now().After(end) {
			t.Fatalf("no data for:\n%s", strings.Join(waiting, "\n"))
		}
		d.insert(time.Now().UTC(), int(time.Now().Unix()))
		waiting = slices.DeleteFunc(waiting, func(q string) bool { return hasData(t, addr, q) })
	}
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	_, page, err := fetch("http://" + addr + "/api/v1/rules")
	must(t, err)
	must(t, json.Unmarshal([]byte(page), &answer))
	if len(answer.Data.Groups) != 1 || len(answer.Data.Groups[0].Rules) != strings.Count(string(text), "- alert: ") {
		t.Fatalf("rules: %s", page)
	}
	for _, r := range answer.Data.Groups[0].Rules {
		if r.Health != "ok" {
			t.Errorf("rule %s: %s %s", r.Name, r.Health, r.LastError)
		}
	}
}

// hasData reports whether Prometheus has a number for a query. A server that is
// starting has none.
func hasData(t *testing.T, addr, query string) bool {
	t.Helper()
	_, page, err := fetch("http://" + addr + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil || !strings.HasPrefix(page, "{") {
		return false
	}
	var answer struct {
		Error string
		Data  struct {
			Result []struct{ Value [2]any }
		}
	}
	must(t, json.Unmarshal([]byte(page), &answer))
	if answer.Error != "" {
		t.Errorf("%s: %s", query, answer.Error)
	}
	for _, r := range answer.Data.Result {
		if r.Value[1] != "NaN" {
			return true
		}
	}
	return false
}
