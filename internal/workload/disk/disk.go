// Package disk measures a directory's disk with fio: it makes a file for the requests, runs fio's
// jobs on it, and reads their output.
package disk

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	osexec "os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/result"
)

const (
	// fillDepth keeps a disk busy with requests of fillBlock bytes.
	fillDepth, fillBlock = 8, 1 << 20
	// syncBlock is a page of the system, the least that a log's write costs.
	syncBlock = 4096
	// spareShare of the file's size stays free beside it: a full disk would stop other programs.
	spareShare = 0.05
)

// A File is the file to which fio sends the requests of `bench disk`. The file has no name, so that
// the system removes it when rowmill and fio end, however they end.
type File struct {
	f    *os.File
	Size int64
	// Version is the version of fio.
	Version string
	// Allocated is the space that the file takes on the disk; 0 until it is filled.
	Allocated int64
}

// Jobs returns the jobs of a matrix in their order: filling, reads, mixtures and writes, and syncs.
// Reads come first, so that earlier writes don't slow them down.
func Jobs(kinds []string, sizes []int64, depths, writes []int) (out []result.Disk) {
	out = append(out, result.Disk{Kind: result.DiskFill, BlockBytes: fillBlock, Depth: fillDepth, WritePercent: 100})
	writes = slices.Sorted(slices.Values(writes))
	for _, share := range writes {
		for _, kind := range []string{result.DiskRandom, result.DiskSequential} {
			for _, size := range sizes {
				for _, depth := range depths {
					if slices.Contains(kinds, kind) {
						out = append(out, result.Disk{Kind: kind, BlockBytes: size, Depth: depth, WritePercent: share})
					}
				}
			}
		}
	}
	for _, kind := range []string{result.DiskSync, result.DiskLog} {
		if slices.Contains(kinds, kind) {
			out = append(out, result.Disk{Kind: kind, BlockBytes: syncBlock, Depth: 1, WritePercent: 100})
		}
	}
	return out
}

// Kinds are the kinds of jobs that can be chosen.
func Kinds() []string {
	return []string{result.DiskRandom, result.DiskSequential, result.DiskSync, result.DiskLog}
}

// Check refuses a folder that is not on a disk or lacks space for a file of the given size. It
// returns the version of fio, which must be installed.
func Check(ctx context.Context, dir string, size int64) (version string, err error) {
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", engine.Hinted(fmt.Errorf("there is no folder %s", dir), "mkdir -p %s", dir)
	case err != nil:
		return "", err
	case !st.IsDir():
		return "", engine.Hinted(fmt.Errorf("%s is not a folder", dir), "a folder on the disk, in which a file is made")
	}
	if err := onDisk(dir); err != nil {
		return "", err
	}
	free, err := freeBytes(dir)
	if err != nil {
		return "", err
	}
	if need := size + int64(spareShare*float64(size)); free < need {
		return "", engine.Hinted(fmt.Errorf("%s has %s free (%d bytes): the file needs %s (%d bytes), and %v of it must stay free besides",
			dir, figure.Bytes(free), free, figure.Bytes(size), size, figure.Percent(spareShare)), "a smaller --size, or another folder")
	}
	out, err := osexec.CommandContext(ctx, "fio", "--version").Output()
	if errors.Is(err, osexec.ErrNotFound) {
		return "", engine.Hinted(errors.New("fio, which makes the requests, is not installed"), "apt-get install fio, or dnf install fio")
	}
	if err != nil {
		return "", fmt.Errorf("run fio --version: %w", err)
	}
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "fio-"), nil
}

// NewFile makes a file of a size in a folder that Check accepts, and reserves its space.
func NewFile(ctx context.Context, dir string, size int64) (_ *File, err error) {
	d := &File{Size: size}
	if d.Version, err = Check(ctx, dir, size); err != nil {
		return nil, err
	}
	if d.f, err = os.CreateTemp(dir, "rowmill-disk-*"); err != nil {
		return nil, fmt.Errorf("make the file: %w", err)
	}
	err = os.Remove(d.f.Name())
	if err == nil {
		err = reserve(d.f, size)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a file of %s in %s: %w", figure.Bytes(size), dir, err), d.f.Close())
	}
	return d, nil
}

