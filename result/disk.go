package result

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/figure"
)

// A Disk is one job of `bench disk`: requests of one kind to a test file. In the job's record,
// numbers of rows are numbers of requests.
type Disk struct {
	// Kind is one of the constants below.
	Kind string `json:"kind"`
	// BlockBytes is the size of a request, Depth the number of requests under way at a time, and
	// WritePercent the percentage of requests that write.
	BlockBytes   int64 `json:"block_bytes"`
	Depth        int   `json:"depth"`
	WritePercent int   `json:"write_percent"`
	// FileBytes is the size of the file, AllocatedBytes the space on the disk that the filled file
	// takes; 0 is unknown.
	FileBytes      int64 `json:"file_bytes"`
	AllocatedBytes int64 `json:"allocated_bytes,omitempty"`
	// SectorBytes is the unit in which the device writes; 0 is unknown. WriteCache is the mode of the
	// device's cache as the kernel names it.
	SectorBytes int64  `json:"sector_bytes,omitempty"`
	WriteCache  string `json:"write_cache,omitempty"`
	// Job is the command of the job, to be repeated by hand. FILE stands for the file.
	Job []string `json:"job"`
}

// Kinds of a Disk.
const (
	// DiskFill writes the file for the first time. DiskRandom and DiskSequential read or overwrite
	// its blocks with direct I/O.
	DiskFill       = "fill"
	DiskRandom     = "random"
	DiskSequential = "sequential"
	// DiskSync overwrites random blocks with direct I/O, with an fsync after each. DiskLog writes one
	// block after the other through the system's cache, with an fdatasync after each, as a server
	// writes its redo log.
	DiskSync = "fsync"
	DiskLog  = "log"
)

// Operations of a Disk that have latencies: the requests, and the flush after each write.
const (
	DiskRead  = "read"
	DiskWrite = "write"
	DiskFlush = "flush"
)

// Counters of a Disk, in cores: fio's thread that makes the requests, and the whole of fio.
const (
	DiskSubmitterCPU = "submitter_cpu"
	DiskFioCPU       = "fio_cpu"
)

// Direct reports whether the requests bypass the system's cache.
func (d *Disk) Direct() bool { return d.Kind != DiskLog }

// Operation returns the operation whose latency tells most about the job.
func (d *Disk) Operation() string {
	switch {
	case d.Kind == DiskSync || d.Kind == DiskLog:
		return DiskFlush
	case d.WritePercent == 100:
		return DiskWrite
	}
	return DiskRead
}

// A DiskSummary is the result of a run of `bench disk`.
type DiskSummary struct {
	Disk
	PerSecond      float64 `json:"requests_per_second"`
	BytesPerSecond float64 `json:"bytes_per_second"`
	// First and Last are the requests per second over the first and the last third of the time; 0 in a
	// run of few intervals.
	First float64 `json:"first_third"`
	Last  float64 `json:"last_third"`
	// Trend says how Last compares with First: Fell (for example, because a burst ended), Rose (for
	// example, because earlier writes were still under way at the start), or "" for no clear change.
	Trend string `json:"trend,omitempty"`
	// SubmitterCPU is the share of one core used by the thread that makes the requests.
	SubmitterCPU float64 `json:"submitter_cpu"`
	// DeviceBytesPerSecond is what the device read and wrote for all programs; 0 is unknown.
	DeviceBytesPerSecond float64 `json:"device_bytes_per_second,omitempty"`
}

// Saturated reports whether the thread that made the requests took most of a core, which may have
// limited them.
func (d *DiskSummary) Saturated() bool { return d.SubmitterCPU > 0.9 }

// Trends of a DiskSummary.
const (
	Fell = "fell"
	Rose = "rose"
)

const (
	// There is a trend if the mean rate in the first or last third of the run is below trendShare of
	// the mean rate in the other of these thirds. As the rate of a disk with other users goes up and
	// down, the rate of each interval of the slower third must also be below the median of the other.
	// Both thirds need leastThird intervals.
	leastThird = 5
	trendShare = 0.8
)

