package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skipf("the units are not verified: %v", err)
	}
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
