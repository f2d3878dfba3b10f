package main

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/value"
)

// formatFlags are those flags of `rowmill load` that say how the bytes of a source become rows. The
// fields have the flags' texts as given; checkFormat parses them for ingest.Options.
type formatFlags struct {
	delimiter   string
	header      bool
	escape      string
	encoding    string
	set         []string
	zone        string
	timeFormats []string
}

// Values of --escape.
const (
	escapeDoubled   = "doubled"
	escapeBackslash = "backslash"
)

// defineFormat defines the flags on how a source is read.
func (f *loadFlags) defineFormat(flags *pflag.FlagSet) {
	cli.ChoiceVar(flags, &f.Format.Kind, "format", "", format.Kinds(), "`FORMAT` of the sources, csv, tsv, jsonl, json, lineprotocol, parquet or dump (default by their names, else by their contents)")
	flags.StringVar(&f.encoding, "encoding", "", "`ENCODING` of the text, such as latin1 or utf-16le (default UTF-8, or UTF-16 by its byte order mark)")
	flags.StringVar(&f.delimiter, "delimiter", "", "`CHARACTER` between fields, such as ';' or '\\t' (default a comma in csv, a tab in tsv)")
	cli.ChoiceVar(flags, &f.escape, "escape", escapeDoubled, []string{escapeDoubled, escapeBackslash}, "how csv writes a quote within quotes: `WAY` doubled, or backslash, which also escapes other characters")
	flags.BoolVar(&f.header, "header", true, "the first line of csv and tsv has the columns' names")
	cli.IntWithin(flags, &f.Format.SkipLines, "skip-lines", 0, 0, math.MaxInt32, "skip the first `N` lines of csv and tsv, before the header")
	flags.StringVar(&f.Format.Comment, "comment", "", "skip lines of csv and tsv that begin with `TEXT`, such as '#' (default none)")
	flags.StringArrayVar(&f.Format.Nulls, "null", nil, "unquoted `TEXT` that means NULL in csv and tsv; may be repeated; in csv an empty field is NULL, too (default \\N)")
	flags.BoolVar(&f.Format.NullQuoted, "null-quoted", false, "the texts of --null are NULL also in quotes, and as JSON strings (default false)")
	flags.StringSliceVar(&f.Format.Columns, "columns", nil, "`NAMES` of the columns in the order of the fields; - skips a field (default: the names in the header or, without a header, the table's columns)")
	flags.StringSliceVar(&f.Format.SkipColumns, "skip-columns", nil, "`NAMES` in the header, or keys of JSON and line protocol, whose values are not loaded (default none)")
	flags.StringArrayVar(&f.set, "set", nil, "`COLUMN=VALUE`: the column gets this value in all rows; may be repeated (default none)")
	flags.StringVar(&f.Format.Measurement, "measurement", "", "`NAME` of the measurement of line protocol that is loaded (default the table's)")
	flags.StringVar(&f.zone, "time-zone", "UTC", "`ZONE` of times without an offset, such as Europe/Berlin or +01:00")
	flags.StringArrayVar(&f.timeFormats, "time-format", nil, "`FORM` of times and dates, such as '%d.%m.%Y %H:%M'; ts=FORM is for column ts only; may be repeated (default: as 2026-03-29 01:00:00)")
	flags.BoolVar(&f.Values.TruncateTimes, "truncate-times", false, "truncate fractions of a second to the precision of the column (default false)")
	cli.ChoiceVar(flags, &f.Values.Unix, "unix-times", "", value.Units(), "read numbers in time columns as `UNIT`s since 1970: s, ms, us or ns (default ns in line protocol; in other formats numbers are refused)")
	flags.BoolVar(&f.Values.DecimalComma, "decimal-comma", false, "the decimal sign of numbers is a comma; points are refused (default false)")
	cli.ChoiceVar(flags, &f.Values.Bytes, "bytes", value.Hex, value.Encodings(), "how the sources write binary values: `FORM` hex, base64 or raw")
}

// aboutText reports whether any flag is given that applies only to text.
func (f *loadFlags) aboutText() bool {
	t := &f.Format
	return t.Kind != "" || f.encoding != "" || f.delimiter != "" || f.escape != escapeDoubled || !f.header || t.Header || t.Measurement != "" || t.SkipLines != 0 || t.Comment != "" || t.Nulls != nil ||
		t.NullQuoted || t.SkipColumns != nil || f.set != nil || f.zone != "UTC" || f.timeFormats != nil || f.Values.DecimalComma || f.Values.Bytes != value.Hex
}