func (s *Summary) disk(r *Record) *DiskSummary {
	if r.Run.Disk == nil {
		return nil
	}
	d := &DiskSummary{Disk: *r.Run.Disk, PerSecond: s.RowsPerSecond}
	d.BytesPerSecond = d.PerSecond * float64(d.BlockBytes)
	d.First, d.Last, d.Trend = thirds(r)
	all := mean(r.Intervals)
	cpu, known := all[DiskSubmitterCPU]
	if !known && s.Seconds > 0 { // older records have fio's CPU time as the client's
		cpu = s.Client.CPUSeconds / s.Seconds
	}
	d.SubmitterCPU = math.Round(1000*cpu) / 1000
	d.DeviceBytesPerSecond = math.Round(all["disk_read_bytes"] + all["disk_write_bytes"])
	return d
}

// thirds compares the beginning of a run with its end.
func thirds(r *Record) (first, last float64, trend string) {
	var parts [3][]Interval
	end := 0.0
	if n := len(r.Intervals); n > 0 {
		end = r.Intervals[n-1].Elapsed
	}
	for _, iv := range r.Intervals {
		if middle := iv.Elapsed - iv.Seconds/2; !r.Run.Brief(&iv) {
			i := min(int(3*middle/end), 2)
			parts[i] = append(parts[i], iv)
		}
	}
	if min(len(parts[0]), len(parts[2])) < leastThird {
		return 0, 0, ""
	}
	rate := func(part []Interval) (mean, middle, most float64) {
		var rows int64
		var seconds float64
		var all []float64
		for _, iv := range part {
			rows, seconds, all = rows+iv.NewRows, seconds+iv.Seconds, append(all, iv.Rate())
		}
		return math.Round(10*float64(rows)/seconds) / 10, median(all), slices.Max(all)
	}
	first, early, mostEarly := rate(parts[0])
	last, late, mostLate := rate(parts[2])
	switch {
	case last < trendShare*first && mostLate < early:
		trend = Fell
	case first < trendShare*last && mostEarly < late:
		trend = Rose
	}
	return first, last, trend
}

// DiskReads is the rate of random reads of one size at one queue depth.
type DiskReads struct {
	BlockBytes int64   `json:"block_bytes"`
	Depth      int     `json:"depth"`
	PerSecond  float64 `json:"per_second"`
}

// A MeasuredDisk has the rates of random reads that `bench disk` measured. A run's reads from the
// disk are compared with them.
type MeasuredDisk struct {
	// Source is the file of its record, Device the disk as in Machine.
	Source string `json:"source"`
	Device string `json:"device,omitempty"`
	// Reads are in order of size and depth.
	Reads []DiskReads `json:"reads"`
}

// NewMeasuredDisk takes the random reads of the records of `bench disk`; nil if there are none.
func NewMeasuredDisk(recs []Record, source string) *MeasuredDisk {
	m := &MeasuredDisk{Source: source}
	for _, j := range diskJobs(recs) {
		if j.Kind == DiskRandom && j.WritePercent == 0 {
			m.Reads = append(m.Reads, DiskReads{j.BlockBytes, j.Depth, j.lasting()})
			m.Device = j.device
		}
	}
	slices.SortFunc(m.Reads, func(a, b DiskReads) int {
		return cmp.Or(cmp.Compare(a.BlockBytes, b.BlockBytes), cmp.Compare(a.Depth, b.Depth))
	})
	if len(m.Reads) == 0 {
		return nil
	}
	return m
}

// At returns the measured rate of reads of the size nearest to bytes. It takes the smallest
// measured queue depth that is at least depth; if there is none, the greatest measured depth.
func (m *MeasuredDisk) At(bytes float64, depth int) DiskReads {
	distance := func(r DiskReads) float64 { return math.Abs(math.Log(float64(r.BlockBytes) / bytes)) }
	best := m.Reads[0]
	for _, r := range m.Reads[1:] {
		switch near, was := distance(r), distance(best); {
		case near > was:
		case near < was, best.Depth < depth && r.Depth > best.Depth:
			best = r
		}
	}
	return best
}

// Share compares a server's reads per second, of the given size and by the given number of clients,
// with the disk's own reads: "92% of the 100 random reads/s of 8 KiB that this disk did at queue
// depth 1".
func (m *MeasuredDisk) Share(perSecond, bytes float64, clients int) string {
	at, most := m.At(bytes, clients), m.At(bytes, math.MaxInt)
	text := fmt.Sprintf("%s of the %s random reads/s of %s that this disk did at queue depth %d", figure.Percent(perSecond/at.PerSecond), figure.Rounded(at.PerSecond),
		figure.Bytes(at.BlockBytes), at.Depth)
	if most.Depth != at.Depth {
		text += fmt.Sprintf(", and %s of the %s at %d", figure.Percent(perSecond/most.PerSecond), figure.Rounded(most.PerSecond), most.Depth)
	}
	return text
}