// Close gives the space back.
func (d *File) Close() error { return d.f.Close() }

// FileArgument stands for the file in the recorded command of a job.
const FileArgument = "FILE"

// Command returns the fio command of a job. The job lasts for length, but a fill lasts until the
// file is full. seed decides which blocks are requested.
func (d *File) Command(job *result.Disk, length time.Duration, seed uint64) []string {
	mode, random, ioengine, direct := "", "", "libaio", 0
	if job.Kind == result.DiskRandom || job.Kind == result.DiskSync {
		random = "rand"
	}
	switch job.WritePercent {
	case 0:
		mode = random + "read"
	case 100:
		mode = random + "write"
	default:
		mode = random + "rw"
	}
	if job.Operation() == result.DiskFlush {
		ioengine = "psync"
	}
	if job.Direct() {
		direct = 1
	}
	args := []string{"fio", "--name=" + job.Kind, "--thread", "--filename=" + FileArgument, "--size=" + strconv.FormatInt(d.Size, 10), "--allow_file_create=0", "--overwrite=1",
		"--rw=" + mode, "--bs=" + strconv.FormatInt(job.BlockBytes, 10), "--iodepth=" + strconv.Itoa(job.Depth), "--ioengine=" + ioengine, fmt.Sprintf("--direct=%d", direct),
		"--lat_percentiles=1", "--clat_percentiles=0", "--randseed=" + strconv.FormatUint(seed, 10)}
	if mode == random+"rw" {
		args = append(args, fmt.Sprintf("--rwmixwrite=%d", job.WritePercent))
	}
	if random != "" {
		args = append(args, "--norandommap")
	}
	switch job.Kind {
	case result.DiskFill: // each block gets data of its own, which no device can compress or find twice
		return append(args, "--refill_buffers", "--end_fsync=1")
	case result.DiskSync:
		args = append(args, "--fsync=1")
	case result.DiskLog:
		args = append(args, "--fdatasync=1")
	}
	return append(args, "--time_based", fmt.Sprintf("--runtime=%dms", length.Milliseconds()))
}

// Run runs the fio command of a job. For each interval, it calls tell with the id of fio's process
// and the measurements. If ctx ends, fio is stopped, and the last interval is lost.
func (d *File) Run(ctx context.Context, command []string, interval time.Duration, tell func(pid int, iv result.Interval) error) error {
	const inChild = "/proc/self/fd/3" // the first of ExtraFiles
	args := slices.Clone(command[1:])
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "--filename="+FileArgument, "--filename="+inChild)
	}
	args = append(args, "--output-format=json+", fmt.Sprintf("--status-interval=%dms", interval.Milliseconds()))
	cmd := osexec.CommandContext(ctx, command[0], args...)
	cmd.ExtraFiles, cmd.SysProcAttr = []*os.File{d.f}, withParent()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start fio: %w", err)
	}
	r := fioReader{began: time.Now(), tell: func(iv result.Interval) error { return tell(cmd.Process.Pid, iv) }}
	failed := r.read(out)
	if failed != nil { // don't leave fio blocked on its output
		failed = errors.Join(failed, cmd.Process.Kill())
	}
	err = cmd.Wait()
	var exit *osexec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil
	case failed != nil:
		return failed
	case r.failure != 0:
		return fmt.Errorf("fio: %w%s", r.failure, said(stderr.String(), r.said))
	case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled():
		return fmt.Errorf("fio was ended by a signal: %v", exit.Sys().(syscall.WaitStatus).Signal())
	case err != nil:
		return fmt.Errorf("fio failed: %w%s", err, said(stderr.String(), r.said))
	case !r.any:
		return fmt.Errorf("fio reported nothing%s", said(stderr.String(), r.said))
	}
	if st, err := d.f.Stat(); err == nil {
		d.Allocated = allocated(st)
	}
	return nil
}

// said quotes the first line that fio printed. After a fault it prints a line for each request.
func said(texts ...string) string {
	for _, text := range texts {
		if text, _, _ = strings.Cut(strings.TrimSpace(text), "\n"); text != "" {
			return ": " + figure.OneLine(text[:min(len(text), 500)])
		}
	}
	return ""
}

