package report_test

import (
	"math"
	"slices"
	"testing"

	"github.com/rowmill/rowmill/result"
)

// oddRecords returns unusual records that every report must handle.
func oddRecords(t *testing.T) map[string][]result.Record {
	t.Helper()
	base := synthetic(t, course{name: "short", layout: "plain", rows: 4e6, rate: falling, stop: 30, seed: 9})
	one, empty, bare, hostile, long := base, base, base, base, base
	one.Intervals = base.Intervals[:1]
	empty.Intervals = nil
	bare.Run.Counters = nil
	bare.Intervals = slices.Clone(base.Intervals)
	for i := range bare.Intervals {
		bare.Intervals[i].Counters, bare.Intervals[i].Latency, bare.Intervals[i].Marks = nil, nil, nil
	}
	bare.Intervals[3].Counters = map[string]float64{"os_load": math.NaN(), "unknown": 3}
	const script = `</script><script>window.hacked=1</script><img src=x onerror="window.hacked=1">` + "\x1b]0;hacked\a"
	hostile.Run.Layout, hostile.Run.Name, hostile.Run.Preset = script, script, script
	hostile.Run.ServerVersion, hostile.Run.Machine.CPU = script, "javascript:window.hacked=1"
	hostile.Run.Settings = map[string]string{script: script}
	hostile.Run.Schema = []string{script + "-->"}
	hostile.Run.Warnings = []string{script}
	hostile.Run.Counters = []result.Counter{{Name: "__proto__", Group: "os", Unit: script, Help: script}, {Name: "x", Group: script, Unit: "bytes", Help: script}}
	hostile.Intervals = slices.Clone(base.Intervals)
	for i := range hostile.Intervals {
		hostile.Intervals[i].Counters = map[string]float64{"__proto__": float64(i), "x": float64(i)}
		hostile.Intervals[i].Latency = map[string]result.Histogram{script: base.Intervals[i].Latency["insert"]}
		hostile.Intervals[i].Events = []result.Event{{Elapsed: float64(i), What: script, Object: script}}
	}
	hostile = failed(hostile)
	hostile.End.Failure = script
	long.Intervals = nil
	for i := range 3_000 {
		iv := base.Intervals[i%30]
		iv.Marks, iv.NewRows, iv.Rows, iv.Elapsed = nil, 1000, int64(i+1)*1000, float64(i+1)
		if i%500 == 0 {
			iv.NewRows = 0 // a stall
		}
		if i > 0 {
			iv.Rows = long.Intervals[i-1].Rows + iv.NewRows
		}
		long.Intervals = append(long.Intervals, iv)
	}
	second := base
	second.Source = "other.jsonl"
	rolling := synthetic(t, rollingCourse())
	other := rolling
	other.Source = "other.jsonl"
	return map[string][]result.Record{
		"one interval":  {one},
		"no intervals":  {empty},
		"no counters":   {bare},
		"hostile names": {hostile},
		"long run":      {long},
		"cut off":       {cutOff(base)},
		"several files": {base, rolling, second, other},
		"open loop":     {synthetic(t, openLoop())},
	}
}
