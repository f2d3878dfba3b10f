package receive

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/ingest/format"
)

func none(string) bool { return false }

func TestJSONLines(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"array", `[{"a":1},{"b":"x"}]`, "{\"a\":1}\n{\"b\":\"x\"}\n"},
		{"array over several lines", "[\n{\"a\":\r\n 1}\n,\n{\"b\":[1,\n2]}]\n", "{\"a\":\r 1}\n{\"b\":[1,2]}\n"},
		{"object", " {\"a\":\n1}\n", "{\"a\":1}\n"},
		{"lines", "{\"a\":1}\n{\"a\":2}\n", "{\"a\":1}\n{\"a\":2}\n"},
		{"no JSON", "<html>", "<html>"},
		{"empty array", "[]", ""},
		{"array of others", "[1,\"x\",null]", "1\n\"x\"\nnull\n"},
		{"telegraf", `{"metrics":[{"fields":{"v":1.5,"s":"a"},"name":"m","tags":{"host":"h"},"timestamp":12}]}`, `{"host":"h","v":1.5,"s":"a","ts":12}` + "\n"},
		{"telegraf without tags", `{"fields":{"v":1},"name":"m","tags":{},"timestamp":12}`, `{"v":1,"ts":12}` + "\n"},
		{"fields without a timestamp", `{"fields":{"v":1}}`, `{"fields":{"v":1}}` + "\n"},
		{"nested too deeply", strings.Repeat("[", 8<<20), strings.Repeat("[", 8<<20)}, // reading it would overflow the stack
		{"metrics that aren't a list", `{"metrics":5}`, `{"metrics":5}` + "\n"},
	} {
		if _, got := jsonLines([]byte(c.in), none, "ts"); string(got) != c.want {
			t.Errorf("%s: %.200q, want %.200q", c.name, got, c.want)
		}
	}
	// Columns of these names mean that the objects are rows.
	in := `{"fields":{"v":1},"timestamp":12}`
	if as, got := jsonLines([]byte(in), func(c string) bool { return c == "fields" }, "ts"); as != plainForm || string(got) != in+"\n" {
		t.Errorf("%q", got)
	}
}

// TestSmallBodies checks that as many requests as are allowed at a time have memory for
// small bodies, however small the limit of a body is.
func TestSmallBodies(t *testing.T) {
	s := New(Options{Body: 1 << 10})
	for i := range int(DefaultRequests) {
		_, release, err := s.body(httptest.NewRecorder(), httptest.NewRequest("POST", "/write/t", strings.NewReader("a\n1\n")))
		defer release()
		if err != nil {
			t.Fatalf("request %d: %v", i+1, err)
		}
	}
}

// FuzzJSONLines checks that valid JSON becomes lines of valid JSON, one per element.
func FuzzJSONLines(f *testing.F) {
	for _, s := range []string{`[{"a":"\n"},` + "\n" + `[1]]`, `{"metrics":[{"fields":{"v":1},"tags":{"a":"b"},"timestamp":{}}]}`, `{"fields":{"":null},"timestamp":1}`, "{}\n{}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		_, out := jsonLines(bytes.Clone(in), none, "ts")
		if !json.Valid(in) {
			return
		}
		var all []json.RawMessage
		isList := json.Unmarshal(in, &all) == nil && bytes.HasPrefix(bytes.TrimSpace(in), []byte("["))
		n := 0
		for line := range bytes.Lines(out) {
			if n++; !json.Valid(line) {
				t.Fatalf("%q becomes %q", in, line)
			}
		}
		if isList && n != len(all) {
			t.Fatalf("%q: %d lines for %d elements", in, n, len(all))
		}
	})
}

// FuzzByMeasurement checks that splitting line protocol keeps each record once, with its
// own measurement.
func FuzzByMeasurement(f *testing.F) {
	for _, s := range []string{"m a=1\nn b=\"x\nm c=2\"\nm d=1", "#m\n\n m a=1\r\n", "m\\ x,t=1 a=1\n,\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		f := format.Format{Kind: format.LineProtocol}
		parts, _, err := byMeasurement(&f, in)
		if err != nil {
			return
		}
		want := map[string]int{}
		if err := f.Records(in, func(_ int64, r []byte) error { want[format.Measurement(r)]++; return nil }); err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			n := 0
			if err := f.Records(p.text, func(_ int64, r []byte) error {
				if n++; format.Measurement(r) != p.measurement {
					t.Errorf("%q is with %q", r, p.measurement)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if n != int(p.rows) || n != want[p.measurement] {
				t.Errorf("%q: %d records of %q, want %d", in, n, p.measurement, want[p.measurement])
			}
		}
	})
}

func TestByMeasurement(t *testing.T) {
	f := format.Format{Kind: format.LineProtocol}
	parts, bad, err := byMeasurement(&f, []byte("m a=1\n# note\nn b=\"x\ny\"\n,\nm c=2"))
	if err != nil || len(parts) != 2 || string(parts[0].text) != "m a=1\nm c=2\n" || parts[1].line != 3 || !strings.Contains(bad, "line 5") {
		t.Errorf("%+v %q %v", parts, bad, err)
	}
}
