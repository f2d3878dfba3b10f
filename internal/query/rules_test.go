package query

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// Each rule has a reason, and its trait is one of engine.Semantics.
func TestRules(t *testing.T) {
	reasons := map[string]bool{}
	for i, r := range rules {
		if r.reason == "" || reasons[r.reason] {
			t.Errorf("rule %d has no reason of its own: %q", i, r.reason)
		}
		reasons[r.reason] = true
		if _, ok := reflect.TypeFor[engine.Semantics]().FieldByName(r.trait); r.trait != "" && !ok {
			t.Errorf("%q: engine.Semantics has no field %s", r.reason, r.trait)
		}
	}
}

// The lines before and after the rules in docs/querying.md.
const (
	rulesBegin = "| rule | because |\n|---|---|\n"
	rulesEnd   = "\n\n"
)

// The table of rules in docs/querying.md is that of the code: go test ./internal/query -run TestRulesInDocs -update.
func TestRulesInDocs(t *testing.T) {
	const file = "../../docs/querying.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), rulesBegin)
	_, after, ended := strings.Cut(rest, rulesEnd)
	if !found || !ended {
		t.Fatalf("%s has no table that begins with %q", file, rulesBegin)
	}
	want := before + rulesBegin + printedRules() + rulesEnd + after
	switch {
	case want == string(text):
	case *update:
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s: the table of rules isn't that of rules.go; run with -update", file)
	}
}

var verbs = regexp.MustCompile(`%[sd]`)

// printedRules are the lines of the table: a reason that has "because", those after it without one, and why.
func printedRules() string {
	var lines, reasons []string
	because := ""
	end := func() {
		if because != "" {
			lines = append(lines, "| "+strings.Join(reasons, "; ")+" | "+because+" |")
		}
		reasons = nil
	}
	for _, r := range rules {
		if r.because != "" {
			end()
			because = r.because
		}
		next := 0
		reasons = append(reasons, "`"+verbs.ReplaceAllStringFunc(r.reason, func(verb string) string {
			if verb == "%d" {
				return "N"
			}
			next++
			return string(rune('w' + next))
		})+"`")
	}
	end()
	return strings.Join(lines, "\n")
}
