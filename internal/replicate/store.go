package replicate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"lukechampine.com/blake3"
)

// A store is a directory as a sequence of chunks. The store of the source has all chunks. The store
// of a receiver has the chunks that have arrived, in order, and sends them on to the next receiver.
type store struct {
	root *os.Root
	m    *manifest
	// state has the manifest's hash and the hash of each chunk that was written; nil at the source.
	state *os.File

	mu     sync.Mutex
	hashes []hash        // of all chunks; at the source, zero for a chunk that was not read yet
	have   int           // the chunks that are written
	grown  chan struct{} // closed when have grows
}

func newStore(root *os.Root, m *manifest) *store {
	return &store{root: root, m: m, hashes: make([]hash, m.chunks()), grown: make(chan struct{})}
}

// openSource returns the store of a directory that has everything.
func openSource(dir string, skip []string) (*store, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	m, err := scan(root, skip)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, err), root.Close())
	}
	s := newStore(root, m)
	s.have = m.chunks()
	return s, nil
}

// openCopy returns the store of a receiver's directory for a manifest. It reads the chunks that an
// earlier run has written, and compares them with their hashes up to the first one that differs.
// After each chunk, it calls checked with the number of correct ones.
func openCopy(ctx context.Context, root *os.Root, m *manifest, checked func(n int)) (_ *store, err error) {
	state, err := root.OpenFile(stateName, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, state.Close())
		}
	}()
	was, err := io.ReadAll(state)
	if err != nil {
		return nil, err
	}
	fresh := len(was) < len(m.hash) // new, or killed before it was written
	if !fresh && hash(was) != m.hash {
		return nil, another(root)
	}
	was = was[min(len(was), len(m.hash)):]
	old := min(len(was)/len(hash{}), m.chunks()) // chunks that may be there
	if _, err := room(root, m.size-m.end(old)); err != nil {
		return nil, err
	}
	s := newStore(root, m)
	s.state = state
	if fresh {
		if _, err := s.state.WriteAt(m.hash[:], 0); err != nil {
			return nil, err
		}
	} else {
		data := make([]byte, chunkSize)
		for i := range old {
			want := hash(was[i*len(hash{}):])
			got, err := s.readFiles(i, data)
			if err != nil || blake3.Sum256(got) != want {
				break
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			s.hashes[i] = want
			s.have = i + 1
			checked(s.have)
		}
	}
	if _, err := room(root, m.size-m.end(s.have)); err != nil {
		return nil, err
	}
	if err := s.tidy(); err != nil {
		return nil, err
	}
	return s, s.makeFiles()
}

// tidy truncates each file that is longer than the source's file of that name, and refuses to go on
// if the directory has files that are not part of the copy.
func (s *store) tidy() error {
	want := make(map[string]*entry, len(s.m.Entries))
	for i := range s.m.Entries {
		want[s.m.Entries[i].Path] = &s.m.Entries[i]
	}
	return fs.WalkDir(s.root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		e := want[path]
		switch {
		case err != nil:
			return err
		case path == stateName, path == ".":
			return nil
		case path == lostAndFound && d.IsDir():
			return fs.SkipDir
		case e == nil || e.Dir != d.IsDir() || !e.Dir && !d.Type().IsRegular():
			return &refusal{Reason: fmt.Sprintf("%q in its directory is no part of the copy: remove it, or empty the directory", path)}
		case e.Dir:
			return nil
		}
		if info, err := d.Info(); err != nil || info.Size() <= e.Size {
			return err
		}
		f, err := s.root.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Truncate(e.Size), f.Close())
	})
}

// completeMark begins the state file of a copy that the source has confirmed. The hashes of
// manifest and copy follow. The copy may be in use: Receive neither reads nor writes it again.
const completeMark = "complete"

// complete marks the directory as a confirmed copy, in its state file. If the power fails
// meanwhile, the file may be empty; the next run then begins as with a new directory.
func (s *store) complete(ctx context.Context) error {
	whole, err := s.whole(ctx)
	if err != nil {
		return err
	}
	if err := s.state.Truncate(0); err != nil {
		return err
	}
	_, err = s.state.WriteAt(slices.Concat([]byte(completeMark), s.m.hash[:], whole[:]), 0)
	return errors.Join(err, s.state.Sync())
}

