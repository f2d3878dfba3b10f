package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/target"
)

// sandboxes are the verbs of `rowmill sandbox`.
type sandboxes struct{ *app }

func (a sandboxes) sandboxCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "sandbox",
		Short: "Start, list and stop private database servers",
		Long: strings.TrimSpace(`
Start, list and stop private database servers to try things on.

Each server has a directory of its own under .rowmill in the working directory,
and a socket there that only you can reach. It runs until it is stopped. No
other server on this machine is touched.

To measure on a server that lasts only for one run, give bench the target
sandbox:mariadb instead.`),
		Example: "  rowmill sandbox start --target 'sandbox:mariadb?memory=64MB'\n" +
			"  rowmill sandbox stop --all",
	}, a.sandboxStartCommand(), a.sandboxListCommand(), a.sandboxStopCommand())
}

func (a sandboxes) sandboxStartCommand() *cobra.Command {
	var of string
	var asJSON bool
	c := &cobra.Command{
		Use:   "start [NAME | KIND?OPTIONS]",
		Short: "Start a private server that keeps running",
		Long: strings.TrimSpace(`
Start a private database server in the background, and print how to connect.

It gets its memory, redo log and durability from the target:

  sandbox:mariadb?memory=64MB&redo=512MB&durability=full&engine=rocksdb&port=auto&galera=3&set=name=value,...
  sandbox:mysql?memory=64MB&redo=512MB&durability=full&port=auto&replicas=1&set=name=value,...
  sandbox:postgres?memory=64MB&redo=512MB&durability=full&port=auto&fdw=3&set=name=value,...

  spider      with MariaDB, N further servers NAME-1 to NAME-N, whose tables this one
              can present as its own by Spider; they are started and stopped with it (0)
  fdw         the same with PostgreSQL, by postgres_fdw (0)
  replicas    N further servers NAME-1 to NAME-N that repeat this one's changes, in
              place of spider or fdw: MariaDB's and MySQL's by GTID, PostgreSQL's by
              streaming; they share its memory, and are started and stopped with it (0)
  galera      with MariaDB, a Galera cluster of N servers: this one and N-1 others, NAME-1
              and so on, in place of spider, fdw and replicas; they share its memory (0)
  semisync    true: a commit waits until a replica has received it (false)
  version     such as 9.7, 11.8 or 18: use an installed server of this version (the first
              server found)
  memory      buffer pool, RocksDB's block cache, or PostgreSQL's shared_buffers,
              beside which the kernel caches its files, too: PostgreSQL has no direct I/O
              (128MB; M is 1048576 bytes)
  redo        InnoDB's redo log, allocated on disk, or PostgreSQL's max_wal_size,
              by which it begins a checkpoint (512MB)
  durability  full: sync at each commit; relaxed: write at each commit, sync
              once a second; none: write and sync once a second; PostgreSQL has
              synchronous_commit off for relaxed, and fsync off, too, for none (full)
  engine      innodb, or rocksdb with MariaDB (innodb)
  port        auto: also listen on a free port of 127.0.0.1, with a password
              in a file (only the socket)
  set         further server variables (none); a comma in a value is %2C

A server is found on PATH, where packages put it, and below ~/.cache/rowmill,
where scripts/install.sh of rowmill's source unpacks further versions: the first
one, unless version= names another. root runs PostgreSQL as the account postgres or
nobody.

Without NAME, the server is named after its kind. A NAME that is a kind chooses it:
mariadb?spider=3 is short for --target sandbox:mariadb?spider=3. A sandbox that was
stopped with --keep-data, or has crashed, is started again with its data, and with
its earlier options unless a target is given.`),
		Example: "  rowmill sandbox start\n" +
			"  rowmill sandbox start small --target 'sandbox:mariadb?memory=64MB&redo=512MB'\n" +
			"  rowmill sandbox start 'mariadb?spider=3'",
		Args: cli.WantArgs(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			name, given := strings.Join(args, ""), c.Flags().Changed("target")
			kind, _, short := strings.Cut(name, "?")
			switch {
			case short && given:
				return cli.Usagef("rowmill sandbox start NAME --target TARGET", "%s and --target both say which server", name)
			case short:
				of, name, given = "sandbox:"+name, kind, true
			case !given && slices.Contains(sandbox.Kinds(), name):
				of = "sandbox:" + name
			}
			o, err := sandbox.ParseTarget(of)
			if err != nil {
				return cli.Usagef("rowmill sandbox start --target 'sandbox:mariadb?memory=64MB'", "%w", err)
			}
			name = cmp.Or(name, o.Kind)
			if err := sandbox.ValidName(name); err != nil {
				return cli.Usagef("rowmill sandbox start small", "%w", err)
			}
			if o.Keep != "" {
				return cli.Usagef("rowmill sandbox stop "+name+" --keep-data", "keep= is for servers of one run: this one is kept until it is stopped")
			}
			if !given {
				list, err := sandbox.List("")
				if err != nil {
					return err
				}
				if i := slices.IndexFunc(list, func(in sandbox.Instance) bool { return in.Name == name }); i >= 0 {
					o = list[i].Options
				}
			}
			return a.startSandbox(c.Context(), name, o, asJSON)
		},
	}
	c.Flags().StringVar(&of, "target", target.DefaultServer, "the server, with its memory and settings, as above")
	c.Flags().BoolVar(&asJSON, "json", false, "print as JSON (default false)")
	return c
}

