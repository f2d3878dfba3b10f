package measure

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/experiment/record"
	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/report/oneline"
	"github.com/rowmill/rowmill/result"
)

// reportFlags are the flags of `rowmill report`. Each output flag names a file; "-" is
// standard output, and "" means that the output is not requested.
type reportFlags struct {
	html, png, md, csv string
	json               bool
	title              string
	log                bool
	// elapsed overlays constant loads by the time since their start, not by the time of day.
	elapsed bool
	// format, if set, prints the lines of the intervals instead of the text.
	format intervalFormat
}

// reports implements `rowmill report`, and writes the reports of the other verbs.
type reports struct{ *cli.App }

// ReportCommand returns `rowmill report`.
func ReportCommand(app *cli.App) *cobra.Command {
	a := reports{app}
	var f reportFlags
	c := &cobra.Command{
		Use:   "report RUN.jsonl...",
		Short: "Show run records as text, HTML, PNG, Markdown, CSV or JSON",
		Long: "Show the runs of one or several run records, as `rowmill bench --out` writes them:\n" +
			"as text on standard output, or with flags as one self-contained HTML page with\n" +
			"charts, a PNG picture of the rate against rows, Markdown tables, CSV with a line for\n" +
			"each interval or each cell, or JSON.\n" +
			"A record whose run was killed is shown as far as it goes.\n\n" +
			"Touches no server: it only reads the files.",
		Example: "  rowmill report run.jsonl\n" +
			"  rowmill report run.jsonl --html run.html --png run.png",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("rowmill report run.jsonl", "no run records given")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return a.report(c.Context(), f, args) },
	}
	c.Flags().StringVar(&f.html, "html", "", "write an HTML page to this `file`, \"-\" for standard output (default none)")
	c.Flags().StringVar(&f.png, "png", "", "write a picture, 1200 pixels wide, to this `file`, \"-\" for standard output (default none)")
	c.Flags().StringVar(&f.md, "md", "", "write Markdown tables to this `file`, \"-\" for standard output (default none)")
	c.Flags().StringVar(&f.csv, "csv", "", "write CSV to this `file`, \"-\" for standard output: a line for each interval, or for each cell of\nan experiment of several factors (default none)")
	c.Flags().BoolVar(&f.json, "json", false, "print the summaries as JSON instead of text (default false)")
	cli.ChoiceVar(c.Flags(), &f.format, "interval-format", "", intervalFormats, "instead of the report, print a line for each interval, in this `format`: rowmill (for people) or\nibench (the insert benchmark's 17 columns) (default none)")
	c.Flags().StringVar(&f.title, "title", "", "`title` of the picture (default made from the first run)")
	c.Flags().BoolVar(&f.log, "log", false, "draw the picture's rate on a logarithmic axis (default false)")
	c.Flags().BoolVar(&f.elapsed, "elapsed", false, "align runs of bench steady at their start instead of by the time of day (default false)")
	return c
}

// endings maps the ending of a file name to the flag that writes this format; "" if no flag does.
var endings = map[string]string{".html": "--html", ".htm": "--html", ".png": "--png", ".md": "--md", ".csv": "--csv", ".json": "", ".jsonl": "--out",
	".svg": "", ".pdf": "", ".jpg": "", ".jpeg": "", ".gif": "", ".webp": ""}

type output struct {
	flag, path string
	write      func(*document.Document, io.Writer) error
}

func (f reportFlags) outputs() []output {
	return []output{
		{"--html", f.html, (*document.Document).HTML},
		{"--png", f.png, func(d *document.Document, w io.Writer) error {
			return d.PNG(w, document.PNGOptions{Title: f.title, Log: f.log})
		}},
		{"--md", f.md, (*document.Document).Markdown},
		{"--csv", f.csv, (*document.Document).CSV},
	}
}

