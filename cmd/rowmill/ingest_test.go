package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
)

const testToken = "0123456789abcdef-token"

// A receiving is a rowmill run that takes rows for a table.
type receiving struct {
	*loading
	url  string
	stop func() session
}

// receives starts rowmill run with --ingest, and waits until it answers.
func receives(l *loading, flags ...string) *receiving {
	l.Helper()
	addr := freePort(l.T)
	r := &receiving{loading: l, url: "http://" + addr}
	r.stop = sync.OnceValue(keepElsewhere(l.T, l.file, append([]string{"--clock", l.clock, "--ingest", addr, "--ingest-spool", filepath.Join(l.dir, "spool")}, flags...)...))
	l.Cleanup(func() { r.stop() })
	l.waits("rowmill run answers", func() bool { code, _, _ := fetch(r.url + "/ping"); return code == http.StatusNoContent })
	return r
}

// A call is a request and what is expected of its answer.
type call struct {
	name, method, path, body string
	headers                  string // lines "Name: value"
	status                   int
	want                     string // part of the answer
}

func (c call) send(ctx context.Context, url string) (status int, answer string, header http.Header, err error) {
	method := c.method
	if method == "" {
		method = http.MethodPost
	}
	q, err := http.NewRequestWithContext(ctx, method, url+c.path, strings.NewReader(c.body))
	if err != nil {
		return 0, "", nil, err
	}
	q.Header.Set("Authorization", "Token "+testToken)
	for line := range strings.Lines(c.headers) {
		name, value, _ := strings.Cut(line, ":")
		q.Header.Set(name, strings.TrimSpace(value))
	}
	if q.Header.Get("Transfer-Encoding") == "chunked" {
		q.ContentLength = -1
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, "", nil, err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	return a.StatusCode, string(text), a.Header, err
}

func gzipped(text string) string {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write([]byte(text)) // to memory
	_ = z.Close()
	return out.String()
}

// ns is a timestamp of line protocol, n seconds after the start of the table's clock.
func ns(n int) string { return fmt.Sprint(loadStart.Add(time.Duration(n) * time.Second).UnixNano()) }

func at(n int) string {
	return loadStart.Add(time.Duration(n) * time.Second).Format("2006-01-02 15:04:05")
}

// TestIngestRequests checks the answer to each kind of request, and that exactly the rows
// that were acknowledged are in the table.
func TestIngestRequests(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, server string) {
		l := newLoading(t, server)
		tokens := l.write("tokens", "# of the agents\n"+testToken+"\n")
		r := receives(l, "--ingest-token-file", tokens, "--ingest-body", "64KiB")
		zipped, _ := zstd.NewWriter(nil)
		const csv, text, influx = "Content-Type: text/csv\n", "Content-Type: text/plain; charset=utf-8\n", "/api/v2/write?bucket=b&org=o"
		// Recorded from the outputs http and influxdb_v2 of Telegraf 1.37.2, but for numbers and times.
		const telegraf, chunked = text + "User-Agent: Telegraf/1.37.2 Go/1.26.8\nAccept-Encoding: gzip\n", "Transfer-Encoding: chunked\n"
		const packed = telegraf + chunked + "Content-Encoding: gzip\n"
		point := func(n int, more string) string {
			return fmt.Sprintf("readings,note=tag value=%d,sensor=%di%s %s\n", n, n, more, ns(n))
		}
		metric := func(n int) string {
			return fmt.Sprintf(`{"fields":{"sensor":%d,"value":2},"name":"readings","tags":{"note":"tag"},"timestamp":%d}`, n, loadStart.Unix()+int64(n))
		}
		row := func(n int) string { return fmt.Sprintf("%d,%s,1.5,ok\n", n, at(n)) }
		const header = "sensor,ts,value,note\n"
		for _, c := range []call{
			{name: "csv", path: "/write/readings", headers: csv, body: header + row(1) + row(2), status: 202, want: `{"bad":0,"rows":2}`},
			{name: "csv with CRLF and charset", path: "/write/readings", headers: "Content-Type: text/csv; charset=utf-8", body: "\xef\xbb\xbfsensor,ts,note\r\n3," + at(3) + ",\"a\r\nb\"\r\n", status: 202},
			{name: "csv without header", path: "/write/readings?header=false&columns=ts,sensor&delimiter=%3B", headers: csv, body: at(4) + ";4", status: 202},
			{name: "tsv", path: "/write/readings?format=tsv", body: "sensor\tts\n5\t" + at(5) + "\n", status: 202},
			{name: "json lines", path: "/write/readings", headers: "Content-Type: application/x-ndjson", body: `{"sensor":6,"ts":"` + at(6) + `"}` + "\n" + `{"sensor":7,"ts":"` + at(7) + `","note":"é"}`, status: 202, want: `"rows":2`},
			{name: "json array", path: "/write/readings", headers: "Content-Type: application/json", body: "[{\"sensor\":8,\n\"ts\":\"" + at(8) + "\"},\n {\"sensor\":9,\"ts\":\"" + at(9) + "\"}]\n", status: 202, want: `"rows":2`},
			{name: "json object", path: "/write/readings?format=json", body: `{"sensor":10,"ts":"` + at(10) + `"}`, status: 202, want: `"rows":1`},
			{name: "gzip", path: "/write/readings", headers: csv + "Content-Encoding: gzip", body: gzipped(header + row(11)), status: 202},
			{name: "zstd", path: "/write/readings", headers: csv + "Content-Encoding: zstd", body: string(zipped.EncodeAll([]byte(header+row(12)), nil)), status: 202},
			{name: "line protocol", path: "/write/readings?format=lineprotocol&unix-times=s", body: fmt.Sprintf("readings sensor=13i %d\n", loadStart.Unix()+13), status: 202},
			{name: "measurement", path: "/write/readings?format=lineprotocol&measurement=m", body: "m sensor=14i " + ns(14), status: 202},
			{name: "url-encoded name", path: "/write/%72eadings", headers: csv, body: header + row(15), status: 202},
			{name: "bearer", path: "/write/readings", headers: csv + "Authorization: bearer " + testToken, body: header + row(16), status: 202},
			{name: "some bad rows", path: "/write/readings", headers: csv, body: header + row(17) + "x," + at(17) + ",1,ok\n" + row(18), status: 202, want: `{"bad":1,"first":[{"column":"sensor","line":3,"reason":"\"x\": it is not an integer"}],"rows":3}`},
			{name: "rows outside all periods", path: "/write/readings", headers: csv, body: header + "1,2019-01-01 00:00:00,1,old\n", status: 202},
			{name: "key", path: "/write/readings", headers: csv + "Idempotency-Key: k1", body: header + row(19), status: 202, want: `{"bad":0,"rows":1}`},
			{name: "key again", path: "/write/readings", headers: csv + "Idempotency-Key: k1", body: header + row(19), status: 202, want: `"repeated":true`},
			{name: "key for other rows", path: "/write/readings", headers: csv + "Idempotency-Key: k1", body: header + row(20), status: 422, want: "the key was used for other rows"},

			{name: "influxdb_v2", path: influx, headers: packed, body: gzipped(point(21, "") + point(22, "")), status: 204},
			{name: "influxdb_v2 precision", path: influx + "&precision=s", headers: telegraf + chunked, body: fmt.Sprintf("readings sensor=23i %d\n", loadStart.Unix()+23), status: 204},
			{name: "influxdb 1", path: "/write?db=x&rp=&precision=ms", headers: text, body: fmt.Sprintf("readings sensor=24i %d\n", loadStart.UnixMilli()+24000), status: 204},
			{name: "partial write", path: influx, headers: telegraf, body: "cpu a=1 1\n" + point(25, "") + point(26, ",colour=1i"), status: 400, want: `"code":"invalid"`},
			{name: "other measurement", path: influx, headers: telegraf, body: "cpu a=1 1\n", status: 400, want: `line 1: measurement \"cpu\" isn't a table`},
			{name: "no points", path: influx, headers: telegraf, body: "\n", status: 400, want: "writing requires points"},
			{name: "unknown precision", path: influx + "&precision=h", headers: telegraf, body: point(1, ""), status: 400, want: "precision"},
			{name: "http influx", path: "/write/readings?format=lineprotocol", headers: telegraf, body: point(27, ""), status: 202},
			{name: "http json", path: "/write/readings?format=json", headers: telegraf, body: `{"metrics":[` + metric(28) + "," + metric(31) + "]}\n", status: 202, want: `"rows":2`},
			{name: "http json, no batch", path: "/write/readings?format=json", headers: telegraf, body: metric(29) + "\n", status: 202},
			{name: "http csv", path: "/write/readings?format=csv&columns=ts,sensor,value&header=false&unix-times=s", headers: packed, body: gzipped(fmt.Sprintf("%d,30,1.5\n%d,32,2\n", loadStart.Unix()+30, loadStart.Unix()+32)), status: 202, want: `"rows":2`},
			{name: "http csv with csv_header", path: "/write/readings?format=csv&columns=ts,sensor,value&header=true&unix-times=s", headers: telegraf, body: fmt.Sprintf("timestamp,sensor,value\n%d,33,1.5\n", loadStart.Unix()+33), status: 202, want: `"rows":1`},
			{name: "its next request", path: "/write/readings?format=csv&columns=ts,sensor,value&header=true&unix-times=s", headers: telegraf, body: fmt.Sprintf("%d,34,3\n%d,35,3.5\n", loadStart.Unix()+34, loadStart.Unix()+35), status: 400, want: "row of values"},

			{name: "bad row alone", path: "/write/readings", headers: csv, body: header + "1,yesterday,1,x\n", status: 400, want: `line 2: column ts: \"yesterday\": it is not a time`},
			{name: "unknown column", path: "/write/readings", headers: csv, body: "sensor,ts,colour\n1," + at(1) + ",x\n", status: 400, want: `line 1: column \"colour\"`},
			{name: "no time column", path: "/write/readings", headers: csv, body: "sensor\n1\n", status: 400, want: "there is no column ts"},
			{name: "header that is a row", path: "/write/readings?columns=sensor,ts", headers: csv, body: "1," + at(1) + "\n2," + at(2) + "\n", status: 400, want: "row of values"},
			{name: "header in another order", path: "/write/readings?columns=sensor,ts,note,value", headers: csv, body: header + row(1), status: 400, want: "the header, has sensor, ts, value, note"},
			{name: "CR alone", path: "/write/readings", headers: csv, body: strings.ReplaceAll(header+row(1), "\n", "\r"), status: 400, want: "its lines end with CR alone"},
			{name: "charset", path: "/write/readings", headers: "Content-Type: text/csv; charset=iso-8859-1", body: header + row(1), status: 415, want: "want utf-8"},
			{name: "charset with format", path: "/write/readings?format=csv", headers: "Content-Type: text/plain; charset=latin1", body: header + row(1), status: 415, want: "want utf-8"},
			{name: "charset for influxdb", path: influx, headers: "Content-Type: text/plain; charset=utf-16", body: point(1, ""), status: 415, want: "want utf-8"},
			{name: "not json", path: "/write/readings?format=json", body: "<html>", status: 400, want: "line 1: it is not a JSON object"},
			{name: "invalid UTF-8", path: "/write/readings", headers: csv, body: "sensor,ts,note\n1," + at(1) + ",\xff\n", status: 400, want: "not text in the source's encoding"},
			{name: "empty", path: "/write/readings", headers: csv, status: 400},
			{name: "header alone", path: "/write/readings", headers: csv, body: header, status: 400, want: "it has no rows"},
			{name: "truncated gzip", path: "/write/readings", headers: csv + "Content-Encoding: gzip", body: gzipped(header + row(1))[:30], status: 400, want: "unexpected EOF"},
			{name: "empty gzip", path: "/write/readings", headers: csv + "Content-Encoding: gzip", status: 400},
			{name: "not gzip", path: "/write/readings", headers: csv + "Content-Encoding: gzip", body: header + row(1), status: 400},
			{name: "not zstd", path: "/write/readings", headers: csv + "Content-Encoding: zstd", body: header + row(1), status: 400},
			{name: "gzip bomb", path: "/write/readings", headers: csv + "Content-Encoding: gzip", body: gzipped(strings.Repeat("\x00", 50<<20)), status: 413, want: "decompressed"},
			{name: "too long", path: "/write/readings", headers: csv, body: strings.Repeat("x", 64<<10+1), status: 413},
			{name: "unknown encoding", path: "/write/readings", headers: csv + "Content-Encoding: br", body: header + row(1), status: 415},
			{name: "unknown type", path: "/write/readings", headers: text, body: header + row(1), status: 415, want: "add ?format="},
			{name: "unknown format", path: "/write/readings?format=xml", body: header, status: 415},
			{name: "format for files", path: "/write/readings?format=dump", body: header, status: 415, want: "it is for files"},
			{name: "unknown parameter", path: "/write/readings?formt=csv", body: header, status: 400, want: "it is unknown"},
			{name: "broken query", path: "/write/readings?a=%zz", body: header, status: 400},
			{name: "json for influxdb", path: influx, headers: "Content-Type: application/json", body: "{}", status: 415},
			{name: "unknown table", path: "/write/others", headers: csv, body: header + row(1), status: 404},
			{name: "table of rowmill", path: "/write/rowmill_ledger", headers: csv, body: header + row(1), status: 404},
			{name: "path upwards", path: "/write/../readings", headers: csv, body: header + row(1), status: 404},
			{name: "path with an encoded slash", path: "/write/..%2freadings", headers: csv, body: header + row(1), status: 404},
			{name: "longer path", path: "/write/readings/", headers: csv, body: header + row(1), status: 404},
			{name: "doubled slash", path: "//write/readings", headers: csv, body: header + row(1), status: 404},
			{name: "GET", method: "GET", path: "/write/readings", status: 405},
			{name: "HEAD", method: "HEAD", path: influx, status: 405},
			{name: "PUT", method: "PUT", path: "/write/readings", body: header + row(1), status: 405},
			{name: "POST to ping", path: "/ping", status: 405},
			{name: "no token", path: "/write/readings", headers: csv + "Authorization: ", body: header + row(1), status: 401},
			{name: "wrong token", path: influx, headers: "Authorization: Token " + testToken + "x", body: point(1, ""), status: 401, want: `"code":"unauthorized"`},
			{name: "no scheme", path: "/write/readings", headers: csv + "Authorization: " + testToken, body: header + row(1), status: 401},
			{name: "metrics without a token", method: "GET", path: "/metrics", headers: "Authorization: Token x", status: 401},
			{name: "large header", path: "/write/readings", headers: csv + "X: " + strings.Repeat("x", 40<<10), body: header + row(1), status: 431},
			{name: "ping", method: "HEAD", path: "/ping", headers: "Authorization: ", status: 204},
			{name: "ping of 2", method: "GET", path: "/api/v2/ping", status: 204},
			{name: "health", method: "GET", path: "/health", headers: "Authorization: ", status: 200, want: `"status":"pass"`},
			{name: "metrics", method: "GET", path: "/metrics", status: 200, want: `rowmill_ingest_received_rows_total{table="readings"}`},
		} {
			status, answer, headers, err := c.send(t.Context(), r.url)
			if err != nil || status != c.status || !strings.Contains(answer, c.want) {
				t.Errorf("%s: %d %v %s, want %d with %s", c.name, status, err, answer, c.status, c.want)
			}
			if status == http.StatusMethodNotAllowed && headers.Get("Allow") == "" {
				t.Errorf("%s: no Allow", c.name)
			}
		}
		s := r.stop()
		wantDone(t, s)
		var want []string
		for n := 1; n <= 33; n++ {
			if n != 20 && n != 26 {
				want = append(want, fmt.Sprint(n))
			}
		}
		l.has(strings.Join(want, "; "), "SELECT sensor FROM "+l.db.Dialect().Quote("readings")+" AS r ORDER BY sensor")
		l.has("1", "SELECT COUNT(*) FROM rowmill_sources WHERE kind = 'spool'")
		bad := l.bad("spool/readings.bad.jsonl")
		if len(bad) != 3 || !strings.Contains(fmt.Sprint(bad), "2019-01-01 00:00:00 lies outside") || !strings.Contains(fmt.Sprint(bad), "colour") {
			t.Errorf("bad rows: %+v", bad)
		}
	})
}

