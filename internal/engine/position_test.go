package engine

import (
	"testing"

	"github.com/rowmill/rowmill/rolling"
)

// TestTrapBoundOfDigits: MySQL and MariaDB return the bound of a partition as the user wrote it.
// The bound '20240101' was read as a number, so that the partition seemed to be one of 1970.
func TestTrapBoundOfDigits(t *testing.T) {
	day, err := rolling.Parse("1d")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := rolling.Parse("1000 rows")
	if err != nil {
		t.Fatal(err)
	}
	times, keys := &Table{Name: "r", Grid: day, By: "ts"}, &Table{Name: "r", Grid: rows, By: "id"}
	for _, text := range []string{"'20240101'", "'20250101000000'", "'x'", ""} {
		if at, err := times.ParseBound(text, 1); err == nil {
			t.Errorf("%s is %d, want an error", text, at)
		}
	}
	for text, want := range map[string]int64{"'1970-01-02'": 86400e6, "'1970-01-01 00:00:01'": 1e6, "MAXVALUE": rolling.MaxTime} {
		if at, err := times.ParseBound(text, 1); err != nil || at != want {
			t.Errorf("%s is %d, %v, want %d", text, at, err, want)
		}
	}
	for _, text := range []string{"2000", "'2000'"} {
		if at, err := keys.ParseBound(text, 1); err != nil || at != 2000 {
			t.Errorf("%s is %d, %v", text, at, err)
		}
	}
}
