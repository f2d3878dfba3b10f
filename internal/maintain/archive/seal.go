package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// A file is sealed: the last metadata entry of its footer, keySeal, is the SHA-256 of the whole
// file, with zeros in place of the seal's digits. So all bytes are checked before any is decoded.

const (
	magic    = "PAR1"
	tailSize = 8 // the footer's length and the magic bytes
	// maxFooter far exceeds the footer of a file with row groups of 100,000 rows.
	maxFooter = 256 << 20
)

var noSeal = strings.Repeat("0", sha256.Size*2)

var errDamaged = errors.New("damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errDamaged, fmt.Sprintf(format, args...))
}

func readTail(f *os.File) (footer []byte, at int64, err error) {
	st, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if st.Size() < int64(len(magic))+tailSize {
		return nil, 0, damaged("%d bytes are too few", st.Size())
	}
	var tail [tailSize]byte
	if _, err := f.ReadAt(tail[:], st.Size()-tailSize); err != nil {
		return nil, 0, err
	}
	if string(tail[4:]) != magic {
		return nil, 0, damaged("it doesn't end as a Parquet file does: it may be cut off")
	}
	n := int64(binary.LittleEndian.Uint32(tail[:4]))
	at = st.Size() - tailSize - n
	if n > maxFooter || at < int64(len(magic)) {
		return nil, 0, damaged("its footer would have %d bytes of %d", n, st.Size())
	}
	footer = make([]byte, n)
	_, err = f.ReadAt(footer, at)
	return footer, at, err
}

// sealFile replaces the writer's footer. The new footer has the complete metadata and the seal, and
// lacks statistics that would mislead readers.
func sealFile(f *os.File, metadata [][2]string, columns []column) error {
	footer, at, err := readTail(f)
	if err != nil {
		return err
	}
	var meta format.FileMetaData
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), footer, &meta); err != nil {
		return fmt.Errorf("read the footer back: %w", err)
	}
	for i := range meta.RowGroups {
		for j := range meta.RowGroups[i].Columns {
			c := &meta.RowGroups[i].Columns[j]
			if j >= len(columns) || !columns[j].hasBounds() || columns[j].nan {
				c.MetaData.Statistics.Min, c.MetaData.Statistics.Max = nil, nil
				c.MetaData.Statistics.MinValue, c.MetaData.Statistics.MaxValue = nil, nil
				c.ColumnIndexOffset, c.ColumnIndexLength = 0, 0
			}
		}
	}
	with := func(seal string) ([]byte, error) {
		meta.KeyValueMetadata = meta.KeyValueMetadata[:0]
		for _, kv := range append(slices.Clone(metadata), [2]string{keySeal, seal}) {
			meta.KeyValueMetadata = append(meta.KeyValueMetadata, format.KeyValue{Key: kv[0], Value: kv[1]})
		}
		b, err := thrift.Marshal(new(thrift.CompactProtocol), &meta)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(b)))
		return append(b, magic...), err
	}
	unsealed, err := with(noSeal)
	if err != nil {
		return err
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, at)); err != nil {
		return err
	}
	h.Write(unsealed)
	sealed, err := with(hex.EncodeToString(h.Sum(nil)))
	if err != nil {
		return err
	}
	if len(sealed) != len(unsealed) || len(sealed) > maxFooter {
		return fmt.Errorf("a footer of %d bytes can't be sealed", len(sealed))
	}
	if err := f.Truncate(at); err != nil {
		return err
	}
	_, err = f.WriteAt(sealed, at)
	return err
}

// checkSeal reads the whole file and compares it with its seal.
func checkSeal(ctx context.Context, f *os.File) error {
	footer, at, err := readTail(f)
	if err != nil {
		return err
	}
	h := sha256.New()
	for from := int64(0); from < at; from += 1 << 20 {
		if _, err := io.Copy(h, io.NewSectionReader(f, from, min(1<<20, at-from))); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	// In Thrift's compact protocol, a pair of strings is the key, 0x18, the value's length, and the
	// value. The search is for the last match, because the seal comes after all texts of a table.
	sign := append([]byte(keySeal), 0x18, byte(len(noSeal)))
	i := bytes.LastIndex(footer, sign) + len(sign)
	if i < len(sign) || i+len(noSeal) > len(footer) {
		return damaged("it has no seal")
	}
	h.Write(footer[:i])
	io.WriteString(h, noSeal)
	h.Write(footer[i+len(noSeal):])
	h.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(footer))))
	io.WriteString(h, magic)
	if hex.EncodeToString(h.Sum(nil)) != string(footer[i:i+len(noSeal)]) {
		return damaged("its bytes are not those that were sealed")
	}
	return nil
}
