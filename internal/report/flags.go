package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/result"
)

// A Flag is a difference between two runs, or a weakness of one of them, that a reader must know
// before believing a comparison of the runs.
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
	for _, s := range settingsOf([]view{*a, *b}).Rows {
		va, vb, text := s.Values[0], s.Values[1], "different "+onlyIf(s.kind == "server", "server ")+s.Name
		switch {
		case s.kind == "" || s.kind == "machine" && s.Name == "memory" && near || s.Group == "setting" && x.Engine != y.Engine: // other engines have other settings
			continue
		case s.Name == "durability":
			text = "unequal durability: a crash may lose more in one than in the other"
		case s.kind == "durability":
			text = "unequal durability: " + s.Name + " differs"
		case s.kind == "settings":
			text = "setting " + s.Name + " differs"
		case s.kind == "schema":
			va, vb = firstDifference(va, vb)
			text, s.Name = "the tables were made by different statements", s.kind
		}
		differ(s.kind, onlyIf(s.Name != s.kind, s.Name), va, vb, text)
	}
	differ("workload", "table", tableOf(x), tableOf(y), "different tables, rows or durations")
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
		return either(v.sum.Client.Bound, "client-bound", "not client-bound")
	})
	doubt("incomplete", "complete", "a run did not come to its end", func(v *view) string { return cmp.Or(v.incomplete(), "complete") })
	return out
}

// firstDifference returns the first line of each text that differs from the other text's.
func firstDifference(a, b string) (x, y string) {
	for x == y && a+b != "" {
		x, a, _ = strings.Cut(a, "\n")
		y, b, _ = strings.Cut(b, "\n")
		x, y = strings.TrimSpace(x), strings.TrimSpace(y)
	}
	return x, y
}

// flagsOf returns the flags of all pairs of runs, without duplicates.
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

// flagged returns the flags as notes.
func flagged(flags []Flag) (out document.Notes) {
	for _, f := range flags {
		out = append(out, document.Note{Text: f.Text})
	}
	return out
}

// unequal names the differences for which the comparison itself is doubtful.
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