// A fioReader reads fio's reports, each of which covers the time since the start of the job.
type fioReader struct {
	began   time.Time // fio was started
	tell    func(result.Interval) error
	last    fioJob
	any     bool
	failure syscall.Errno
	said    string
}

// fioClock is how far fio's clock may be ahead of the time since its start, in milliseconds.
const fioClock = 100

// fioJob has the used part of a job's report. Times are in milliseconds and nanoseconds.
type fioJob struct {
	Error   int       `json:"error"`
	Runtime float64   `json:"job_runtime"`
	User    float64   `json:"usr_cpu"`
	System  float64   `json:"sys_cpu"`
	Read    fioNumber `json:"read"`
	Write   fioNumber `json:"write"`
	Sync    fioNumber `json:"sync"`
}

// cpu is the CPU time in seconds of the thread that makes the requests.
func (j *fioJob) cpu() float64 { return (j.User + j.System) / 100 * j.Runtime / 1000 }

type fioNumber struct {
	Total   int64 `json:"total_ios"`
	Latency struct {
		Bins map[string]int64 `json:"bins"`
	} `json:"lat_ns"`
}

// read reads fio's output, in which messages may stand between the reports.
func (r *fioReader) read(out io.Reader) error {
	in := bufio.NewReader(out)
	var doc []byte
	for {
		line, err := in.ReadBytes('\n')
		switch text := string(bytes.TrimRight(line, "\n")); {
		case text == "{":
			doc = append(doc[:0], line...)
		case len(doc) > 0:
			if doc = append(doc, line...); text == "}" {
				if err := r.report(doc); err != nil {
					return err
				}
				doc = doc[:0]
			}
		default:
			if r.said += string(line); len(r.said) > 4096 {
				r.said = r.said[:4096]
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read fio's output: %w", err)
		}
	}
}

func (r *fioReader) report(doc []byte) error {
	var got struct{ Jobs []fioJob }
	if err := json.Unmarshal(doc, &got); err != nil || len(got.Jobs) != 1 {
		return fmt.Errorf("read fio's report of %d jobs: %w", len(got.Jobs), err)
	}
	j := got.Jobs[0]
	r.any, r.failure = true, syscall.Errno(j.Error)
	// In a report before the job has begun, Runtime is the time since the machine was started.
	if j.Runtime <= r.last.Runtime || j.Runtime > float64(time.Since(r.began).Milliseconds())+fioClock {
		return nil
	}
	iv := result.Interval{Elapsed: j.Runtime / 1000, Seconds: (j.Runtime - r.last.Runtime) / 1000, Rows: j.Read.Total + j.Write.Total, Latency: map[string]result.Histogram{},
		Counters: map[string]float64{}}
	iv.Counters[result.DiskSubmitterCPU] = max(0, j.cpu()-r.last.cpu()) / iv.Seconds
	iv.NewRows = iv.Rows - r.last.Read.Total - r.last.Write.Total
	for op, n := range map[string][2]fioNumber{result.DiskRead: {r.last.Read, j.Read}, result.DiskWrite: {r.last.Write, j.Write}, result.DiskFlush: {r.last.Sync, j.Sync}} {
		h, err := n[1].since(n[0])
		if err != nil {
			return err
		}
		if h.Count > 0 {
			iv.Latency[op] = h
		}
	}
	r.last = j
	return r.tell(iv)
}

// since returns the latencies since an earlier report.
func (n fioNumber) since(was fioNumber) (result.Histogram, error) {
	h := result.NewHistogram()
	for _, bin := range slices.Sorted(maps.Keys(n.Latency.Bins)) {
		ns, err := strconv.ParseFloat(bin, 64)
		if err != nil {
			return result.Histogram{}, fmt.Errorf("read fio's report: bin %q: %w", bin, err)
		}
		if more := n.Latency.Bins[bin] - was.Latency.Bins[bin]; more > 0 {
			if err := h.RecordValues(max(1, int64(math.Round(ns/1000))), more); err != nil {
				return result.Histogram{}, err
			}
		}
	}
	return result.EncodeHistogram(h)
}
