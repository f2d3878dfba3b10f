// Command testservers runs a command, usually `go test ./...`, beside one
// database server of each kind, which the tests of all packages share (package
// testdb). Servers and temporary files are kept in memory if there is room. It
// exits with the command's exit status, and leaves no server and no file.
//
//	go run ./internal/testservers [-kinds LIST] go test ./...
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/rowmill/rowmill/internal/testdb"
)

// usual are the servers that most tests use. Other servers are started by the
// test processes that need them.
const usual = "mariadb,mysql,postgres,mariadb?engine=rocksdb"

func main() { os.Exit(run(os.Args[1:])) }

// run returns the exit status of the command.
func run(args []string) int {
	flags := flag.NewFlagSet("testservers", flag.ContinueOnError)
	list := flags.String("kinds", usual, "start a server of each of these `kinds`; none for the directory in memory alone")
	if flags.Parse(args) != nil {
		return 2
	}
	if flags.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "testservers: no command; try: go run ./internal/testservers go test ./...")
		return 2
	}
	var kinds []string
	if *list != "" {
		kinds = strings.Split(*list, ",")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	status, err := beside(ctx, kinds, flags.Args())
	if err != nil {
		fmt.Fprintf(os.Stderr, "testservers: %v\n", err)
		return max(status, 1)
	}
	return status
}

// beside runs a command beside servers of the given kinds.
func beside(ctx context.Context, kinds, args []string) (status int, err error) {
	dir, err := testdb.TempDir()
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	begin := time.Now()
	stop, err := testdb.Serve(ctx, dir, kinds)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if len(kinds) > 0 {
		fmt.Fprintf(os.Stderr, "testservers: up after %v\n", time.Since(begin).Round(time.Millisecond))
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	// An interrupted `go test` forwards the signal to the tests.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), testdb.ServersVariable+"="+dir, "TMPDIR="+dir)
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() >= 0 {
			return exit.ExitCode(), nil
		}
		return 1, fmt.Errorf("run %s: %w", args[0], err)
	}
	return 0, nil
}
