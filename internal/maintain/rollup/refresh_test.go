package rollup_test

import (
	"testing"
)

func TestRefresh(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		f := open(t, kind, false, levels(t))
		f.load(row{1, "a", start + 5*minute, 1, 1.5, 3, "x"}, row{1, "a", start + 6*minute, 1, 2.5, 4, "y"}, row{2, "b", start + 70*minute, 1, nil, nil, nil})
		for _, v := range []string{"r10m", "r1h", "r1d", "rmo"} {
			if got := f.one("SELECT SUM(c) FROM " + v + "_live"); got != "3" {
				t.Errorf("%s_live has %s rows", v, got)
			}
		}
		t.Log(f.refresh(start + day))
		for _, v := range []string{"r10m", "r1h", "r1d"} {
			t.Log(f.read("SELECT * FROM " + v))
			if got := f.one("SELECT SUM(c) FROM " + v); got != "3" {
				t.Errorf("%s has %s rows", v, got)
			}
		}
		for _, v := range []string{"r10m", "r1h", "r1d", "rmo"} {
			t.Log(f.read("SELECT * FROM " + v + "_live"))
			if got := f.one("SELECT SUM(c) FROM " + v + "_live"); got != "3" {
				t.Errorf("%s_live has %s rows", v, got)
			}
		}
	})
}
