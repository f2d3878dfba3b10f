package main

import (
	"strings"
	"testing"
)

// TestCompletion checks the completion of flags that take one of a few values, and of
// flags that take a list: values already in the list are not proposed.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		want []string // with their descriptions, if any
		not  []string
	}{
		{"bench insert --preset ", []string{"classic\t", "ibench\t", "timeseries\t", "sbtest\t"}, nil},
		{"bench insert --preset cl", []string{"classic\t"}, nil},
		{"bench mixed --preset ", []string{"sbtest\n", "classic\n"}, []string{"ibench"}},
		{"bench insert --layout ", []string{"plain\n", "rolling\n"}, nil},
		{"bench matrix --layout plain,", []string{"plain,rolling\n"}, []string{"plain,plain"}},
		{"bench steady --method ", []string{"multi\n", "pipeline\n"}, nil},
		{"bench matrix --durability ", []string{"full\n", "relaxed\n", "none\n"}, nil},
		{"bench ibench --steps l.i0,", []string{"l.i0,l.x\n"}, nil},
		{"bench ibench --interval-format ", []string{"rowmill\n", "ibench\n"}, nil},
		{"bench mixed --ops ", []string{"select-pk\n"}, nil},
		{"bench scenario ", []string{"ec2-2012\n"}, nil},
		{"load readings.toml --format ", []string{"csv\n", "tsv\n", "jsonl\n"}, nil},
		{"load readings.toml --duplicates ", []string{"skip\n", "reject\n"}, nil},
		{"load readings.toml --bytes ", []string{"base64\n"}, nil},
		{"load readings.toml --unix-times ", []string{"ms\n"}, nil},
		{"report run.jsonl --interval-format ", []string{"ibench\n"}, nil},
	} {
		s := rowmill(t.Context(), append([]string{"__complete"}, strings.Split(c.args, " ")...)...)
		if s.code != exitDone {
			t.Errorf("%s: exit %d: %s", c.args, s.code, s.stderr)
		}
		for _, want := range c.want {
			if !strings.Contains("\n"+s.stdout, "\n"+want) {
				t.Errorf("%s: %q lacks %q", c.args, s.stdout, want)
			}
		}
		for _, not := range c.not {
			if strings.Contains(s.stdout, not) {
				t.Errorf("%s: %q has %q", c.args, s.stdout, not)
			}
		}
	}
}