// completed says whether a directory is a confirmed copy, and returns its BLAKE3. It refuses a copy
// of another manifest.
func completed(root *os.Root, m *manifest) (whole hash, yes bool, err error) {
	text := make([]byte, len(completeMark)+2*len(whole))
	f, err := root.Open(stateName)
	if errors.Is(err, fs.ErrNotExist) {
		return whole, false, nil
	}
	if err != nil {
		return whole, false, err
	}
	n, _ := io.ReadFull(f, text)
	text, mark := bytes.CutPrefix(text[:n], []byte(completeMark))
	switch err := f.Close(); {
	case err != nil || !mark || len(text) != 2*len(whole):
		return whole, false, err
	case hash(text) != m.hash:
		return whole, false, another(root)
	}
	return hash(text[len(whole):]), true, nil
}

// another is the refusal of a directory that has a different copy.
func another(root *os.Root) error {
	var names []string
	list, err := fs.ReadDir(root.FS(), ".")
	for _, d := range list {
		names = append(names, d.Name())
	}
	if err != nil {
		return err
	}
	return &refusal{Reason: "its directory has another copy, or a part of one: the source has changed since, or it is another one; " + someOf(names) +
		"; empty the directory, and remove also " + stateName}
}

// makeFiles creates missing directories and files.
func (s *store) makeFiles() error {
	for _, e := range s.m.Entries {
		if e.Dir {
			if err := s.root.Mkdir(e.Path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			continue
		}
		f, err := s.root.OpenFile(e.Path, os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// close closes the directory and the state file.
func (s *store) close() error {
	err := s.root.Close()
	if s.state != nil {
		err = errors.Join(err, s.state.Close())
	}
	return err
}

// position returns the number of chunks in the store, and a channel that is closed when there are
// more.
func (s *store) position() (int, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.have, s.grown
}

// await waits until the store has a chunk.
func (s *store) await(ctx context.Context, chunk int) error {
	for {
		have, grown := s.position()
		if have > chunk {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-grown:
		}
	}
}

// read reads a chunk of the store into buf, and returns it with its hash.
func (s *store) read(chunk int, buf []byte) ([]byte, hash, error) {
	data, err := s.readFiles(chunk, buf)
	if err != nil {
		return nil, hash{}, err
	}
	s.mu.Lock()
	h := s.hashes[chunk]
	s.mu.Unlock()
	if h == (hash{}) {
		h = blake3.Sum256(data)
		s.mu.Lock()
		s.hashes[chunk] = h
		s.mu.Unlock()
	}
	return data, h, nil
}

func (s *store) readFiles(chunk int, buf []byte) ([]byte, error) {
	data := buf[:s.m.end(chunk+1)-s.m.end(chunk)]
	return data, s.m.each(chunk, data, func(e *entry, at int64, buf []byte) error {
		f, err := s.root.Open(e.Path)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.ReadAt(buf, at); err != nil {
			return fmt.Errorf("read %s: %w", e.Path, err)
		}
		return nil
	})
}

// write adds the next chunk, whose hash was checked.
func (s *store) write(chunk int, data []byte, h hash) error {
	err := s.m.each(chunk, data, func(e *entry, at int64, buf []byte) error {
		f, err := s.root.OpenFile(e.Path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(buf, at)
		return errors.Join(err, f.Close())
	})
	if err == nil {
		_, err = s.state.WriteAt(h[:], int64((1+chunk)*len(h)))
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hashes[chunk] = h
	s.have = chunk + 1
	close(s.grown)
	s.grown = make(chan struct{})
	return nil
}

// finish syncs all files to disk, and sets the permissions and times that they have at the source.
func (s *store) finish(ctx context.Context) error {
	if err := s.tidy(); err != nil {
		return err
	}
	for _, e := range slices.Backward(s.m.Entries) { // each directory after what is in it
		if err := ctx.Err(); err != nil {
			return err
		}
		f, err := s.root.Open(e.Path)
		if err != nil {
			return err
		}
		err = errors.Join(f.Chmod(fs.FileMode(e.Mode)), f.Sync(), f.Close())
		if at := time.Unix(0, e.Modified); err == nil && !e.Dir {
			err = s.root.Chtimes(e.Path, at, at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// whole returns the hash of the copy: the BLAKE3 of the manifest's hash and the hashes of all
// chunks. At the source, it reads the chunks of which this process doesn't know the hash yet.
func (s *store) whole(ctx context.Context) (hash, error) {
	h := blake3.New(len(hash{}), nil)
	h.Write(s.m.hash[:])
	var buf []byte
	for i := range s.m.chunks() {
		s.mu.Lock()
		known := s.hashes[i]
		s.mu.Unlock()
		if known == (hash{}) {
			if err := ctx.Err(); err != nil {
				return hash{}, err
			}
			if buf == nil {
				buf = make([]byte, chunkSize)
			}
			var err error
			if _, known, err = s.read(i, buf); err != nil {
				return hash{}, err
			}
		}
		h.Write(known[:])
	}
	return hash(h.Sum(nil)), nil
}
