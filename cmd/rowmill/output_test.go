package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rowmill/rowmill/internal/testdb"
)

// TestServerCuts checks that a connection closed by the server is a failure with a
// message. It must not be taken for a closed standard output, although both are EPIPE.
func TestServerCuts(t *testing.T) {
	t.Parallel()
	target := testdb.Target(t, "postgres")
	server := filepath.Join(target.Query.Get("host"), ".s.PGSQL.5432")
	dir := t.TempDir()
	target.Query.Set("host", dir)
	file := filepath.Join(dir, "readings.toml")
	writeFile(t, file, filled(plainDeclaration, target.String(), dir))
	rows := filepath.Join(dir, "rows.csv")
	writeFile(t, rows, "sensor,ts,value\n1,2026-01-01 00:00:00,1\n")
	cutAfter := cuttingRelay(t, filepath.Join(dir, ".s.PGSQL.5432"), server)
	for _, args := range [][]string{{"status", file}, {"apply", file, "--yes"}, {"run", file, "--once"}, {"load", file, rows, "--retry", "0s"}, {"restore", file, "--list"},
		{"bench", "insert", "--rows", "10", "--target", target.String()}} {
		for answers := range int32(4) {
			cutAfter.Store(answers)
			s := rowmill(t.Context(), args...)
			code := exitFailed
			if args[0] == "status" {
				code = exitUnknown
			}
			if s.code != code || s.stderr == "" {
				t.Errorf("%s, cut after %d answers: exit %d, stderr: %q", strings.Join(args[:2], " "), answers, s.code, s.stderr)
			}
		}
	}
}

// cuttingRelay forwards the traffic of PostgreSQL's clients at the socket to server.
// From the first ReadyForQuery of a connection, and as many more as the result says,
// it stops reading, so that the client's next write fails with EPIPE.
func cuttingRelay(t *testing.T, socket, server string) *atomic.Int32 {
	t.Helper()
	var answers atomic.Int32
	testdb.NewRelay(t, socket, server, func(client *net.UnixConn, server io.Reader) {
		left, from := answers.Load(), bufio.NewReader(server)
		for {
			head, err := from.Peek(5)
			if err != nil {
				return
			}
			if head[0] == 'Z' {
				if left == 0 {
					_ = client.CloseRead()
				}
				left--
			}
			if _, err := io.CopyN(client, from, 1+int64(binary.BigEndian.Uint32(head[1:]))); err != nil {
				return
			}
		}
	})
	return &answers
}

// TestLostResults checks that a verb whose results can't be written fails.
func TestLostResults(t *testing.T) {
	t.Chdir(t.TempDir())
	declareFile(t, "x.db")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for _, args := range []string{"help", "--help", "--version", "bench --help", "apply readings.toml --dry-run", "apply readings.toml --yes", "status readings.toml", "completion bash"} {
		var stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(args), strings.NewReader(""), full, &stderr)
		if code != exitFailed || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%s: exit %d, stderr: %s", args, code, stderr.String())
		}
	}
}

