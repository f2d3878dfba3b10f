package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/monitor"
	"github.com/rowmill/rowmill/internal/query/mysqlfront"
	"github.com/rowmill/rowmill/internal/target"
)

// serveFlags are the flags of `rowmill serve`.
type serveFlags struct {
	listen, target string
	cert, key      string
	maxConnections int
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve --mysql ADDRESS --target URL",
		Short: "Serve the MySQL protocol in front of a server",
		Long: "Serve the MySQL protocol in front of a MariaDB or MySQL server. Each client has\n" +
			"a connection of its own to the server, with its own user and password; everything\n" +
			"is passed on as it is.\n\n" +
			"SIGTERM ends the command: new clients are refused, statements and transactions may\n" +
			"go on for 30 s.",
		Example: "  rowmill serve --mysql :4406 --target mariadb://rowmill@db1:3306/metrics",
		Args:    wantArgs(0, 0),
		RunE:    func(c *cobra.Command, _ []string) error { return a.serve(c.Context(), f) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.listen, mysqlfront.Protocol, "", "serve clients at `ADDRESS`: :4406 is on loopback, 0.0.0.0:4406 on all interfaces")
	flags.StringVar(&f.target, "target", "", "the server, as a `URL`, with the account for pieces of queries")
	flags.StringVar(&f.cert, "tls-cert", "", "`FILE` with the certificate for clients, in PEM (no TLS)")
	flags.StringVar(&f.key, "tls-key", "", "`FILE` with the certificate's key")
	flags.IntVar(&f.maxConnections, "max-connections", 0, "the most clients; 0 is as many as the server takes (default 0)")
	return c
}

// check returns an error if the flags are invalid.
func (f *serveFlags) check() (err error) {
	const try = "rowmill serve --mysql :4406 --target mariadb://USER@HOST/DB"
	switch {
	case f.listen == "":
		return usagef(try, "--mysql is missing: where clients connect")
	case f.target == "":
		return usagef(try, "--target is missing: the server")
	case (f.cert == "") != (f.key == ""):
		return usagef("both of them", "--tls-cert and --tls-key belong together")
	case f.maxConnections < 0:
		return usagef("--max-connections 200", "--max-connections %d: want 0, which is any number, or more", f.maxConnections)
	}
	if f.listen, err = loopback(f.listen); err != nil {
		return usagef("--mysql :4406", "--mysql: %w", err)
	}
	return nil
}

func (a *app) serve(ctx context.Context, f serveFlags) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	var secure *tls.Config
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return fmt.Errorf("--tls-cert %s, --tls-key %s: %w", f.cert, f.key, err)
		}
		secure = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	t, err := target.Open(ctx, f.target, a.logLine)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	wired, ok := t.DB.(engine.Wired)
	if !ok {
		return usagef("--target mariadb://USER@HOST/DB", "--target %s: it doesn't speak the MySQL protocol", t.Info().Target)
	}
	front, err := mysqlfront.New(mysqlfront.Options{
		Wire: wired.Wire(), TLS: secure, MaxConnections: f.maxConnections,
		Say: func(line string) { a.logLine(stamp(time.Now()) + " " + line) },
	})
	if err != nil {
		return fmt.Errorf("--tls-cert: %w", err)
	}
	l, err := monitor.Listen(f.listen)
	if err != nil {
		return err
	}
	where := "this machine only"
	if !isLoopback(f.listen) {
		where = "other hosts can connect"
	}
	a.logLine(fmt.Sprintf("%s serves %s at %s: %s", stamp(time.Now()), t.Info().Target, l.Addr(), where))
	if err := front.Serve(ctx, l); err != nil {
		return err
	}
	a.logLine(stamp(time.Now()) + " ended cleanly")
	return nil
}
