package format

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"

	"github.com/rowmill/rowmill/internal/engine"
)

// maxWindow limits a decompressor's memory in bytes: xz -9 needs 64 MiB, zstd --long 128 MiB.
const maxWindow = 128 << 20

// A packing is a way to compress a source. It is recognised by its first bytes.
type packing struct {
	name  string // also the extension
	magic []string
	open  func(*bufio.Reader) (io.Reader, func(), error)
}

// anyByte stands for any byte in a packing's magic.
const anyByte = '?'

var packings = []packing{
	{"gz", []string{gzipMagic}, func(r *bufio.Reader) (io.Reader, func(), error) {
		z, err := gzip.NewReader(r)
		if err == nil {
			z.Multistream(false)
		}
		return &gzipParts{z, r}, nil, err
	}},
	{"zst", []string{"\x28\xb5\x2f\xfd", "?\x2a\x4d\x18"}, func(r *bufio.Reader) (io.Reader, func(), error) {
		z, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}},
	{"bz2", []string{"BZh?1AY&SY", "BZh?\x17\x72\x45\x38\x50\x90"}, func(r *bufio.Reader) (io.Reader, func(), error) {
		return bzip2.NewReader(r), nil, nil
	}},
	{"xz", []string{"\xfd7zXZ\x00"}, func(r *bufio.Reader) (io.Reader, func(), error) {
		z, err := xz.NewReader(r, maxWindow)
		return z, nil, err
	}},
	{"zip", []string{"PK\x03\x04", "PK\x05\x06"}, nil}, // members are opened as sources of their own
}

// packingOf returns the packing with whose magic head begins. more: head is too short to tell.
func packingOf(head []byte) (_ *packing, more bool) {
	for i := range packings {
		for _, magic := range packings[i].magic {
			n := 0
			for n < min(len(head), len(magic)) && (head[n] == magic[n] || magic[n] == anyByte && (i != 1 || head[n]&0xf0 == 0x50)) {
				n++ // a skippable frame of zstd begins with 0x50 to 0x5f
			}
			if n == len(magic) {
				return &packings[i], false
			}
			more = more || n == len(head)
		}
	}
	return nil, more
}

// peekPacking returns the packing of r's content; begun means that r ends within a packing's magic.
func peekPacking(r *bufio.Reader) (_ *packing, begun bool, err error) {
	for n := 1; ; n++ {
		head, err := r.Peek(n)
		p, more := packingOf(head)
		if p != nil || !more {
			return p, false, nil
		}
		if errors.Is(err, io.EOF) {
			return nil, len(head) > 0, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
}

var (
	errTruncated = errors.New("it is truncated, or a few bytes of something else follow it")
	errFollowed  = errors.New("something else follows it")
	errZipStream = errors.New("a .zip can't be read as a stream, because its directory is at its end")
	errEncrypted = errors.New("it is encrypted")
)

// unpack returns a reader of r's content: decompressed, or r itself if it isn't compressed. If the
// name implies compression, e.g. by .gz, the content must be compressed or text. Before unpack
// reads beyond the first bytes, it calls is(packed), where packed says whether r is compressed.
func unpack(r io.Reader, name string, is func(packed bool)) (_ *bufio.Reader, stop func(), err error) {
	in := bufio.NewReaderSize(r, blockSize)
	p, begun, err := peekPacking(in)
	switch {
	case err != nil:
		return in, nil, err
	case p == nil:
		if named := packedName(name); named != "" {
			err = notPacked(in, named, begun)
		}
		is(false)
		return in, nil, err
	case p.open == nil:
		return in, nil, engine.Hinted(errZipStream, "the file as SOURCE; or unzip -p FILE.zip | rowmill load FILE.toml -")
	}
	is(true)
	z, stop, err := p.open(in)
	if err != nil {
		return in, nil, unpackError(p.name, err)
	}
	return bufio.NewReaderSize(&unpacked{z, p.name}, blockSize), stop, nil
}

// packedName returns the packing that a name's extension states, or "".
func packedName(name string) string {
	ext := strings.TrimPrefix(strings.ToLower(filepath.Ext(name)), ".")
	for _, p := range packings {
		if p.name == ext {
			return ext
		}
	}
	return ""
}

// notPacked returns an error for a source whose name implies compression, but whose content is
// neither compressed nor text. begun means that the content is the beginning of some magic bytes.
func notPacked(in *bufio.Reader, named string, begun bool) error {
	head, _ := in.Peek(1)
	switch {
	case len(head) == 0:
		return errEmptyPacked
	case begun:
		return unpackError(named, io.ErrUnexpectedEOF)
	}
	if head, _ = in.Peek(HeadBytes); bytes.IndexByte(head, 0) >= 0 {
		return fmt.Errorf("its name ends in .%s, and its content is neither that nor text: it is damaged, or of another format", named)
	}
	return nil
}

const gzipMagic = "\x1f\x8b\x08"

// gzipParts reads the parts of a .gz in turn, and skips zeros that pad its end.
type gzipParts struct {
	*gzip.Reader
	from *bufio.Reader
}

func (g *gzipParts) Read(p []byte) (int, error) {
	n, err := g.Reader.Read(p)
	if n > 0 {
		return n, nil // the next read returns the error
	}
	if !errors.Is(err, io.EOF) {
		return 0, err
	}
	padded := false
	head, err := g.from.Peek(1)
	for ; len(head) > 0 && head[0] == 0; head, err = g.from.Peek(1) {
		_, _ = g.from.Discard(1) // Peek has buffered the byte
		padded = true
	}
	if len(head) == 0 {
		return 0, err
	}
	if head, _ = g.from.Peek(len(gzipMagic)); padded || string(head) != gzipMagic {
		return 0, errFollowed
	}
	if err := g.Reset(g.from); err != nil {
		return 0, err
	}
	g.Multistream(false)
	return g.Read(p)
}

// An unpacked reads from a decompressor, and explains its errors.
type unpacked struct {
	io.Reader
	name string
}

func (u *unpacked) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = unpackError(u.name, err)
	}
	return n, err
}

