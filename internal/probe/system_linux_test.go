package probe

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rowmill/rowmill/result"
)

// tree is a root directory with files of /proc, /sys and /etc, and device numbers.
type tree struct {
	t    *testing.T
	root string
	// devices are the results of stat for a path: the device that stores it, and
	// the device that it represents.
	devices map[string][2]devNumber
}

func newTree(t *testing.T) *tree {
	tr := &tree{t: t, root: t.TempDir(), devices: map[string][2]devNumber{}}
	tr.write("proc/stat", "cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 2 3\nintr 7\n")
	tr.write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 600 kB\nCached: 300 kB\nSwapCached: 5 kB\nDirty: 20 kB\n")
	tr.write("proc/loadavg", "0.77 0.48 0.84 3/95 29647\n")
	tr.write("proc/vmstat", "nr_free_pages 1\npswpin 10\npswpout 20\n")
	for _, r := range []string{"cpu", "io", "memory"} {
		tr.write("proc/pressure/"+r, "some avg10=9.99 avg60=9.99 avg300=9.99 total=1000000\nfull avg10=9.99 avg60=9.99 avg300=9.99 total=500000\n")
	}
	return tr
}

func (tr *tree) write(name, text string) {
	tr.t.Helper()
	path := filepath.Join(tr.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		tr.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		tr.t.Fatal(err)
	}
}

// disk creates a block device; dir is its directory below /sys/devices.
func (tr *tree) disk(n devNumber, dir, stat string) {
	tr.t.Helper()
	tr.write("sys/devices/"+dir+"/stat", stat)
	link := filepath.Join(tr.root, "sys/dev/block", n.String())
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		tr.t.Fatal(err)
	}
	if err := os.Symlink("../../devices/"+dir, link); err != nil {
		tr.t.Fatal(err)
	}
}

func (tr *tree) system() system {
	return system{
		proc: filepath.Join(tr.root, "proc"), sys: filepath.Join(tr.root, "sys"), etc: filepath.Join(tr.root, "etc"),
		stat: func(path string) (devNumber, devNumber, error) {
			d, ok := tr.devices[path]
			if !ok {
				return 0, 0, &os.PathError{Op: "stat", Path: path, Err: os.ErrNotExist}
			}
			return d[0], d[1], nil
		},
	}
}

func dev(major, minor uint32) devNumber { return devNumber(unix.Mkdev(major, minor)) }

