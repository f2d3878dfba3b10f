package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// account is the user and group rowmill of the image, as in packaging/Containerfile.
const account = 10001

// An image is the container image for a system.
type image struct {
	system
	binary string
}

// image writes rowmill-VERSION-image.tar, an OCI layout with an image for each architecture. Like
// the image of packaging/Containerfile, it runs rowmill, but it contains nothing else: no shell,
// no certificates of authorities.
func (r *release) image(images []image) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, i := range images {
		img, err := r.imageOf(i)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: i.os, Architecture: i.arch}}})
	}
	folder := filepath.Join(r.work, "image")
	written, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	name := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.version})
	if err := written.AppendIndex(index, name); err != nil {
		return err
	}
	var files []file
	err = filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			files = append(files, file{path: filepath.ToSlash(name), mode: 0o755, folder: true})
			return nil
		}
		data, err := os.ReadFile(path)
		files = append(files, file{path: filepath.ToSlash(name), mode: 0o644, data: data})
		return err
	})
	if err != nil {
		return err
	}
	return r.create("rowmill-"+r.version+"-image.tar", func(f *os.File) error { return writeTar(f, files, r.time) })
}

// imageOf returns the image of one architecture.
func (r *release) imageOf(i image) (v1.Image, error) {
	program, err := os.ReadFile(i.binary)
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	err = writeTar(&layer, []file{
		{path: "etc", mode: 0o755, folder: true},
		{path: "etc/passwd", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\nrowmill:x:%d:%[1]d::/var/lib/rowmill:/sbin/nologin\n", account)},
		{path: "etc/group", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:\nrowmill:x:%d:\n", account)},
		{path: "etc/rowmill", mode: 0o755, folder: true},
		{path: "tmp", mode: 0o1777, folder: true},
		{path: "usr", mode: 0o755, folder: true},
		{path: "usr/bin", mode: 0o755, folder: true},
		{path: "usr/bin/rowmill", mode: 0o755, data: program},
		{path: "var", mode: 0o755, folder: true},
		{path: "var/lib", mode: 0o755, folder: true},
		{path: "var/lib/rowmill", mode: 0o750, folder: true, owner: account},
	}, r.time)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil }
	l, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	base, err = mutate.ConfigFile(base, &v1.ConfigFile{OS: i.os, Architecture: i.arch, Created: v1.Time{Time: r.time}, RootFS: v1.RootFS{Type: "layers"}, Config: v1.Config{
		User: strconv.Itoa(account), WorkingDir: "/var/lib/rowmill", Env: []string{"PATH=/usr/bin", "HOME=/var/lib/rowmill"},
		Entrypoint: []string{"rowmill"}, Cmd: []string{"run", "/etc/rowmill/table.toml", "--listen", "0.0.0.0:9187"},
		ExposedPorts: map[string]struct{}{"9187/tcp": {}}, Volumes: map[string]struct{}{"/var/lib/rowmill": {}}, StopSignal: "SIGTERM",
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "rowmill", "status", "/etc/rowmill/table.toml"}, Interval: time.Minute,
			Timeout: 30 * time.Second, StartPeriod: 30 * time.Second, Retries: 3},
		Labels: map[string]string{"org.opencontainers.image.source": homepage, "org.opencontainers.image.version": r.version,
			"org.opencontainers.image.revision": r.commit, "org.opencontainers.image.licenses": "MIT"},
	}})
	if err != nil {
		return nil, err
	}
	return mutate.Append(base, mutate.Addendum{Layer: l, History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "rowmill release"}})
}
