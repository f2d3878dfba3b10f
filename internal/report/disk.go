package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/result"
)

const (
	// largeBlock: for requests of this size or more, bytes per second tell more than requests.
	largeBlock = 256 << 10
	// smallFile: caches of controllers, hosts and disks may hold a file smaller than this.
	smallFile = 4e9
	// beyond: if small requests exceed the bandwidth of large ones by more than this factor, it isn't
	// chance. elsewhere: the bytes of the device and of the job may differ by this factor, because
	// they are read at different moments.
	beyond, elsewhere = 1.2, 1.5
	// heldBack: a job that had no CPU quota left for more than this share of its time is doubtful.
	heldBack = 0.05
	// instant is about how long the fastest flash takes to write a page, in microseconds. A flush that
	// takes less went to a cache.
	instant = 100
	// incompressible: a file that takes less than this share of its size on the disk is compressed by
	// the file system.
	incompressible = 0.95
)

// disks lays out the jobs of `bench disk`: a section for each kind and size of requests, with the
// queue depth on the axis and a line for each percentage of writes.
func disks(recs []result.Record) (experiment, error) {
	p := newProjection(recs, "requests", "depth", "operation")
	p.doubling = true
	if slices.ContainsFunc(recs, func(r result.Record) bool { return r.Run.Disk.WritePercent == 0 }) {
		p.factors[2].Levels = []string{"reads"} // the first line is that of reads, though the filling writes first
	}
	disk := func(of func(d *result.DiskSummary) float64) func(v *view) float64 {
		return func(v *view) float64 { return nonzero(of(v.sum.Disk)) }
	}
	p.measures = func(section string) []measure {
		latencies := times("", "p50", "p99", "max")
		latencies[1].chart = onlyIf(!diskSingle(section), "p99")
		out := slices.Concat([]measure{{key: "requests_per_second", name: "requests/s", chart: "requests/s", of: func(v *view) float64 { return v.sum.Disk.PerSecond }},
			{key: "bytes_per_second", name: "bytes/s", format: bytesPerSecond, chart: "MB/s", per: 1e6,
				of: func(v *view) float64 { return v.sum.Disk.BytesPerSecond }}}, latencies,
			[]measure{{key: "first_third_per_second", name: "first third", of: disk(func(d *result.DiskSummary) float64 { return d.First })},
				{key: "last_third_per_second", name: "last third", of: disk(func(d *result.DiskSummary) float64 { return d.Last })},
				{key: "submitter_cpu", name: "fio's CPU", format: percent, of: func(v *view) float64 { return v.sum.Disk.SubmitterCPU }}})
		if strings.Contains(section, "MiB") {
			out[0], out[1] = out[1], out[0]
		}
		if out[0].compared, out[1].chart = true, ""; diskSingle(section) {
			out[0].chart = ""
		}
		return out
	}
	for i := range recs {
		d := recs[i].Run.Disk
		section, line := diskSection(d)
		p.run(i, onlyIf(len(p.contenders) > 1, p.label(i)+", ")+section, strconv.Itoa(d.Depth), line)
	}
	p.verdict = func(s *panel) []string { return s.disk() }
	p.text = func(s *panel) string {
		if strings.Contains(s.name, "durable writes, ") {
			return "The latencies are those of the fsync or fdatasync alone."
		}
		return ""
	}
	p.serious, p.more = diskDoubts(p), diskSettings(recs)
	d := recs[0].Run.Disk
	p.title = "Disk below " + recs[0].Run.Target
	longest := slices.MaxFunc(p.vs, func(a, b view) int { return cmp.Compare(a.rec.Run.MaxTimeSeconds, b.rec.Run.MaxTimeSeconds) }).rec.Run.MaxTimeSeconds
	p.subtitle = []string{words("fio", recs[0].Run.ServerVersion), bytes(d.FileBytes) + " file", seconds(longest) + " a job", some(recs[0].Run.Machine.Cores, "core", "cores")}
	if d.SectorBytes > 0 {
		p.about = append(p.about, document.Fact{Name: "sector", Value: bytes(d.SectorBytes)})
	}
	by := max(0, slices.IndexFunc(recs, func(r result.Record) bool { return r.Run.Disk.Kind == result.DiskRandom }))
	p.about = append(p.about, document.Fact{Name: "by hand, with FILE", Value: recs[by].Run.Name + ": " + strings.Join(recs[by].Run.Disk.Job, " ")})
	return p, nil
}

