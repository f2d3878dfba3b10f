package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set from git by the Makefile. It is empty after a plain `go install`; the
// build information of Go is then used.
var version = ""

// versionString returns rowmill's version.
func versionString() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// versionText returns the version as shown to users.
func versionText() string {
	return fmt.Sprintf("rowmill %s (%s %s/%s)", versionString(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print rowmill's version",
		Long:  "Print rowmill's version, the Go release it was built with, and its platform.\n\nTouches no server.",
		Example: "  rowmill version\n" +
			"  rowmill version --json",
		Args: wantArgs(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return json.NewEncoder(a.stdout).Encode(map[string]string{
					"version": versionString(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
			}
			_, err := fmt.Fprintln(a.stdout, versionText())
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return c
}
