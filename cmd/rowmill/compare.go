package main

import (
	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/report"
)

func (a *app) compareCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "compare A.jsonl B.jsonl",
		Short: "Compare two run records at equal row counts",
		Long: "Compare the runs of two run records at equal row counts: rates over tenths of the\n" +
			"rows, the time to the same number of rows, latencies, stalls, bytes and CPU time\n" +
			"per row, each with the ratio B/A. Runs are paired by layout, preset and engine.\n" +
			"What makes them hard to compare is flagged first: unequal durability or\n" +
			"settings, other versions, machines, schemas or workloads, unverified rows.\n\n" +
			"Touches no server: it only reads the files.",
		Example: "  rowmill compare before.jsonl after.jsonl\n" +
			"  rowmill compare before.jsonl after.jsonl --json",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("rowmill compare before.jsonl after.jsonl", "compare takes two run records, not %d", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			before, err := readRecords(args[:1])
			if err != nil {
				return err
			}
			after, err := readRecords(args[1:])
			if err != nil {
				return err
			}
			if asJSON {
				return report.CompareJSON(a.stdout, before, after)
			}
			return report.Compare(a.stdout, before, after)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print as JSON (default false)")
	return c
}
