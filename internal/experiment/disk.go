package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/experiment/record"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/probe"
	"github.com/rowmill/rowmill/internal/workload/disk"
	"github.com/rowmill/rowmill/result"
)

// A DiskSpec has the options of bench disk. The target is a folder, in which a file of FileBytes is
// made. Each kind of request is measured with each size, depth of the queue, and percentage of
// writes.
type DiskSpec struct {
	Kinds     []string `json:"kinds" toml:"kinds"`
	Sizes     []int64  `json:"sizes" toml:"sizes"`
	Depths    []int    `json:"depths" toml:"depths"`
	Writes    []int    `json:"writes" toml:"writes"`
	FileBytes int64    `json:"size" toml:"size"`
}

const (
	// maxBlock and maxDepth limit --blocks and --depths: no server asks for so much. leastFile is the
	// size of the smallest file. The requests of a usual queue cover only a part of such a file.
	maxBlock, maxDepth = 16 << 20, 1024
	leastFile          = 64 << 20
	// leastDiskTime gives each third of a job some intervals.
	leastDiskTime = 500 * time.Millisecond
	// restAfterWrites is how long the disk rests after filling, and between writes and reads: its
	// cache still has writes to complete.
	restAfterWrites = 5 * time.Second
)

func (s *Spec) validateDisk() error {
	d := s.Disk
	if err := cmp.Or(s.no(len(s.Targets) != 1 || s.Targets[0] == "", "rowmill bench disk /srv/data", "name the folder on the disk to measure"),
		list(s, "kinds", "kind", d.Kinds, disk.Kinds()),
		list(s, "blocks", "size", d.Sizes, nil), list(s, "depths", "depth", d.Depths, nil), list(s, "writes", "percentage", d.Writes, nil),
		s.limits("repeat", s.Repeat, 1, 0),
		s.no(s.MaxTime.D() < leastDiskTime, "--time 3s", "--time %v: want at least %v for each job", s.MaxTime.D(), leastDiskTime),
		s.no(d.FileBytes < leastFile, "--size 4GB", "--size %s: want at least %s", figure.Bytes(d.FileBytes), figure.Bytes(int64(leastFile)))); err != nil {
		return err
	}
	logical, _, _ := probe.Sectors(s.Target())
	least := max(logical, 512)
	for _, n := range d.Sizes {
		if err := cmp.Or(s.no(n < least || n > maxBlock, "--blocks 8KiB,16KiB,1MiB", "--blocks %d: want %d to %d bytes", n, least, maxBlock),
			s.no(n%least != 0, "--blocks 8KiB,16KiB,1MiB", "--blocks %d: the disk is addressed in sectors of %d bytes", n, least),
			s.no(n*int64(slices.Max(d.Depths)) > d.FileBytes, "a larger --size", "--blocks %d: %d of them at once are more than the file of %s", n, slices.Max(d.Depths), figure.Bytes(d.FileBytes))); err != nil {
			return err
		}
	}
	return cmp.Or(s.limits("depths", slices.Min(d.Depths), 1, maxDepth), s.limits("depths", slices.Max(d.Depths), 1, maxDepth),
		s.limits("writes", slices.Min(d.Writes), 0, 100), s.limits("writes", slices.Max(d.Writes), 0, 100))
}

// A diskTrial is one job in one round, counted from 0.
type diskTrial struct {
	job          result.Disk
	round        int
	order, total int
	// trial is the trial of a scenario; nil otherwise.
	trial *Trial
}

func (t diskTrial) label() string { return diskName(&t.job) }

// diskName describes a job in a few words.
func diskName(d *result.Disk) string {
	size := figure.Bytes(d.BlockBytes)
	switch d.Kind {
	case result.DiskFill:
		return "filling"
	case result.DiskSync:
		return "write and fsync, " + size
	case result.DiskLog:
		return "append and fdatasync, " + size
	}
	what := "reads"
	switch d.WritePercent {
	case 0:
	case 100:
		what = "writes"
	default:
		what = fmt.Sprintf("%d%% writes", d.WritePercent)
	}
	return fmt.Sprintf("%s %s, %s, depth %d", d.Kind, what, size, d.Depth)
}

// A diskRun makes the jobs of a Spec on one file.
type diskRun struct {
	*Env
	spec  *Spec
	file  *disk.File
	began time.Time // the first job after filling
	wrote bool      // the previous job wrote
}

func (e *Env) disk(ctx context.Context, s *Spec) ([]result.Record, error) {
	jobs := disk.Jobs(s.Disk.Kinds, s.Disk.Sizes, s.Disk.Depths, s.Disk.Writes)
	var all []diskTrial
	for round := range s.Repeat {
		for i, job := range jobs {
			if round == 0 || i > 0 { // job 0 fills the file, once
				all = append(all, diskTrial{job: job, round: round})
			}
		}
	}
	return e.diskTrials(ctx, s, all)
}

