package testdb

import (
	"testing"

	"github.com/rowmill/rowmill/internal/sandbox"
)

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
