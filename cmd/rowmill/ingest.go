package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"

	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/declared"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/ingest"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/ingest/receive"
	"github.com/rowmill/rowmill/internal/monitor"
	"github.com/rowmill/rowmill/internal/textfile"
	"github.com/rowmill/rowmill/rolling"
)

// ingestFlags are the flags of `rowmill run` for rows that arrive over HTTP.
type ingestFlags struct {
	addr, spool, tokenFile, cert, key string
	spoolBytes, bodyBytes             int64
	insecure, truncate                bool
}

func (f *ingestFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.addr, "ingest", "", "take rows over HTTP at `ADDRESS`: :8186 is on loopback, 0.0.0.0:8186 on all interfaces (default nowhere)")
	flags.StringVar(&f.spool, "ingest-spool", "", "keep the rows of --ingest in `DIRECTORY` until they are loaded")
	cli.SizeVar(flags, &f.spoolBytes, "ingest-spool-size", "1GiB", 1<<20, "`SIZE` of each table's spool, beyond which requests are refused")
	cli.SizeVar(flags, &f.bodyBytes, "ingest-body", "32MiB", 1<<10, "`SIZE` of the largest request; a compressed one may be no larger after decompression either")
	flags.StringVar(&f.tokenFile, "ingest-token-file", "", "`FILE` with a token per line; each request must have one of the tokens (default none)")
	flags.StringVar(&f.cert, "ingest-cert", "", "`FILE` with the certificate for HTTPS, in PEM (default no HTTPS)")
	flags.StringVar(&f.key, "ingest-key", "", "`FILE` with the private key of --ingest-cert, in PEM")
	flags.BoolVar(&f.insecure, "ingest-insecure", false, "take rows from other hosts without a token or without HTTPS (default false)")
	flags.BoolVar(&f.truncate, "ingest-truncate-times", false, "truncate timestamps of line protocol to the precision of the column (default false)")
}

func (f *ingestFlags) check(once bool) error {
	switch {
	case f.addr == "" && (f.spool != "" || f.tokenFile != "" || f.cert != "" || f.key != "" || f.insecure || f.truncate):
		return cli.Usagef("--ingest :8186", "the other flags of --ingest are given without it")
	case f.addr == "":
		return nil
	case once:
		return cli.Usagef("one of them", "--ingest takes rows for as long as rowmill runs, and --once ends")
	case f.spool == "":
		return cli.Usagef("--ingest-spool /var/spool/rowmill", "--ingest needs a directory on disk for rows that aren't loaded yet")
	case (f.cert == "") != (f.key == ""):
		return cli.Usagef("both of them", "--ingest-cert and --ingest-key belong together")
	}
	if err := onLoopback("ingest", &f.addr); err != nil {
		return err
	}
	if !monitor.IsLoopback(f.addr) && !f.insecure && (f.tokenFile == "" || f.cert == "") {
		return cli.Usagef("--ingest-token-file, --ingest-cert and --ingest-key; or --ingest-insecure, behind a proxy that has both", "--ingest %s: other hosts can reach it, and it lacks a token or HTTPS", f.addr)
	}
	const most = 60 << 20 // a record of the spool holds a little more
	if f.bodyBytes > most {
		return cli.Usagef("--ingest-body 32MiB", "--ingest-body: want at most %s", figure.Bytes(int64(most)))
	}
	return nil
}

// tokensOf reads a file with a token per line; # begins a comment.
func tokensOf(ctx context.Context, file string) ([]string, error) {
	if file == "" {
		return nil, nil
	}
	text, err := textfile.Read(ctx, file)
	if err != nil {
		return nil, fmt.Errorf("--ingest-token-file: %w", err)
	}
	out, err := receive.ParseTokens(text)
	if err != nil {
		return nil, fmt.Errorf("--ingest-token-file %s: %w", file, err)
	}
	if len(out) == 0 {
		return nil, engine.Hinted(fmt.Errorf("--ingest-token-file %s has no token", file), "openssl rand -hex 32 > %s", file)
	}
	return out, nil
}

// certificateOf loads a server's certificate and its key from the files cert and key, which two
// flags name. It returns nil if cert is "".
func certificateOf(certFlag, cert, keyFlag, key string) (*tls.Config, error) {
	if cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s %s, %s %s: %w", certFlag, cert, keyFlag, key, err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// openIngest opens the spools of the tables and listens, if the flags say so.
func (a runner) openIngest(ctx context.Context, f ingestFlags, tables []*declared.Table) (*receive.Service, error) {
	if f.addr == "" {
		return nil, nil
	}
	tokens, err := tokensOf(ctx, f.tokenFile)
	if err != nil {
		return nil, err
	}
	secure, err := certificateOf("--ingest-cert", f.cert, "--ingest-key", f.key)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(f.spool, 0o700); err != nil {
		return nil, fmt.Errorf("--ingest-spool: %w", err)
	}
	o := receive.ServiceOptions{
		Options: receive.Options{Tokens: tokens, Body: f.bodyBytes, TruncateTimes: f.truncate, Version: a.Version, Say: a.Say},
		Spool:   f.spool, TLS: secure, Listen: func() (net.Listener, error) { return a.listen("requests with rows", f.addr) },
	}
	for _, k := range tables {
		o.Into = append(o.Into, ingest.Options{SpoolBytes: f.spoolBytes, Sending: lane.Sending{DB: k.DB, Reading: format.Reading{Table: k.Table.Table, Schema: k.Schema},
			Late: k.Declared.Late == rolling.LateReject, RetryFor: -1, Reached: a.reached, Say: a.Say}})
	}
	return receive.Open(ctx, o)
}
