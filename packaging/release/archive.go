package main

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// A file is an entry of an archive, a package or an image.
type file struct {
	path   string
	mode   int64
	data   []byte
	folder bool
	owner  int  // user and group, in an image
	config bool // kept by a package manager if it was changed
}

// writeTar writes files in their order.
func writeTar(w io.Writer, files []file, at time.Time) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{Name: f.path, Mode: f.mode, Size: int64(len(f.data)), ModTime: at, Uid: f.owner, Gid: f.owner, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if f.folder {
			h.Name, h.Typeflag = f.path+"/", tar.TypeDir
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	return t.Close()
}

// archive writes rowmill-VERSION-OS-ARCH.tar.gz: the binary, its man pages and completions,
// and the files of packaging/ that an operator installs.
func (r *release) archive(s system, binary string, t *texts) error {
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	files := []file{{path: "rowmill", mode: 0o755, data: program}}
	for _, name := range slices.Sorted(maps.Keys(t.pages)) {
		files = append(files, file{path: "man/" + name, mode: 0o644, data: t.pages[name]})
	}
	for _, shell := range slices.Sorted(maps.Keys(t.completions)) {
		files = append(files, file{path: "completions/rowmill." + shell, mode: 0o644, data: t.completions[shell]})
	}
	from := []string{"CHANGELOG.md", "LICENSE", "README.md", "packaging/grafana/rowmill.json", "packaging/prometheus/rowmill.rules.yml"}
	if s.os == "linux" {
		from = append(from, units...)
		from = append(from, "packaging/systemd/rowmill.sysusers")
	}
	for _, name := range from {
		text, err := r.source(name)
		if err != nil {
			return err
		}
		files = append(files, file{path: strings.TrimPrefix(name, "packaging/"), mode: 0o644, data: text})
	}
	folder := "rowmill-" + r.version + "-" + s.String()
	for i := range files {
		files[i].path = path.Join(folder, files[i].path)
	}
	return r.create(folder+".tar.gz", func(f *os.File) error {
		z := gzip.NewWriter(f) // a higher level takes three times as long for 1% less
		if err := writeTar(z, files, r.time); err != nil {
			return err
		}
		return z.Close()
	})
}
