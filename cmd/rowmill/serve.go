package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/monitor"
	"github.com/rowmill/rowmill/internal/query"
	"github.com/rowmill/rowmill/internal/serve"
	"github.com/rowmill/rowmill/internal/target"
)

type serveFlags struct {
	listen, target, metrics string
	cert, key               string
	maxConnections          int
	parallel, maxPieces     int
	memory                  int64
	noRollups, noCache      bool
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve --mysql ADDRESS --target URL",
		Short: "Serve the MySQL protocol in front of a server",
		Long: "Serve the MySQL protocol in front of a MariaDB or MySQL server. Each client has a\n" +
			"connection of its own to the server, with its own user and password, and every statement\n" +
			"goes to the server unchanged. The exception is a SELECT that can be split. Once the\n" +
			"server has accepted the SELECT on the client's own connection, further connections, with\n" +
			"the account of --target, answer it in pieces, in parallel; SHOW WARNINGS then returns\n" +
			"the number of pieces. Queries in transactions are not split.\n\n" +
			"SIGTERM ends the command: new clients are refused, and statements and transactions\n" +
			"may continue for 30 s.",
		Example: "  rowmill serve --mysql :4406 --target mariadb://rowmill@db1:3306/metrics\n" +
			"  rowmill serve --mysql 0.0.0.0:4406 --target mariadb://rowmill@db1/metrics?tls=true --tls-cert serve.pem --tls-key serve.key",
		Args: cli.WantArgs(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return a.serve(c.Context(), f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.listen, serve.Protocol, "", "serve clients at `ADDRESS`: :4406 is on loopback, 0.0.0.0:4406 on all interfaces")
	flags.StringVar(&f.target, "target", "", "`URL` of the server, with the account that runs the pieces of queries")
	flags.StringVar(&f.cert, "tls-cert", "", "`FILE` with the certificate for clients, in PEM (default no TLS)")
	flags.StringVar(&f.key, "tls-key", "", "`FILE` with the certificate's key")
	cli.IntWithin(flags, &f.maxConnections, "max-connections", 0, 0, math.MaxInt32, "the most clients; 0 is as many as the server takes")
	cli.IntWithin(flags, &f.parallel, "parallel", 0, 0, 256, "connections for the pieces of one query; 0 is one for each core of the server if it\nis on this machine, else 4")
	cli.IntWithin(flags, &f.maxPieces, "max-pieces", 0, 0, 4096, "connections for the pieces of all queries together; queries wait for them in turn; 0 is\nfour times --parallel")
	cli.SizeVar(flags, &f.memory, "memory", "256MiB", 1<<20, "`SIZE` of the memory in which all queries together merge; beyond it the server merges")
	flags.BoolVar(&f.noRollups, "no-rollups", false, "don't read roll-ups in place of the table (default false)")
	flags.BoolVar(&f.noCache, "no-cache", false, "don't use cached results of sealed periods (default false)")
	flags.StringVar(&f.metrics, "metrics", "", "serve /metrics at `ADDRESS`: :9188 is on loopback, 0.0.0.0:9188 on all interfaces (default nowhere)")
	return c
}

func (f *serveFlags) check() error {
	const try = "rowmill serve --mysql :4406 --target mariadb://USER@HOST/DB"
	switch {
	case f.listen == "":
		return cli.Usagef(try, "--mysql is missing: where clients connect")
	case f.target == "":
		return cli.Usagef(try, "--target is missing: the server")
	case (f.cert == "") != (f.key == ""):
		return cli.Usagef("both of them", "--tls-cert and --tls-key belong together")
	}
	return errors.Join(onLoopback("metrics", &f.metrics), onLoopback(serve.Protocol, &f.listen))
}

// onLoopback completes the address in a flag's value: an address without a host gets the host of
// loopback. An empty address stays empty.
func onLoopback(flag string, addr *string) (err error) {
	if *addr == "" {
		return nil
	}
	if *addr, err = monitor.Loopback(*addr); err != nil {
		return cli.Usagef("--"+flag+" :9187", "--%s: %w", flag, err)
	}
	return nil
}

// listen listens on an address, and prints what is served there and to whom.
func (a *app) listen(what, addr string) (net.Listener, error) {
	l, err := monitor.Listen(addr)
	if err != nil {
		return nil, err
	}
	where := "this machine only"
	if !monitor.IsLoopback(addr) {
		where = "other hosts can connect"
	}
	a.Log("serves %s at %s: %s", what, l.Addr(), where)
	return l, nil
}

// exposed returns a warning if clients of other hosts can connect, but the database would take such
// clients for clients on the database's own host; else "".
func exposed(listen string, w engine.Wire) string {
	if monitor.IsLoopback(listen) || w.Network != "unix" && !monitor.IsLoopback(w.Address) {
		return ""
	}
	return "warning: the server takes clients from other hosts for local ones: accounts such as root@localhost are open to them, those without a password, too"
}

func (a *app) serve(ctx context.Context, f serveFlags) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	secure, err := certificateOf("--tls-cert", f.cert, "--tls-key", f.key)
	if err != nil {
		return err
	}
	t, err := target.Open(ctx, f.target, a.LogLine)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	wired, ok := t.DB.(engine.Wired)
	if !ok {
		return cli.Usagef("--target mariadb://USER@HOST/DB", "--target %s: it doesn't speak the MySQL protocol", t.Info().Target)
	}
	reader, _ := t.DB.(engine.Reader)
	var rollups query.Rollups
	if reader != nil {
		rollups = maintain.NewRolled(reader)
	}
	front, err := serve.New(serve.Options{
		Wire: wired.Wire(), TLS: secure, MaxConnections: f.maxConnections,
		Reader: reader, Parallel: f.parallel, MaxPieces: f.maxPieces, Memory: f.memory, Rollups: rollups, NoRollups: f.noRollups, NoCache: f.noCache,
		Say: a.Say,
	})
	if err != nil {
		return fmt.Errorf("--tls-cert: %w", err)
	}
	l, err := a.listen(t.Info().Target, f.listen)
	if err != nil {
		return err
	}
	if why := exposed(f.listen, wired.Wire()); why != "" {
		a.LogLine(why)
	}
	ctx, stop := context.WithCancel(ctx)
	var metrics sync.WaitGroup
	var failed error
	if f.metrics != "" {
		ml, err := a.listen("metrics", f.metrics)
		if err != nil {
			stop()
			return errors.Join(err, l.Close())
		}
		metrics.Go(func() { failed = monitor.ServeOn(ctx, ml, front.Handler()) })
	}
	err = front.Serve(ctx, l)
	stop()
	metrics.Wait()
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	a.Say("ended cleanly")
	return nil
}
