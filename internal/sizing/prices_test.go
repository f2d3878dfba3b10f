package sizing

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/result"
)

func readPrices(t *testing.T, change ...string) *Prices {
	t.Helper()
	text, err := os.ReadFile("../../docs/prices/network-2017.toml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := ReadPrices("prices.toml", []byte(strings.NewReplacer(change...).Replace(string(text))))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestFieldReport: the totals of a field report of 14 TB, on a network volume, and on own disks
// with 2.42 times compression.
func TestFieldReport(t *testing.T) {
	p := readPrices(t, "gb       =", "room = 0\ngb       =")
	d := Demand{Table: "events", Rows: 1e11, Plain: Figure{Value: 14e12}, Rolling: Figure{Value: 14e12 / 2.42}, PlainRate: Figure{Value: 1000}, RollingRate: Figure{Value: 1000}}
	o := p.Offer(d)
	month := func(layout, machine, storage string) float64 {
		for _, f := range o.All {
			if f.Layout == layout && f.Machine == machine && strings.HasSuffix(f.Storage, storage) {
				return math.Round(100*f.Month) / 100
			}
		}
		return math.NaN()
	}
	for _, c := range []struct {
		layout, machine, storage string
		want                     float64
	}{{"plain", "r4.4xlarge", "gp2", 1890.56}, {"rolling", "i3.8xlarge", "own disks", 1252.82}, {"plain", "i3.8xlarge", "own disks", math.NaN()}, {"rolling", "i3.4xlarge", "own disks", math.NaN()}} {
		if got := month(c.layout, c.machine, c.storage); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%s on %s with %s: %v, want %v", c.layout, c.machine, c.storage, got, c.want)
		}
	}
	if text := strings.Join(o.Without, "\n"); !strings.Contains(text, "i3.4xlarge with its own disks, rolling: 5785 GB are needed, and it has 3800") {
		t.Errorf("%s", text)
	}
	stalled := d
	stalled.PlainRate.Value = 0
	if text := strings.Join(p.Offer(stalled).Without, "\n"); !strings.Contains(text, "layout plain: no row came in an interval") {
		t.Errorf("%s", text)
	}
	d.Servers, d.Rate = 3, 100
	three := p.Offer(d)
	if got, want := three.All[len(three.All)-1].Month, 3*o.All[len(o.All)-1].Month; math.Abs(got-want) > 0.001 {
		t.Errorf("three servers cost %v, want %v", got, want)
	}
}

// TestPricesMissing: a price that is missing is an error that names it.
func TestPricesMissing(t *testing.T) {
	text, err := os.ReadFile("../../docs/prices/network-2017.toml")
	if err != nil {
		t.Fatal(err)
	}
	for change, want := range map[[2]string]string{
		{"hour         = 0.672\n", ""}:                           `machine "r4.4xlarge" has no price`,
		{"month      = 627.21\n", "month = 1\nhour = 1\n"}:       `machine "i3.4xlarge" has no price, or two`,
		{"gb_month     = 0.10\n", ""}:                            `volume "gp2" has no price`,
		{"date     = \"2017-10-01\"\n", ""}:                      "no date",
		{"currency = \"$\"\n", ""}:                               "no currency",
		{"memory_gb    = 122\n", ""}:                             `machine "r4.4xlarge" has no memory`,
		{"cpus         = 16\n", ""}:                              `machine "r4.4xlarge" has no cpus`,
		{"disk_reads = 825_000\n", ""}:                           `machine "i3.4xlarge" has a disk, and no disk_reads`,
		{"reads_per_gb = 3\n", ""}:                               `volume "gp2" has no reads`,
		{"name       = \"i3.8xlarge\"", "name = \"i3.4xlarge\""}: `machine "i3.4xlarge" has no name, or is there twice`,
		{"[[volume]]", "[[volumes]]"}:                            "unknown key",
		{"gb_month     = 0.10", "gb_month     = cheap"}:          "prices.toml:34:16: ",
	} {
		_, err := ReadPrices("prices.toml", []byte(strings.Replace(string(text), change[0], change[1], 1)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", change, err, want)
		}
	}
}

// TestOffers: what limits the rate of a layout on a machine, and which choices nothing beats.
func TestOffers(t *testing.T) {
	p := readPrices(t)
	d := Demand{Table: "events", Rows: 1e10, Plain: Figure{Value: 1e12}, Rolling: Figure{Value: 0.5e12}, PlainRate: Figure{Value: 50_000}, RollingRate: Figure{Value: 50_000}, Cores: 16,
		Pieces: []Piece{{"rows", 60, true}, {"by device", 20, false}, {"by value", 20, false}}, Resident: 1e8}
	o := p.Offer(d)
	for _, f := range o.All {
		pages := map[string]float64{"r4.4xlarge": 122, "i3.4xlarge": 122, "i3.8xlarge": 244}[f.Machine] * 1e9 * 0.75
		want, limit := 50_000.0, "as measured"
		if f.Layout == "plain" {
			reads := map[string]float64{"own disks": map[string]float64{"i3.4xlarge": 825_000, "i3.8xlarge": 1_650_000}[f.Machine]}[f.Storage]
			if reads == 0 {
				reads = 3600 // 3 for each of 1,200 GB
			}
			want, limit = 1/(1/want+2*(1-0.8*pages/4e11)/reads), "page reads"
		}
		if math.Abs(f.Rate-want) > 1e-6*want || f.Limit != limit || (f.Extrapolated == "") != (limit == "as measured") {
			t.Errorf("%s on %s with %s: %v by %s (%s), want %v by %s", f.Layout, f.Machine, f.Storage, f.Rate, f.Limit, f.Extrapolated, want, limit)
		}
		for _, other := range o.All {
			if f.Best && (other.Month < f.Month && other.Rate >= f.Rate || other.Month <= f.Month && other.Rate > f.Rate) {
				t.Errorf("%+v is beaten by %+v", f, other)
			}
		}
	}
	if share := o.Share(); !(share > 0 && share < 1) || o.All[o.SameRate].Layout != "rolling" || o.All[o.SameRate].Rate < o.All[o.Fastest].Rate {
		t.Errorf("share %v", share)
	}
	d.Cores, d.Written = 64, Figure{Value: 10_000}
	for _, f := range p.Offer(d).All {
		if f.Layout == "rolling" && f.Machine == "r4.4xlarge" && (f.Rate > 50_000*16/64+1e-6 || f.Extrapolated == "") {
			t.Errorf("%+v", f)
		}
	}
	run := result.Record{}
	for i := range 200 {
		run.Intervals = append(run.Intervals, result.Interval{Seconds: 1, NewRows: int64(1000 - i)})
	}
	if got := Promised(&run); got != 803 { // of 1,000 to 802, all but the one that ends the run
		t.Errorf("promised %v", got)
	}
}