// diskSection returns the names of a job's section and of its line in that section.
func diskSection(d *result.Disk) (section, line string) {
	switch d.Kind {
	case result.DiskFill:
		return "filling, " + bytes(d.BlockBytes), "writes"
	case result.DiskSync:
		return "durable writes, " + bytes(d.BlockBytes), "random, fsync"
	case result.DiskLog:
		return "durable writes, " + bytes(d.BlockBytes), "log, fdatasync"
	}
	line = fmt.Sprintf("%d%% writes", d.WritePercent)
	switch d.WritePercent {
	case 0:
		line = "reads"
	case 100:
		line = "writes"
	}
	return d.Kind + ", " + bytes(d.BlockBytes), line
}

// diskSingle reports whether a section has only one queue depth.
func diskSingle(section string) bool {
	return strings.Contains(section, "filling, ") || strings.Contains(section, "durable writes, ")
}

func bytesPerSecond(v float64) string { return bytes(int64(v)) + "/s" }

// disk returns the results of a section in sentences: the highest rate of each line of the chart,
// and the latency at this rate.
func (s *panel) disk() (out []string) {
	if strings.Contains(s.name, "filling, ") {
		return nil
	}
	for _, line := range s.lines {
		best := s.best(line)
		if best == nil || line != "reads" && line != "writes" && !diskSingle(s.name) {
			continue
		}
		text := fmt.Sprintf("%s, %s: %s", s.name, line, s.measures[0].text(best.middle(0)))
		text += onlyIf(s.measures[0].key == "requests_per_second", "/s") + onlyIf(!diskSingle(s.name), " at depth "+best.levels[1])
		if v := best.middle(2); !math.IsNaN(v) {
			text += ", p50 " + micros(v) + ", p99 " + micros(best.middle(3))
		}
		out = append(out, document.AsSentence(text))
	}
	return out
}

