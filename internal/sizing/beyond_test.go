package sizing_test

import (
	"math"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/sizing"
)

// TestRateOfPeriods checks that the rate in periods is reported as constant only if
// two periods fit into memory; with longer periods it falls like that of a table of
// their size.
func TestRateOfPeriods(t *testing.T) {
	t.Parallel()
	in := sizing.Input{
		Pieces: []sizing.Piece{{Name: "rows", BytesPerRow: 60, Ascending: true}, {Name: "index (a)", BytesPerRow: 40}},
		Memory: sizing.Figure{Value: 1e9}, Rate: sizing.Figure{Value: 1000}, Declared: sizing.Declared{Keep: span(t, "30d")}, Sample: sizing.Figure{Value: 50000, From: "the sample"},
		Reads: sizing.Figure{Value: 10000, From: "assumed"},
	}
	out, err := sizing.Plan(in)
	must(t, err)
	if a := out.After; *a.Last != *a.First || !strings.Contains(a.From, "stay in memory") || len(out.Warnings) > 0 {
		t.Errorf("%s: %s; %v", out.Period.Every, a.From, out.Warnings)
	}
	in.Period = grid(t, "1d")
	if out, err = sizing.Plan(in); err != nil {
		t.Fatal(err)
	}
	rows := sizing.Resident * 86400 * 1000.0
	want := 1 / (1/50000.0 + (1-0.8e9/(rows*40))/10000)
	a := out.After
	if *a.First != 50000 || math.Abs(*a.Last-want) > 1e-6 || a.LastRows != rows {
		t.Errorf("from %v to %v at %v rows, want 50000 to %v at %v", *a.First, *a.Last, a.LastRows, want, rows)
	}
	if strings.Contains(a.From, "stay") || !strings.Contains(a.From, "the 2 newest periods hold") || len(out.Warnings) == 0 {
		t.Errorf("%s; %v", a.From, out.Warnings)
	}
}
