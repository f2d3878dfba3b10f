package monitor

import (
	"os"
	"strings"
	"testing"
)

// The table of metrics in the documentation is complete, and lists no others.
func TestDocumentedMetrics(t *testing.T) {
	text, err := os.ReadFile("../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |"); ok && strings.HasPrefix(line, "| `rowmill_") {
			for _, name := range metricNames.FindAllString(cell, -1) {
				documented[name] = true
			}
		}
	}
	names := exported(t)
	for name := range documented {
		if !names[name] && !names[name+"_bucket"] {
			t.Errorf("%s is documented and not exported", name)
		}
	}
	for name := range names {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(name, suffix); documented[base] {
				name = base
			}
		}
		if name != "" && !documented[name] {
			t.Errorf("%s is exported and not documented", name)
		}
	}
}