func unpackError(name string, err error) error {
	var read *fs.PathError
	switch {
	case errors.As(err, &read) || errors.Is(err, errCutOff) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err // an error of the file itself, not of its content
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, xz.ErrBuf):
		return fmt.Errorf("decompress %s: %w", name, errTruncated)
	case errors.Is(err, xz.ErrMemlimit) || errors.Is(err, zstd.ErrWindowSizeExceeded):
		return fmt.Errorf("decompress %s: it needs more than %d MiB of memory: %w", name, maxWindow>>20, err)
	}
	if !errors.Is(err, errFollowed) {
		err = fmt.Errorf("it is damaged, or followed by something else: %w", err)
	}
	return fmt.Errorf("decompress %s: %w", name, err)
}

// countedAt counts the bytes read from a file at any place.
type countedAt struct {
	io.ReaderAt
	n *atomic.Int64
}

func (c countedAt) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, at)
	c.n.Add(int64(n))
	return n, err
}

func isZip(f *os.File) bool {
	var head [4]byte
	n, _ := f.ReadAt(head[:], 0)
	p, _ := packingOf(head[:n])
	return p != nil && p.open == nil
}

// openMember opens the only member of the .zip f. It ignores members that macOS adds.
func openMember(f *os.File, size int64, in *Input) (io.Reader, error) {
	z, err := zip.NewReader(countedAt{f, &in.read}, size)
	if err != nil {
		return nil, unpackError("zip", err)
	}
	all := slices.DeleteFunc(z.File, func(m *zip.File) bool {
		return !m.Mode().IsRegular() || strings.HasPrefix(m.Name, "__MACOSX/") || filepath.Base(m.Name) == ".DS_Store"
	})
	if len(all) == 0 {
		return nil, errors.New("it has no files")
	}
	found := all[0]
	switch {
	case slices.ContainsFunc(all, func(m *zip.File) bool { return m.Name == "[Content_Types].xml" }):
		return nil, engine.Hinted(errors.New("it is a workbook"), "the sheet saved as CSV UTF-8")
	case len(all) > 1:
		return nil, engine.Hinted(fmt.Errorf("it has %d files: %s and others", len(all), found.Name), "unzip, and the unpacked files; unzip -p FILE.zip MEMBER | rowmill load FILE.toml -")
	case found.Flags&1 != 0:
		return nil, errEncrypted
	}
	r, err := found.Open()
	if errors.Is(err, zip.ErrAlgorithm) {
		return nil, engine.Hinted(fmt.Errorf("%s in it is compressed by method %d, which can't be read", found.Name, found.Method), "unzip, and the unpacked file")
	}
	if err != nil {
		return nil, unpackError("zip", err)
	}
	in.name, in.Size = found.Name, int64(min(found.CompressedSize64, 1<<62))
	in.read.Store(0)
	in.closes = append(in.closes, func() { _ = r.Close() }) // reading to the end verifies the checksum
	return &unpacked{r, "zip"}, nil
}
