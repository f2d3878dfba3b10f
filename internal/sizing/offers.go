package sizing

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/result"
)

// A Demand is the data that machines and volumes must store, and the rate that they must take.
type Demand struct {
	Table string
	// Plain and Rolling are the bytes that each layout stores at full retention, and Rows the rows.
	Plain, Rolling Figure
	Rows           float64
	// PlainRate and RollingRate are the rates, in rows a second, that can be promised for each layout
	// while all pages that inserts touch are in memory; 0 is unknown. They were measured on Cores
	// cores.
	PlainRate, RollingRate Figure
	Cores                  int
	// Pieces are the parts of the table that inserts touch; Resident is the number of rows of its two
	// newest periods. Without Pieces, PlainRate and RollingRate hold for all Rows, but only on a
	// machine with at least LeastPages bytes of memory for pages.
	Pieces     []Piece
	Resident   float64
	LeastPages float64
	// Written is the number of bytes written to disk for a row; 0 is not known.
	Written Figure
	// Rate is the number of rows that arrive in a second; 0 is unknown. Servers is the number of
	// servers that have the table; one of them takes the inserts.
	Rate    float64
	Servers int
}

// An Offer is a machine with its storage, with the price and the rate of one layout on it.
type Offer struct {
	Layout  string `json:"layout"`
	Machine string `json:"machine"`
	Storage string `json:"storage"`
	// Items are the parts of the monthly price, and Month their sum.
	Items []Item  `json:"items"`
	Month float64 `json:"month"`
	// Rate is the rate that can be promised, in rows a second, and Limit names what limits it.
	// Extrapolated says how the rate was computed; "" if it was measured.
	Rate         float64 `json:"rows_per_second"`
	Limit        string  `json:"limit"`
	Extrapolated string  `json:"extrapolated,omitempty"`
	// Billion is the price of the time that a billion rows take at Rate.
	Billion float64 `json:"per_billion_rows"`
	// Best reports that no other offer is both cheaper and faster.
	Best bool `json:"best"`
}

// An Item is a part of a price.
type Item struct {
	What  string  `json:"what"`
	Month float64 `json:"month"`
}

// Offers are the choices for a Demand.
type Offers struct {
	Format   string  `json:"format"`
	Table    string  `json:"table"`
	Date     string  `json:"prices_of"`
	Currency string  `json:"currency"`
	Servers  int     `json:"servers"`
	Needed   float64 `json:"needed_rows_per_second"` // 0 is not known
	Plain    Figure  `json:"bytes_plain"`
	Rolling  Figure  `json:"bytes_rolling"`
	PlainAt  Figure  `json:"promised_plain"`
	RollAt   Figure  `json:"promised_rolling"`
	All      []Offer `json:"offers"`
	// Without are the machines and volumes that can't be chosen, each with the reason.
	Without []string `json:"without"`
	// Fastest is the index of the fastest plain offer. SameRate is the index of the cheapest rolling
	// offer that is at least as fast. An index is -1 if there is no such offer.
	SameRate int `json:"same_rate"`
	Fastest  int `json:"fastest_plain"`
}

// OffersFormat is the version of the JSON form of Offers.
const OffersFormat = "rowmill.prices/1"

// Promised returns the rate that 99 of 100 intervals of a run have reached.
func Promised(r *result.Record) float64 {
	var rates []float64
	for _, iv := range r.Intervals {
		if iv.Seconds > 0 {
			rates = append(rates, float64(iv.NewRows)/iv.Seconds)
		}
	}
	if len(rates) > 1 {
		rates = rates[:len(rates)-1] // the last is shorter
	}
	if len(rates) == 0 {
		return 0
	}
	slices.Sort(rates)
	return rates[len(rates)/100]
}

