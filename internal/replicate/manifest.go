// Package replicate copies a directory through a chain of hosts: the source sends it to the first
// host, and each host writes what it receives and sends it on to the next host.
//
// A copy consists of a manifest, which lists the files, and of the files' bytes in this order, cut
// into chunks of 4 MiB. A host that has the first n chunks on disk tells its sender n. The sender
// then sends the other chunks, from its own directory. So the same code serves the source, a host
// that sends on, a host after a crash, and a host whose sender has died. Each keeps nothing but its
// directory and a file with the hashes of the chunks.
//
// Send and Receive are the two ends; both use feeder to send to the host after them. Before a side
// sends any data, the other side must have proved, over TLS, that it knows the token. A manifest is
// checked before anything is written, and files are opened so that no path leaves the directory.
// The directory that Send copies must not change meanwhile. Send copies files and directories, with
// their permissions and times, but no symbolic links, and no owners.
//
//	go replicate.Receive(ctx, listener, "/var/lib/mysql", &replicate.Board{}, replicate.ReceiveOptions{Token: token, Say: log.Print})
//	result, err := replicate.Send(ctx, "/srv/mysql", []string{"host1:9189"}, &replicate.Board{}, options)
package replicate

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"unicode/utf8"

	"lukechampine.com/blake3"
)

// chunkSize is the number of bytes that are sent, checked, written and acknowledged at a time. A
// slow network takes a tenth of a second for a chunk, and the hashes of all chunks are small beside
// the data (8 MB for a TB).
const chunkSize = 4 << 20

// stateName is the file in a receiver's directory that says how far its copy is.
const stateName = ".rowmill-copy"

// A hash is a BLAKE3 of 256 bits. The zero hash is unknown.
type hash [32]byte

func (h hash) String() string { return hex.EncodeToString(h[:]) }

// An entry is a file or a directory of a copy.
type entry struct {
	Path string `json:"path"` // relative, with slashes
	Dir  bool   `json:"dir,omitempty"`
	Mode uint32 `json:"mode"` // permissions only
	Size int64  `json:"size,omitempty"`
	// Modified is in nanoseconds since 1970, 0 for a directory. Because of Modified, a source that
	// changes between two runs gets another manifest.
	Modified int64 `json:"modified,omitempty"`
}

// A manifest is what a directory holds. Its files, one after the other, are one sequence of bytes
// that is cut into chunks.
type manifest struct {
	Entries []entry
	starts  []int64 // where each entry begins in the sequence
	size    int64
	hash    hash
	files   int
}

// scan lists a directory. Files that are named in skip, by their path, are left out.
func scan(root *os.Root, skip []string) (*manifest, error) {
	var entries []entry
	err := fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		e := entry{Path: path, Dir: d.IsDir(), Mode: uint32(info.Mode().Perm())}
		switch {
		case path == stateName || path == lostAndFound || slices.Contains(skip, path):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.Type()&fs.ModeSocket != 0:
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			to, _ := root.Readlink(path)
			return fmt.Errorf("%s is a symbolic link, to %s: what is outside of the directory is not copied", path, to)
		case !d.IsDir() && !d.Type().IsRegular():
			return fmt.Errorf("%s is neither a file nor a directory", path)
		case !d.IsDir():
			e.Size, e.Modified = info.Size(), info.ModTime().UnixNano()
		}
		entries = append(entries, e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return newManifest(entries)
}

// lostAndFound is a directory at the top of a file system.
const lostAndFound = "lost+found"

// Limits of a copy: 1 PiB, which is more than fits on a machine, and as many entries as fit in a
// frame.
const (
	mostSize    = 1 << 50
	mostEntries = 10_000_000
)

// newManifest checks the entries, which a hostile sender may have made: no path may leave the
// directory, and the sizes must be possible.
func newManifest(entries []entry) (*manifest, error) {
	if len(entries) > mostEntries {
		return nil, fmt.Errorf("a copy of more than %d files and directories is refused", mostEntries)
	}
	m := &manifest{Entries: entries, starts: make([]int64, len(entries))}
	seen := make(map[string]bool, len(entries))
	for i, e := range entries {
		local := filepath.FromSlash(e.Path)
		switch {
		case !utf8.ValidString(e.Path):
			return nil, fmt.Errorf("the name of %q is not UTF-8: it can't be copied; rename or remove it", e.Path)
		case !filepath.IsLocal(local) || filepath.Clean(local) != local:
			return nil, fmt.Errorf("the path %q is refused: it could leave the directory", e.Path)
		case seen[e.Path] || e.Path == stateName || !e.Dir && e.Path == ".":
			return nil, fmt.Errorf("the path %q is refused", e.Path)
		case e.Size < 0 || e.Dir && e.Size != 0 || e.Size >= mostSize-m.size:
			return nil, fmt.Errorf("%q has an invalid size", e.Path)
		case e.Mode&^0o777 != 0:
			return nil, fmt.Errorf("%q has invalid permissions", e.Path)
		}
		seen[e.Path] = true
		m.starts[i] = m.size
		m.size += e.Size
		if !e.Dir {
			m.files++
		}
	}
	if m.files == 0 {
		return nil, errors.New("there are no files to copy")
	}
	text, err := json.Marshal(entries)
	if err != nil {
		return nil, err
	}
	m.hash = blake3.Sum256(text)
	return m, nil
}

func (m *manifest) chunks() int { return int((m.size + chunkSize - 1) / chunkSize) }

// end returns the number of bytes in the first n chunks.
func (m *manifest) end(n int) int64 { return min(int64(n)*chunkSize, m.size) }

// each splits a chunk into the parts that lie in one file each. It calls fn for each part with its
// file, its offset in the file, and the slice of data for it. data is as long as the chunk.
func (m *manifest) each(chunk int, data []byte, fn func(e *entry, at int64, buf []byte) error) error {
	from, to := m.end(chunk), m.end(chunk+1)
	first := sort.Search(len(m.starts), func(i int) bool { return m.starts[i]+m.Entries[i].Size > from })
	for i := first; i < len(m.Entries) && m.starts[i] < to; i++ {
		e := &m.Entries[i]
		a, b := max(m.starts[i], from), min(m.starts[i]+e.Size, to)
		if a == b {
			continue
		}
		if err := fn(e, a-m.starts[i], data[a-from:b-from]); err != nil {
			return err
		}
	}
	return nil
}
