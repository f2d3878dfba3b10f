package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/report/tables"
	"github.com/rowmill/rowmill/internal/sizing"
	"github.com/rowmill/rowmill/internal/textfile"
	"github.com/rowmill/rowmill/result"
)

// priceFlags are the flags of `rowmill plan` that are about prices.
type priceFlags struct {
	file    string
	servers int
	html    string
}

func (f *priceFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.file, "prices", "", "print what machines and volumes of this price list, `PRICES.toml`, cost a month, and the rate that\neach can promise; with --record, FILE.toml may be left out (default none)")
	cli.IntWithin(flags, &f.servers, "servers", 1, 1, 100, "with --prices, `N` servers with the table, one of which takes the inserts")
	flags.StringVar(&f.html, "html", "", "with --prices, write a page with a chart of price against rate to this `file` (default none)")
}

func (f *priceFlags) check(given int, record string) error {
	switch {
	case f.file == "" && given == 0:
		return cli.Usagef("rowmill plan FILE.toml", "rowmill plan needs FILE.toml, a declaration; with --prices, a --record may take its place")
	case f.file == "" && (f.html != "" || f.servers != 1):
		return cli.Usagef("--prices PRICES.toml", "--html and --servers are for --prices")
	case given == 0 && record == "":
		return cli.Usagef("rowmill plan FILE.toml --prices PRICES.toml", "--prices needs a declaration, or a --record of bench insert")
	}
	return nil
}

// price prints what the planned table costs. out is its plan, or nil without a declaration.
func (a planner) price(ctx context.Context, f *planFlags, recs []result.Record, out *sizing.Output) error {
	text, err := textfile.Read(ctx, f.prices.file)
	if err != nil {
		return fmt.Errorf("--prices: %w", err)
	}
	prices, err := sizing.ReadPrices(f.prices.file, text)
	if err != nil {
		return fmt.Errorf("--prices: %w", err)
	}
	d, ok := sizing.RecordedDemand(recs, f.prices.servers)
	if out != nil {
		base, cores := sizing.Figure{}, 0
		switch {
		case ok && d.RollingRate.Value > 0:
			base, cores = d.RollingRate, d.Cores
		case out.After.First != nil:
			base = sizing.Figure{Value: *out.After.First, From: out.After.From}
		}
		if base.Value <= 0 {
			return cli.Usagef("--record RUN.jsonl of bench insert --table FILE.toml --layout rolling", "--prices: no rate is known that could be promised")
		}
		if d, err = out.Demand(base, cores, f.prices.servers); err != nil {
			return cli.Usagef("--rate 5000/s", "--prices: %w", err)
		}
	} else if !ok {
		return errNoInserts(f.record)
	}
	doc := tables.Prices(prices.Offer(d))
	if f.prices.html != "" {
		if err := a.WriteOutput(f.prices.html, doc.HTML); err != nil || f.prices.html == "-" {
			return err
		}
	}
	if f.json {
		return doc.JSON(a.Stdout)
	}
	return doc.Text(a.Stdout)
}