// diskDoubts returns the reasons why figures may not be those of the disk.
func diskDoubts(p *projection) (out []document.Note) {
	most := map[string]float64{} // bytes per second of large requests
	for i := range p.vs {
		if d := p.vs[i].sum.Disk; d.BlockBytes >= largeBlock {
			key := p.label(i) + strconv.Itoa(d.WritePercent)
			most[key] = max(most[key], d.BytesPerSecond)
		}
	}
	who := map[string][]string{} // the jobs by doubt, with the doubtful figures
	crowded := false
	for i := range p.vs {
		d, name := p.vs[i].sum.Disk, p.vs[i].sum.Name
		when := func(is bool, doubt, figures string) {
			if is {
				who[doubt] = append(who[doubt], name+figures)
			}
		}
		programs, host := p.vs[i].othersShare()
		crowded = crowded || d.Trend == result.Fell && programs+host > crowdedShare
		thirds := fmt.Sprintf(" (%s/s, then %s/s)", figure(d.First), figure(d.Last))
		when(d.Trend == result.Fell, "fell", thirds)
		when(d.Trend == result.Rose, "rose", thirds)
		when(d.Saturated(), "full", " ("+percent(d.SubmitterCPU)+")")
		quota := p.recs[i].MeanCounters()["cgroup_throttled"]
		when(quota > heldBack, "held", " ("+percent(quota)+" of the time)")
		large := most[p.label(i)+strconv.Itoa(d.WritePercent)]
		when(d.BlockBytes < largeBlock && large > 0 && d.BytesPerSecond > beyond*large, "above",
			fmt.Sprintf(" (%s, and large ones %s)", bytesPerSecond(d.BytesPerSecond), bytesPerSecond(large)))
		if device := d.DeviceBytesPerSecond; device > 0 && d.BytesPerSecond > 0 && d.Direct() && d.First > 0 {
			when(device < d.BytesPerSecond/elsewhere, "cached", fmt.Sprintf(" (%s of %s)", bytesPerSecond(device), bytesPerSecond(d.BytesPerSecond)))
			when(d.Kind != result.DiskSync && device > elsewhere*d.BytesPerSecond, "others",
				fmt.Sprintf(" (%s, and the job %s)", bytesPerSecond(device), bytesPerSecond(d.BytesPerSecond)))
		}
		flush := p.vs[i].sum.LatencyUS[result.DiskFlush]
		when(flush.Count > 0 && flush.P50 < instant, "instantly", " (p50 "+micros(flush.P50)+")")
		when(d.BlockBytes < d.SectorBytes && d.WritePercent > 0, "unaligned", "")
		when(d.AllocatedBytes > 0 && float64(d.AllocatedBytes) < incompressible*float64(d.FileBytes) && len(who["packed"]) == 0, "packed", "")
	}
	first := p.recs[0].Run.Disk
	for _, doubt := range [][2]string{
		{"fell", "a burst ended meanwhile" + onlyIf(crowded, ", or other programs took the CPU") +
			", so that the mean is no capacity: the last third counts, and a longer --time shows what remains"},
		{"rose", "it was slower at first: writes from before were under way, or something was woken up; the last third counts"},
		{"full", "CPU saturated: the one core that makes the requests was full, so the disk may do more"},
		{"held", "CPU quota used up: the control group of fio and rowmill was held back, so the disk may do more; measure outside of it, or with a higher quota"},
		{"above", "requests × size is above the bandwidth of large requests: a cache answered, and no disk"},
		{"cached", "less reached the device than was requested: the file system or its cache answered the rest"},
		{"others", "other programs used this disk: it read and wrote more than the job"},
		{"instantly", fmt.Sprintf("not proven durable: a flush took less than flash takes to be programmed, some %s. "+
			"A cache answered, and only its data sheet says whether it survives a loss of power", micros(int64(instant)))},
		{"unaligned", fmt.Sprintf("smaller than the %s that the device writes at once: each write reads first", bytes(first.SectorBytes))},
		{"packed", "the file takes less on the disk than its size: the file system compresses it or finds duplicates, and doesn't write what it is given"},
	} {
		if names := who[doubt[0]]; len(names) > 0 {
			out = append(out, document.Note{Label: few(names), Text: doubt[1], Serious: true})
		}
	}
	if first.FileBytes < smallFile {
		out = append(out, document.Note{Text: fmt.Sprintf("the file has %s: a cache of the disk, of a controller or of a virtual machine's host may hold all of it, so that reads don't reach the disk; --size of more than 4 GB shows what the disk itself does",
			bytes(first.FileBytes))})
	}
	return out
}

// few joins the first three names, and counts the others.
func few(names []string) string {
	const shown = 3
	if more := len(names) - shown; more > 0 {
		return strings.Join(names[:shown], "; ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, "; ")
}

// diskSettings returns the section of settings to try; nil without settings.
func diskSettings(recs []result.Record) []document.Part {
	t := &document.Table{Header: []string{"setting", "to try", "formula", "source"},
		Note: "Starting points, not results: measure each with the load that it is for. The highest rate of a disk is not a setting."}
	for _, s := range result.DiskSettings(recs) {
		t.Add(s.Name, strconv.FormatFloat(s.Value, 'f', -1, 64), s.Formula, s.Source)
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return []document.Part{&document.Section{Title: "Settings to try", Parts: []document.Part{t}}}
}
