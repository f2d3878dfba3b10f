//go:build linux

package testdb

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/sandbox"
)

func TestChoose(t *testing.T) {
	kinds := []string{"sqlite", "mariadb", "mysql", "postgres"}
	seen := map[string]int{}
	for i := range 300 {
		got := choose("TestNumber"+strconv.Itoa(i), kinds)
		if len(got) != 2 || got[0] != "sqlite" {
			t.Fatalf("chose %v: want sqlite and one server", got)
		}
		if again := choose("TestNumber"+strconv.Itoa(i), kinds); !slices.Equal(again, got) {
			t.Fatalf("chose %v, then %v, for one name", got, again)
		}
		seen[got[1]]++
	}
	for _, kind := range kinds[1:] {
		if seen[kind] < 60 {
			t.Errorf("%s chosen for %d of 300 names: want about 100", kind, seen[kind])
		}
	}
	if got := choose("TestX", []string{"sqlite"}); !slices.Equal(got, []string{"sqlite"}) {
		t.Errorf("chose %v of sqlite alone", got)
	}
	if got := choose("TestX", []string{"mysql"}); !slices.Equal(got, []string{"mysql"}) {
		t.Errorf("chose %v of mysql alone", got)
	}
}

func TestDescriptionOfLongKind(t *testing.T) {
	long := "mariadb?set=" + strings.Repeat("a=b,", 200)
	if got := filepath.Base(description("/dir", long)); len(got) > 255 || got == filepath.Base(description("/dir", long+"c=d")) {
		t.Errorf("file name %q", got)
	}
}

func TestSetVersion(t *testing.T) {
	for name, test := range map[string]struct {
		list, kind, version string
		want, requires      string
		fails               bool
	}{
		"none":              {"", "mysql", "", "", "mysql", false},
		"one":               {"mysql=9.7", "mysql", "", "9.7", "mysql-9.7", false},
		"among several":     {"mysql=9.7, postgres=18", "postgres", "", "18", "postgres-18", false},
		"of another":        {"mysql=9.7", "mariadb", "", "", "mariadb", false},
		"asked for already": {"mysql=9.7", "mysql", "8.0", "8.0", "mysql-8.0", false},
		"no version":        {"mysql", "mysql", "", "", "mysql", true},
		"not a version":     {"mysql=new", "mysql", "", "new", "mysql-new", true},
	} {
		t.Run(name, func(t *testing.T) {
			o := sandbox.Options{Kind: test.kind, Version: test.version}
			err := setVersion(&o, test.list)
			if (err != nil) != test.fails || o.Version != test.want || requirement(o) != test.requires {
				t.Errorf("version %q, requires %q, %v", o.Version, requirement(o), err)
			}
		})
	}
}