// TestIngestRefusesToStart checks the flags.
func TestIngestRefusesToStart(t *testing.T) {
	t.Parallel()
	l := newLoading(t, "sqlite")
	empty, short := l.write("empty", "# nothing\n"), l.write("short", "secret\n")
	spool := " --ingest-spool " + l.dir + "/spool"
	for args, want := range map[string]string{
		"--ingest :0":                "--ingest needs a directory",
		"--ingest-spool x":           "without it",
		"--ingest 0.0.0.0:0" + spool: "other hosts can reach it",
		"--ingest [::]:0" + spool + " --ingest-token-file " + short:             "other hosts can reach it",
		"--ingest nonsense" + spool:                                             "want HOST:PORT",
		"--ingest :0 --once" + spool:                                            "--ingest takes rows for as long as",
		"--ingest :0 --ingest-cert x" + spool:                                   "belong together",
		"--ingest :0 --ingest-body 1GiB" + spool:                                "want at most 60 MiB",
		"--ingest :0 --ingest-spool-size 5" + spool:                             "of at least 1 MiB",
		"--ingest :0 --ingest-token-file " + empty + spool:                      "has no token",
		"--ingest :0 --ingest-token-file " + short + spool:                      "line 1: want a token of 16 characters",
		"--ingest :0 --ingest-token-file " + l.dir + "/none" + spool:            "no such file",
		"--ingest :0 --ingest-cert " + empty + " --ingest-key " + empty + spool: "--ingest-cert",
	} {
		if s := l.run("run", strings.Fields(args)...); s.code == exitDone || !strings.Contains(s.stderr, want) || strings.Contains(s.stderr, "secret") {
			t.Errorf("%s: exit %d, %s; want %q", args, s.code, s.stderr, want)
		}
	}
}

