package ingest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/value"
)

// Unused returns an error if an option is given that sources of a kind would ignore.
func (o *Options) Unused(k format.Kind) error {
	f, v := &o.Format, &o.Values
	lines, objects := []format.Kind{format.CSV, format.TSV}, []format.Kind{format.JSONL, format.JSON}
	quoted := append(objects, lines...)
	written := append(quoted, format.LineProtocol)
	for _, c := range []struct {
		given bool
		flag  string
		kinds []format.Kind
	}{
		{f.Delimiter != 0, "delimiter", lines},
		{f.NoHeader || f.Header, "header", lines},
		{f.SkipLines > 0, "skip-lines", lines},
		{f.Comment != "", "comment", lines},
		{f.Escape, "escape backslash", lines[:1]},
		{len(f.Nulls) > 0 && !f.NullQuoted, "null without --null-quoted", lines},
		{len(f.Nulls) > 0, "null", quoted},
		{f.NullQuoted, "null-quoted", quoted},
		{v.DecimalComma, "decimal-comma", written},
		{v.Bytes != "" && v.Bytes != value.Hex, "bytes " + v.Bytes, written},
		{f.Encoding != "", "encoding", append(written, format.Dump)},
		{o.stampFormat(), "time-format for timestamps", quoted},
		{len(v.TimeFormats) > 0, "time-format", written},
		{f.Measurement != "", "measurement", []format.Kind{format.LineProtocol}},
		{o.FromTable != "", "from-table", []format.Kind{format.Dump}},
	} {
		if c.given && !slices.Contains(c.kinds, k) {
			var names []string
			for _, kind := range format.Kinds() {
				if slices.Contains(c.kinds, kind) {
					names = append(names, string(kind))
				}
			}
			return engine.Hinted(fmt.Errorf("--%s is for %s, and has no meaning for %s", c.flag, strings.Join(names, ", "), k), "the command without it for sources of this format")
		}
	}
	return nil
}

// stampFormat reports whether --time-format is given for timestamps of line protocol, to which it
// can't apply because they are numbers.
func (o *Options) stampFormat() bool {
	for name := range o.Values.TimeFormats {
		if name == "" || o.Table != nil && strings.EqualFold(name, o.Table.By) {
			return true
		}
	}
	return false
}
