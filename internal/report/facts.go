package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/result"
)

func (v *view) facts() []fact {
	var out []fact
	add := func(name, value string) {
		if value != "" {
			out = append(out, fact{name, value})
		}
	}
	add("status", v.incomplete())
	add("rate", v.rate())
	add("knee", v.knee())
	add("rows", v.rows())
	add("open loop", v.openLoop())
	add("steadiness", v.steadiness())
	for _, op := range slices.Sorted(maps.Keys(v.sum.Beside)) {
		add(op, beside(v.sum.Beside[op]))
	}
	for _, op := range ops(v.sum.LatencyUS) {
		add(op+" service", latency(v.sum.LatencyUS[op]))
	}
	for _, op := range ops(v.sum.ResponseUS) {
		add(op+" response", latency(v.sum.ResponseUS[op]))
	}
	add("stalls", v.stalls())
	add("errors", plural(v.sum.Errors, "error", "errors")+", "+plural(v.sum.Retries, "retry", "retries"))
	add("kills", v.kills())
	add("verified", v.verified())
	add("size", v.size())
	add("client", v.client())
	add("server CPU", v.serverCPU())
	add("server", v.server())
	add("settings", v.settings())
	add("workload", v.workload())
	add("period", periodText(&v.rec.Run))
	add("machine", machine(v.rec.Run.Machine))
	add("target", v.rec.Run.Target)
	return out
}

// mainSettings are the server settings needed to judge an insert rate, beside durability.
var mainSettings = []string{
	"innodb_buffer_pool_size", "innodb_log_file_size", "innodb_log_files_in_group", "innodb_redo_log_capacity",
	"innodb_page_size", "innodb_io_capacity", "innodb_change_buffering", "innodb_flush_neighbors", "unique_checks",
	"shared_buffers", "max_wal_size", "checkpoint_timeout", "wal_compression",
	"cache_size", "page_size", "mmap_size", "wal_autocheckpoint",
}

// durabilitySettings determine what a crash may lose: runs must not differ in them.
var durabilitySettings = []string{
	"innodb_flush_log_at_trx_commit", "sync_binlog", "log_bin", "innodb_doublewrite", "innodb_flush_method",
	"innodb_use_native_aio", "innodb_checksum_algorithm", "rocksdb_flush_log_at_trx_commit",
	"synchronous_commit", "fsync", "full_page_writes", "wal_level", "wal_sync_method", "data_checksums",
	"synchronous", "journal_mode", "locking_mode", "fullfsync",
}

// listed joins the parts that are not empty.
func listed(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), separator)
}

// called names a value; empty if there is none.
func called(name, value string) string {
	if value == "" {
		return ""
	}
	return name + " " + value
}

func words(parts ...string) string {
	return strings.Join(strings.Fields(strings.Join(parts, " ")), " ")
}

// some counts things; empty for none.
func some(n int, one, many string) string {
	if n == 0 {
		return ""
	}
	return plural(n, one, many)
}

func (v *view) server() string {
	r := &v.rec.Run
	embedded := ""
	if r.Embedded {
		embedded = "embedded"
	}
	return listed(", ", words(r.Engine, r.ServerVersion), called("storage", r.Storage), called("cache", sizeOrNone(r.CacheBytes)),
		called("durability", r.Durability), embedded)
}

func machine(m result.Machine) string {
	memory := sizeOrNone(m.MemoryBytes)
	if memory != "" {
		memory += " memory"
	}
	return listed(", ", some(m.Cores, "core", "cores"), m.CPU, memory, called("disk", words(m.Disk, m.Filesystem)), words(m.OS, m.Kernel, m.Arch))
}

func (v *view) settings() string {
	var parts []string
	for _, name := range slices.Concat(durabilitySettings, mainSettings) {
		if val, ok := v.rec.Run.Settings[name]; ok {
			parts = append(parts, name+"="+val)
		}
	}
	return strings.Join(parts, " ")
}

func (v *view) workload() string {
	r := &v.rec.Run
	return listed(", ", r.Workload, called("preset", r.Preset), called("layout", r.Layout), plural(r.Writers, "writer", "writers"),
		plural(r.Batch, "row", "rows")+" a batch", called("method", r.Method), plural(r.Indexes, "secondary index", "secondary indexes"),
		fmt.Sprintf("seed %d", r.Seed))
}

func periodText(r *result.Run) string {
	if r.Period == "" {
		return ""
	}
	s := r.Period
	if r.KeepPeriods > 0 {
		s += fmt.Sprintf(", %d kept", r.KeepPeriods)
	}
	if r.PeriodWhy != "" {
		s += ": " + r.PeriodWhy
	}
	return s
}

func (v *view) rows() string {
	s := plural(v.sum.Rows, "row", "rows")
	if asked := v.rec.Run.Rows; asked > 0 && asked != v.sum.Rows {
		s += fmt.Sprintf(" of %s asked for (%s)", count(asked), percent(float64(v.sum.Rows)/float64(asked)))
	}
	s += " in " + seconds(v.sum.Seconds) + ", " + rowsRate(v.sum.RowsPerSecond)
	if end := v.rec.End; end != nil && end.SkippedRows > 0 {
		s += fmt.Sprintf(", %s skipped because their key was there", plural(end.SkippedRows, "row", "rows"))
	}
	if end := v.rec.End; end != nil && end.Stopped == "max-time" {
		s += ", ended by the time limit of " + seconds(v.rec.Run.MaxTimeSeconds)
	}
	return s
}

