package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/cli"
)

// version, commit and date can be set by -ldflags "-X main.version=...", for builds without git;
// the Makefile sets the version. Without them, Go's build information is used. The date is the
// commit's date, in RFC 3339.
var version, commit, date string

// built describes a build. Commit and Date are empty if unknown, as after `go install` of
// a released version; a commit ends with "+dirty" if the tree had changes.
type built struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Date    string `json:"date,omitempty"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func thisBuild() built {
	b := built{Version: version, Commit: commit, Date: date, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.fill(info)
	}
	b.Version = cmp.Or(b.Version, "(devel)")
	return b
}

// fill sets the empty fields of b from Go's build information.
func (b *built) fill(info *debug.BuildInfo) {
	b.Version = cmp.Or(b.Version, info.Main.Version)
	if b.Commit != "" {
		return
	}
	vcs := map[string]string{}
	for _, s := range info.Settings {
		vcs[s.Key] = s.Value
	}
	b.Commit, b.Date = vcs["vcs.revision"], vcs["vcs.time"]
	if b.Commit != "" && vcs["vcs.modified"] == "true" {
		b.Commit += "+dirty"
	}
}

// versionText returns the version as shown to users.
func versionText() string {
	b := thisBuild()
	text := fmt.Sprintf("rowmill %s (%s %s/%s)", b.Version, b.Go, b.OS, b.Arch)
	if b.Commit != "" {
		text += fmt.Sprintf("\ncommit %s", b.Commit)
		if b.Date != "" {
			text += " of " + b.Date
		}
	}
	return text
}

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print rowmill's version",
		Long: "Print rowmill's version, the Go release it was built with, its platform, and the\n" +
			"commit it was built from with that commit's date, if they are known.\n\nTouches no server.",
		Example: "  rowmill version\n" +
			"  rowmill version --json",
		Args: cli.WantArgs(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return json.NewEncoder(a.Stdout).Encode(thisBuild())
			}
			_, err := fmt.Fprintln(a.Stdout, versionText())
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return c
}
