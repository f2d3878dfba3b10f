package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/result"
)

// A Flag is one difference between two runs, or one weakness of either, that a
// reader must know before believing their comparison.
type Flag struct {
	// Kind is "durability", "engine", "server", "settings", "cache",
	// "machine", "schema", "workload", "verified", "client-bound",
	// "incomplete" or "order".
	Kind string `json:"kind"`
	// What is the thing that differs, such as "innodb_flush_log_at_trx_commit" or
	// "cores"; empty if Kind suffices.
	What string `json:"what,omitempty"`
	A    string `json:"a"`
	B    string `json:"b"`
	// Text describes the flag in one sentence.
	Text string `json:"text"`
}

// flags compares the headers and ends of two runs.
func flags(a, b *result.Record, sa, sb result.Summary) []Flag {
	f := flagList{flags: []Flag{}}
	x, y := &a.Run, &b.Run
	f.differ("durability", "", x.Durability, y.Durability, "unequal durability: a crash may lose more in one than in the other")
	for _, name := range durabilitySettings {
		va, oka := x.Settings[name]
		vb, okb := y.Settings[name]
		if oka || okb {
			f.differ("durability", name, va, vb, "unequal durability: "+name+" differs")
		}
	}
	f.differ("engine", "", x.Engine, y.Engine, "different engines")
	f.differ("engine", "storage", x.Storage, y.Storage, "different storage engines")
	f.differ("server", "version", x.ServerVersion, y.ServerVersion, "different server versions")
	f.differ("cache", "", sizeOrNone(x.CacheBytes), sizeOrNone(y.CacheBytes), "different cache sizes")
	f.settings(x, y)
	f.machines(x.Machine, y.Machine)
	if !slices.Equal(x.Schema, y.Schema) {
		va, vb := firstDifference(x.Schema, y.Schema)
		f.differ("schema", "", va, vb, "the tables were made by different statements")
	}
	f.workloads(x, y)
	f.ends(a, b, sa, sb)
	return f.flags
}

type flagList struct{ flags []Flag }

func (f *flagList) add(flag Flag) { f.flags = append(f.flags, flag) }

// differ adds a flag if two values differ; an empty value is shown as "-".
func (f *flagList) differ(kind, what, a, b, text string) {
	if a == b {
		return
	}
	show := func(s string) string {
		if s == "" {
			return none
		}
		return s
	}
	a, b = show(a), show(b)
	f.add(Flag{kind, what, a, b, fmt.Sprintf("%s: %s against %s", text, a, b)})
}

// settings flags differing server settings, except those of durability.
func (f *flagList) settings(x, y *result.Run) {
	names := map[string]bool{}
	for name := range x.Settings {
		names[name] = true
	}
	for name := range y.Settings {
		names[name] = true
	}
	for _, name := range durabilitySettings {
		delete(names, name)
	}
	if x.Engine != y.Engine {
		return // Settings of different engines are not comparable.
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		f.differ("settings", name, x.Settings[name], y.Settings[name], "setting "+name+" differs")
	}
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

func (f *flagList) machines(x, y result.Machine) {
	f.differ("machine", "cores", strconv.Itoa(x.Cores), strconv.Itoa(y.Cores), "different numbers of cores")
	// The memory reported by the kernel varies by a few pages from boot to boot: a
	// difference of up to 1% is the same memory.
	if d := x.MemoryBytes - y.MemoryBytes; max(d, -d) > x.MemoryBytes/100 {
		f.differ("machine", "memory", sizeOrNone(x.MemoryBytes), sizeOrNone(y.MemoryBytes), "different memory")
	}
	f.differ("machine", "cpu", x.CPU, y.CPU, "different processors")
	f.differ("machine", "disk", x.Disk, y.Disk, "different disks")
	f.differ("machine", "filesystem", x.Filesystem, y.Filesystem, "different filesystems")
	f.differ("machine", "kernel", x.Kernel, y.Kernel, "different kernels")
	f.differ("machine", "os", x.OS, y.OS, "different operating systems")
	f.differ("machine", "arch", x.Arch, y.Arch, "different architectures")
}

func (f *flagList) workloads(x, y *result.Run) {
	number := func(n int) string { return strconv.Itoa(n) }
	rate := func(r float64) string {
		if r == 0 {
			return "none"
		}
		return rowsRate(r)
	}
	for _, c := range []struct{ what, a, b string }{
		{"workload", x.Workload, y.Workload},
		{"preset", x.Preset, y.Preset},
		{"layout", x.Layout, y.Layout},
		{"period", x.Period, y.Period},
		{"periods kept", number(x.KeepPeriods), number(y.KeepPeriods)},
		{"method", x.Method, y.Method},
		{"batch", number(x.Batch), number(y.Batch)},
		{"writers", number(x.Writers), number(y.Writers)},
		{"indexes", number(x.Indexes), number(y.Indexes)},
		{"rate asked for", rate(x.Rate), rate(y.Rate)},
		{"rows to keep", count(x.KeepRows), count(y.KeepRows)},
		{"readers", number(x.Readers), number(y.Readers)},
		{"rows before the first query", count(x.ReadAfter), count(y.ReadAfter)},
		{"seconds between kills of the server", figure(x.KillServerSeconds), figure(y.KillServerSeconds)},
		{"seed", strconv.FormatUint(x.Seed, 10), strconv.FormatUint(y.Seed, 10)},
	} {
		f.differ("workload", c.what, c.a, c.b, "different "+c.what)
	}
}

// ends flags runs that are doubtful by themselves.
func (f *flagList) ends(a, b *result.Record, sa, sb result.Summary) {
	checked := func(r *result.Record, s result.Summary) string {
		whole := (&view{rec: r}).whole()
		switch v := s.Verified; {
		case v == nil && whole != "":
			return "verified " + whole
		case v == nil:
			return "not verified"
		case !v.Sound():
			return "verification failed"
		}
		return "verified"
	}
	if va, vb := checked(a, sa), checked(b, sb); va != "verified" || vb != "verified" {
		f.add(Flag{"verified", "", va, vb, fmt.Sprintf("not proven that every row arrived: A %s, B %s", va, vb)})
	}
	bound := func(s result.Summary) string {
		if s.Client.Bound {
			return "client-bound"
		}
		return "not client-bound"
	}
	if sa.Client.Bound || sb.Client.Bound {
		f.add(Flag{"client-bound", "", bound(sa), bound(sb), fmt.Sprintf("rowmill itself limited the rate: A %s, B %s", bound(sa), bound(sb))})
	}
	state := func(r *result.Record) string {
		v := view{rec: r}
		if s := v.incomplete(); s != "" {
			return s
		}
		return "complete"
	}
	if ia, ib := state(a), state(b); ia != "complete" || ib != "complete" {
		f.add(Flag{"incomplete", "", ia, ib, fmt.Sprintf("a run did not come to its end: A %s, B %s", ia, ib)})
	}
}

func sizeOrNone(n int64) string {
	if n <= 0 {
		return ""
	}
	return bytes(float64(n))
}