// secondSample changes the files of a source, and returns the figures of two seconds.
func secondSample(t *testing.T, s *source, change func()) figures {
	t.Helper()
	begin := time.Now()
	out := figures{}
	if err := s.sample(begin, figures{}); err != nil {
		t.Fatal(err)
	}
	change()
	if err := s.sample(begin.Add(2*time.Second), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// opened returns the sources that can be read, by name, and the warnings.
func (sys system) opened(dataDir string) (map[string]*source, []string) {
	p := &Probe{}
	sys.open(p.try)
	sys.openDisk(dataDir, p.try, p.warn)
	out := map[string]*source{}
	for _, s := range p.sources {
		out[s.gap.what] = s
	}
	return out, p.warnings
}

// wantFigures checks that out contains exactly these figures.
func wantFigures(t *testing.T, out, figures figures) {
	t.Helper()
	for name, v := range figures {
		if got, ok := out[name]; !ok || math.Abs(got-v) > 1e-6*max(1, math.Abs(v)) {
			t.Errorf("%s = %v (%v), want %v", name, got, ok, v)
		}
	}
	for name, v := range out {
		if _, ok := figures[name]; !ok {
			t.Errorf("%s = %v, want it left out", name, v)
		}
	}
}

const diskStat = "   100 5 2000 300 200 6 4000 800 1 5000 1100 1 2 3 4 5 6\n"

// TestSources checks the figures of two seconds in which files change.
func TestSources(t *testing.T) {
	type files map[string]string
	cpu := func(user, system, iowait, steal, idle, interrupts float64) figures {
		return figures{"os_cpu_user": user, "os_cpu_system": system, "os_cpu_iowait": iowait, "os_cpu_steal": steal, "os_cpu_idle": idle, "os_cpu_interrupts": interrupts}
	}
	const freq0, freq1 = "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq"
	const sda1 = "sys/devices/sda/sda1/stat"
	page := float64(os.Getpagesize())
	for _, c := range []struct {
		name          string
		source        string
		before, after files
		want          figures // nil: not shown by this machine
	}{
		{"cpu: steal, interrupts and nice", "cpu figures", files{"proc/stat": "cpu  100 0 100 700 100 0 0 0 0 0\n"},
			files{"proc/stat": "cpu  110 10 105 720 110 2 3 40 0 0\n"}, cpu(.20, .10, .10, .40, .20, .05)},
		{"cpu: guest time is part of user", "cpu figures", files{"proc/stat": "cpu  100 0 0 0 0 0 0 0 100 0\n"},
			files{"proc/stat": "cpu  150 0 0 50 0 0 0 0 150 0\n"}, cpu(.5, 0, 0, 0, .5, 0)},
		{"cpu: iowait decreases", "cpu figures", files{"proc/stat": "cpu  100 0 0 0 500 0 0 0 0 0\n"},
			files{"proc/stat": "cpu  150 0 0 50 400 0 0 0 0 0\n"}, cpu(.5, 0, 0, 0, .5, 0)},
		{"cpu: no guest columns", "cpu figures", files{"proc/stat": "cpu  1 2 3 4 5 6 7 8\n"},
			files{"proc/stat": "cpu  2 2 3 7 5 6 7 8\n"}, cpu(.25, 0, 0, 0, .75, 0)},
		{"load", "load figures", nil, files{"proc/loadavg": "12.50 1.48 0.84 7/95 29647\n"}, figures{"os_load1": 12.5, "os_runnable": 7}},
		{"memory", "memory figures", nil, nil, figures{"mem_available_bytes": 600 * 1024, "mem_dirty_bytes": 20 * 1024, "mem_cached_bytes": 300 * 1024}},
		// The file is longer than the buffer.
		{"swap", "swap figures", files{"proc/vmstat": strings.Repeat("nr_something 1\n", 1000) + "pswpin 10\npswpout 20\n"},
			files{"proc/vmstat": "pswpin 12\npswpout 26\n"}, figures{"swap_in_bytes": page, "swap_out_bytes": 3 * page}},
		{"pressure is at most all of the time", "io pressure figures", nil,
			files{"proc/pressure/io": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1800000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9500000\n"},
			figures{"pressure_io_some": .4, "pressure_io_full": 1}},
		{"disk: reads and writes, fewer in flight", "disk figures", nil, files{sda1: "150 5 2100 400 210 6 4200 900 0 6000 9999\n"}, figures{
			"disk_reads": 25, "disk_writes": 5, "disk_read_bytes": 50 * 512, "disk_write_bytes": 100 * 512,
			"disk_utilisation": .5, "disk_read_latency_us": 2000, "disk_write_latency_us": 10000}},
		{"disk: idle has no latency", "disk figures", nil, nil, figures{
			"disk_reads": 0, "disk_writes": 0, "disk_read_bytes": 0, "disk_write_bytes": 0, "disk_utilisation": 0}},
		{"disk: a counter went backwards", "disk figures", nil, files{sda1: "150 5 2100 400 210 6 4200 7 0 6000 9999\n"}, figures{}},
		{"disk: busy for longer than the interval", "disk figures", nil, files{sda1: "100 5 2000 300 200 6 4000 800 1 8000 0\n"}, figures{
			"disk_reads": 0, "disk_writes": 0, "disk_read_bytes": 0, "disk_write_bytes": 0, "disk_utilisation": 1}},
		{"frequency: cpufreq", "cpu frequency", files{freq0: "3000000\n", freq1: "3000000\n"}, files{freq1: "1200000\n"},
			figures{"cpu_frequency": 2.1e9, "cpu_frequency_min": 1.2e9}},
		{"frequency: unknown", "cpu frequency", files{"proc/cpuinfo": "flags : fpu\ncpu MHz\t\t: 2445.5\n"}, nil, nil},
		{"throttling: version 2, the quota is that of the group around", "throttling figures", files{
			"proc/self/cgroup":           "0::/a/b\n",
			"sys/fs/cgroup/a/cpu.stat":   "usage_usec 5\nnr_periods 1\nnr_throttled 10\nthrottled_usec 1000000\n",
			"sys/fs/cgroup/a/b/cpu.stat": "usage_usec 5\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
			"sys/fs/cgroup/cpu.stat":     "usage_usec 5\n",
		}, files{"sys/fs/cgroup/a/cpu.stat": "usage_usec 9\nnr_periods 9\nnr_throttled 14\nthrottled_usec 1500000\n"},
			figures{"cgroup_throttled": 0.25, "cgroup_throttles": 2}},
		{"throttling: the root of version 2", "throttling figures", files{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.stat": "usage_usec 5\n"}, nil, nil},
		{"throttling: no mount", "throttling figures", files{"proc/self/cgroup": "0::/a\n"}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := newTree(t)
			tr.disk(dev(8, 1), "sda/sda1", diskStat)
			tr.devices["/data"] = [2]devNumber{dev(8, 1)}
			write := func(files files) {
				for name, text := range files {
					tr.write(name, text)
				}
			}
			write(c.before)
			sources, warnings := tr.system().opened("/data")
			s := sources[c.source]
			switch {
			case s != nil && c.want != nil:
				wantFigures(t, secondSample(t, s, func() { write(c.after) }), c.want)
			case s != nil || c.want != nil || strings.Contains(strings.Join(warnings, "\n"), c.source):
				t.Errorf("opened %v, warnings %q", sources, warnings)
			}
		})
	}
}

func TestDevice(t *testing.T) {
	tr := newTree(t)
	data := t.TempDir() // exists, for the lookup of its mount
	real, err := filepath.EvalSymlinks(data)
	if err != nil {
		t.Fatal(err)
	}
	spaced := filepath.Join(real, "two words")
	if err := os.Mkdir(spaced, 0o755); err != nil {
		t.Fatal(err)
	}
	tr.disk(dev(8, 0), "sda", diskStat)
	tr.disk(dev(8, 1), "sda/sda1", diskStat)
	tr.disk(dev(8, 16), "sdb", diskStat)
	anonymous := [2]devNumber{dev(0, 50)}
	tr.devices["/dev/sda1"] = [2]devNumber{dev(0, 5), dev(8, 1)}
	tr.devices["/dev/sdb"] = [2]devNumber{dev(0, 5), dev(8, 16)}
	tr.devices["/export"] = [2]devNumber{dev(8, 16)} // a directory
	tr.devices["/upper dir"] = [2]devNumber{dev(8, 1)}
	root := "1 0 8:16 / / rw - ext4 /dev/sdb rw\n"
	at := strings.ReplaceAll(real, " ", `\040`)

	for _, c := range []struct {
		name, mounts string
		dir          string
		holder       devNumber
		want         string // the device's name
		fails        string
	}{
		{name: "partition", dir: real, holder: dev(8, 1), mounts: root, want: "sda1"},
		{name: "device that /sys doesn't show", dir: real, holder: dev(9, 9), mounts: root, fails: "find block device 9:9"},
		{name: "tmpfs", dir: real, mounts: root + "2 1 0:50 / " + at + " rw shared:3 - tmpfs tmpfs rw\n", fails: "no block device behind " + real + ": tmpfs"},
		{name: "zfs", dir: real, mounts: root + "2 1 0:50 / " + at + " rw - zfs tank/data rw\n", fails: "zfs"},
		{name: "btrfs", dir: real, mounts: root + "2 1 0:49 /@ " + at + " rw - btrfs /dev/sda1 rw,subvol=/@\n", want: "sda1"},
		{name: "overlay", dir: real, mounts: root + "2 1 0:50 / " + at + " rw - overlay overlay rw,lowerdir=/a:/b,upperdir=/upper\\040dir,workdir=/w\n", want: "sda1"},
		{name: "overlay from another namespace", dir: real, mounts: root + "2 1 0:50 / " + at + " rw - overlay overlay rw,upperdir=/elsewhere\n", fails: `upper layer "/elsewhere"`},
		{name: "overlay without upper layer", dir: real, mounts: root + "2 1 0:50 / " + at + " ro - overlay overlay ro,lowerdir=/a\n", fails: "upper layer"},
		{name: "mounted from a directory", dir: real, mounts: root + "2 1 0:50 / " + at + " rw - 9p /export rw\n", fails: "9p"},
		{name: "the last mount covers the first", dir: real,
			mounts: root + "2 1 0:50 / " + at + " rw - tmpfs tmpfs rw\n3 2 0:51 / " + at + " rw - btrfs /dev/sdb rw\n", want: "sdb"},
		{name: "the longest mount point holds it", dir: spaced,
			mounts: root + "2 1 0:50 / " + at + "/two\\040words rw - btrfs /dev/sda1 rw\n3 1 0:50 / " + at + " rw - tmpfs tmpfs rw\n", want: "sda1"},
		{name: "a name that begins like a mount point", dir: spaced,
			mounts: root + "2 1 0:50 / " + at + "/two rw - tmpfs tmpfs rw\n3 1 0:50 / " + at + " rw - btrfs /dev/sdb rw\n", want: "sdb"},
		{name: "no table of mounts", dir: real, mounts: "nonsense\n", fails: "read mounts"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr.write("proc/self/mountinfo", c.mounts)
			tr.devices[c.dir] = anonymous
			if c.holder != 0 {
				tr.devices[c.dir] = [2]devNumber{c.holder}
			}
			d, err := tr.system().device(c.dir)
			switch {
			case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
				t.Errorf("device %q, error %v; want one with %q", d.name, err, c.fails)
			case c.fails == "" && (err != nil || d.name != c.want):
				t.Errorf("device %q, error %v; want %q", d.name, err, c.want)
			}
		})
	}
}

// TestMissingFiles checks that each missing figure causes a warning with its
// reason, and that the others are read.
func TestMissingFiles(t *testing.T) {
	tr := newTree(t)
	if err := os.RemoveAll(filepath.Join(tr.root, "proc/pressure")); err != nil {
		t.Fatal(err)
	}
	tr.write("proc/stat", "cpu  1 2 3 4\n") // a kernel before 2.6.11
	tr.write("proc/meminfo", "MemTotal: 5 kB\n")
	tr.write("proc/loadavg", "\n")
	sources, warnings := tr.system().opened("/nowhere")
	if len(sources) != 1 || sources["swap figures"] == nil {
		t.Errorf("opened %v, want the swap figures only", sources)
	}
	for _, part := range []string{
		"cpu figures left out: ", "want 8 numbers",
		"load figures left out: ", "want 1 number",
		"memory figures left out: ", "no line MemAvailable:",
		"cpu pressure figures left out: open ", "io pressure figures left out: open ", "no such file",
		"disk figures left out: stat /nowhere: ", "disk space left out: statfs /nowhere: no such file",
	} {
		wantWarning(t, warnings, part)
	}
}

func TestMachineFromFiles(t *testing.T) {
	tr := newTree(t)
	dir := t.TempDir()
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	tr.write("proc/sys/kernel/osrelease", "6.1.0-18\n")
	tr.write("etc/os-release", "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n")
	tr.write("proc/self/mountinfo", "2 1 253:0 / "+real+" rw - xfs /dev/mapper/vg-data rw\n")
	tr.disk(dev(8, 1), "sda/sda1", diskStat)
	tr.write("sys/devices/sda/sda1/partition", "1\n")
	tr.write("sys/devices/sda/device/model", "SAMSUNG MZ7L3   \n")
	tr.write("sys/devices/sda/queue/rotational", "0\n")
	tr.write("sys/devices/sda/queue/write_cache", "write through\n")
	tr.disk(dev(253, 0), "virtual/dm-0", diskStat)
	tr.devices[dir] = [2]devNumber{dev(253, 0)}
	slaves := filepath.Join(tr.root, "sys/devices/virtual/dm-0/slaves")
	if err := os.MkdirAll(slaves, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../../sda/sda1", filepath.Join(slaves, "sda1")); err != nil {
		t.Fatal(err)
	}
	m := tr.system().machine(dir)
	want := result.Machine{Cores: m.Cores, Arch: m.Arch, Kernel: "6.1.0-18", OS: "Debian GNU/Linux 12 (bookworm)", Filesystem: "xfs",
		Disk: "dm-0 on sda: SAMSUNG MZ7L3, not rotational, write through cache", MemoryBytes: 1000 * 1024}
	if m != want {
		t.Errorf("got %+v, want %+v", m, want)
	}
}