// diskReads compares the disk reads of a part of a run with MeasuredDisk; "" if either is unknown.
func (r *Record) diskReads(part figures) string {
	m, reads := r.Run.MeasuredDisk, part["disk_reads"]
	if m == nil || len(m.Reads) == 0 || reads < 1 {
		return ""
	}
	size := part["disk_read_bytes"] / reads
	text := fmt.Sprintf("the disk did %s reads/s of %s, %s", figure.Rounded(reads), figure.Bytes(size), m.Share(reads, size, max(r.Run.Writers, 1)))
	// The disk's figure counts all programs' reads. Neither figure counts reads from a cache.
	if own, known := part["server_io_read_bytes"]; known && own < mostlyOwn*part["disk_read_bytes"] {
		text += fmt.Sprintf("; the server had %s of these bytes read, other programs the rest", figure.Percent(own/part["disk_read_bytes"]))
	}
	return text
}

// mostlyOwn is a share of the bytes read from the disk. If the server read less than this share,
// diskReads says that other programs read the rest.
const mostlyOwn = 0.9

// LastDiskReads compares the disk reads over the last tenth of the rows with MeasuredDisk.
func (r *Record) LastDiskReads() string {
	if r.Run.MeasuredDisk == nil {
		return ""
	}
	total := r.Curve().Rows()
	return r.diskReads(r.means(total-total/tenths, total+1))
}

// A diskJob is a job with the figures of all its repeats.
type diskJob struct {
	Disk
	device    string
	rates     []float64 // over the last third of a run, or the whole run
	latencies []float64 // medians, in microseconds
}

// lasting returns the rate that the job sustained: the median over its repeats.
func (j *diskJob) lasting() float64 { return median(j.rates) }

func (j *diskJob) bytes() float64 { return j.lasting() * float64(j.BlockBytes) }

// diskJobs returns the completed jobs, in order.
func diskJobs(recs []Record) (out []*diskJob) {
	for i := range recs {
		r := &recs[i]
		if r.Run.Disk == nil || r.End == nil || r.End.Failure != "" {
			continue
		}
		s := r.Summary()
		d := *r.Run.Disk
		at := slices.IndexFunc(out, func(j *diskJob) bool {
			return j.Kind == d.Kind && j.BlockBytes == d.BlockBytes && j.Depth == d.Depth && j.WritePercent == d.WritePercent
		})
		if at < 0 {
			at = len(out)
			out = append(out, &diskJob{Disk: d, device: r.Run.Machine.Disk})
		}
		rate := s.Disk.Last
		if rate == 0 {
			rate = s.Disk.PerSecond
		}
		if rate > 0 {
			out[at].rates = append(out[at].rates, rate)
			out[at].latencies = append(out[at].latencies, float64(s.LatencyUS[d.Operation()].P50))
		}
	}
	return slices.DeleteFunc(out, func(j *diskJob) bool { return len(j.rates) == 0 })
}

// A DiskSetting is a setting to try on a server with the disk: a starting point, not a result.
type DiskSetting struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	// Formula says how the value follows from the figures. Source names who recommends it.
	Formula string `json:"formula"`
	Source  string `json:"source"`
}

// Sizes in bytes.
const (
	largePage     = 16 << 10 // a page of InnoDB
	smallPage     = 8 << 10  // a page of PostgreSQL
	largeRequests = 256 << 10
)

const (
	// flushShare is the share of the disk's random writes that background flushing may take: the rest
	// is for reads and the log.
	flushShare = 0.25
	// Bounds of innodb_io_capacity in MySQL's manual: its minimum, and the value above which more is
	// not recommended.
	leastCapacity, mostCapacity = 100, 20000
	// neighbourly is a ratio: the bytes per second of sequential writes, divided by those of random
	// writes. From this ratio on, writing a page's neighbours with the page costs nothing.
	neighbourly = 10
	// enough is a share of the highest rate. If a queue depth reaches this share, a deeper queue only
	// adds latency.
	enough = 0.9
	// uncached is the share of random reads that reach the disk, as PostgreSQL's manual assumes for
	// its default of random_page_cost. leastPageCost is the manual's value for SSDs.
	uncached, leastPageCost = 0.1, 1.1
	mostConcurrency         = 1000
)