// diskTrials makes the jobs in order, on one file.
func (e *Env) diskTrials(ctx context.Context, s *Spec, all []diskTrial) (recs []result.Record, err error) {
	r := &diskRun{Env: e, spec: s}
	for i := range all {
		all[i].order, all[i].total = i, len(all)
	}
	if r.file, err = disk.NewFile(ctx, s.Target(), s.Disk.FileBytes); err != nil {
		return nil, early(ctx, err)
	}
	defer func() { err = errors.Join(err, r.file.Close()) }()
	e.Show.Note(fmt.Sprintf("%s of %v each with fio %s, at least %v, on a file of %s in %s, which is filled first and has no name, so that it goes with rowmill",
		figure.Plural(len(all)-1, "job"), s.MaxTime.D(), r.file.Version, (time.Duration(len(all)-1) * s.MaxTime.D()).Round(time.Second), figure.Bytes(s.Disk.FileBytes), s.Target()))
	return each(ctx, all, diskTrial.label, func(t diskTrial) ([]result.Record, error) {
		if r.wrote && (t.job.WritePercent == 0 || t.order == 1) {
			e.Show.Note(fmt.Sprintf("the disk rests for %v after the writes", restAfterWrites))
			if err := engine.Sleep(ctx, restAfterWrites); err != nil {
				return nil, nil // interrupted; the function each returns the error
			}
		}
		if t.order == 1 {
			r.began = time.Now()
		}
		r.wrote = t.job.WritePercent > 0
		rec, err := r.measure(ctx, t)
		return recorded(rec, err)
	})
}

var diskCounters = []result.Counter{
	{Name: result.DiskSubmitterCPU, Group: "client", Unit: "cores", Help: "CPU time per second of the thread of fio that makes the requests"},
	{Name: result.DiskFioCPU, Group: "client", Unit: "cores", Help: "CPU time of fio's process per second, its reports included"},
}

// measure makes one job, with its record.
func (r *diskRun) measure(ctx context.Context, t diskTrial) (_ *result.Record, err error) {
	s, job := r.spec, t.job
	job.FileBytes, job.AllocatedBytes = s.Disk.FileBytes, r.file.Allocated
	_, job.SectorBytes, job.WriteCache = probe.Sectors(s.Target())
	length, interval := s.MaxTime.D(), s.Interval.D()
	if job.Kind == result.DiskFill {
		length, interval = 0, time.Second
	}
	// Another seed for each job: blocks that an earlier job has read may be in a cache.
	job.Job = r.file.Command(&job, length, uint64(s.Seed)+uint64(t.order))
	p := probe.New(ctx, probe.Config{Node: &probe.Node{DataDir: s.Target(), Embedded: true}, Interval: interval})
	defer func() { err = errors.Join(err, p.Close()) }()
	trial := cmp.Or(t.trial, &Trial{Spec: s, Whole: s})
	own := result.Run{Name: diskName(&job), Benchmark: result.Benchmark{Disk: &job}, Load: result.Load{Writers: job.Depth}}
	if trial.Scenario != nil {
		own.Name = trial.Scenario.Run + ": " + own.Name
	}
	if s.Repeat > 1 {
		trial.Repeat = t.round + 1
		own.Name = trial.named(own.Name)
	}
	run := r.header(trial, &bench.Config{MaxTime: length, Interval: interval}, own)
	if run.Target, err = filepath.Abs(s.Target()); err != nil {
		return nil, err
	}
	run.Started, run.Engine, run.ServerVersion, run.Embedded, run.Layout = time.Now().UTC(), "fio", r.file.Version, true, ""
	run.Machine, run.Counters, run.Warnings = probe.Machine(s.Target()), append(p.Describe(), diskCounters...), p.Warnings()
	run.Storage = run.Machine.Disk
	if err := r.Out.Run(run); err != nil {
		return nil, err
	}
	rec := &result.Record{Run: run, Source: r.Out.Path}
	run.Name = place(t.order+1, t.total, t.order-1, r.began) + "  " + run.Name
	r.Show.Begin(run)
	known := len(p.Warnings())
	p.Start(ctx)
	end := result.End{Stopped: bench.StoppedTime}
	if length == 0 {
		end.Stopped = bench.StoppedRows
	}
	used, at := 0.0, time.Now()
	err = r.file.Run(ctx, job.Job, interval, func(pid int, iv result.Interval) error {
		maps.Copy(iv.Counters, p.Sample(ctx, time.Duration(iv.Elapsed*float64(time.Second))))
		if cpu, err := probe.ProcessCPU(pid); err == nil {
			now := time.Now()
			iv.Counters[result.DiskFioCPU] = (cpu - used) / now.Sub(at).Seconds()
			used, at = cpu, now
		}
		// Only the job's own time counts, not the start of fio.
		end.ClientCPUSeconds += iv.Seconds * (iv.Counters[result.DiskFioCPU] + iv.Counters["client_cpu"])
		rec.Add(iv)
		r.Show.Interval(iv)
		return r.Out.Interval(iv)
	})
	switch {
	case err != nil:
		end.Stopped, end.Failure = bench.StoppedFailed, err.Error()
	case ctx.Err() != nil:
		end.Stopped = bench.StoppedInterrupted
	}
	if all := p.Warnings(); len(all) > known {
		end.Warnings = all[known:]
	}
	rec.End = &end
	summary := rec.Summary()
	end.Summary = &summary
	r.Show.End(summary)
	return rec, errors.Join(err, r.Out.End(end))
}

// ReadDisk reads the record of `bench disk` that a run is to be compared with.
func ReadDisk(ctx context.Context, path string) (*result.MeasuredDisk, error) {
	recs, err := record.Read(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("--disk: %w", err)
	}
	m := result.NewMeasuredDisk(recs, path)
	if m == nil {
		return nil, refuse("rowmill bench disk DIR --out DISK.jsonl", "--disk %s holds no random reads of rowmill bench disk", path)
	}
	return m, nil
}

// otherDisk warns if both disks are known and a run's data is on another disk than the one in m.
func otherDisk(m *result.MeasuredDisk, machine result.Machine) []string {
	if m == nil || m.Device == "" || machine.Disk == "" || m.Device == machine.Disk {
		return nil
	}
	name, _, _ := strings.Cut(machine.Disk, ":")
	return []string{fmt.Sprintf("--disk %s was measured on %s, and the data is on %s", m.Source, m.DiskName(), name)}
}