// Offer computes all choices, the cheapest first.
func (p *Prices) Offer(d Demand) *Offers {
	d.Servers = max(d.Servers, 1)
	o := &Offers{Format: OffersFormat, Table: d.Table, Date: p.Date, Currency: p.Currency, Servers: d.Servers, Needed: d.Rate, Plain: d.Plain, Rolling: d.Rolling,
		PlainAt: d.PlainRate, RollAt: d.RollingRate, All: []Offer{}, Without: []string{}, SameRate: -1, Fastest: -1}
	layouts := []struct {
		name  string
		bytes Figure
		rate  Figure
	}{{"plain", d.Plain, d.PlainRate}, {"rolling", d.Rolling, d.RollingRate}}
	for _, l := range layouts {
		if l.bytes.Value > 0 && l.rate.Value <= 0 {
			o.Without = append(o.Without, fmt.Sprintf("layout %s: no row came in an interval of its run, so that no rate can be promised: measure for longer", l.name))
		}
	}
	for i := range p.Machines {
		m := &p.Machines[i]
		if *p.PageShare*m.MemoryGB*p.GB < d.LeastPages {
			o.Without = append(o.Without, fmt.Sprintf("%s: the rate was measured with more memory for pages", m.Name))
			continue
		}
		for _, layout := range layouts {
			if layout.rate.Value <= 0 {
				continue
			}
			need := layout.bytes.Value * (1 + *p.Room)
			add := func(storage string, reads, mbps float64, items ...Item) {
				f := Offer{Layout: layout.name, Machine: m.Name, Storage: storage, Items: append([]Item{{times(d.Servers) + m.Name, float64(d.Servers) * *m.Month}}, items...)}
				if d.Servers > 1 && p.ZoneGB != nil && d.Rate > 0 && d.Rows > 0 {
					f.Items = append(f.Items, Item{"traffic to replicas", float64(d.Servers-1) * d.Rate * p.Hours * 3600 * d.Plain.Value / d.Rows / p.GB * *p.ZoneGB})
				}
				for _, i := range f.Items {
					f.Month += i.Month
				}
				d.promise(&f, layout.rate.Value, m.CPUs, *p.PageShare*m.MemoryGB*p.GB, reads, mbps)
				f.Billion = f.Month * 1e9 / (f.Rate * p.Hours * 3600)
				o.All = append(o.All, f)
			}
			switch {
			case m.DiskGB*p.GB >= need:
				add("own disks", m.DiskReads, m.DiskMBps)
			case m.DiskGB > 0:
				o.Without = append(o.Without, fmt.Sprintf("%s with its own disks, %s: %.0f GB are needed, and it has %.0f", m.Name, layout.name, need/p.GB, m.DiskGB))
			}
			for j := range p.Volumes {
				v, gb := &p.Volumes[j], max(need/p.GB, 1) // no volume is smaller
				if v.MostGB > 0 && gb > v.MostGB {
					o.Without = append(o.Without, fmt.Sprintf("%s on %s, %s: %.0f GB are needed, and it has at most %.0f", m.Name, v.Name, layout.name, gb, v.MostGB))
					continue
				}
				reads := atMost(atMost(max(v.Reads, v.ReadsPerGB*gb), v.MostReads), m.VolumeReads)
				volume := fmt.Sprintf("%s GB of %s", figure.Number(gb), v.Name)
				add(volume, reads, atMost(v.MBps, m.VolumeMBps), Item{times(d.Servers) + volume, float64(d.Servers) * gb * *v.GBMonth})
			}
		}
	}
	o.compare()
	return o
}

// atMost returns the lower of two limits; a limit of 0 is none.
func atMost(limit, other float64) float64 {
	if limit == 0 || other > 0 && other < limit {
		return other
	}
	return limit
}

func times(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf("%d x ", n)
}

// promise computes the rate of an offer. It is the measured rate, or a lower one if the offer has
// fewer cores than the measurement, reads from disk, or has too little bandwidth. More cores than
// in the measurement don't increase it.
func (d *Demand) promise(f *Offer, rate float64, cpus int, pages, reads, mbps float64) {
	f.Rate, f.Limit = rate, "as measured"
	if d.Cores > 0 && cpus < d.Cores {
		f.Rate *= float64(cpus) / float64(d.Cores)
		f.Limit, f.Extrapolated = "processors", fmt.Sprintf("from %d cores to %d", d.Cores, cpus)
	}
	rows := d.Rows
	if f.Layout == "rolling" {
		rows = d.Resident
	}
	if perRow, names := Touched(d.Pieces); perRow > 0 {
		if n := Reads(len(names), perRow*rows, pages); n > 0 {
			f.Rate = 1 / (1/f.Rate + n/reads)
			f.Limit, f.Extrapolated = "page reads", fmt.Sprintf("%.2f page reads a row, of %s a second", n, figure.Rounded(reads))
		}
	}
	if w := d.Written.Value; w > 0 && mbps > 0 && f.Rate > mbps*1e6/w {
		f.Rate, f.Limit, f.Extrapolated = mbps*1e6/w, "bandwidth", fmt.Sprintf("%s bytes written a row", figure.Rounded(w))
	}
}

