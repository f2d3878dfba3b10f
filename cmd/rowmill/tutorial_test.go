package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestTutorial runs the commands of docs/guide/start.md as they stand, with fewer rows outside of
// the nightly run.
func TestTutorial(t *testing.T) {
	t.Parallel()
	testdb.Require(t, "mariadb", sandbox.Installed(t.Context(), "mariadb"))
	text := string(readFile(t, filepath.Join("..", "..", "docs", "guide", "start.md")))
	script := "set -eum\n"
	for _, part := range strings.Split(text, "```sh\n")[1:] {
		commands, _, _ := strings.Cut(part, "```")
		script += commands
	}
	if !testdb.Nightly() {
		script = strings.Replace(script, "rows=300000", "rows=3000", 1)
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	must(t, os.Mkdir(bin, 0o700))
	must(t, os.WriteFile(filepath.Join(bin, "rowmill"), []byte(fmt.Sprintf("#!/bin/sh\n%s=1 exec %q \"$@\"\n", processVariable, os.Args[0])), 0o700))
	c := exec.CommandContext(t.Context(), "bash", "-c", script)
	c.Dir = dir
	c.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%v", err)
	}
	said := string(out)
	for _, want := range []string{"reads/insert", `time   = "at"`, "-- the rolling table, with ", "events is a rolling table now", "the old table is dropped", "events is an ordinary table: nothing of rowmill's belongs to it", "Tables_in_rowmill\nevents\n"} {
		_, rest, found := strings.Cut(said, want)
		if !found {
			t.Fatalf("%q is missing, or not in its place, in\n%s", want, out)
		}
		said = rest
	}
}
