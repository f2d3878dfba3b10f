package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/ingest"
	"github.com/rowmill/rowmill/internal/ingest/receive"
	"github.com/rowmill/rowmill/internal/monitor"
	"github.com/rowmill/rowmill/internal/textfile"
	"github.com/rowmill/rowmill/rolling"
)

// ingestFlags are the flags of `rowmill run` for rows that arrive over HTTP.
type ingestFlags struct {
	addr, spool, tokenFile, cert, key string
	spoolSize, body                   string
	insecure, truncate                bool
	spoolBytes, bodyBytes             int64
}

func (f *ingestFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.addr, "ingest", "", "take rows over HTTP at `ADDRESS`: :8186 is on loopback, 0.0.0.0:8186 on all interfaces (nowhere)")
	flags.StringVar(&f.spool, "ingest-spool", "", "keep these rows in `DIRECTORY` until they are loaded")
	flags.StringVar(&f.spoolSize, "ingest-spool-size", "1GiB", "`SIZE` of each table's spool, beyond which requests are refused")
	flags.StringVar(&f.body, "ingest-body", "32MiB", "`SIZE` of the largest request, as sent and decompressed")
	flags.StringVar(&f.tokenFile, "ingest-token-file", "", "`FILE` with a token per line, of which requests must have one (none)")
	flags.StringVar(&f.cert, "ingest-cert", "", "`FILE` with the certificate for HTTPS, in PEM (no HTTPS)")
	flags.StringVar(&f.key, "ingest-key", "", "`FILE` with the certificate's key")
	flags.BoolVar(&f.insecure, "ingest-insecure", false, "take rows from other hosts without a token or without HTTPS (default false)")
	flags.BoolVar(&f.truncate, "ingest-truncate-times", false, "truncate timestamps of line protocol to the precision of the column (default false)")
}

// check returns an error if the flags are invalid.
func (f *ingestFlags) check(once bool) (err error) {
	switch {
	case f.addr == "" && (f.spool != "" || f.tokenFile != "" || f.cert != "" || f.key != "" || f.insecure || f.truncate):
		return usagef("--ingest :8186", "the other flags of --ingest are given without it")
	case f.addr == "":
		return nil
	case once:
		return usagef("one of them", "--ingest takes rows for as long as rowmill runs, and --once ends")
	case f.spool == "":
		return usagef("--ingest-spool /var/spool/rowmill", "--ingest needs a directory on disk for rows that aren't loaded yet")
	case (f.cert == "") != (f.key == ""):
		return usagef("both of them", "--ingest-cert and --ingest-key belong together")
	}
	if f.addr, err = loopback(f.addr); err != nil {
		return usagef("--ingest :8186", "--ingest: %w", err)
	}
	if !isLoopback(f.addr) && !f.insecure && (f.tokenFile == "" || f.cert == "") {
		return usagef("--ingest-token-file, --ingest-cert and --ingest-key; or --ingest-insecure, behind a proxy that has both", "--ingest %s: other hosts can reach it, and it lacks a token or HTTPS", f.addr)
	}
	if f.spoolBytes, err = engine.ParseBytes(f.spoolSize); err != nil || f.spoolBytes < 1<<20 {
		return usagef("--ingest-spool-size 1GiB", "--ingest-spool-size %q: want a size of 1MiB or more", f.spoolSize)
	}
	const most = 60 << 20 // below a record of the spool
	if f.bodyBytes, err = engine.ParseBytes(f.body); err != nil || f.bodyBytes < 1<<10 || f.bodyBytes > most {
		return usagef("--ingest-body 32MiB", "--ingest-body %q: want a size from 1KiB to 60MiB", f.body)
	}
	return nil
}

