package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/monitor"
	"github.com/rowmill/rowmill/internal/replicate"
	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/textfile"
)

// copyFlags are the flags of `rowmill copy send` and `rowmill copy receive`.
type copyFlags struct {
	replicate.Options
	tokenFile, limit, stage string
	listen, replicaOf       string
	metrics                 string
	dry, withJSON           bool
}

// copies are the verbs of `rowmill copy`.
type copies struct{ *app }

func (a copies) copyCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "copy",
		Short: "Copy a server's data to many hosts, in a chain",
		Long: "Copy a server's data to many hosts, in a chain: each host writes what it receives to\n" +
			"its disk, and sends it on to the next one, so that many copies take hardly longer than\n" +
			"one.\n\n" +
			"Start rowmill copy receive on each host, then rowmill copy send at the source. All\n" +
			"connections have TLS, and both sides prove that they know a common token; no\n" +
			"certificates are needed. Each chunk of 4 MiB is checked by its BLAKE3 hash.\n\n" +
			"After a kill, the same command continues where the copy on disk ends. A host that\n" +
			"doesn't answer, or whose disk is full, is left out and named, and the others get their\n" +
			"copies.",
		Example: "  openssl rand -hex 32 > token; chmod 600 token\n" +
			"  rowmill copy receive /var/lib/mysql --listen 0.0.0.0:9189 --token-file token\n" +
			"  rowmill copy send /srv/mysql host1:9189 host2:9189 --token-file token",
	}, a.copySendCommand(), a.copyReceiveCommand())
}

func (a copies) copySendCommand() *cobra.Command {
	var f copyFlags
	c := &cobra.Command{
		Use:   "send SOURCE HOST:PORT...",
		Short: "Send a server's data to the hosts of a chain",
		Long: "Send a server's data to the hosts of a chain, on which rowmill copy receive runs.\n\n" +
			"SOURCE is the data directory of a stopped MariaDB, MySQL or PostgreSQL server; the\n" +
			"directory of a running server is refused. Or SOURCE is the URL of a running server. A\n" +
			"backup is then made first: of MariaDB by mariadb-backup, of PostgreSQL by pg_basebackup\n" +
			"(and checked by pg_verifybackup), of a SQLite file by VACUUM INTO. The backup is removed\n" +
			"once all hosts have their copy. A running MySQL server is refused: Debian has no program\n" +
			"for its backup. Symbolic links are refused, and so are tablespaces outside of the\n" +
			"directory.\n\n" +
			"The exit code is 0 if each host has its copy, with the same BLAKE3 hash as the source,\n" +
			"and otherwise 1. For the hosts that failed, run the same command again: it continues\n" +
			"their copies.",
		Example: "  rowmill copy send /srv/mysql host1:9189 host2:9189 --token-file token\n" +
			"  rowmill copy send mariadb://root@localhost/?socket=/run/mysqld/mysqld.sock host1:9189 --token-file token --zstd\n" +
			"  rowmill copy send /srv/mysql host1:9189 host2:9189 --token-file token --dry-run",
		Args: cli.WantArgs(2, -1),
		RunE: func(c *cobra.Command, args []string) error { return a.copySend(c.Context(), args[0], args[1:], f) },
	}
	flags := c.Flags()
	f.defineCommon(flags)
	flags.BoolVar(&f.Zstd, "zstd", false, "compress on the network (default false)")
	flags.StringVar(&f.limit, "limit", "", "the most that each host sends in a second: a `SIZE` such as 100MB/s (default no limit)")
	flags.DurationVar(&f.Patience, "patience", 30*time.Second, "how long a host that doesn't answer is tried before it is left out")
	flags.StringVar(&f.stage, "stage", "", "`DIRECTORY` for the backup of a running server (default one in .rowmill in the working directory)")
	flags.BoolVar(&f.dry, "dry-run", false, "ask each host whether it can be reached and has enough space, and send nothing (default false)")
	return c
}

