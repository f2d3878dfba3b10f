package experiment

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/result"
)

// A Selection selects runs by fields of their headers, for example "layout=plain,batch=1000". All
// fields must match. Nil selects all runs.
type Selection []Condition

// A Condition is the value that a field must have.
type Condition struct{ Field, Value string }

// Set implements pflag.Value.
func (s *Selection) Set(text string) error {
	fields := headerFields(&result.Run{})
	for part := range strings.SplitSeq(text, ",") {
		field, value, ok := strings.Cut(part, "=")
		if field = strings.TrimSpace(field); !ok || field == "" {
			return fmt.Errorf("%q is not of the form FIELD=VALUE, such as layout=plain", part)
		}
		if _, ok := fields[field]; !ok {
			return fmt.Errorf("a run's header has no field %q: there are %s", field, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		*s = append(*s, Condition{field, strings.TrimSpace(value)})
	}
	return nil
}

// String implements pflag.Value.
func (s *Selection) String() string {
	var parts []string
	for _, t := range *s {
		parts = append(parts, t.Field+"="+t.Value)
	}
	return strings.Join(parts, ",")
}

// Type implements pflag.Value.
func (s *Selection) Type() string { return "FIELD=VALUE" }

// Match reports whether a run is selected.
func (s Selection) Match(r *result.Run) bool {
	fields := headerFields(r)
	for _, t := range s {
		if fields[t.Field] != t.Value {
			return false
		}
	}
	return true
}

// Of returns the selected runs, and a refusal if there are none. flag is the flag that gave the
// selection, and path is the record's file; the refusal names both.
func (s Selection) Of(recs []result.Record, flag, path string) ([]result.Record, error) {
	if s == nil {
		return recs, nil
	}
	var out []result.Record
	for i := range recs {
		if s.Match(&recs[i].Run) {
			out = append(out, recs[i])
		}
	}
	if len(out) == 0 {
		return nil, refuse("rowmill report "+path, "%s %s: %s holds no such run", flag, &s, path)
	}
	return out, nil
}

// headerFields returns the fields of a header that can be selected, as texts by their names in the
// record.
func headerFields(r *result.Run) map[string]string {
	return map[string]string{
		"name": r.Name, "repeat": fmt.Sprint(r.Repeat), "side": r.Side,
		"workload": r.Workload, "preset": r.Preset, "layout": r.Layout, "method": r.Method,
		"rows": fmt.Sprint(r.Rows), "writers": fmt.Sprint(r.Writers), "batch": fmt.Sprint(r.Batch),
		"indexes": fmt.Sprint(r.Indexes), "rate": strconv.FormatFloat(r.Rate, 'f', -1, 64), "seed": fmt.Sprint(r.Seed),
		"period": r.Period, "keep_periods": fmt.Sprint(r.KeepPeriods),
		"target": r.Target, "engine": r.Engine, "server_version": r.ServerVersion, "storage": r.Storage,
		"durability": r.Durability, "cache_bytes": fmt.Sprint(r.CacheBytes), "rowmill": r.Rowmill,
	}
}

// Sides divides the runs of one record into two sides: the runs that --a and --b select, or the
// sides in a record of compare --repeat, or else the only two configurations. groups has the runs
// by configuration, path is the record's file.
func Sides(recs []result.Record, path string, a, b Selection, groups [][]result.Record) (before, after []result.Record, err error) {
	if a == nil && b == nil {
		sided := Selection{{Field: "side", Value: "A"}}
		if _, err := sided.Of(recs, "", path); err != nil {
			if len(groups) == 2 {
				return groups[0], groups[1], nil
			}
			var names []string
			for _, g := range groups {
				names = append(names, g[0].Run.Name)
			}
			return nil, nil, refuse("rowmill compare "+path+" --a layout=plain --b layout=rolling", "%s holds %s (%s), not two: say which to compare",
				path, figure.Plural(len(groups), "configuration"), strings.Join(names, "; "))
		}
		a, b = sided, Selection{{Field: "side", Value: "B"}}
	}
	for i := range recs {
		if a.Match(&recs[i].Run) && b.Match(&recs[i].Run) {
			return nil, nil, refuse("rowmill compare before.jsonl after.jsonl", "--a %s and --b %s: %q of %s would be on both sides", &a, &b, recs[i].Run.Name, path)
		}
	}
	if before, err = a.Of(recs, "--a", path); err != nil {
		return nil, nil, err
	}
	after, err = b.Of(recs, "--b", path)
	return before, after, err
}
