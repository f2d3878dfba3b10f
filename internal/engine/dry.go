package engine

import (
	"context"
	"fmt"

	"github.com/rowmill/rowmill/rolling"
)

// Dry returns a DB without a connection. It only renders steps: methods that need a server return
// ErrUnsupported.
func Dry(info Info, caps Capabilities, d Dialect) DB { return &dry{info, caps, d} }

type dry struct {
	info    Info
	caps    Capabilities
	dialect Dialect
}

func (d *dry) refuse(what string) error {
	return Classed(ErrUnsupported, fmt.Errorf("%s: %s was not opened: only its statements can be shown", what, d.info.Target))
}

func (d *dry) Info() Info                 { return d.info }
func (d *dry) Capabilities() Capabilities { return d.caps }
func (d *dry) Dialect() Dialect           { return d.dialect }
func (d *dry) Catalog() Catalog           { return d }
func (d *dry) Close() error               { return nil }

func (d *dry) Apply(context.Context, ...Step) error { return d.refuse("apply") }

func (d *dry) Writer(context.Context, *Table, Method) (Writer, error) { return nil, d.refuse("insert") }

func (d *dry) Querier(context.Context) (Querier, error) { return nil, d.refuse("query") }

func (d *dry) Settle(context.Context, Settle) ([]string, error) { return nil, d.refuse("settle") }

func (d *dry) Scan(context.Context, *Table, *rolling.Partition, func(*Batch) error) error {
	return d.refuse("scan")
}

func (d *dry) Counters(context.Context, ...*Table) (Counters, error) {
	return nil, d.refuse("sample counters")
}

func (d *dry) Exists(context.Context, *Table) (bool, error) {
	return false, d.refuse("look for a table")
}

func (d *dry) Partitions(context.Context, *Table) ([]rolling.Partition, error) {
	return nil, d.refuse("read partitions")
}

func (d *dry) Sizes(context.Context, *Table) (Sizes, error) {
	return Sizes{}, d.refuse("measure a table")
}

func (d *dry) Settings(context.Context) (map[string]string, error) {
	return nil, d.refuse("read settings")
}