func (v *view) rate() string {
	r := v.sum.Rate
	if r.First == 0 && r.Last == 0 {
		return ""
	}
	return fmt.Sprintf("first tenth %s, last tenth %s, slowest tenth %s, flatness %.2f",
		rowsRate(r.First), rowsRate(r.Last), rowsRate(r.Min), r.Flatness)
}

func (v *view) knee() string {
	switch {
	case v.sum.Knee != nil:
		return fmt.Sprintf("at %s rows: %s", short(float64(v.sum.Knee.Rows)), v.sum.Knee.Why)
	case v.sum.Rows > 0:
		return "none: no tenth of the rows came at less than half of the first tenth's rate"
	}
	return ""
}

func (v *view) openLoop() string {
	o := v.loop
	if o == nil {
		return ""
	}
	verdict := "kept up"
	if o.Overloaded {
		verdict = "OVERLOADED"
	}
	backlog := plural(o.Backlog, "operation", "operations") + " at the end"
	if o.Growing {
		backlog += " and growing"
	}
	return fmt.Sprintf("%s: offered %s, done %s (%s); backlog %s, %s at most; %s began late",
		verdict, rowsRate(o.Asked), rowsRate(o.Done), percent(o.Done/o.Asked), backlog, count(o.Peak), plural(o.Late, "operation", "operations"))
}

func beside(d result.Done) string {
	text := fmt.Sprintf("%s, %s operations/s", plural(d.Operations, "operation", "operations"), figure(d.PerSecond))
	if d.Rows != d.Operations {
		text += fmt.Sprintf(", %s", rowsRate(d.RowsPerSecond))
	}
	if d.Backlog > 0 {
		text += ", backlog " + count(d.Backlog) + " at the end"
	}
	return text
}

func (v *view) overloaded() bool { return v.loop != nil && v.loop.Overloaded }

func ops(m map[string]result.Latency) []string { return slices.Sorted(maps.Keys(m)) }

func latency(l result.Latency) string {
	return fmt.Sprintf("p50 %s, p95 %s, p99 %s, p99.9 %s, max %s (%s)",
		micros(l.P50), micros(l.P95), micros(l.P99), micros(l.P999), micros(l.Max),
		plural(l.Count, "operation", "operations"))
}

func (v *view) stalls() string {
	if v.sum.StallSeconds == 0 {
		return "none"
	}
	s := seconds(v.sum.StallSeconds)
	if v.sum.Seconds > 0 {
		s += fmt.Sprintf(", %s of the run", percent(v.sum.StallSeconds/v.sum.Seconds))
	}
	return s
}

// kills describes how often the server was killed, and how long its restart took.
func (v *view) kills() string {
	var kills int64
	var back []float64
	for i := range v.rec.Intervals {
		for _, e := range v.rec.Intervals[i].Events {
			switch e.What {
			case "kill server":
				kills++
			case "server back":
				back = append(back, e.Seconds)
			}
		}
	}
	if kills == 0 {
		return ""
	}
	s := "the server was killed " + plural(kills, "time", "times")
	if len(back) > 0 {
		s += fmt.Sprintf(", and took connections again after %s to %s", seconds(slices.Min(back)), seconds(slices.Max(back)))
	}
	return s
}

func (v *view) verified() string {
	c := v.sum.Verified
	switch {
	case c == nil && v.whole() != "":
		return v.whole()
	case c == nil:
		return "no: the rows in the table were not read"
	}
	verdict, how, sum := "yes", "found", "checksum equal"
	switch {
	case c.Counted:
		how, sum = "counted", "their values not compared"
	case !c.Checksum:
		sum = "CHECKSUM DIFFERS"
	}
	if !c.Sound() {
		verdict = "FAILED"
	}
	s := fmt.Sprintf("%s: %s %s of %s expected, %s", verdict, plural(c.Found, "row", "rows"), how, count(c.Expected), sum)
	if c.Lost > 0 {
		s += fmt.Sprintf("; %s lost when the server was killed, as its settings allow", plural(c.Lost, "row", "rows"))
	}
	if end := v.rec.End; end != nil && end.DroppedRows > 0 {
		s += fmt.Sprintf("; %s dropped with their periods", plural(end.DroppedRows, "row", "rows"))
	}
	if end := v.rec.End; end != nil && end.DeletedRows > 0 {
		s += fmt.Sprintf("; %s deleted", plural(end.DeletedRows, "row", "rows"))
	}
	return s
}

func (v *view) size() string {
	z := v.sum.SizeBytes
	if z == nil {
		return ""
	}
	return fmt.Sprintf("%s: rows %s, indexes %s; %s bytes/row",
		bytes(z.Data+z.Index), bytes(z.Data), bytes(z.Index), figure(z.PerRow))
}

func (v *view) client() string {
	bound := "not the limit"
	if v.sum.Client.Bound {
		bound = "CLIENT-BOUND: the figures are rowmill's limit, not the database's"
	}
	if len(v.rec.Intervals) == 0 {
		return ""
	}
	if v.rec.End == nil {
		return bound
	}
	return v.cpu(v.sum.Client.CPUSeconds) + "; " + bound
}

func (v *view) serverCPU() string {
	if v.sum.Server.CPUSeconds == nil {
		if v.rec.Run.Embedded {
			return "in the client's: the engine is embedded"
		}
		return ""
	}
	return v.cpu(*v.sum.Server.CPUSeconds)
}

func (v *view) cpu(s float64) string {
	out := "CPU " + seconds(s)
	if v.sum.Seconds > 0 {
		out += fmt.Sprintf(", %s cores on average", figure(s/v.sum.Seconds))
	}
	if v.sum.Rows > 0 {
		out += fmt.Sprintf(", %s/row", micros(1e6*s/float64(v.sum.Rows)))
	}
	return out
}
