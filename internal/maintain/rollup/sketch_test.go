package rollup

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/DataDog/sketches-go/ddsketch/encoding"
	"github.com/DataDog/sketches-go/ddsketch/mapping"

	"github.com/rowmill/rowmill/rolling"
)

func sketchOf(t testing.TB, fn string, percent float64) sketch {
	t.Helper()
	m, err := mapping.NewLogarithmicMapping(Accuracy)
	must(t, err)
	return newSketch(&aggregate{Aggregate: rolling.Aggregate{Func: fn, Percent: percent}}, m)
}

// Sketches merged in any order give the same estimate as one sketch of all values,
// and the estimate is within the documented error.
func TestSketchesMerge(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	values := map[string]func() float64{
		"normal":    rnd.NormFloat64,
		"lognormal": func() float64 { return math.Exp(3 * rnd.NormFloat64()) },
		"integers":  func() float64 { return float64(rnd.IntN(1000) - 500) },
		"huge":      func() float64 { return rnd.NormFloat64() * 1e200 },
	}
	for name, next := range values {
		for _, percent := range []float64{0.1, 50, 95, 99.9} {
			whole := sketchOf(t, "percentile", percent)
			parts := []sketch{sketchOf(t, "percentile", percent), sketchOf(t, "percentile", percent), sketchOf(t, "percentile", percent)}
			var all []float64
			for i := range 20000 {
				x := next()
				all = append(all, x)
				text := []byte(strconv.FormatFloat(x, 'g', -1, 64))
				must(t, whole.add(text))
				must(t, parts[i%3].add(text))
			}
			merged := sketchOf(t, "percentile", percent)
			for _, p := range []int{2, 0, 1} {
				_, blob, err := parts[p].result()
				must(t, err)
				must(t, merged.merge(blob))
			}
			a, _, err := whole.result()
			must(t, err)
			b, _, err := merged.result()
			must(t, err)
			slices.Sort(all)
			want := all[int(math.Ceil(float64(len(all))*percent/100))-1]
			if a != b || math.Abs(a.(float64)-want) > Accuracy*1.0001*math.Abs(want) {
				t.Errorf("%s %v: whole %v, merged %v, exact %v", name, percent, a, b, want)
			}
		}
	}
}

func TestDistinctIsNear(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 100, 5000, 200000} {
		whole, half := sketchOf(t, "distinct", 0), sketchOf(t, "distinct", 0)
		for i := range n {
			v := fmt.Appendf(nil, "value %d", i)
			s := whole
			if i%2 == 0 {
				s = half
			}
			for range 2 { // repeated values don't count
				must(t, s.add(v))
			}
		}
		_, blob, err := half.result()
		must(t, err)
		must(t, whole.merge(blob))
		got, _, err := whole.result()
		must(t, err)
		if off := math.Abs(float64(got.(int64) - int64(n))); off > 0.03*float64(n) {
			t.Errorf("%d values are estimated as %d", n, got)
		}
	}
}

// Values outside the range of bins neither stop a refresh nor affect other values.
func TestPercentileOfOddValues(t *testing.T) {
	s := sketchOf(t, "percentile", 50)
	for _, v := range []string{"NaN", "1", "2", "3", "Infinity", "-Infinity", "1e400", "1e-320"} {
		if err := s.add([]byte(v)); err != nil {
			t.Errorf("%s: %v", v, err)
		}
	}
	got, _, err := s.result() // of -inf, 0, 1, 2, 3, inf, inf
	if v, ok := got.(float64); !ok || err != nil || math.Abs(v-2) > 0.02 {
		t.Errorf("median %v, %v", got, err)
	}
	if err := s.add([]byte("seven")); err == nil {
		t.Error("a word is no error")
	}
	if got, blob, err := sketchOf(t, "percentile", 50).result(); got != nil || blob == nil || err != nil {
		t.Errorf("of nothing: %v, %v, %v", got, blob, err)
	}
}

// A truncated blob, or one with an impossible bin, is an error and changes nothing.
func TestDamagedPercentile(t *testing.T) {
	t.Parallel()
	for _, values := range [][]string{{"1", "-3", "0", "1e300", "1e-300"}, nil} {
		whole := sketchOf(t, "percentile", 50)
		for _, v := range values {
			must(t, whole.add([]byte(v)))
		}
		for i := range 500 * len(values) {
			must(t, whole.add([]byte(strconv.Itoa(i))))
		}
		_, blob, err := whole.result()
		must(t, err)
		if err := sketchOf(t, "percentile", 50).merge(blob); err != nil {
			t.Errorf("of %d values: %v", len(values), err)
		}
		entire := 0
		for n := range len(blob) {
			s := sketchOf(t, "percentile", 50)
			if s.merge(blob[:n]) == nil {
				entire++ // between two parts of it
			} else if got, _, err := s.result(); got != nil || err != nil {
				t.Errorf("%d of %d bytes: %v, %v", n, len(blob), got, err)
			}
		}
		if entire > 1+len(blob)/20 { // a part for each 32 bins
			t.Errorf("%d of %d beginnings are taken for a sketch", entire, len(blob))
		}
	}
	var zeros []byte
	encoding.EncodeFlag(&zeros, encoding.FlagZeroCountVarFloat)
	encoding.EncodeVarfloat64(&zeros, math.Inf(1))
	for name, blob := range map[string]string{"endless zeros": string(zeros), "far apart": "\xf1\r\x8c\x01" + strings.Repeat("\xee", 29), "no such flag": "\xfc"} {
		if err := sketchOf(t, "percentile", 50).merge([]byte(blob)); err == nil || !strings.Contains(err.Error(), "stored DDSketch") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A damaged blob is an error.
func FuzzStoredSketches(f *testing.F) {
	for _, fn := range []string{"distinct", "percentile"} {
		s := sketchOf(f, fn, 50)
		for i := range 50 {
			must(f, s.add([]byte(strconv.Itoa(i))))
		}
		_, blob, err := s.result()
		must(f, err)
		f.Add(blob)
		f.Add(blob[:len(blob)/2])
		f.Add([]byte{})
	}
	// Bins so far apart that the pages between them exceed any memory.
	f.Add([]byte("\xf1\r\x8c\x01" + strings.Repeat("\xee", 29)))
	f.Fuzz(func(t *testing.T, blob []byte) {
		for _, fn := range []string{"distinct", "percentile"} {
			s := sketchOf(t, fn, 50)
			if s.merge(blob) == nil {
				if _, _, err := s.result(); err != nil {
					t.Log(err)
				}
			}
		}
	})
}

func TestPercentRatio(t *testing.T) {
	for percent, want := range map[float64][2]int64{50: {1, 2}, 99.9: {999, 1000}, 99.999: {99999, 100000}, 0.001: {1, 100000}} {
		if num, den := percentRatio(percent); num != want[0] || den != want[1] {
			t.Errorf("%v is %d/%d", percent, num, den)
		}
	}
}
