package rowmill_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTraps: every test that docs/traps.md names exists, and every test that is
// called after a trap is named there.
func TestTraps(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("docs", "traps.md"))
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, m := range regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllSubmatch(text, -1) {
		named = append(named, string(m[1]))
	}
	if len(named) < 40 {
		t.Fatalf("docs/traps.md names %d tests only", len(named))
	}
	have := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(t \*testing\.T\)`)
	err = filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range function.FindAllSubmatch(bytes.ReplaceAll(source, []byte("\r"), nil), -1) {
			have[string(m[1])] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range named {
		if name != "TestTraps" && !have[name] {
			t.Errorf("docs/traps.md names %s, which is no test", name)
		}
	}
	for name := range have {
		if strings.HasPrefix(name, "TestTrap") && name != "TestTraps" && !slices.Contains(named, name) {
			t.Errorf("docs/traps.md doesn't name %s", name)
		}
	}
}