// TestIngestFullSpool checks that requests are refused with 429, and that /health and the log say
// so, while the table is locked away and the spool or its disk is full, that nothing that was
// acknowledged is lost, and that rows are taken again once those are loaded.
func TestIngestFullSpool(t *testing.T) {
	t.Parallel()
	t.Run("spool", func(t *testing.T) { fillsSpool(t, "the spool is full", "--ingest-spool-size", "1MiB") })
	t.Run("disk", func(t *testing.T) {
		fillsSpool(t, "no space left on device", "--ingest-spool", filepath.Join(testdb.SmallDisk(t, 1<<20), "spool"))
	})
}

func fillsSpool(t *testing.T, why string, flags ...string) {
	t.Parallel()
	l := newLoading(t, "sqlite", numbered("sqlite", "")...)
	l.write("tokens", testToken)
	r := receives(l, append(flags, "--ingest-token-file", filepath.Join(l.dir, "tokens"))...)
	conn, err := l.db.SQL().Conn(t.Context())
	must(t, err)
	_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	must(t, err)
	var body strings.Builder
	for n := range 1000 {
		fmt.Fprintf(&body, "%d,%s,1,%08d\n", n, at(n), n)
	}
	const known, unknown = "Authorization: Bearer " + testToken, "Authorization: Bearer none"
	c := call{path: "/write/readings?format=csv&header=false&columns=sensor,ts,value,note", body: body.String()}
	health := func(code int, headers, want string) {
		t.Helper()
		status, answer, _, err := call{method: http.MethodGet, path: "/health", headers: headers}.send(t.Context(), r.url)
		if must(t, err); status != code || !strings.Contains(answer, want) || strings.Contains(answer, "readings") != (headers == known) {
			t.Errorf("health, %s: %d %s", headers, status, answer)
		}
	}
	health(http.StatusOK, unknown, "rows are taken")
	taken, refused := 0, 0
	for refused == 0 && taken < 200 {
		status, answer, headers, err := c.send(t.Context(), r.url)
		must(t, err)
		switch status {
		case http.StatusAccepted:
			taken++
		case http.StatusTooManyRequests:
			if refused++; headers.Get("Retry-After") == "" || !strings.Contains(answer, why) {
				t.Errorf("%v, %s", headers, answer)
			}
		default:
			t.Fatalf("%d %s", status, answer)
		}
	}
	if taken < 10 || refused == 0 {
		t.Errorf("%d taken, %d refused", taken, refused)
	}
	health(http.StatusServiceUnavailable, known, why)
	health(http.StatusServiceUnavailable, unknown, "rows are refused")
	_, err = conn.ExecContext(t.Context(), "ROLLBACK")
	must(t, err)
	must(t, conn.Close())
	for range taken + 5 { // more than the spool or the disk holds
		l.waits("a request is taken again", func() bool {
			status, _, _, err := c.send(t.Context(), r.url)
			must(t, err)
			if status == http.StatusAccepted {
				taken++
			}
			return status == http.StatusAccepted
		})
	}
	health(http.StatusOK, known, "rows are taken")
	s := r.stop()
	wantDone(t, s)
	contains(t, s.stderr, "readings: rows are refused, because they can't be kept")
	l.hasRows(taken * 1000)
}

