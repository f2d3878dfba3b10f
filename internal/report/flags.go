package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/result"
)

// A Flag is a difference between two runs, or a weakness of either, that a reader must
// know before believing their comparison.
type Flag struct {
	// Kind is "durability", "engine", "server", "settings", "cache", "machine", "schema",
	// "workload", "verified", "client-bound", "incomplete" or "order".
	Kind string `json:"kind"`
	// What differs, such as "cores"; empty if Kind suffices.
	What string `json:"what,omitempty"`
	A    string `json:"a"`
	B    string `json:"b"`
	// Text describes the flag in one sentence.
	Text string `json:"text"`
}

func flags(a, b *view) []Flag {
	out := []Flag{}
	// differ adds a flag if two values differ; an empty value is shown as "-".
	differ := func(kind, what, a, b, text string) {
		if a != b {
			a, b = cmp.Or(a, none), cmp.Or(b, none)
			out = append(out, Flag{kind, what, a, b, fmt.Sprintf("%s: %s against %s", text, a, b)})
		}
	}
	x, y := &a.rec.Run, &b.rec.Run
	// The memory that the kernel leaves varies by a few pages from boot to boot.
	near := max(x.Machine.MemoryBytes, y.Machine.MemoryBytes)-min(x.Machine.MemoryBytes, y.Machine.MemoryBytes) <= x.Machine.MemoryBytes/100
	for _, p := range properties {
		what := p.name
		if what == p.kind {
			what = ""
		}
		switch {
		case p.kind == "" || p.kind == "machine" && p.name == "memory" && near:
		case p.kind == "durability":
			differ(p.kind, what, p.of(x), p.of(y), "unequal durability: a crash may lose more in one than in the other")
			for _, name := range durabilitySettings {
				differ(p.kind, name, x.Settings[name], y.Settings[name], "unequal durability: "+name+" differs")
			}
		case p.kind == "schema":
			if !slices.Equal(x.Schema, y.Schema) {
				va, vb := firstDifference(x.Schema, y.Schema)
				differ(p.kind, "", va, vb, "the tables were made by different statements")
			}
		default:
			differ(p.kind, what, p.of(x), p.of(y), "different "+onlyIf(p.kind == "server", "server ")+p.name)
		}
	}
	differ("workload", "table", tableOf(x), tableOf(y), "different tables, rows or durations")
	if x.Engine == y.Engine { // settings of different engines are not comparable
		names := map[string]bool{}
		for _, settings := range []map[string]string{x.Settings, y.Settings} {
			for name := range settings {
				names[name] = true
			}
		}
		for _, name := range sortedNames(names) {
			if !slices.Contains(durabilitySettings, name) {
				differ("settings", name, x.Settings[name], y.Settings[name], "setting "+name+" differs")
			}
		}
	}
	// Runs that are doubtful by themselves.
	doubt := func(kind, sound, text string, of func(v *view) string) {
		if va, vb := of(a), of(b); va != sound || vb != sound {
			out = append(out, Flag{kind, "", va, vb, fmt.Sprintf("%s: A %s, B %s", text, va, vb)})
		}
	}
	doubt("verified", "verified", "not proven that every row arrived", func(v *view) string {
		switch c := v.sum.Verified; {
		case c == nil && tableOf(&v.rec.Run) != "": // experiments that insert nothing, or have a proof of their own
		case c == nil && v.whole() != "": // the last part is not among the records
			return "verified " + v.whole()
		case c == nil:
			return "not verified"
		case !c.Sound():
			return "verification failed"
		}
		return "verified"
	})
	doubt("client-bound", "not client-bound", "rowmill itself limited the rate", func(v *view) string {
		return map[bool]string{true: "client-bound", false: "not client-bound"}[v.sum.Client.Bound]
	})
	doubt("incomplete", "complete", "a run did not come to its end", func(v *view) string { return cmp.Or(v.incomplete(), "complete") })
	return out
}

// firstDifference returns the first lines that differ between two schemas.
func firstDifference(a, b []string) (x, y string) {
	la, lb := strings.Split(strings.Join(a, "\n"), "\n"), strings.Split(strings.Join(b, "\n"), "\n")
	for i := range max(len(la), len(lb)) {
		x, y = "", ""
		if i < len(la) {
			x = strings.TrimSpace(la[i])
		}
		if i < len(lb) {
			y = strings.TrimSpace(lb[i])
		}
		if x != y {
			return x, y
		}
	}
	// The lines are equal; statements are split differently, or spaces differ.
	return plural(len(a), "statement", "statements"), plural(len(b), "statement", "statements") + ", other spaces"
}

// flagsOf collects the flags of all pairs of runs, each once.
func flagsOf(pairs [][2]*result.Record) (all []Flag) {
	for _, p := range pairs {
		for _, f := range flags(&view{rec: p[0], sum: p[0].Summary()}, &view{rec: p[1], sum: p[1].Summary()}) {
			if !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	return all
}

// flagged returns what makes two hard to compare.
func flagged(flags []Flag) (out notes) {
	for _, f := range flags {
		out = append(out, Note{Text: f.Text})
	}
	return out
}

// unequal says which kinds of flags call the comparison itself into question.
func unequal(flags []Flag) string {
	var kinds []string
	for _, kind := range []string{"durability", "engine", "server", "cache", "machine", "schema"} {
		if slices.ContainsFunc(flags, func(f Flag) bool { return f.Kind == kind }) {
			kinds = append(kinds, strings.Replace(kind, "server", "server version", 1))
		}
	}
	if len(kinds) == 0 {
		return ""
	}
	return "Not like with like: unequal " + strings.Join(kinds, ", ") + "."
}
