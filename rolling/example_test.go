package rolling_test

import (
	"fmt"
	"time"

	"github.com/rowmill/rowmill/rolling"
)

// A period is found by the time of a row, and its name tells when it begins.
func ExampleGrid_Name() {
	g, _ := rolling.Parse("2h")
	p, _ := g.At(rolling.Position(time.Date(2026, 11, 20, 19, 12, 0, 0, time.UTC)))
	fmt.Println(g.Name(p), "from", g.Format(p.From), "to", g.Format(p.To))
	// Output: p20261120_18 from 2026-11-20 18:00:00 to 2026-11-20 20:00:00
}

// A policy says which periods to create and to drop, given those that a table has.
func ExamplePolicy_Steps() {
	g, _ := rolling.Parse("500000 rows")
	have := []rolling.Partition{
		g.Named(rolling.Period{From: 0, To: 500000}),
		g.Named(rolling.Period{From: 500000, To: 1000000}),
		g.Named(rolling.Period{From: 1000000, To: 1500000}),
	}
	s, _ := rolling.Policy{Grid: g, Ahead: 1, Keep: 2}.Steps(have, 1000000)
	fmt.Println("create", s.Create)
	fmt.Println("drop", s.Drop)
	// Output:
	// create [{p0000000000001500000 {1500000 2000000}}]
	// drop [{p0000000000000000000 {0 500000}}]
}

// A declaration is checked without a server. Omitted keys have their defaults.
func ExampleParseDeclaration() {
	d, err := rolling.ParseDeclaration("readings.toml", []byte(`
[table]
name = "readings"
target = "mysql://ingest@db1/metrics"
create = "CREATE TABLE readings (sensor INT NOT NULL, ts DATETIME NOT NULL, value DOUBLE, PRIMARY KEY (sensor, ts))"
time = "ts"

[period]
every = "2h"
keep = "30d"

[[rollup]]
name = "readings_1h"
every = "1h"
by = ["sensor"]
select = { n = "count(*)", mean = "avg(value)" }
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Name, "rolls by", d.Time, "in periods of", d.Period)
	fmt.Println("created", d.Ahead, "ahead, sealed after", d.Seal.After, "and kept", d.Keep)
	fmt.Println("key", d.Definition.PrimaryKey, "roll-up", d.Rollups[0].Name, d.Rollups[0].Select)

	_, err = rolling.ParseDeclaration("readings.toml", []byte("[table]\nname = 7\n"))
	fmt.Println(err.(rolling.Errors)[0])
	// Output:
	// readings rolls by ts in periods of 2h
	// created 1d ahead, sealed after 2h and kept 30d
	// key [sensor ts] roll-up readings_1h [count(*) avg(value)]
	// readings.toml:1:2: there is no [period]
}