// clients send numbered rows until stop is closed, each request until it is acknowledged
// or refused for good, and return the numbers of the acknowledged rows. A request whose
// answer is lost is repeated with its key.
func clients(t *testing.T, url func() string, n, rows int, stop <-chan struct{}) (acknowledged func() map[int]bool) {
	t.Helper()
	var all sync.WaitGroup
	var next atomic.Int64
	parts := make([]map[int]bool, n)
	for i := range n {
		parts[i] = map[int]bool{}
		all.Go(func() {
			for {
				first := int(next.Add(int64(rows))) - rows
				body := "sensor,ts\n"
				for k := range rows {
					body += fmt.Sprintf("%d,%s\n", first+k, at((first+k)%3600))
				}
				c := call{path: "/write/readings", body: body, headers: fmt.Sprintf("Content-Type: text/csv\nIdempotency-Key: %d", first)}
				for status := 0; status != http.StatusAccepted; {
					var err error
					if status, _, _, err = c.send(context.Background(), url()); err != nil || status != http.StatusAccepted {
						select {
						case <-stop:
							return
						case <-time.After(10 * time.Millisecond):
						}
					}
				}
				for k := range rows {
					parts[i][first+k] = true
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	return func() map[int]bool {
		all.Wait()
		out := map[int]bool{}
		for _, p := range parts {
			for k := range p {
				out[k] = true
			}
		}
		return out
	}
}

// once fails unless each acknowledged row is in the table, and no row twice.
func (l *loading) once(acknowledged map[int]bool) {
	l.Helper()
	seen := map[string]int{}
	for _, sensor := range l.query("SELECT sensor FROM " + l.db.Dialect().Quote("readings") + " AS r") {
		if seen[sensor]++; seen[sensor] == 2 {
			l.Errorf("row %s is in the table twice", sensor)
		}
	}
	missing := 0
	for n := range acknowledged {
		if seen[fmt.Sprint(n)] == 0 {
			missing++
		}
	}
	if missing > 0 || len(acknowledged) == 0 {
		l.Errorf("%d of %d acknowledged rows are missing", missing, len(acknowledged))
	}
	l.Logf("%d rows acknowledged, %d in the table", len(acknowledged), len(seen))
}

// TestIngestDatabaseKilled kills the database under eight clients, and starts it again:
// each row that was acknowledged is in the table once, although only the ledger prevents
// duplicates. In the nightly run it takes a minute per server.
func TestIngestDatabaseKilled(t *testing.T) {
	t.Parallel()
	kinds, half := testdb.Kinds(t, "mariadb", "mysql", "postgres"), 800*time.Millisecond
	if testdb.Nightly() {
		half = 20 * time.Second
	} else {
		kinds = kinds[:min(len(kinds), 1)]
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			testdb.Require(t, kind, sandbox.Installed(t.Context(), kind))
			o, err := sandbox.ParseTarget("sandbox:" + kind + "?memory=64MB&redo=64MB")
			if kind == "postgres" {
				o, err = sandbox.ParseTarget("sandbox:" + kind + "?memory=64MB")
			}
			must(t, err)
			o.Root = t.TempDir()
			s, err := sandbox.Start(t.Context(), o, t.Logf)
			must(t, err)
			t.Cleanup(func() { must(t, s.Stop(context.Background())) })
			l := newLoadingAt(t, kind, s.Target(), numbered(kind, "")...)
			r := receives(l)
			stop := make(chan struct{})
			acknowledged := clients(t, func() string { return r.url }, 8, 5, stop)
			time.Sleep(half) // the server is killed and started at any point of the work
			s.Kill()
			time.Sleep(half / 2)
			must(t, s.Restart(t.Context()))
			time.Sleep(half)
			close(stop)
			all := acknowledged()
			out := r.stop()
			wantDone(t, out)
			if strings.Contains(out.stderr, "in the spool, of") { // loaded by the next one
				wantDone(t, receives(l).stop())
			}
			l.db = openKeeper(t, l.target) // its connections broke
			l.once(all)
		})
	}
}

// TestIngestKilled kills rowmill run at several points under four clients, and starts it
// again: each row that was acknowledged is in the table once.
func TestIngestKilled(t *testing.T) {
	t.Parallel()
	points := []int{2, 9, 40}
	if testdb.Nightly() {
		points = []int{1, 2, 3, 4, 5, 7, 9, 12, 17, 24, 33, 50, 80, 120, 200}
	}
	onEach(t, keepers, func(t *testing.T, server string) {
		l := newLoading(t, server, numbered(server, "")...)
		addr := freePort(t)
		run := func(n int) (ended <-chan session) {
			c := killable(n, "run", l.file, "--clock", l.clock, "--ingest", addr, "--ingest-spool", filepath.Join(l.dir, "spool"))
			out := make(chan session, 1)
			go func() { out <- endedBy(t, c) }()
			return out
		}
		stop := make(chan struct{})
		acknowledged := clients(t, func() string { return "http://" + addr }, 4, 3, stop)
		for _, n := range points {
			if s := <-run(n); s.code != -1 {
				t.Fatalf("exit %d at point %d: %s", s.code, n, s.stderr)
			}
		}
		close(stop)
		all := acknowledged()
		wantDone(t, receives(l).stop())
		l.once(all)
	})
}

// endedBy is ended without the test's goroutine.
func endedBy(t *testing.T, c interface{ CombinedOutput() ([]byte, error) }) session {
	out, err := c.CombinedOutput()
	code := 0
	if err != nil {
		code = exitFailed
		if strings.Contains(err.Error(), "killed") {
			code = -1
		}
	}
	return session{code: code, stderr: string(out)}
}

// TestIngestSlowSender checks that a connection that sends nothing, or a header without
// an end, is closed.
func TestIngestSlowSender(t *testing.T) {
	t.Parallel()
	if !testdb.Nightly() {
		t.Skip("it takes 6 s")
	}
	r := receives(newLoading(t, "sqlite"))
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	must(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST /write/readings HTTP/1.1\r\nHost: x\r\nX: ")
	must(t, err)
	began := time.Now()
	must(t, conn.SetReadDeadline(began.Add(time.Minute)))
	if _, err := io.ReadAll(conn); err != nil || time.Since(began) > 20*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

// TestIngestKeyKept checks that a key is known after a restart, by each kind of request,
// and what is refused without a token.
func TestIngestKeyKept(t *testing.T) {
	onSQLite(t, func(l *loading) {
		csv := call{path: "/write/readings", headers: "Content-Type: text/csv\nIdempotency-Key: k", body: "sensor,ts,value\n1," + at(1) + ",1\n", status: 202}
		points := call{path: "/api/v2/write", headers: "Idempotency-Key: k", body: "readings sensor=2i " + ns(2), status: 204}
		nulls := csv
		nulls.path, nulls.body, nulls.headers = "/write/readings?format=csv&null=NA&null=-", "sensor,ts,value\n3,"+at(3)+",NA\n4,"+at(4)+",-\n", "Idempotency-Key: n"
		for range 2 {
			r := receives(l)
			for _, c := range []call{csv, points, nulls,
				{path: "/api/v2/write", headers: "Idempotency-Key: " + strings.Repeat("k", 256), body: points.body, status: 400, want: "more than 255"},
				{path: "/write/readings?format=csv&format=tsv", body: csv.body, status: 400, want: "given twice"},
				{path: "/api/v2/write", headers: "Origin: http://example.com", body: points.body, status: 403, want: "another site"},
				{path: "/write/readings?format=json", body: strings.Repeat("[", 8<<20), status: 400, want: "not a JSON object"},
			} {
				if status, answer, _, err := c.send(l.Context(), r.url); err != nil || status != c.status || !strings.Contains(answer, c.want) {
					l.Errorf("%s %.60s: %d %v %.200s", c.path, c.headers, status, err, answer)
				}
			}
			wantDone(l.T, r.stop())
		}
		l.has("1; 2; 3; 4", "SELECT sensor FROM readings ORDER BY sensor")
	})
}

// TestIngestWaitsForDatabase checks that rowmill run waits for a server that is down, and
// ends at once when it is told to.
func TestIngestWaitsForDatabase(t *testing.T) {
	onSQLite(t, func(l *loading) {
		args := []string{"run", l.file, "--target", "mysql://root@" + freePort(l.T) + "/none"}
		if s := rowmill(l.Context(), args...); s.code != exitFailed {
			l.Errorf("without --ingest: exit %d, %s", s.code, s.stderr)
		}
		ctx, cancel := context.WithTimeout(l.Context(), 500*time.Millisecond)
		defer cancel()
		s := rowmill(ctx, append(args, "--ingest", freePort(l.T), "--ingest-spool", filepath.Join(l.dir, "spool"))...)
		if ctx.Err() == nil || s.code != exitDone || !strings.Contains(s.stderr, "will be tried again") {
			l.Errorf("exit %d, %s", s.code, s.stderr)
		}
	})
}