// TestReaderGone checks that a verb whose results are not read ends as with SIGPIPE,
// without a message.
func TestReaderGone(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"}, {"version", "--json"}, {"bench", "insert", "--target", "null:", "--rows", "10"}} {
		r, w, err := os.Pipe()
		must(t, err)
		must(t, r.Close())
		var stderr bytes.Buffer
		code := run(t.Context(), args, strings.NewReader(""), w, &stderr)
		if code != exitPipe || strings.Contains(stderr.String(), "pipe") {
			t.Errorf("%s: exit %d, stderr: %s", strings.Join(args, " "), code, stderr.String())
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWithoutCanceled(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"interrupted: context canceled":                                     "interrupted",
		"interrupted: look at table t: context canceled":                    "interrupted: look at table t",
		"interrupted: seal: context canceled\ncontext canceled":             "interrupted: seal",
		"layout plain: interrupted before anything was measured: x: broken": "layout plain: interrupted before anything was measured: x: broken",
	} {
		if got := withoutCanceled(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestVersionFlag checks that --version prints the same as the verb.
func TestVersionFlag(t *testing.T) {
	t.Parallel()
	flag, verb := rowmill(t.Context(), "--version"), rowmill(t.Context(), "version")
	if flag.code != exitDone || flag.stdout != verb.stdout || flag.stdout == "" {
		t.Errorf("--version: exit %d, %q %q; version: %q", flag.code, flag.stdout, flag.stderr, verb.stdout)
	}
}

// TestBuildInformation checks what is taken from Go's build information.
func TestBuildInformation(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-30T10:00:00Z"}, {Key: "vcs.modified", Value: "true"}}}
	for name, c := range map[string]struct{ set, want built }{
		"nothing is set": {built{}, built{Version: "v1.2.3", Commit: "abc+dirty", Date: "2026-11-30T10:00:00Z"}},
		"the version":    {built{Version: "v2"}, built{Version: "v2", Commit: "abc+dirty", Date: "2026-11-30T10:00:00Z"}},
		"the commit":     {built{Commit: "def"}, built{Version: "v1.2.3", Commit: "def"}},
	} {
		if c.set.fill(info); c.set != c.want {
			t.Errorf("%s: %+v, want %+v", name, c.set, c.want)
		}
	}
}

// TestAnnounced checks that benchmarks announce how long they take, if that is known.
func TestAnnounced(t *testing.T) {
	t.Parallel()
	limited := filepath.Join(t.TempDir(), "mine.toml")
	writeFile(t, limited, strings.Replace(mine, "batch   = 100", "batch   = 100\nmax-time = \"1s\"", 1))
	sqlite := "sqlite:?durability=none"
	for says, args := range map[string][]string{
		"at most 2s of inserting, by the runs' limits of time\n":                                 {"bench", "scenario", limited, "--target", sqlite, "--scale", "0.2", "--interval", "20ms"},
		"2 runs: at most about 6s, by --time 200ms for each\n":                                   {"bench", "matrix", "--target", sqlite, "--method", "multi", "--batch", "10,100", "--layout", "plain", "--writers", "1", "--rows", "300", "--time", "200ms", "--interval", "10ms"},
		"measuring 2 cells of 0.2 s each: at least 400ms, and before it the tables are filled\n": {"bench", "mixed", "--target", sqlite, "--ops", "select-pk", "--clients", "1,2", "--rows", "500", "--seconds", "0.2"},
		"measuring 1 cell of 0.2 s each: at least 200ms, and before it the tables are filled\n":  {"bench", "points", "--target", sqlite, "--points", "5", "--clients", "1", "--rows", "500", "--seconds", "0.2"},
		"inserts take at most 100ms, plus":                                                       {"bench", "steady", "--target", sqlite, "--for", "100ms", "--interval", "20ms", "--rate", "10k", "--p99", "10s", "--out", filepath.Join(filepath.Dir(limited), "run.jsonl")},
		"inserts take at most 45s, plus":                                                         {"bench", "insert", "--target", "null:", "--no-verify"},
		"1 query step of 20ms: 20ms in all, after the load\n":                                    {"bench", "ibench", "--target", "sqlite:?durability=none", "--rows", "5k", "--steps", "l.i0,l.x,l.i1,qr100", "--query-time", "20ms", "--interval", "10ms"},
		"inserts take at most 20ms in 2 runs of at most 10ms, plus":                              {"bench", "insert", "--target", "null:", "--max-time", "10ms", "--repeat", "2"},
	} {
		s := rowmill(t.Context(), args...)
		first, _, said := strings.Cut(s.stderr, says)
		if s.code != exitDone || !said || strings.Contains(first, "run 1 of") || strings.Contains(first, "1/") {
			t.Errorf("%s: exit %d, stderr: %s", strings.Join(args, " "), s.code, s.stderr)
		}
	}
}
