package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPasswordFileForOthers checks that there is a warning about a password file if
// and only if others can read it.
func TestPasswordFileForOthers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	writeFile(t, file, "geheim\n")
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o640: true, 0o644: true, 0o604: true} {
		must(t, os.Chmod(file, mode))
		for _, scheme := range []string{"mysql", "postgres"} {
			s := rowmill(t.Context(), "bench", "insert", "--rows", "1", "--target", scheme+"://nobody@127.0.0.1:1/db?password-file="+file)
			if got := strings.Contains(s.stderr, "other users can read it; chmod 600 "+file); got != warned || strings.Contains(s.stderr, "geheim") {
				t.Errorf("%s, %04o: warned: %v, stderr: %s", scheme, mode, got, s.stderr)
			}
		}
	}
}

// TestPasswordInKeywords checks that a password in a target that is not a URL is never
// printed, be it from the command line or from a declaration.
func TestPasswordInKeywords(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "readings.toml")
	for _, target := range []string{"host=db1 password=geheim dbname=x", "host=db1 password=ge:geheim", "password=geheim host=/tmp:1", "postgres:host=x password=geheim",
		"postgres:password=geheim", "postgres://?host=x password=geheim", "postgres://h/db?%zz&password=geheim", "mysql:u:geheim@tcp(h)/db", "u:geheim@tcp(h:3306)/db"} {
		text := filled(plainDeclaration, target, "")
		writeFile(t, file, text)
		for _, args := range [][]string{{"bench", "insert", "--rows", "1", "--target", target}, {"status", file}, {"plan", file, "--target", target}, {"sandbox", "start", "--target", target},
			{"bench", "matrix", "--target", target}, {"bench", "mixed", "--target", target}, {"bench", "steady", "--target", target}} {
			s := rowmill(t.Context(), args...)
			if s.code == exitDone || strings.Contains(s.stderr+s.stdout, "geheim") {
				t.Errorf("%s: exit %d\n%s%s", strings.Join(args, " "), s.code, s.stdout, s.stderr)
			}
		}
	}
}
