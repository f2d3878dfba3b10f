package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/report"
)

// compareFlags are the flags of `rowmill compare`.
type compareFlags struct {
	json bool
	// failBelow is the ratio B/A of rates below which the command fails.
	failBelow float64
}

func (a *app) compareCommand() *cobra.Command {
	var f compareFlags
	c := &cobra.Command{
		Use:   "compare A.jsonl B.jsonl",
		Short: "Compare two run records at equal row counts",
		Long: "Compare the runs of two run records at equal row counts: the time to the same number\n" +
			"of rows, rates over tenths of them, latencies, stalls, bytes and CPU time per row,\n" +
			"each with the ratio B/A. Runs are paired by layout, preset and engine.\n\n" +
			"What makes two runs unequal is flagged before the figures: durability, versions,\n" +
			"settings, machines, schemas, workloads, and rows that were not verified.\n\n" +
			"Touches no server: it only reads the files.",
		Example: "  rowmill compare before.jsonl after.jsonl\n" +
			"  rowmill compare before.jsonl after.jsonl --fail-below 0.95",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("rowmill compare before.jsonl after.jsonl", "compare takes two run records, not %d", len(args))
			}
			if f.failBelow < 0 {
				return usagef("rowmill compare before.jsonl after.jsonl --fail-below 0.95", "--fail-below is a ratio of rates, such as 0.95, not %v", f.failBelow)
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.compare(f, args[0], args[1]) },
	}
	c.Flags().BoolVar(&f.json, "json", false, "print as JSON (default false)")
	c.Flags().Float64Var(&f.failBelow, "fail-below", 0, "exit with 1 when B inserts at less than this `ratio` of A's rate, on average or in the last tenth of the rows (default 0: never)")
	return c
}

func (a *app) compare(f compareFlags, pathA, pathB string) error {
	before, err := readRecords([]string{pathA})
	if err != nil {
		return err
	}
	after, err := readRecords([]string{pathB})
	if err != nil {
		return err
	}
	c, err := report.NewComparison(before, after)
	if err != nil {
		return err
	}
	write := c.Text
	if f.json {
		write = c.JSON
	}
	if err := write(a.stdout); err != nil {
		return err
	}
	if len(c.Pairs) == 0 {
		return fmt.Errorf("compare %s with %s: no run of one has the layout of a run of the other", pathA, pathB)
	}
	if f.failBelow > 0 {
		p, ratio := c.Slowest()
		switch {
		case p == nil:
			return fmt.Errorf("compare %s with %s: no rates to compare", pathA, pathB)
		case ratio < f.failBelow:
			return fmt.Errorf("%q of %s inserts at %.3f of the rate of %q of %s, below %v", p.B.Name, p.B.Source, ratio, p.A.Name, p.A.Source, f.failBelow)
		}
	}
	return nil
}
