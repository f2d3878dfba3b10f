package experiment

import (
	"encoding/json"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	"github.com/rowmill/rowmill/result"
)

// fillIn sets every field of a value, so that a field that a format loses is noticed.
func fillIn(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillIn(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fillIn(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fillIn(v.Index(i))
		}
	case reflect.String:
		v.SetString("a \"text\"\nof two lines")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1<<53 + 1)
	case reflect.Uint64:
		v.SetUint(math.MaxUint64)
	case reflect.Float64:
		v.SetFloat(0.1)
	default:
		panic("fill in " + v.Type().String())
	}
}

// A Spec goes to JSON and TOML and back unchanged.
func TestSpecForms(t *testing.T) {
	var full Spec
	fillIn(reflect.ValueOf(&full).Elem())
	for name, want := range map[string]*Spec{"full": &full, "empty": {Targets: []string{}}, "small": insertSpec("null:")} {
		for form, codec := range map[string]struct {
			write func(any) ([]byte, error)
			read  func([]byte, any) error
		}{"JSON": {json.Marshal, json.Unmarshal}, "TOML": {toml.Marshal, toml.Unmarshal}} {
			text, err := codec.write(want)
			got := &Spec{}
			if err == nil {
				err = codec.read(text, got)
			}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s in %s: %v\n%s\n%s", name, form, err, diff, text)
			}
		}
	}
}

// insertSpec is a small insert run.
func insertSpec(target string) *Spec {
	return &Spec{Workload: Insert, Targets: []string{target}, Preset: "classic", Layouts: []string{"plain"}, Repeat: 1,
		Rows: 3000, Writers: 1, Seed: 1, Interval: Duration(time.Second)}
}

type silent struct{ notes []string }

func (*silent) Begin(result.Run)         {}
func (*silent) Interval(result.Interval) {}
func (*silent) End(result.Summary)       {}
func (s *silent) Note(text string)       { s.notes = append(s.notes, text) }

// The Spec is in the header of each run, and is what was run.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	spec := insertSpec("sqlite:" + filepath.Join(dir, "a.db"))
	spec.Repeat = 2
	out, err := Create(filepath.Join(dir, "run.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Run(t.Context(), &Env{Out: out, Show: &silent{}, Rowmill: "test", Command: []string{"bench"}}, spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	recs, err := Read(t.Context(), out.Path)
	if err != nil || len(recs) != 2 {
		t.Fatalf("%d records, %v", len(recs), err)
	}
	for _, r := range recs {
		got, err := Recorded(&r.Run)
		if diff := cmp.Diff(spec, got); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
		if v := r.End.Verified; v == nil || !v.Sound() || v.Found != 3000 {
			t.Errorf("verified %+v", v)
		}
	}
}

// A record without a Spec, or with one of another version, says so and what to do.
func TestRecorded(t *testing.T) {
	old := result.Run{Rowmill: "0.9", Command: []string{"bench", "insert", "--target", "sandbox:x?y"}}
	if _, err := Recorded(&old); err == nil || !strings.Contains(err.Error(), "no spec: rowmill 0.9") || Hint(err) != "rowmill bench insert --target 'sandbox:x?y'" {
		t.Errorf("%v, try %s", err, Hint(err))
	}
	for _, text := range []string{`{"warp":9,"targets":["null:"]}`, `{"rows":"many"}`, `{}`, `[]`} {
		if s, err := Recorded(&result.Run{Spec: json.RawMessage(text)}); err == nil {
			t.Errorf("%s was taken as %+v", text, s)
		}
	}
}
