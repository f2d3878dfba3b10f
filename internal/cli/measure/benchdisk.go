package measure

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/report/oneline"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/internal/workload/disk"
)

const (
	defaultDiskTime = 3 * time.Second
	// defaultDiskFile is more than most disks have as their own cache.
	defaultDiskFile = "4GB"
)

func (a benchmarks) benchDiskCommand() *cobra.Command {
	var of experiment.DiskSpec
	var out benchOutputs
	var blocks []string
	spec := experiment.Spec{Workload: experiment.Disk, WorkloadSpecs: experiment.WorkloadSpecs{Disk: &of}, Layouts: []string{workload.Plain}}
	c := &cobra.Command{
		Use:   "disk DIR",
		Short: "Measure what the disk below a folder gives, before a server is blamed",
		Long: "Measure what the disk below a folder gives: requests per second, bytes per second and\n" +
			"latencies, for each size of request, depth of the queue and share of writes, at random\n" +
			"and in sequence; how long an fsync takes; and appending as a server does to its redo\n" +
			"log. fio makes the requests, bypassing the system's cache. Settings to try on a server are\n" +
			"derived from the results. Kinds of jobs:\n" +
			"  random      blocks at random places\n" +
			"  sequential  one block after the other\n" +
			"  fsync       4 KiB at random places, each followed by fsync\n" +
			"  log         4 KiB one after the other through the system's cache, each followed by\n" +
			"              fdatasync\n" +
			"Doubtful results are named: a burst of the disk ended during the job, a cache answered\n" +
			"requests, the core that made the requests was busy all the time, an fsync was too fast\n" +
			"for flash.\n\n" +
			"It makes one file in DIR and fills it with data that can't be compressed. The file has\n" +
			"no name, so its space is free again when rowmill ends, also after Ctrl-C or a kill. No\n" +
			"device and no existing file is written. The disk is loaded fully meanwhile.\n\n" +
			"`rowmill plan --disk` and `rowmill bench insert --disk` use the record.",
		Example: "  rowmill bench disk /var/lib/mysql --out disk.jsonl --html disk.html\n" +
			"  rowmill bench disk . --size 1GB --kinds random --blocks 16KiB --writes 0 --time 60s",
		Args: cli.WantArgs(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			spec.Targets = args
			of.Sizes = nil
			for _, text := range blocks {
				n, err := engine.ParseBytes(text)
				if err != nil {
					return cli.Usagef("--blocks 8KiB,16KiB,1MiB", "--blocks: %q is not a size", text)
				}
				of.Sizes = append(of.Sizes, n)
			}
			fitInterval(c.Flags(), &spec)
			return a.bench(c.Context(), measuring{spec: &spec, out: out, show: a.runLines(oneline.Disk)})
		},
	}
	flags := c.Flags()
	flags.StringSliceVar(&of.Kinds, "kinds", disk.Kinds(), "kinds of jobs, `list`: "+strings.Join(disk.Kinds(), ", "))
	flags.StringSliceVar(&blocks, "blocks", []string{"8KiB", "16KiB", "1MiB"}, "sizes of random and sequential requests, `list`")
	flags.IntSliceVar(&of.Depths, "depths", []int{1, 8, 32}, "depths of the queue, how many requests are under way at a time, `list`")
	flags.IntSliceVar(&of.Writes, "writes", []int{0, 50, 100}, "percentages of requests that write, `list`")
	cli.SizeVar(flags, &of.FileBytes, "size", defaultDiskFile, 1, "`size` of the file: more than any cache in front of the disk")
	timeVar(flags, &spec.MaxTime, defaultDiskTime, "measure each job for this `time`")
	cli.IntVar(flags, &spec.Repeat, "repeat", 1, "measure each job `N` times, in turn")
	cli.DurationVar(flags, &spec.Interval, "interval", defaultInterval, "`time` between two readings of all figures, a twentieth of --time if that is less")
	seedVar(flags, &spec, "`number` that the places of random requests derive from")
	out.define(flags, newRecord, " of rates and latencies", "", "results as JSON instead of text")
	return c
}