func (a sandboxes) startSandbox(ctx context.Context, name string, o sandbox.Options, asJSON bool) error {
	info, err := sandbox.StartNamed(ctx, name, o, func(format string, args ...any) {
		fmt.Fprintf(a.Stderr, format+"\n", args...)
	})
	if errors.Is(err, sandbox.ErrRunning) {
		return engine.Hinted(err, "rowmill sandbox list, or another name: rowmill sandbox start NAME")
	}
	if err != nil {
		return err
	}
	in := sandbox.Instance{Name: name, State: sandbox.Running, Info: info}
	nodes, err := sandbox.NodesOf("", name)
	if err != nil {
		return err
	}
	if asJSON {
		d := in.Describe(time.Now())
		for _, n := range nodes {
			d.Nodes = append(d.Nodes, n.Describe(time.Now()))
		}
		return a.PrintJSON(d)
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "name\t%s\n", name)
	fmt.Fprintf(w, "server\t%s %s, process %d\n", info.Kind, info.Version, info.PID)
	fmt.Fprintf(w, "memory\t%s\n", sandbox.FormatSize(info.Options.OwnMemory()))
	fmt.Fprintf(w, "data\t%s\n", info.DataDir)
	fmt.Fprintf(w, "socket\t%s\n", info.Socket)
	fmt.Fprintf(w, "client\t%s\n", info.ClientCommand())
	fmt.Fprintf(w, "target\t%s\n", info.Target())
	if info.Port != 0 {
		fmt.Fprintf(w, "port\t127.0.0.1:%d, password in %s\n", info.Port, info.PasswordFile)
		fmt.Fprintf(w, "\t%s\n", info.TCPTarget())
	}
	for i, n := range nodes {
		fmt.Fprintf(w, "%s\t%s\n", n.Info.Name(i+1), n.Info.Target())
	}
	fmt.Fprintf(w, "stop\trowmill sandbox stop %s\n", name)
	return w.Flush()
}