// check refuses an output that can't be written, or that would replace another output or a file to
// read. record is the file of --out, or "". command is the start of the command line for the hint.
func (f reportFlags) check(command, record string, read ...string) error {
	if record == "-" {
		return cli.Usagef("--out /dev/stdout", "--out -: the record can't share standard output with the report")
	}
	stdout := "" // the flag whose output is standard output
	switch {
	case f.json && f.format != "":
		return cli.Usagef(command+" --interval-format "+string(f.format), "--json and --interval-format can't both be standard output")
	case f.json:
		stdout = "--json"
	case f.format != "":
		stdout = "--interval-format"
	}
	files := map[string]string{}
	for _, path := range read {
		files[filepath.Clean(path)] = "the record that is read"
	}
	for _, o := range append(f.outputs(), output{flag: "--out", path: record}) {
		clean, dir, ending := filepath.Clean(o.path), filepath.Dir(o.path), strings.ToLower(filepath.Ext(o.path))
		of, known := endings[ending]
		switch info, err := os.Stat(dir); {
		case o.path == "":
			continue
		case known && of != o.flag && o.flag != "--out":
			return cli.Usagef("a name that ends in ."+o.flag[2:], "%s %s: it writes no %s file", o.flag, o.path, ending)
		case o.path == "-" && stdout != "":
			return cli.Usagef(command+" "+o.flag+" FILE", "%s and %s can't both be standard output", stdout, o.flag)
		case o.path == "-":
			stdout = o.flag
			continue
		case err != nil || !info.IsDir():
			return cli.Usagef("mkdir -p "+dir, "%s %s: there is no folder %s", o.flag, o.path, dir)
		case files[clean] != "":
			return cli.Usagef("give each its own file", "%s and %s can't both be %s", files[clean], o.flag, o.path)
		}
		files[clean] = o.flag
	}
	return nil
}

func (a reports) report(ctx context.Context, f reportFlags, paths []string) error {
	if err := f.check("rowmill report "+paths[0], "", paths...); err != nil {
		return err
	}
	recs, err := record.ReadAll(ctx, paths)
	if err != nil {
		return err
	}
	return a.writeReports(f, recs)
}

// writeReports writes the requested reports of run records.
func (a reports) writeReports(f reportFlags, recs []result.Record) error {
	build := sync.OnceValues(func() (*document.Document, error) { return report.New(recs) })
	return a.write(f, build, func(w io.Writer) error { return report.JSON(w, recs) }, func(w io.Writer) error {
		switch f.format {
		case formatIbench:
			return oneline.WriteIbench(w, recs)
		case formatRowmill:
			return oneline.WriteProgress(w, recs)
		}
		d, err := build()
		if err != nil {
			return err
		}
		return d.Text(w)
	})
}

// writeDocument writes the requested forms of a document.
func (a reports) writeDocument(f reportFlags, d *document.Document) error {
	return a.write(f, func() (*document.Document, error) { return d, nil }, d.JSON, d.Text)
}

// write writes the requested files. Unless one of these is standard output, it also prints the JSON
// or the text to standard output.
func (a reports) write(f reportFlags, build func() (*document.Document, error), json, text func(io.Writer) error) error {
	taken, err := a.writeFiles(f, build)
	switch {
	case err != nil || taken:
		return err
	case f.json:
		return json(a.Stdout)
	}
	return text(a.Stdout)
}

// writeFiles writes the reports that go to files. taken reports whether a report went to standard
// output.
func (a reports) writeFiles(f reportFlags, build func() (*document.Document, error)) (taken bool, err error) {
	for _, o := range f.outputs() {
		if o.path == "" {
			continue
		}
		d, err := build()
		if err != nil {
			return taken, err
		}
		d.Elapsed = f.elapsed
		taken = taken || o.path == "-"
		if err := a.WriteOutput(o.path, func(w io.Writer) error { return o.write(d, w) }); err != nil {
			return taken, err
		}
	}
	return taken, nil
}