func (a copies) copyReceiveCommand() *cobra.Command {
	var f copyFlags
	c := &cobra.Command{
		Use:   "receive DIRECTORY",
		Short: "Receive a copy, and pass it on to the next host",
		Long: "Receive a copy in a directory, and send it on to the next host of the chain; the source\n" +
			"says which host that is. The directory is created if it is missing. Otherwise it must be\n" +
			"empty or have part of the copy from an earlier run. That part is checked by its hashes,\n" +
			"and the copy continues.\n\n" +
			"Until the copy is complete, the command waits for its sender without a time limit, also\n" +
			"after the connection is lost. It ends when the copy is on disk and the source has\n" +
			"confirmed that all hosts are done. If the sender of a complete copy is lost and doesn't\n" +
			"come back, the command fails, because the copy isn't confirmed: run the same send and\n" +
			"receive again to confirm it. The copy of a MariaDB or MySQL server has a file\n" +
			"rowmill-replica.sql; its statements start the copy as a replica at the right position.\n" +
			"The copy of PostgreSQL is a standby if --replica-of is given. The files belong to the\n" +
			"account that runs this command.",
		Example: "  rowmill copy receive /var/lib/mysql --listen 0.0.0.0:9189 --token-file token\n" +
			"  rowmill copy receive /var/lib/postgresql/15/main --listen 0.0.0.0:9189 --token-file token --replica-of postgres://replicator@db1/",
		Args: cli.WantArgs(1, 1),
		RunE: func(c *cobra.Command, args []string) error { return a.copyReceive(c.Context(), args[0], f) },
	}
	flags := c.Flags()
	f.defineCommon(flags)
	flags.StringVar(&f.listen, "listen", "", "wait for the sender at `ADDRESS`: :9189 is on loopback, 0.0.0.0:9189 on all interfaces")
	flags.StringVar(&f.replicaOf, "replica-of", "", "`URL` of the server that the copy is to replicate, with the account for replication (default none)")
	return c
}

func (f *copyFlags) defineCommon(flags *pflag.FlagSet) {
	flags.StringVar(&f.tokenFile, "token-file", "", "`FILE` with the secret that all hosts share, at least 16 characters; only the file's owner may be able to read it")
	flags.StringVar(&f.metrics, "listen-metrics", "", "serve a page and /metrics at `ADDRESS`: :9188 is on loopback (default nowhere)")
	flags.BoolVar(&f.withJSON, "json", false, "print the result as JSON (default false)")
}

// token returns the secret of the hosts.
func (f *copyFlags) token() (string, error) {
	if f.tokenFile == "" {
		return "", cli.Usagef("openssl rand -hex 32 > token; chmod 600 token, the same on each host", "--token-file is missing: the file with what all hosts know")
	}
	return replicate.ReadToken(f.tokenFile)
}

func (a copies) copySend(ctx context.Context, source string, hosts []string, f copyFlags) (err error) {
	if err := replicate.CheckHosts(hosts); err != nil {
		return cli.Usagef("rowmill copy send "+source+" host1:9189 host2:9189", "%w", err)
	}
	if f.Patience < time.Second {
		return cli.Usagef("--patience 30s", "--patience %v: want 1s or more", f.Patience)
	}
	if f.limit != "" {
		if f.Limit, err = engine.ParseBytes(strings.TrimSuffix(f.limit, "/s")); err != nil || f.Limit == 0 {
			return cli.Usagef("--limit 100MB/s", "--limit %q: want a size in a second", f.limit)
		}
	}
	token, err := f.token()
	if err != nil {
		return err
	}
	stage, err := copyStage(source, f)
	if err != nil {
		return err
	}
	if f.dry {
		return a.copyAsk(ctx, source, stage, hosts, token, f)
	}
	dir := source
	if stage != "" {
		lock, err := lockStage(source, stage)
		if err != nil {
			return err
		}
		defer lock.Close() // closing an empty file can't lose data
		if dir, err = a.copyBackup(ctx, source, stage, lock); err != nil {
			return cli.Stopped(ctx, err, "")
		}
	}
	skip, known, err := target.Stopped(dir)
	if err != nil {
		return err
	}
	if !known {
		a.Say(dir + " is not the data directory of a server that rowmill knows: its files are copied as they are")
	}
	board := &replicate.Board{}
	res, err := withBoard(ctx, a.app, board, f, func(ctx context.Context) (replicate.Result, error) {
		return replicate.Send(ctx, dir, hosts, board, replicate.SendOptions{Options: f.Options, Token: token, Skip: skip, Say: a.Say})
	})
	switch {
	case stage != "" && err == nil:
		err = os.RemoveAll(stage)
	case stage != "":
		a.Say(fmt.Sprintf("the backup stays in %s, and the next run sends it; without one, remove that", stage))
	}
	return errors.Join(cli.Stopped(ctx, err, "the same command, which continues"), a.printCopy(res, f))
}

