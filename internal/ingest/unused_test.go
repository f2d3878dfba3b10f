package ingest

import (
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/value"
)

// TestUnused: no option on how rows are written is ignored.
func TestUnused(t *testing.T) {
	t.Parallel()
	any, err := value.ParseTimeFormat("%F")
	must(t, err)
	at := value.Notation{TimeFormats: map[string]*value.TimeFormat{"ts": any}}
	table := &engine.Table{By: "TS"}
	for name, c := range map[string]struct {
		o    Options
		used string // by these kinds
	}{
		"none":               {Options{Sending: lane.Sending{Reading: format.Reading{Values: value.Notation{Bytes: value.Hex, Unix: "ms"}}}}, "csv tsv jsonl json lineprotocol parquet dump"},
		"delimiter":          {Options{Format: format.Format{Delimiter: ';'}}, "csv tsv"},
		"no header":          {Options{Format: format.Format{NoHeader: true}}, "csv tsv"},
		"header":             {Options{Format: format.Format{Header: true}}, "csv tsv"},
		"skipped lines":      {Options{Format: format.Format{SkipLines: 1}}, "csv tsv"},
		"comments":           {Options{Format: format.Format{Comment: "#"}}, "csv tsv"},
		"escapes":            {Options{Format: format.Format{Escape: true}}, "csv"},
		"NULL":               {Options{Format: format.Format{Nulls: []string{""}}}, "csv tsv"},
		"quoted NULL":        {Options{Format: format.Format{Nulls: []string{""}, NullQuoted: true}}, "csv tsv jsonl json"},
		"quoted":             {Options{Format: format.Format{NullQuoted: true}}, "csv tsv jsonl json"},
		"comma":              {Options{Sending: lane.Sending{Reading: format.Reading{Values: value.Notation{DecimalComma: true}}}}, "csv tsv jsonl json lineprotocol"},
		"bytes":              {Options{Sending: lane.Sending{Reading: format.Reading{Values: value.Notation{Bytes: value.Raw}}}}, "csv tsv jsonl json lineprotocol"},
		"encoding":           {Options{Format: format.Format{Encoding: "utf-16le"}}, "csv tsv jsonl json lineprotocol dump"},
		"times of a column":  {Options{Sending: lane.Sending{Reading: format.Reading{Values: at}}}, "csv tsv jsonl json lineprotocol"},
		"times of the table": {Options{Sending: lane.Sending{Reading: format.Reading{Values: at, Table: table}}}, "csv tsv jsonl json"},
		"measurement":        {Options{Format: format.Format{Measurement: "m"}}, "lineprotocol"},
		"table of a dump":    {Options{Sending: lane.Sending{Reading: format.Reading{FromTable: "u"}}}, "dump"},
	} {
		var used []string
		for _, k := range format.Kinds() {
			if c.o.Unused(k) == nil {
				used = append(used, string(k))
			}
		}
		if got := strings.Join(used, " "); got != c.used {
			t.Errorf("%s: used by %s, want %s", name, got, c.used)
		}
	}
}
