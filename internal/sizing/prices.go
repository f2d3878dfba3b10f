package sizing

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/rowmill/rowmill/internal/engine"
)

// Prices are what machines, volumes and traffic cost a month, from a file that its owner keeps up
// to date: docs/prices.md.
type Prices struct {
	// Date is the day of the prices, Currency their unit, such as "$".
	Date     string `toml:"date"`
	Currency string `toml:"currency"`
	// Hours are those of a month; 730 by default. GB is a gigabyte in bytes, as the price list has it;
	// 1e9 by default.
	Hours float64 `toml:"hours"`
	GB    float64 `toml:"gb"`
	// Room is the share of the stored bytes that stays free, in addition; 0.2 by default.
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
	// DiskGB is the size of its own disks; 0 is none. DiskReads are their random page reads a second,
	// DiskMBps what they write, in 1e6 bytes a second.
	DiskGB    float64 `toml:"disk_gb"`
	DiskReads float64 `toml:"disk_reads"`
	DiskMBps  float64 `toml:"disk_mbps"`
	// VolumeReads and VolumeMBps limit what volumes give it; 0 is no limit.
	VolumeReads float64 `toml:"volume_reads"`
	VolumeMBps  float64 `toml:"volume_mbps"`
}

// A Volume is network storage. It gives Reads random page reads a second, or ReadsPerGB for each GB
// if that is more, up to MostReads.
type Volume struct {
	Name       string   `toml:"name"`
	GBMonth    *float64 `toml:"gb_month"`
	Reads      float64  `toml:"reads"`
	ReadsPerGB float64  `toml:"reads_per_gb"`
	MostReads  float64  `toml:"most_reads"`
	MBps       float64  `toml:"mbps"`
	// MostGB is its largest size; 0 is no limit.
	MostGB float64 `toml:"most_gb"`
}

// ReadPrices reads a file of prices. A price that is missing is an error, and never 0.
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

// complete fills in defaults and refuses what can't be computed with.
func (p *Prices) complete() error {
	if p.Hours == 0 {
		p.Hours = 730
	}
	if p.GB == 0 {
		p.GB = 1e9
	}
	room, pages := 0.2, 0.75
	if p.Room == nil {
		p.Room = &room
	}
	if p.PageShare == nil {
		p.PageShare = &pages
	}
	switch {
	case p.Date == "":
		return engine.Hinted(errors.New("no date: prices change"), `date = "2026-11-30"`)
	case p.Currency == "":
		return engine.Hinted(errors.New("no currency"), `currency = "$"`)
	case !(p.Hours > 0 && p.GB > 0 && *p.Room >= 0 && *p.PageShare > 0 && *p.PageShare <= 1):
		return fmt.Errorf("hours %v, gb %v, room %v and pages %v: want more than 0, and for pages at most 1", p.Hours, p.GB, *p.Room, *p.PageShare)
	case p.ZoneGB != nil && !(*p.ZoneGB >= 0):
		return fmt.Errorf("zone_gb %v: want 0 or more", *p.ZoneGB)
	case len(p.Machines) == 0:
		return engine.Hinted(errors.New("no machine"), "[[machine]] with name, month or hour, cpus and memory")
	}
	named := map[string]bool{}
	for i := range p.Machines {
		m := &p.Machines[i]
		what := fmt.Sprintf("machine %q", m.Name)
		switch {
		case m.Name == "":
			return fmt.Errorf("machine %d has no name", i+1)
		case named[m.Name]:
			return fmt.Errorf("%s is there twice", what)
		case m.Month == nil && m.Hour == nil:
			return engine.Hinted(fmt.Errorf("%s has no price", what), "month = 490.56, or hour = 0.672")
		case m.Month != nil && m.Hour != nil:
			return fmt.Errorf("%s has two prices, by the month and by the hour", what)
		case m.Month == nil:
			month := *m.Hour * p.Hours
			m.Month = &month
		}
		named[m.Name] = true
		switch {
		case !(m.MemoryGB > 0):
			return engine.Hinted(fmt.Errorf("%s has no memory", what), "memory_gb = 122")
		case m.CPUs < 1:
			return engine.Hinted(fmt.Errorf("%s has no cpus", what), "cpus = 16")
		case !(*m.Month >= 0):
			return fmt.Errorf("%s costs %v", what, *m.Month)
		case m.DiskGB > 0 && !(m.DiskReads > 0):
			return engine.Hinted(fmt.Errorf("%s has a disk, and no disk_reads", what), "disk_reads = 100_000, random page reads a second: rowmill bench disk measures them")
		}
	}
	for i := range p.Volumes {
		v := &p.Volumes[i]
		what := fmt.Sprintf("volume %q", v.Name)
		switch {
		case v.Name == "":
			return fmt.Errorf("volume %d has no name", i+1)
		case named[v.Name]:
			return fmt.Errorf("%s: that name is there twice", what)
		case v.GBMonth == nil || !(*v.GBMonth >= 0):
			return engine.Hinted(fmt.Errorf("%s has no price", what), "gb_month = 0.10, for a GB and month")
		case !(v.Reads > 0 || v.ReadsPerGB > 0):
			return engine.Hinted(fmt.Errorf("%s has no reads", what), "reads = 3000, or reads_per_gb = 3: random page reads a second")
		}
		named[v.Name] = true
	}
	return nil
}
