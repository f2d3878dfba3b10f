package sizing

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/rowmill/rowmill/internal/engine"
)

// Prices are the monthly prices of machines, volumes and traffic, from a price list: a TOML file
// that the user keeps up to date. docs/prices.md describes the file.
type Prices struct {
	// Date is the day of the prices, Currency their unit, such as "$".
	Date     string `toml:"date"`
	Currency string `toml:"currency"`
	// Hours is the number of hours in a month; 730 by default. GB is the number of bytes that the
	// price list calls a gigabyte; 1e9 by default.
	Hours float64 `toml:"hours"`
	GB    float64 `toml:"gb"`
	// Room is the free space to pay for, as a share of the stored bytes; 0.2 by default.
	Room *float64 `toml:"room"`
	// PageShare is the share of a machine's memory that is for pages of tables; 0.75 by default.
	PageShare *float64 `toml:"pages"`
	// ZoneGB is the price of sending a GB to a replica.
	ZoneGB *float64 `toml:"zone_gb"`

	Machines []Machine `toml:"machine"`
	Volumes  []Volume  `toml:"volume"`
}

// A Machine is one kind of server.
type Machine struct {
	Name string `toml:"name"`
	// Month or Hour is its price.
	Month *float64 `toml:"month"`
	Hour  *float64 `toml:"hour"`
	CPUs  int      `toml:"cpus"`
	// MemoryGB is its memory.
	MemoryGB float64 `toml:"memory_gb"`
	// DiskGB is the size of the machine's own disks; 0 is none. DiskReads is how many random pages
	// they read in a second, and DiskMBps how many MB (1e6 bytes) they write in a second.
	DiskGB    float64 `toml:"disk_gb"`
	DiskReads float64 `toml:"disk_reads"`
	DiskMBps  float64 `toml:"disk_mbps"`
	// VolumeReads and VolumeMBps limit what volumes give the machine; 0 is no limit.
	VolumeReads float64 `toml:"volume_reads"`
	VolumeMBps  float64 `toml:"volume_mbps"`
}

// A Volume is network storage. It reads Reads random pages a second, or ReadsPerGB for each of its
// GB if these are more, but never more than MostReads.
type Volume struct {
	Name       string   `toml:"name"`
	GBMonth    *float64 `toml:"gb_month"`
	Reads      float64  `toml:"reads"`
	ReadsPerGB float64  `toml:"reads_per_gb"`
	MostReads  float64  `toml:"most_reads"`
	MBps       float64  `toml:"mbps"`
	// MostGB is the volume's largest size; 0 is no limit.
	MostGB float64 `toml:"most_gb"`
}

// ReadPrices reads a file of prices. A missing price is an error: it doesn't count as 0.
func ReadPrices(source string, text []byte) (*Prices, error) {
	p := &Prices{}
	if err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(p); err != nil {
		var bad *toml.DecodeError
		var unknown *toml.StrictMissingError
		switch {
		case errors.As(err, &unknown) && len(unknown.Errors) > 0:
			line, column := unknown.Errors[0].Position()
			return nil, engine.Hinted(fmt.Errorf("%s:%d:%d: unknown key %q", source, line, column, strings.Join(unknown.Errors[0].Key(), ".")), "docs/prices.md, which has all keys")
		case errors.As(err, &bad):
			line, column := bad.Position()
			return nil, fmt.Errorf("%s:%d:%d: %s", source, line, column, strings.TrimPrefix(bad.Error(), "toml: "))
		}
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	if err := p.complete(); err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	return p, nil
}

// complete fills in the defaults. It refuses missing prices and senseless numbers.
func (p *Prices) complete() error {
	room, pages := 0.2, 0.75
	p.Hours, p.GB, p.Room, p.PageShare = cmp.Or(p.Hours, 730), cmp.Or(p.GB, 1e9), cmp.Or(p.Room, &room), cmp.Or(p.PageShare, &pages)
	refuse := func(bad bool, hint, format string, args ...any) error {
		if !bad {
			return nil
		}
		return engine.Hinted(fmt.Errorf(format, args...), "%s", hint)
	}
	if err := cmp.Or(
		refuse(p.Date == "", `date = "2026-11-30"`, "no date: prices change"),
		refuse(p.Currency == "", `currency = "$"`, "no currency"),
		refuse(!(p.Hours > 0 && p.GB > 0 && *p.Room >= 0 && *p.PageShare > 0 && *p.PageShare <= 1 && (p.ZoneGB == nil || *p.ZoneGB >= 0)), "numbers above 0, and at most 1 for pages",
			"hours %v, gb %v, room %v, pages %v or zone_gb is out of range", p.Hours, p.GB, *p.Room, *p.PageShare),
		refuse(len(p.Machines) == 0, "[[machine]] with name, month or hour, cpus and memory", "no machine")); err != nil {
		return err
	}
	named := map[string]bool{"": true}
	for i := range p.Machines {
		m := &p.Machines[i]
		what := fmt.Sprintf("machine %q", m.Name)
		if err := refuse((m.Month == nil) == (m.Hour == nil), "month = 490.56, or hour = 0.672", "%s has no price, or two", what); err != nil {
			return err
		}
		if m.Month == nil {
			month := *m.Hour * p.Hours
			m.Month = &month
		}
		if err := cmp.Or(
			refuse(named[m.Name], "another name", "%s has no name, or is there twice", what),
			refuse(!(m.MemoryGB > 0), "memory_gb = 122", "%s has no memory", what),
			refuse(m.CPUs < 1, "cpus = 16", "%s has no cpus", what),
			refuse(!(*m.Month >= 0), "month = 490.56, or hour = 0.672", "%s costs %v", what, *m.Month),
			refuse(m.DiskGB > 0 && !(m.DiskReads > 0), "disk_reads = 100_000, random page reads a second: rowmill bench disk measures them", "%s has a disk, and no disk_reads", what)); err != nil {
			return err
		}
		named[m.Name] = true
	}
	for _, v := range p.Volumes {
		what := fmt.Sprintf("volume %q", v.Name)
		if err := cmp.Or(
			refuse(named[v.Name], "another name", "%s has no name, or that name is there twice", what),
			refuse(v.GBMonth == nil || !(*v.GBMonth >= 0), "gb_month = 0.10, for a GB and month", "%s has no price", what),
			refuse(!(v.Reads > 0 || v.ReadsPerGB > 0), "reads = 3000, or reads_per_gb = 3: random page reads a second", "%s has no reads", what)); err != nil {
			return err
		}
		named[v.Name] = true
	}
	return nil
}