func (a sandboxes) sandboxListCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the private servers of this directory",
		Long: "List the private servers under .rowmill in the working directory, with their state:\n" +
			"running, starting, stopped (its data kept), crashed.\n\n" +
			"Touches no server: it only reads the servers' directories.",
		Example: "  rowmill sandbox list\n" +
			"  rowmill sandbox list --json",
		Args: cli.WantArgs(0, 0),
		RunE: func(*cobra.Command, []string) error {
			list, err := sandbox.List("")
			if err != nil {
				return err
			}
			all := []sandbox.Description{}
			for _, in := range list {
				all = append(all, in.Describe(time.Now()))
			}
			if asJSON {
				return a.PrintFormat("rowmill.sandboxes/1", map[string]any{"sandboxes": all})
			}
			if len(list) == 0 {
				fmt.Fprintln(a.Stderr, "no sandboxes here; start one with: rowmill sandbox start")
				return nil
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tSTATE\tKIND\tVERSION\tPID\tMEMORY\tDISK\tUPTIME\tSOCKET")
			for _, d := range all {
				pid, uptime := "-", "-"
				if d.PID != 0 {
					pid = fmt.Sprint(d.PID)
				}
				if d.Uptime > 0 {
					uptime = time.Duration(d.Uptime * float64(time.Second)).Round(time.Second).String()
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.Name, d.State, d.Kind, cmp.Or(d.Version, "-"), pid,
					sandbox.FormatSize(d.Memory), figure.Bytes(d.Disk), uptime, cmp.Or(d.Socket, "-"))
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print as JSON (default false)")
	return c
}

func (a sandboxes) sandboxStopCommand() *cobra.Command {
	var all, yes, keepData bool
	c := &cobra.Command{
		Use:   "stop NAME | stop --all",
		Short: "Stop private servers and remove their data",
		Long: "Shut private servers down and remove their directories, with all data in them.\n\n" +
			"Shows what it would remove and asks, unless --yes is given. With --keep-data nothing\n" +
			"is removed, and 'rowmill sandbox start NAME' continues with the data.",
		Example: "  rowmill sandbox stop small --keep-data\n" +
			"  rowmill sandbox stop --all --yes",
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) == 1) == all || len(args) > 1 {
				return cli.Usagef("rowmill sandbox stop NAME, or rowmill sandbox stop --all", "stop takes one name, or --all")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			list, err := sandbox.List("")
			if err != nil {
				return err
			}
			if !all {
				list = slices.DeleteFunc(list, func(in sandbox.Instance) bool { return in.Name != args[0] && in.Head != args[0] })
				if len(list) == 0 {
					return engine.Hinted(fmt.Errorf("stop sandbox %s: there is none of this name", args[0]), "rowmill sandbox list")
				}
			}
			return a.stopSandboxes(c.Context(), list, yes, keepData)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "stop each sandbox of this directory (default false)")
	c.Flags().BoolVar(&yes, "yes", false, "don't ask (default false)")
	c.Flags().BoolVar(&keepData, "keep-data", false, "keep the data, to start again with them (default false)")
	return c
}

func (a sandboxes) stopSandboxes(ctx context.Context, list []sandbox.Instance, yes, keepData bool) error {
	if len(list) == 0 {
		fmt.Fprintln(a.Stderr, "no sandboxes here")
		return nil
	}
	if !keepData {
		var plan strings.Builder
		for _, in := range list {
			fmt.Fprintf(&plan, "removes %s: %s, %s %s with %s in %s\n", in.Name, in.State, in.Kind, in.Version, figure.Bytes(in.Bytes), in.Dir)
		}
		if !yes {
			plan.WriteString("--keep-data stops a server and keeps its data.\n")
		}
		if err := a.Confirm(ctx, plan.String(), yes); err != nil {
			return err
		}
	}
	if keepData {
		fmt.Fprintln(a.Stderr, "stopping: a server whose data are kept first writes all of its dirty pages, up to 5 minutes")
	}
	return sandbox.StopAll(ctx, list, keepData, func(in sandbox.Instance) {
		if keepData {
			fmt.Fprintf(a.Stdout, "stopped %s, data kept in %s\n", in.Name, in.Dir)
		} else {
			fmt.Fprintf(a.Stdout, "stopped and removed %s\n", in.Name)
		}
	})
}