// compare sorts the offers, and finds those that no other offer beats.
func (o *Offers) compare() {
	slices.SortStableFunc(o.All, func(a, b Offer) int { return cmp.Or(cmp.Compare(a.Month, b.Month), cmp.Compare(b.Rate, a.Rate)) })
	fastest := 0.0
	for i := range o.All {
		if f := &o.All[i]; f.Rate > fastest {
			f.Best, fastest = true, f.Rate
		}
	}
	for i, f := range o.All {
		if f.Layout == "plain" && (o.Fastest < 0 || f.Rate > o.All[o.Fastest].Rate) {
			o.Fastest = i
		}
	}
	if o.Fastest < 0 {
		return
	}
	for i, f := range o.All {
		if f.Layout == "rolling" && f.Rate >= o.All[o.Fastest].Rate {
			o.SameRate = i
			return
		}
	}
}

// Share returns the price of the rolling offer SameRate divided by the price of the plain offer
// Fastest; NaN if either is missing.
func (o *Offers) Share() float64 {
	if o.SameRate < 0 || o.Fastest < 0 {
		return math.NaN()
	}
	return o.All[o.SameRate].Month / o.All[o.Fastest].Month
}

// Cheapest returns the cheapest offer that takes the rate that is needed; nil if none does.
func (o *Offers) Cheapest() *Offer {
	for i := range o.All {
		if o.All[i].Rate >= o.Needed {
			return &o.All[i]
		}
	}
	return nil
}

// Demand returns the demand of the planned table at full retention. base is the rate that can be
// promised while all pages that inserts touch are in memory; it was measured with the given number
// of cores.
func (o *Output) Demand(base Figure, cores, servers int) (Demand, error) {
	if len(o.Sizes) == 0 {
		return Demand{}, errors.New("the size of the table is not known, as the rate of inserts isn't")
	}
	full := o.Sizes[len(o.Sizes)-1]
	d := Demand{Table: o.Table, Rows: full.Rows, Plain: Figure{full.Rows * o.PerRow.Value, fmt.Sprintf("%s, by %.1f bytes per row", full.After, o.PerRow.Value)},
		Rolling: Figure{full.Bytes, "the same, in periods"}, PlainRate: base, RollingRate: base, Cores: cores, Pieces: o.Pieces, Resident: Resident * o.Period.Rows,
		Rate: o.Rate.Value, Servers: servers}
	if full.Compressed != nil {
		d.Rolling = Figure{*full.Compressed, "the same, in periods, of which the sealed ones are compressed"}
	}
	return d, nil
}

// RecordedDemand returns the demand of the tables that runs of bench insert have filled, with the
// rates that can be promised for tables of these sizes. It returns false if recs has no such run.
func RecordedDemand(recs []result.Record, servers int) (Demand, bool) {
	d := Demand{Servers: servers}
	for i := range recs {
		run, s := &recs[i].Run, recs[i].Summary()
		if run.Workload != "insert" || s.Rows == 0 || s.SizeBytes == nil {
			continue
		}
		size := Figure{float64(s.SizeBytes.Data + s.SizeBytes.Index), fmt.Sprintf("%s after %.0f rows", s.Name, float64(s.Rows))}
		rate := Figure{Promised(&recs[i]), fmt.Sprintf("%s: reached in 99 of 100 intervals", s.Name)}
		if s.Layout == "rolling" {
			d.Rolling, d.RollingRate = size, rate
		} else {
			d.Plain, d.PlainRate = size, rate
		}
		d.Table, d.Rows, d.Cores, d.LeastPages = s.Preset, float64(s.Rows), run.Machine.Cores, float64(run.CacheBytes)
	}
	return d, d.Rows > 0
}
