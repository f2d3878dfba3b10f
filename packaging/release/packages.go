package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/apk"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

const (
	// unnamed is the maintainer of packages without ROWMILL_MAINTAINER: package managers ask for a
	// name and an address, and no mail reaches a domain below .invalid.
	unnamed     = "The rowmill authors <rowmill@rowmill.invalid>"
	homepage    = "https://github.com/rowmill/rowmill"
	description = "keeps the inserts of large SQL tables fast\n" +
		"rowmill partitions a table by time so that inserts touch only pages in\n" +
		"memory, maintains the partitions, answers queries over them on all cores,\n" +
		"and measures database servers."
)

// units are the files of systemd, which an operator changes by drop-ins.
var units = []string{"packaging/systemd/rowmill@.service", "packaging/systemd/rowmill-once@.service", "packaging/systemd/rowmill-once@.timer"}

// completions returns where a kind of package has the completions, by shell.
func completions(format string) map[string]string {
	zsh := "site-functions"
	if format == "deb" {
		zsh = "vendor-completions"
	}
	return map[string]string{"bash": "/usr/share/bash-completion/completions/rowmill", "zsh": "/usr/share/zsh/" + zsh + "/_rowmill",
		"fish": "/usr/share/fish/vendor_completions.d/rowmill.fish"}
}

// installed returns the files of a package. Those in /etc/rowmill are kept on upgrade.
func (r *release) installed(format string, t *texts) ([]file, error) {
	out := []file{{path: "/etc/rowmill", mode: 0o755, folder: true}}
	var err error
	add := func(path, source string, mode int64, config bool) {
		var text []byte
		if err == nil {
			text, err = r.source(source)
			out = append(out, file{path: path, mode: mode, data: text, config: config})
		}
	}
	add("/etc/rowmill/my.cnf", "packaging/etc/my.cnf", 0o600, true)
	add("/etc/rowmill/pgpass", "packaging/etc/pgpass", 0o600, true)
	for _, unit := range units {
		add("/usr/lib/systemd/system/"+filepath.Base(unit), unit, 0o644, false)
	}
	add("/usr/lib/sysusers.d/rowmill.conf", "packaging/systemd/rowmill.sysusers", 0o644, false)
	add("/usr/share/doc/rowmill/README.md", "README.md", 0o644, false)
	add("/usr/share/doc/rowmill/copyright", "LICENSE", 0o644, false)
	add("/usr/share/doc/rowmill/examples/rowmill.json", "packaging/grafana/rowmill.json", 0o644, false)
	add("/usr/share/doc/rowmill/examples/rowmill.rules.yml", "packaging/prometheus/rowmill.rules.yml", 0o644, false)
	if err != nil {
		return nil, err
	}
	changes, err := r.source("CHANGELOG.md")
	if err != nil {
		return nil, err
	}
	out = append(out, file{path: "/usr/share/doc/rowmill/CHANGELOG.md.gz", mode: 0o644, data: compressed(changes)})
	if format == "deb" {
		out = append(out, file{path: "/usr/share/doc/rowmill/changelog.gz", mode: 0o644, data: compressed(r.debianChangelog())})
	}
	for _, name := range slices.Sorted(maps.Keys(t.pages)) {
		out = append(out, file{path: "/usr/share/man/man1/" + name + ".gz", mode: 0o644, data: compressed(t.pages[name])})
	}
	for _, shell := range slices.Sorted(maps.Keys(t.completions)) {
		out = append(out, file{path: completions(format)[shell], mode: 0o644, data: t.completions[shell]})
	}
	return out, nil
}

// debianChangelog has one entry: Debian asks for the file, and CHANGELOG.md has the changes.
func (r *release) debianChangelog() []byte {
	version, metadata, prerelease := r.packageVersion()
	if metadata != "" {
		version += "+" + metadata
	}
	if prerelease != "" {
		version += "~" + prerelease
	}
	return fmt.Appendf(nil, "rowmill (%s) unstable; urgency=medium\n\n  * rowmill %s. CHANGELOG.md has the changes.\n\n -- %s  %s\n",
		version, r.version, r.maintainer, r.time.Format(time.RFC1123Z))
}

// packages writes a deb, an rpm and an apk package.
func (r *release) packages(s system, binary string, t *texts) error {
	for _, format := range []string{"deb", "rpm", "apk"} {
		if err := r.packageAs(format, s, binary, t); err != nil {
			return fmt.Errorf("%s for %s: %w", format, s.arch, err)
		}
	}
	return nil
}

func (r *release) packageAs(format string, s system, binary string, t *texts) error {
	list, err := r.installed(format, t)
	if err != nil {
		return err
	}
	// The packagers read files, so the texts are written to a folder.
	folder := filepath.Join(r.work, format+"-"+s.arch)
	contents := files.Contents{{Source: binary, Destination: "/usr/bin/rowmill", FileInfo: r.info(0o755)}}
	for _, f := range list {
		c := &files.Content{Destination: f.path, FileInfo: r.info(os.FileMode(f.mode))}
		if f.folder {
			c.Type = files.TypeDir
		} else {
			c.Source = filepath.Join(folder, f.path)
			if err := os.MkdirAll(filepath.Dir(c.Source), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(c.Source, f.data, 0o600); err != nil {
				return err
			}
		}
		if f.config {
			c.Type = files.TypeConfigNoReplace
		}
		contents = append(contents, c)
	}
	scripts := filepath.Join(r.root, "packaging", "scripts")
	version, metadata, prerelease := r.packageVersion()
	summary, _, _ := strings.Cut(description, "\n")
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "rowmill", Arch: s.arch, Platform: s.os, Version: version, VersionSchema: "none", VersionMetadata: metadata, Prerelease: prerelease,
		Section: "database", Priority: "optional", Maintainer: r.maintainer, Description: description, Homepage: homepage, License: "MIT",
		DisableGlobbing: true, MTime: r.time,
		Overridables: nfpm.Overridables{
			Contents: contents, Umask: 0o022, Recommends: []string{"ca-certificates"},
			Scripts: nfpm.Scripts{PostInstall: filepath.Join(scripts, "installed.sh"), PreRemove: filepath.Join(scripts, "removed.sh")},
			RPM:     nfpm.RPM{BuildHost: "localhost", Compression: "gzip:6", Summary: summary, Group: "Applications/Databases"},
		},
	})
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	return r.create(packager.ConventionalFileName(info), func(f *os.File) error { return packager.Package(info, f) })
}

// info returns what a package says about a file.
func (r *release) info(mode os.FileMode) *files.ContentFileInfo {
	return &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.time}
}