// DiskSettings derives settings to try from the records of `bench disk`. A setting is left out if
// the records lack its figures.
func DiskSettings(recs []Record) (out []DiskSetting) {
	jobs := diskJobs(recs)
	best := func(figure func(*diskJob) float64, of func(*diskJob) bool) (found *diskJob) {
		for _, j := range jobs {
			if of(j) && (found == nil || figure(j) > figure(found)) {
				found = j
			}
		}
		return found
	}
	of := func(kind string, writes int, size int64) func(*diskJob) bool {
		return func(j *diskJob) bool {
			return j.Kind == kind && j.WritePercent == writes && (j.BlockBytes == size || size == largeRequests && j.BlockBytes >= size)
		}
	}
	add := func(name string, value float64, source, formula string, args ...any) {
		out = append(out, DiskSetting{name, value, fmt.Sprintf(formula, args...), source})
	}
	rate := func(j *diskJob) float64 { return j.lasting() }
	if w := best(rate, of(DiskRandom, 100, largePage)); w != nil {
		raw := flushShare * w.lasting()
		v := min(max(twoDigits(raw), leastCapacity), mostCapacity)
		add("innodb_io_capacity", v, "its manual, Configuring I/O Capacity: as low as practical, 100 at least, above 20,000 seldom of use",
			"%v of the %s random writes/s of 16 KiB at queue depth %d, which leaves the others for reads and the log", flushShare, figure.Rounded(w.lasting()), w.Depth)
		add("innodb_io_capacity_max", 2*v, "its manual, Configuring I/O Capacity: by default twice innodb_io_capacity", "2 * innodb_io_capacity")
		if s := best(func(j *diskJob) float64 { return j.bytes() }, of(DiskSequential, 100, largeRequests)); s != nil {
			v, ratio := 0.0, s.bytes()/w.bytes()
			if ratio >= neighbourly {
				v = 1
			}
			add("innodb_flush_neighbors", v, "its manual, Configuring Buffer Pool Flushing: neighbours reduce seeks; off where seek time is no factor",
				"1 from %d on: written in sequence, the disk takes %.1f times the bytes of random pages", neighbourly, ratio)
		}
	}
	reads := of(DiskRandom, 0, smallPage)
	if most := best(rate, reads); most != nil {
		depth := most.Depth
		for _, j := range jobs {
			if reads(j) && j.Depth < depth && j.lasting() >= enough*most.lasting() {
				depth = j.Depth
			}
		}
		add("effective_io_concurrency", float64(min(depth, mostConcurrency)), "its manual, Asynchronous Behavior: requests that can be served at once, up to hundreds on SSDs",
			"the smallest queue depth measured that has %v of the highest %s random reads/s of 8 KiB", enough, figure.Rounded(most.lasting()))
	}
	one := best(rate, func(j *diskJob) bool { return reads(j) && j.Depth == 1 })
	seq := best(func(j *diskJob) float64 { return j.bytes() }, of(DiskSequential, 0, largeRequests))
	if one != nil && seq != nil {
		ratio := seq.bytes() / one.bytes()
		add("random_page_cost", max(leastPageCost, math.Round(10*uncached*ratio)/10), "its manual, Planner Cost Constants: 4 models 40 times the time with 90% of reads cached; 1.1 for SSDs",
			"%v * %.1f, the time of a random page of 8 KiB (%s/s) over that of one in sequence (%s/s); at least %v", uncached, ratio,
			figure.Bytes(one.bytes()), figure.Bytes(seq.bytes()), leastPageCost)
	}
	return out
}

// twoDigits rounds to two significant digits.
func twoDigits(v float64) float64 {
	scale := math.Pow(10, math.Floor(math.Log10(max(v, 1)))-1)
	return math.Round(v/scale) * scale
}

// DiskName returns the disk's name without its properties.
func (m *MeasuredDisk) DiskName() string {
	name, _, _ := strings.Cut(m.Device, ":")
	return name
}
