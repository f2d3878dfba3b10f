package result

import (
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func encoded(t testing.TB, values ...int64) Histogram {
	t.Helper()
	h := NewHistogram()
	for _, v := range values {
		if err := h.RecordValue(v); err != nil {
			t.Fatal(err)
		}
	}
	e, err := EncodeHistogram(h)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// The library is the reference: Merger must agree with its Decode and Merge.
func TestMergerAgreesWithTheLibrary(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var m Merger
	want := NewHistogram()
	for range 50 {
		var values []int64
		for range rng.IntN(300) {
			values = append(values, 1+int64(rng.ExpFloat64()*float64(int64(1)<<rng.IntN(34))))
		}
		h := encoded(t, values...)
		d, err := h.Decode()
		if err != nil {
			t.Fatal(err)
		}
		want.Merge(d)
		if err := m.Add(h); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := m.Latency(), LatencyOf(want); got != want {
		t.Errorf("merged %+v, the library %+v", got, want)
	}
	m.Reset()
	if m.Count() != 0 || m.Latency() != (Latency{}) {
		t.Errorf("after a reset %+v", m.Latency())
	}
}

func TestMergerRefuses(t *testing.T) {
	other, err := hdrhistogram.New(1, 1000, 2).Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	good := encoded(t, 5, 700, 90_000)
	packed, err := base64.StdEncoding.DecodeString(good.HDR)
	if err != nil {
		t.Fatal(err)
	}
	cut := append([]byte(nil), packed[:len(packed)-6]...)
	for name, hdr := range map[string]string{
		"nothing": "", "no base64": "%%%", "too short": "HISTFA==", "garbage": strings.Repeat("QUJD", 40),
		"another range": string(other), "cut off": base64.StdEncoding.EncodeToString(cut),
	} {
		var m Merger
		if err := m.Add(good); err != nil {
			t.Fatal(err)
		}
		before := m.Latency()
		if err := m.Add(Histogram{Latency: Latency{Count: 1, Max: 1 << 40}, HDR: hdr}); err == nil {
			t.Errorf("%s was taken for a histogram", name)
		}
		if m.Latency() != before {
			t.Errorf("%s changed what had been added", name)
		}
		if err := m.Add(good); err != nil || m.Count() != 6 {
			t.Errorf("after %s a good histogram is refused: %v", name, err)
		}
	}
}

// Values up to a day are not clamped, and keep three figures.
func TestHistogramRange(t *testing.T) {
	for _, v := range []int64{1, 999, 123_456, 86_400_000_000} {
		l := LatencyOf(func() *hdrhistogram.Histogram { h := NewHistogram(); _ = h.RecordValue(v); return h }())
		if l.Count != 1 || float64(l.Max) < 0.999*float64(v) || float64(l.Max) > 1.001*float64(v) {
			t.Errorf("%d us is recorded as %+v", v, l)
		}
	}
}

func FuzzMerger(f *testing.F) {
	f.Add(encoded(f, 1, 50, 8000).HDR)
	f.Add("")
	f.Add("HISTFAAAABl4nJNpmSzMwMDAxAABzFCaEUzOmLeEwf4DRIQJAEZTAmI=")
	f.Fuzz(func(t *testing.T, hdr string) {
		var m Merger
		err := m.Add(Histogram{HDR: hdr})
		if err != nil && (m.Count() != 0 || m.Latency() != (Latency{})) {
			t.Error("what was refused was added")
		}
		if d, libErr := (Histogram{HDR: hdr}).Decode(); err == nil && (libErr != nil || d.TotalCount() != m.Count()) {
			t.Errorf("taken with %d operations, the library says %v", m.Count(), libErr)
		}
		m.Latency()
	})
}

func BenchmarkMerger(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	var values []int64
	for range 200 {
		values = append(values, 1+int64(rng.ExpFloat64()*8000))
	}
	h := encoded(b, values...)
	var m Merger
	b.ReportAllocs()
	for b.Loop() {
		if err := m.Add(h); err != nil {
			b.Fatal(err)
		}
	}
}
