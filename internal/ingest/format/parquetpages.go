package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/rowmill/rowmill/internal/figure"
)

// The Parquet library reserves memory for as many bytes, values and elements as a file claims to
// have. These claims are therefore checked against the file first.

const (
	// parquetPage limits a page in bytes, uncompressed. Writers make pages of about 1 MiB.
	parquetPage = 256 << 20
	// A page of more than parquetPacked bytes must also have at most parquetRatio bytes for each
	// compressed byte. No codec exceeds that ratio.
	parquetPacked = 32 << 20
	parquetRatio  = 40_000
	// parquetHeader limits the header of a page in bytes; most have less than parquetPeek.
	parquetHeader = 64 << 20
	parquetPeek   = 4 << 10
	// thriftDepth and thriftList limit nesting and lists of a description: at most 65,535 columns.
	thriftDepth = 32
	thriftList  = 1 << 18
)

var errThrift = errors.New("it is damaged: its description is not what it says")

// checkFooter returns an error if the description at a file's end announces more than the file has.
func checkFooter(f io.ReaderAt, size int64) error {
	tail := make([]byte, 4+len(parquetMagic))
	if size < int64(len(tail)) {
		return io.ErrUnexpectedEOF
	}
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	n := int64(binary.LittleEndian.Uint32(tail))
	if string(tail[4:]) != parquetMagic || n > size-int64(len(tail)) {
		return io.ErrUnexpectedEOF
	}
	footer := make([]byte, n)
	if _, err := f.ReadAt(footer, size-int64(len(tail))-n); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	_, err := thriftEnd(footer)
	return err
}

// checkPages reads the headers of the pages that one column has in a row group, where it has one
// value in each row. It returns an error if a header claims more bytes or values than its page can
// have.
func checkPages(f io.ReaderAt, size int64, m *format.ColumnMetaData, t parquet.Type, rows int64) error {
	at := m.DataPageOffset
	if m.DictionaryPageOffset != 0 {
		at = m.DictionaryPageOffset
	}
	if at < 0 || at > size || m.TotalCompressedSize < 0 {
		return errThrift
	}
	end := at + min(m.TotalCompressedSize, size-at)
	width := int64(1)
	if t.Kind() == parquet.FixedLenByteArray {
		width = max(int64(t.Length()), 1)
	}
	var protocol thrift.CompactProtocol
	buf := make([]byte, parquetPeek)
	for left := rows; left > 0 && at < end; {
		head, err := pageHeader(f, at, end, &buf)
		if err != nil {
			return err
		}
		var h format.PageHeader
		if err := thrift.Unmarshal(&protocol, head, &h); err != nil {
			return err
		}
		at += int64(len(head))
		packed, whole := int64(h.CompressedPageSize), int64(h.UncompressedPageSize)
		values, most := int64(0), rows
		switch {
		case h.DataPageHeader.Valid:
			values = int64(h.DataPageHeader.V.NumValues)
			left -= values
		case h.DataPageHeaderV2.Valid:
			values = int64(h.DataPageHeaderV2.V.NumValues)
			left -= values
		case h.DictionaryPageHeader.Valid:
			values, most = int64(h.DictionaryPageHeader.V.NumValues), 8*whole // a byte has 8 booleans
		}
		switch {
		case packed < 0 || packed > end-at || values < 0 || values > most:
			return errThrift
		case whole > parquetPacked+packed*parquetRatio:
			return errThrift
		case whole > parquetPage || values > parquetPage/width:
			return fmt.Errorf("a page of it has %s and %s: pages of at most %s are read", figure.Bytes(whole), figure.Plural(values, "value", "values"), figure.Bytes(int64(parquetPage)))
		}
		at += packed
	}
	return nil
}

// pageHeader reads a page's header, which begins at the offset at and ends before the offset end.
func pageHeader(f io.ReaderAt, at, end int64, buf *[]byte) ([]byte, error) {
	for {
		p := (*buf)[:min(int64(len(*buf)), end-at)]
		if _, err := f.ReadAt(p, at); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		n, err := thriftEnd(p)
		if err == nil {
			return p[:n], nil
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) || int64(len(p)) == end-at || len(p) >= parquetHeader {
			return nil, err
		}
		*buf = make([]byte, 8*len(*buf))
	}
}

// thriftEnd returns the end of the structure at the beginning of p, in Thrift's compact protocol.
// If the structure doesn't end within p, thriftEnd returns io.ErrUnexpectedEOF.
func thriftEnd(p []byte) (int, error) {
	t := thriftReader{p: p}
	err := t.structure(0)
	return t.at, err
}

type thriftReader struct {
	p  []byte
	at int
}

func (t *thriftReader) skip(n uint64) error {
	if n > uint64(len(t.p)-t.at) {
		return io.ErrUnexpectedEOF
	}
	t.at += int(n)
	return nil
}

func (t *thriftReader) byte() (byte, error) {
	if err := t.skip(1); err != nil {
		return 0, err
	}
	return t.p[t.at-1], nil
}

func (t *thriftReader) varint() (uint64, error) {
	v, n := binary.Uvarint(t.p[t.at:])
	switch {
	case n == 0:
		return 0, io.ErrUnexpectedEOF
	case n < 0:
		return 0, errThrift
	}
	t.at += n
	return v, nil
}

// The types of the compact protocol.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftInt16  = 4
	thriftInt32  = 5
	thriftInt64  = 6
	thriftDouble = 7
	thriftBytes  = 8
	thriftOfList = 9
	thriftOfSet  = 10
	thriftStruct = 12
)

func (t *thriftReader) structure(depth int) error {
	if depth > thriftDepth {
		return errThrift
	}
	for {
		b, err := t.byte()
		if err != nil || b == 0 {
			return err
		}
		if b>>4 == 0 { // the field's number follows
			if _, err := t.varint(); err != nil {
				return err
			}
		}
		if kind := b & 0xf; kind != thriftTrue && kind != thriftFalse { // a boolean's type is its value
			if err := t.value(kind, depth); err != nil {
				return err
			}
		}
	}
}

func (t *thriftReader) value(kind byte, depth int) error {
	switch kind {
	case thriftTrue, thriftFalse, thriftByte:
		return t.skip(1)
	case thriftInt16, thriftInt32, thriftInt64:
		_, err := t.varint()
		return err
	case thriftDouble:
		return t.skip(8)
	case thriftBytes:
		n, err := t.varint()
		if err != nil {
			return err
		}
		return t.skip(n)
	case thriftOfList, thriftOfSet:
		return t.list(depth + 1)
	case thriftStruct:
		return t.structure(depth + 1)
	}
	return errThrift // the description of a Parquet file has no maps
}

func (t *thriftReader) list(depth int) error {
	b, err := t.byte()
	if err != nil {
		return err
	}
	n, kind := uint64(b>>4), b&0xf
	if n == 15 {
		if n, err = t.varint(); err != nil {
			return err
		}
	}
	switch {
	case depth > thriftDepth || n > thriftList:
		return errThrift
	case n > uint64(len(t.p)-t.at):
		return io.ErrUnexpectedEOF
	}
	for range n {
		if err := t.value(kind, depth); err != nil {
			return err
		}
	}
	return nil
}