// checkFormat returns an error if a flag that says how a source is read is invalid. Some of these
// flags are texts: checkFormat parses them into the options.
func (f *loadFlags) checkFormat() (err error) {
	f.Format.Escape = f.escape == escapeBackslash
	if f.delimiter != "" {
		d := strings.ReplaceAll(f.delimiter, `\t`, "\t")
		if len(d) != 1 {
			return cli.Usagef("--delimiter ';'", "--delimiter %q: want one character of ASCII", f.delimiter)
		}
		f.Format.Delimiter = d[0]
		any := format.Format{Kind: format.CSV, Delimiter: d[0]}
		if err := any.Validate(); err != nil {
			return cli.Usagef("--delimiter ';'", "--delimiter: %w", err)
		}
	}
	if f.encoding != "" {
		if f.Format.Encoding, err = format.Encoding(f.encoding); err != nil {
			return cli.Usagef("--encoding "+strings.Join(format.Encodings(), ", "), "--encoding: %w", err)
		}
	}
	if f.Format.Kind != "" {
		if err := f.Format.Validate(); err != nil {
			return cli.Usagef("--format csv, tsv, jsonl, json, lineprotocol, parquet or dump", "--format, --delimiter, --escape, --comment, --skip-lines: %w", err)
		}
	}
	for i, c := range f.Format.Columns {
		if f.Format.Columns[i] = strings.TrimSpace(c); f.Format.Columns[i] == "" {
			return cli.Usagef("--columns sensor,ts,value", "--columns: name %d is empty", i+1)
		}
	}
	for i, c := range f.Format.SkipColumns {
		f.Format.SkipColumns[i] = strings.TrimSpace(c)
	}
	f.Format.Set = nil
	for _, s := range f.set {
		name, text, found := strings.Cut(s, "=")
		if name = strings.TrimSpace(name); !found || name == "" {
			return cli.Usagef("--set source=one", "--set %q: want COLUMN=VALUE", s)
		}
		if slices.ContainsFunc(f.Format.Set, func(c format.Constant) bool { return strings.EqualFold(c.Column, name) }) {
			return cli.Usagef("one of them", "--set %q: there is another for the same column", s)
		}
		f.Format.Set = append(f.Format.Set, format.Constant{Column: name, Value: text})
	}
	if f.Values.Zone, err = value.ParseZone(f.zone); err != nil {
		return cli.Usagef("--time-zone Europe/Berlin, UTC or +01:00", "--time-zone %q: %w", f.zone, err)
	}
	if err := f.checkTimeFormats(); err != nil || f.Format.Kind == "" {
		return err
	}
	f.FromTable = f.from.table
	if err := f.Unused(f.Format.Kind); err != nil {
		return cli.Usagef(cli.HintOf(err), "%w", err)
	}
	return nil
}

// ofColumn matches a format of times for one column: COLUMN=FORM.
var ofColumn = regexp.MustCompile(`^([^%=]+)=(.*)$`)

func (f *loadFlags) checkTimeFormats() error {
	forms := map[string]*value.TimeFormat{}
	for _, text := range f.timeFormats {
		column, layout := "", text
		if m := ofColumn.FindStringSubmatch(text); m != nil {
			column, layout = strings.ToLower(strings.TrimSpace(m[1])), m[2]
		}
		form, err := value.ParseTimeFormat(layout)
		if err != nil {
			return cli.Usagef("--time-format '%d.%m.%Y %H:%M:%S'; a column's own with its name and = before it", "--time-format %q: %w", text, err)
		}
		if _, twice := forms[column]; twice {
			return cli.Usagef("one of them", "--time-format %q: there is another for the same columns", text)
		}
		forms[column] = form
	}
	if forms[""] != nil && f.Values.Unix != "" {
		return cli.Usagef("--time-format COLUMN=FORM, for the columns that aren't numbers", "--unix-times and --time-format are both about all columns of times")
	}
	if f.Values.TimeFormats = nil; len(forms) > 0 {
		f.Values.TimeFormats = maps.Clone(forms)
	}
	return nil
}
