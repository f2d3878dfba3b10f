package cli

import "testing"

func TestIntOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"10k": 10000, "1_000": 1000, "7": 7, "-1": -1, "0": 0, "1.5k": 1500} {
		var n int
		if err := IntOf(&n).Set(text); err != nil || n != want {
			t.Errorf("%s: %d, %v; want %d", text, n, err, want)
		}
	}
	for _, text := range []string{"", "x", "1.5", "10kk", "-1k", "3G"} {
		n := 4
		if err := IntOf(&n).Set(text); err == nil || n != 4 {
			t.Errorf("%q: %d without an error", text, n)
		}
	}
}