// loopback completes an address: without a host it is on loopback.
func loopback(addr string) (string, error) {
	if _, err := strconv.ParseUint(addr, 10, 16); err == nil {
		addr = ":" + addr
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" {
		return "", fmt.Errorf("%q: want HOST:PORT, :PORT or PORT", addr)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// mostTokenFile limits the size of the file of tokens.
const mostTokenFile = 1 << 20

// leastToken is the least length of a token.
const leastToken = 16

// tokensOf reads a file with a token per line; # begins a comment.
func tokensOf(ctx context.Context, file string) (out []string, err error) {
	if file == "" {
		return nil, nil
	}
	text, err := textfile.Read(ctx, file)
	if err != nil {
		return nil, fmt.Errorf("--ingest-token-file: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, mostTokenFile)
	for n := 1; lines.Scan(); n++ {
		token := strings.TrimSpace(lines.Text())
		switch {
		case token == "" || token[0] == '#':
		case len(token) < leastToken || strings.ContainsAny(token, " \t"):
			return nil, fmt.Errorf("--ingest-token-file %s: line %d: want a token of %d characters or more, without blanks", file, n, leastToken)
		default:
			out = append(out, token)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("--ingest-token-file %s: %w", file, err)
	}
	if len(out) == 0 {
		return nil, engine.Hinted(fmt.Errorf("--ingest-token-file %s has no token", file), "openssl rand -hex 32 > %s", file)
	}
	return out, nil
}

// Limits of a connection, beyond which slow senders are cut off.
const (
	headerTimeout = 5 * time.Second
	// requestTimeout is how long a request may take to arrive: the largest in a minute
	// takes half a MiB per second.
	requestTimeout = time.Minute
	answerTimeout  = requestTimeout + 30*time.Second
	idleTimeout    = 2 * time.Minute
	headerBytes    = 16 << 10
	// finishTimeout is how long requests may continue after Ctrl-C, and drainTimeout
	// how long rows in the spool are loaded after that, unless the database can't be reached.
	finishTimeout = 5 * time.Second
	drainTimeout  = 10 * time.Second
)

// A received is what takes rows over HTTP. nil takes none.
type received struct {
	app      *app
	flags    ingestFlags
	inboxes  map[string]*ingest.Inbox
	handler  *receive.Server
	listener net.Listener
}

// openIngest opens the spools of the tables and listens, if the flags say so.
func (a *app) openIngest(ctx context.Context, f ingestFlags, tables []*kept) (_ *received, err error) {
	if f.addr == "" {
		return nil, nil
	}
	tokens, err := tokensOf(ctx, f.tokenFile)
	if err != nil {
		return nil, err
	}
	var secure *tls.Config
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("--ingest-cert %s, --ingest-key %s: %w", f.cert, f.key, err)
		}
		secure = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	r := &received{app: a, flags: f, inboxes: map[string]*ingest.Inbox{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if err := os.MkdirAll(f.spool, 0o700); err != nil {
		return nil, fmt.Errorf("--ingest-spool: %w", err)
	}
	for _, k := range tables {
		name := k.Declared.Name
		if r.inboxes[name] != nil {
			return nil, engine.Hinted(fmt.Errorf("two declarations are for a table %s", name), "one rowmill run for each, with a spool and a port of its own")
		}
		o := ingest.Options{DB: k.DB, Table: k.Table.Table, Schema: k.Schema, Late: k.Declared.Late == rolling.LateReject, RetryFor: -1,
			Spool: filepath.Join(f.spool, name), SpoolBytes: f.spoolBytes, Bad: filepath.Join(f.spool, name+".bad.jsonl"), Reached: a.reached,
			Say: func(line string) { a.logLine(stamp(time.Now()) + " " + line) }}
		if r.inboxes[name], err = ingest.OpenInbox(ctx, o); err != nil {
			delete(r.inboxes, name)
			return nil, err
		}
	}
	r.handler = receive.New(receive.Options{Tables: r.inboxes, Tokens: tokens, Body: f.bodyBytes, TruncateTimes: f.truncate, Version: versionString(),
		Say: func(text string) { r.say("%s", text) }})
	if r.listener, err = monitor.Listen(f.addr); err != nil {
		return nil, err
	}
	if secure != nil {
		r.listener = tls.NewListener(r.listener, secure)
	}
	return r, nil
}

// serve takes requests and loads their rows until ctx ends. Then requests that have begun
// are completed, and the spools are emptied for at most drainTimeout.
func (r *received) serve(ctx context.Context) error {
	server := &http.Server{
		Handler: r.handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, WriteTimeout: answerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: headerBytes, ErrorLog: log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) }, ConnState: r.handler.Connection,
	}
	loading, give := context.WithCancel(context.WithoutCancel(ctx))
	defer give()
	var all sync.WaitGroup
	for _, in := range r.inboxes {
		all.Go(func() { _ = in.Run(loading) }) // it reports errors itself, and ends with loading
	}
	failed := make(chan error, 1)
	all.Go(func() { failed <- server.Serve(r.listener) })
	r.say("takes rows at %s", r.listener.Addr())
	var err error
	select {
	case err = <-failed:
		err = fmt.Errorf("take rows at %s: %w", r.listener.Addr(), err)
	case <-ctx.Done():
	}
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	if server.Shutdown(finish) != nil {
		_ = server.Close() // cuts off requests that are still arriving
	}
	r.handler.Stop()
	for _, in := range r.inboxes {
		in.Finish()
	}
	defer time.AfterFunc(drainTimeout, give).Stop()
	all.Wait()
	for _, name := range r.names() {
		if st := r.inboxes[name].Status(); st.Records > 0 {
			r.say("%s: %s in the spool, of %s: the next rowmill run loads them", name, figure.Bytes(st.Bytes), figure.Plural(st.Records, "request", "requests"))
		}
	}
	return err
}

func (r *received) names() []string {
	var out []string
	for name := range r.inboxes {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func (r *received) say(format string, args ...any) {
	r.app.logLine(stamp(time.Now()) + " " + fmt.Sprintf(format, args...))
}

// close closes the spools and the listener.
func (r *received) close() error {
	if r == nil {
		return nil
	}
	var errs []error
	for _, name := range r.names() {
		errs = append(errs, r.inboxes[name].Close())
	}
	if r.listener != nil {
		_ = r.listener.Close() // the server may have closed it
	}
	return errors.Join(errs...)
}
