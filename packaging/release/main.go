// Command release makes rowmill's packages from the commit that is checked out: archives for each
// system, deb, rpm and apk packages and a container image for Linux, and SHA256SUMS. All times in
// them are those of the commit, so that two runs with the same Go release write the same bytes.
//
//	go run . -out ../../dist -systems linux/amd64,linux/arm64
//
// It is a module of its own: rowmill doesn't depend on what makes its packages.
package main

import (
	"cmp"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	out := flag.String("out", "../../dist", "folder for the files, which is emptied")
	systems := flag.String("systems", runtime.GOOS+"/"+runtime.GOARCH, "systems to build for, as OS/ARCH,OS/ARCH")
	flag.Parse()
	if err := makeRelease("../..", *out, strings.Split(*systems, ",")); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

// A release is what all its files have in common.
type release struct {
	root       string // of rowmill's source
	out        string // folder of the files that are released
	work       string // folder for binaries
	version    string // as rowmill prints it
	commit     string
	maintainer string    // "NAME <ADDRESS>", in packages
	time       time.Time // of the commit: the time of each file
}

// A system is one that rowmill is built for.
type system struct{ os, arch string }

func (s system) String() string { return s.os + "-" + s.arch }

func makeRelease(root, out string, systems []string) error {
	r := &release{root: root, out: out, maintainer: cmp.Or(os.Getenv("ROWMILL_MAINTAINER"), unnamed)}
	if err := r.identify(); err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "rowmill-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	r.work = work
	fmt.Printf("rowmill %s of %s\n", r.version, r.time.Format(time.RFC3339))
	here, err := r.build(system{runtime.GOOS, runtime.GOARCH})
	if err != nil {
		return err
	}
	texts, err := r.texts(here)
	if err != nil {
		return err
	}
	// Links and compression take one core each.
	var each errgroup.Group
	each.SetLimit(runtime.NumCPU())
	images := make([]image, len(systems))
	for i, name := range systems {
		each.Go(func() (err error) {
			s := &images[i].system
			s.os, s.arch, _ = strings.Cut(name, "/")
			images[i].binary, err = r.files(*s, texts)
			return err
		})
	}
	if err := each.Wait(); err != nil {
		return err
	}
	images = slices.DeleteFunc(images, func(i image) bool { return i.os != "linux" })
	if len(images) > 0 {
		if err := r.image(images); err != nil {
			return err
		}
	}
	return r.sums()
}

// files writes the archive for a system, and, if the system is Linux, also its packages. It returns
// the path of the system's binary.
func (r *release) files(s system, t *texts) (binary string, err error) {
	if binary, err = r.build(s); err == nil {
		err = r.archive(s, binary, t)
	}
	if err == nil && s.os == "linux" {
		err = r.packages(s, binary, t)
	}
	return binary, err
}

// identify reads version, commit and time from git, or takes ROWMILL_VERSION,
// ROWMILL_COMMIT and SOURCE_DATE_EPOCH where there is no git.
func (r *release) identify() error {
	var err error
	ask := func(variable string, git ...string) string {
		if v := os.Getenv(variable); v != "" || err != nil {
			return v
		}
		var v []byte
		c := exec.Command("git", git...)
		c.Dir = r.root
		if v, err = c.Output(); err != nil {
			err = fmt.Errorf("set %s, or run in a clone: git %s: %w", variable, strings.Join(git, " "), err)
		}
		return strings.TrimSpace(string(v))
	}
	r.version = ask("ROWMILL_VERSION", "describe", "--tags", "--always", "--dirty")
	r.commit = ask("ROWMILL_COMMIT", "rev-parse", "HEAD")
	seconds := ask("SOURCE_DATE_EPOCH", "log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	r.time = time.Unix(n, 0).UTC()
	return nil
}

var semantic = regexp.MustCompile(`^v?([0-9]+\.[0-9]+\.[0-9]+)(?:-([0-9]+)-g[0-9a-f]+)?$`)

// packageVersion returns a version that package managers can compare. A tagged commit has the tag's
// version, such as 1.2.3. A later commit also has its time, which makes the version greater. Before
// the first tag, the version is less than that of any tag.
func (r *release) packageVersion() (version, metadata, prerelease string) {
	stamp := "git" + r.time.Format("20060102150405")
	m := semantic.FindStringSubmatch(r.version)
	switch {
	case m == nil:
		return "0.0.0", "", stamp
	case m[2] == "":
		return m[1], "", ""
	}
	return m[1], stamp, ""
}

// build builds rowmill for a system, and returns the path of its binary.
func (r *release) build(s system) (string, error) {
	binary := filepath.Join(r.work, "rowmill-"+s.String())
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	fmt.Printf("build %s\n", s)
	// timetzdata: a container without files has no time zones.
	c := exec.Command(cmp.Or(os.Getenv("GO"), "go"), "build", "-trimpath", "-buildvcs=false", "-tags", "timetzdata", "-o", binary,
		"-ldflags", fmt.Sprintf("-s -w -X main.version=%s -X main.commit=%s -X main.date=%s", r.version, r.commit, r.time.Format(time.RFC3339)),
		"./cmd/rowmill")
	c.Dir = r.root
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+s.os, "GOARCH="+s.arch)
	c.Stderr = os.Stderr
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("build %s: %w", s, err)
	}
	return binary, nil
}

// create writes a released file.
func (r *release) create(name string, write func(*os.File) error) error {
	f, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close() // the first error counts
		return fmt.Errorf("write %s: %w", name, err)
	}
	fmt.Printf("wrote %s\n", name)
	return f.Close()
}

// sums writes SHA256SUMS, for sha256sum --check.
func (r *release) sums() error {
	files, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(r.out, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(b), f.Name())
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(text.String()), 0o644)
}
