package rolling_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/rolling"
)

// The examples of the docs are declarations.
func TestDocsDeclarations(t *testing.T) {
	n := 0
	for _, file := range []string{"../docs/declaration.md", "../docs/guide/keep.md", "../README.md"} {
		text, err := os.ReadFile(file)
		must(t, err)
		for _, m := range regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(m[1], "[table]") {
				continue
			}
			n++
			d, err := rolling.ParseDeclaration(file, []byte(m[1]))
			if err != nil {
				t.Error(err)
			} else if len(d.Warnings) > 0 {
				t.Error(d.Warnings)
			}
		}
	}
	if n == 0 {
		t.Error("there is none")
	}
}

// Every key of the file is in the docs.
func TestDocsKeys(t *testing.T) {
	text, err := os.ReadFile("../docs/declaration.md")
	must(t, err)
	for table, keys := range rolling.DeclarationKeys {
		for _, key := range keys {
			want := "| `" + key + "` |"
			if table == "" {
				want = "[" + key + "]"
			}
			if !strings.Contains(string(text), want) {
				t.Errorf("docs/declaration.md has no %s of [%s]", want, table)
			}
		}
	}
}