// copyStage returns the directory for the backup of a source, a different one for each source; ""
// if the source is a directory itself.
func copyStage(source string, f copyFlags) (string, error) {
	err := target.Check(source)
	switch {
	case err == nil:
		return filepath.Abs(filepath.Join(cmp.Or(f.stage, sandbox.DefaultRoot), fmt.Sprintf("copy-%x", sha256.Sum256([]byte(source)))[:13]))
	case strings.Contains(source, "://"):
		return "", err // without the URL, which may have a password
	}
	if info, missing := os.Stat(source); missing != nil || !info.IsDir() {
		return "", cli.Usagef("a directory, or a URL such as sqlite:PATH", "%s is not a directory, and no URL of a server: %w", source, err)
	}
	return "", nil
}

// oldBackup is an age: an older backup, from an earlier run, is replaced by a new one.
const oldBackup = 24 * time.Hour

// lockStage makes the directory for a backup. It locks the directory for this process and the
// programs that this process starts.
func lockStage(source, stage string) (*os.File, error) {
	if err := os.MkdirAll(stage, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.Create(filepath.Join(stage, "lock"))
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(engine.Hinted(fmt.Errorf("another process makes or sends a backup of %s in %s: %w", source, stage, err), "one rowmill copy send with all hosts, or another --stage"), lock.Close())
	}
	return lock, nil
}

// copyBackup makes a backup of a running server. If an earlier run has left a backup that is not
// old, that backup is used again: a copy to a host that has received only a part of the backup can
// continue.
func (a copies) copyBackup(ctx context.Context, source, stage string, lock *os.File) (dir string, err error) {
	dir, private, complete := filepath.Join(stage, "data"), filepath.Join(stage, "private"), filepath.Join(stage, "complete")
	switch info, err := os.Stat(complete); {
	case err == nil && time.Since(info.ModTime()) < oldBackup:
		a.Say(fmt.Sprintf("sends the backup of %s of %s UTC that an earlier run has left in %s; remove that for a new one", source, info.ModTime().UTC().Format("2006-01-02 15:04"), stage))
		return dir, nil
	case err == nil:
		a.Say(fmt.Sprintf("the backup that an earlier run has left in %s is of %s UTC: a new one is made", stage, info.ModTime().UTC().Format("2006-01-02 15:04")))
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	if err := errors.Join(os.RemoveAll(complete), os.RemoveAll(dir), os.RemoveAll(private), os.Mkdir(dir, 0o700), os.Mkdir(private, 0o700)); err != nil {
		return "", err
	}
	b, err := target.PlanBackup(ctx, source, dir, private)
	if err == nil {
		err = b.Run(ctx, lock, a.Say)
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(stage))
	}
	if err := os.RemoveAll(private); err != nil {
		return "", err
	}
	return dir, textfile.Replace(complete, func(w io.Writer) error { _, err := io.WriteString(w, source+"\n"); return err })
}

// copyPlanned returns the size and the number of the files that would be sent; 0 if unknown.
func copyPlanned(ctx context.Context, source, stage string) (res replicate.Result, err error) {
	if stage == "" {
		skip, _, err := target.Stopped(source)
		if err != nil {
			return res, err
		}
		return replicate.Scan(source, skip)
	}
	private, err := os.MkdirTemp("", "rowmill-copy-")
	if err != nil {
		return res, err
	}
	b, err := target.PlanBackup(ctx, source, stage, private)
	if err == nil {
		res.Bytes = b.Bytes
	}
	return res, errors.Join(err, os.RemoveAll(private))
}

