package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/result"
)

// needFio returns fio's path.
func needFio(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("fio")
	testdb.Require(t, "fio", err)
	return path
}

// wrapFio puts a program named fio before the real one, which $fio names.
func wrapFio(t *testing.T, script string) {
	t.Helper()
	real, dir := needFio(t), t.TempDir()
	text := fmt.Sprintf("#!/bin/sh\nfio=%s\n[ \"$1\" = --version ] && exec $fio --version\n%s\n", real, script)
	must(t, os.WriteFile(filepath.Join(dir, "fio"), []byte(text), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// onDisk returns a folder that is not in memory, as t.TempDir may be.
func onDisk(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "rowmill-disk-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	return dir
}

const briefDisk = "disk . --size 64MiB --time 500ms --blocks 16KiB --depths 1,4 --out disk.jsonl "

// TestBenchDisk makes a few jobs: the record has the rate, latencies and fio's command, and no file
// is left. The jobs are long because the disk of a busy machine may do nothing for more than half a
// second.
func TestBenchDisk(t *testing.T) {
	needFio(t)
	t.Chdir(onDisk(t))
	s := benched(t, "disk . --size 64MiB --time 2s --blocks 16KiB --depths 4 --kinds random,fsync --writes 0 --out disk.jsonl --json")
	var got report.Summaries
	must(t, json.Unmarshal([]byte(s.stdout), &got))
	if got.Grid == nil || len(got.Runs) != 3 {
		t.Fatalf("%s", s.stdout)
	}
	for _, sum := range got.Runs {
		d := sum.Disk
		if sum.Rows < 1 || d == nil || d.BytesPerSecond < 1 || d.Job[0] != "fio" || sum.LatencyUS[d.Operation()].P50 < 1 || sum.LatencyUS[d.Operation()].Count == 0 {
			t.Errorf("%s: %+v, %+v", sum.Name, d, sum.LatencyUS)
		}
	}
	if n := got.Runs[0].Rows; n != 64 {
		t.Errorf("the file of 64 MiB was filled with %d MiB", n)
	}
	files, err := os.ReadDir(".")
	if must(t, err); len(files) != 1 {
		t.Errorf("left: %v", files)
	}
	// What else uses the result.
	m := result.NewMeasuredDisk(records(t, "disk.jsonl"), "disk.jsonl")
	if m == nil || len(m.Reads) != 1 || m.Reads[0].Depth != 4 {
		t.Fatalf("%+v", m)
	}
	benched(t, "insert --target sqlite: --rows 1000 --disk disk.jsonl --out insert.jsonl")
	if r := records(t, "insert.jsonl")[0].Run.MeasuredDisk; r == nil || len(r.Reads) != 1 {
		t.Errorf("bench insert --disk: %+v", r)
	}
}

// TestBenchDiskFaults checks that a fault is an exit code of 1, with its cause, and a record that
// can be read.
func TestBenchDiskFaults(t *testing.T) {
	if apart(t) {
		return
	}
	for name, c := range map[string]struct{ script, want string }{
		"killed":    {"kill -9 $$", "fio was ended by a signal: killed"},
		"disk full": {"echo '{'; echo '\"jobs\":[{\"error\":28,\"job_runtime\":10}]'; echo '}'; exit 1", "fio: no space left on device"},
		"silent":    {"exit 0", "fio reported nothing"},
		"refused":   {"echo 'fio: engine libaio not loadable' >&2; exit 1", "fio: engine libaio not loadable"},
	} {
		t.Run(name, func(t *testing.T) {
			wrapFio(t, c.script)
			t.Chdir(onDisk(t))
			s := verb(t, "bench "+briefDisk)
			if s.code != exitFailed || !strings.Contains(s.stderr, c.want) {
				t.Errorf("exit %d: %s", s.code, s.stderr)
			}
			if r := records(t, "disk.jsonl"); len(r) != 1 || !strings.Contains(r[0].End.Failure, c.want) {
				t.Errorf("%+v", r[0].End)
			}
			if s := verb(t, "report disk.jsonl"); s.code != exitDone || !strings.Contains(s.stdout, c.want) {
				t.Errorf("report: exit %d: %s%s", s.code, s.stdout, s.stderr)
			}
		})
	}
}

// TestBenchDiskRefuses checks where no disk is measured.
func TestBenchDiskRefuses(t *testing.T) {
	needFio(t)
	t.Chdir(onDisk(t))
	writeFile(t, "file", "")
	for args, want := range map[string]string{
		"":                           "needs DIR",
		"nowhere":                    "there is no folder nowhere",
		"file":                       "file is not a folder",
		"/dev/null":                  "is not a folder",
		"/dev/shm":                   "memory is not a disk",
		". --size 900TB":             "bytes): the file needs",
		". --size 1MB":               "want at least 64 MiB",
		". --size much":              "want a size such as 8GB",
		". --time 10ms":              "want at least 500ms",
		". --blocks 100":             "want 512 to",
		". --blocks 700":             "in sectors of",
		". --blocks x":               "is not a size",
		". --depths 0":               "--depths 0",
		". --writes 101":             "want at most 100",
		". --kinds trim":             `unknown kind "trim"`,
		". --repeat 0":               "--repeat 0",
		". --out no/such/disk.jsonl": "no folder",
	} {
		if s := verb(t, "bench disk "+args); s.code == exitDone || !strings.Contains(s.stderr, want) {
			t.Errorf("%s: exit %d: %s", args, s.code, s.stderr)
		}
	}
	if s := verb(t, "bench insert --disk file"); s.code == exitDone || !strings.Contains(s.stderr, "--disk") {
		t.Errorf("exit %d: %s", s.code, s.stderr)
	}
	t.Setenv("PATH", "/nowhere")
	if s := verb(t, "bench disk ."); s.code == exitDone || !strings.Contains(s.stderr, "fio, which makes the requests, is not installed\nTry: apt-get install fio") {
		t.Errorf("exit %d: %s", s.code, s.stderr)
	}
}
