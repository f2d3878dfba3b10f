package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/sizing"
	"github.com/rowmill/rowmill/rolling"
)

// autoPeriod determines the period for every = "auto": the longest that fits into
// memory (0: the server's own) at a rate (0: measured on the table).
func (a *app) autoPeriod(ctx context.Context, k *kept, rate float64, memory int64) (rolling.Grid, string, error) {
	in := sizing.Input{Rate: sizing.Figure{Value: rate, From: "--rate"}, Memory: sizing.Figure{Value: float64(memory), From: "--memory"}}
	out, err := a.planKept(ctx, k, in, defaultSample)
	if err != nil {
		return rolling.Grid{}, "", fmt.Errorf("find the period: %w", err)
	}
	why := fmt.Sprintf("%s holds %s rows of %.0f bytes at %s rows/s; two of them fit into %.0f%% of %s", out.Grid(), countText(out.Period.Rows), out.PerRow.Value,
		countText(out.Rate.Value), 100*sizing.CacheShare, figure.Bytes(out.Memory.Value))
	if len(out.Warnings) > 0 {
		why += "; " + strings.Join(out.Warnings, "; ")
	}
	return out.Grid(), why, nil
}

// given returns the rate, in rows per second, and the memory, in bytes, from the
// flags. 0 means not given.
func (f *applyFlags) given() (rate float64, memory int64, err error) {
	if f.rate != "" {
		if err := (rateValue{v: &rate, without: "to have it measured on the table"}).Set(f.rate); err != nil {
			return 0, 0, usagef("--rate 5000/s", "--rate: %v", err)
		}
	}
	if f.memory != "" {
		memory, err = parseMemory(f.memory)
	}
	return rate, memory, err
}

// findPeriod fills in the period of a declaration with every = "auto", unless a period
// is already in force.
func (a *app) findPeriod(ctx context.Context, k *kept, f applyFlags) error {
	if !k.Declared.Auto || k.Declared.Period.Valid() {
		return nil
	}
	rate, memory, err := f.given()
	if err != nil {
		return err
	}
	g, why, err := a.autoPeriod(ctx, k, rate, memory)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "every = \"auto\": %s\n", why)
	return k.SetPeriod(g)
}