// copyAsk prints what would be sent, and the space that each host has for it.
func (a copies) copyAsk(ctx context.Context, source, stage string, hosts []string, token string, f copyFlags) error {
	res, err := copyPlanned(ctx, source, stage)
	if err != nil {
		return err
	}
	list := replicate.Ask(ctx, hosts, res.Bytes, token)
	var failed []error
	for _, p := range list {
		if p.Error != "" {
			failed = append(failed, fmt.Errorf("%s: %s", p.Host, p.Error))
		}
	}
	if f.withJSON {
		err = a.PrintJSON(map[string]any{"bytes": res.Bytes, "files": res.Files, "hosts": list})
		return errors.Join(err, errors.Join(failed...))
	}
	if stage != "" {
		size := ""
		if res.Bytes == 0 {
			size = "; its size, and so whether it has space, is not known before"
		}
		fmt.Fprintf(a.Stdout, "%s: a backup is made first, in %s%s\n", source, stage, size)
	} else {
		fmt.Fprintf(a.Stdout, "%s: %s, %s\n", source, figure.Plural(res.Files, "file"), figure.Bytes(res.Bytes))
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	for _, p := range list {
		free := figure.None
		if p.Free >= 0 {
			free = figure.Bytes(p.Free) + " free"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", p.Host, free, cmp.Or(p.Error, "could take it"))
	}
	return errors.Join(w.Flush(), errors.Join(failed...))
}

func (a copies) copyReceive(ctx context.Context, dir string, f copyFlags) error {
	if f.listen == "" {
		return cli.Usagef("--listen 0.0.0.0:9189", "--listen is missing: where the sender connects")
	}
	if err := onLoopback("listen", &f.listen); err != nil {
		return err
	}
	if f.replicaOf != "" {
		if err := target.Check(f.replicaOf); err != nil {
			return fmt.Errorf("--replica-of: %w", err)
		}
		if target.Host(f.replicaOf) == "" || !strings.Contains(f.replicaOf, "@") {
			return cli.Usagef("--replica-of postgres://USER@HOST/", "--replica-of %s: want the URL of a server, with the account that replicates", f.replicaOf)
		}
	}
	token, err := f.token()
	if err != nil {
		return err
	}
	l, err := a.listen("the sender of a copy", f.listen)
	if err != nil {
		return err
	}
	board := &replicate.Board{}
	res, err := withBoard(ctx, a.app, board, f, func(ctx context.Context) (replicate.Result, error) {
		return replicate.Receive(ctx, l, dir, board, replicate.ReceiveOptions{Token: token, Say: a.Say})
	})
	if err != nil {
		return cli.Stopped(ctx, err, "the same command, which continues")
	}
	if res.Earlier { // a server may use the copy already
		a.Say(dir + " has this copy from an earlier run, and is left as it is")
		return a.printCopy(res, f)
	}
	left, err := target.MakeReplica(dir, f.replicaOf)
	for _, line := range left {
		a.Say(line)
	}
	return errors.Join(err, a.printCopy(res, f))
}

// withBoard runs do. Meanwhile it shows the progress that the board knows, as a line on stderr and,
// with --listen-metrics, also as a page.
func withBoard(ctx context.Context, a *app, board *replicate.Board, f copyFlags, do func(context.Context) (replicate.Result, error)) (res replicate.Result, err error) {
	if err := onLoopback("listen-metrics", &f.metrics); err != nil {
		return res, err
	}
	shown, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	var failed error
	if f.metrics != "" {
		l, err := a.listen("metrics and a page", f.metrics)
		if err != nil {
			stop()
			return res, err
		}
		all.Go(func() { failed = monitor.ServeOn(shown, l, board.Handler()) })
	}
	end := a.Meanwhile(a.EveryTenth(), board.Line)
	res, err = do(ctx)
	end()
	stop()
	all.Wait()
	return res, errors.Join(err, failed)
}

// printCopy prints the result of a copy. If the copy was stopped, there is no result to print.
func (a copies) printCopy(res replicate.Result, f copyFlags) error {
	switch {
	case res.Hash == "":
		return nil
	case f.withJSON:
		return a.PrintJSON(res)
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	for _, h := range res.Hosts {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s sent again\t%s\n", h.Host, h.State, figure.Bytes(h.Bytes), figure.Bytes(h.SentAgain), h.Reason)
	}
	err := w.Flush()
	fmt.Fprintf(a.Stdout, "%s, %s in %s, %s/s; BLAKE3 %s\n", figure.Plural(res.Files, "file"), figure.Bytes(res.Bytes), figure.Seconds(res.Seconds),
		figure.Bytes(float64(res.Bytes)/res.Seconds), res.Hash)
	return err
}
