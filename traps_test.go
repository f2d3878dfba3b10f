package rowmill_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTraps: every test and benchmark that a document names exists, and every test that is
// called after a trap is named in docs/traps.md.
func TestTraps(t *testing.T) {
	files, err := exec.Command("git", "ls-files", "*.go", "*.md").Output()
	if err != nil {
		t.Skip(err)
	}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)[A-Z][A-Za-z0-9]+)\(`)
	mention := regexp.MustCompile(`\bTest[A-Z][A-Za-z0-9]+|-bench ([A-Z]\w+)`)
	have, named := map[string]bool{}, map[string]string{}
	for _, file := range strings.Fields(string(files)) {
		text, err := os.ReadFile(file)
		switch {
		case err != nil:
			t.Fatal(err)
		case filepath.Ext(file) == ".go":
			for _, m := range function.FindAllSubmatch(text, -1) {
				have[string(m[1])] = true
			}
		case file != "CHANGELOG.md": // its tests existed at the time
			for _, m := range mention.FindAllSubmatch(text, -1) {
				name := string(m[0])
				if len(m[1]) > 0 {
					name = "Benchmark" + string(m[1])
				}
				named[name] += file
			}
		}
	}
	for name, file := range named {
		if !have[name] {
			t.Errorf("%s names %s, which does not exist", file, name)
		}
	}
	if len(named) < 40 {
		t.Errorf("the documents name %d tests only", len(named))
	}
	for name := range have {
		if strings.HasPrefix(name, "TestTrap") && name != "TestTraps" && !strings.Contains(named[name], filepath.Join("docs", "traps.md")) {
			t.Errorf("docs/traps.md doesn't name %s", name)
		}
	}
}
