package format

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

// A Parquet file is read as the text of its rows: TSV without a header. This text identifies the
// file and its batches, so a file with the same rows but other codecs or row groups counts as the
// same file. The text of a value must therefore never change. It is exact, even for binary
// fractions.

// ParquetFormat returns the format of the text as which a Parquet file is read.
func ParquetFormat(f *Format, columns []string) Format {
	return Format{Kind: TSV, NoHeader: true, Nulls: []string{`\N`}, Columns: columns, Set: f.Set}
}

// parquetMagic begins and ends a file.
const parquetMagic = "PAR1"

// ErrParquetStream is returned for a stream that is Parquet.
var ErrParquetStream = engine.Hinted(errors.New("a stream can't be Parquet: the description of a Parquet file is at its end"), "a file")

// OpenParquet returns an input with the text of the columns that the format selects, and their
// names. The columns of s decide whether bytes are written as text or as hexadecimal digits.
func OpenParquet(path string, s *engine.Schema, selected *Format) (_ *Input, names []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	in := &Input{name: filepath.Base(path), file: f, quit: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
		}
	}()
	defer parquetPanic(&err)
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	in.Size = info.Size()
	p, err := parquetFile(f, in.Size)
	if err != nil {
		return nil, nil, err
	}
	r := &parquetReader{in: in, file: f, of: p, rows: max(p.NumRows(), 1)}
	if names, err = r.choose(p.Root(), s, selected); err != nil {
		return nil, nil, err
	}
	in.Reader, in.closes = bufio.NewReaderSize(r, blockSize), append(in.closes, r.close)
	return in, names, nil
}

// parquetFile reads the description at a file's end.
func parquetFile(f io.ReaderAt, size int64) (_ *parquet.File, err error) {
	defer parquetPanic(&err)
	begin := make([]byte, len(parquetMagic))
	if _, err := f.ReadAt(begin, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if string(begin) != parquetMagic {
		return nil, engine.Hinted(fmt.Errorf("it isn't a Parquet file: it doesn't begin with %s", parquetMagic), "--format with its format; a packed file has to be unpacked first")
	}
	var p *parquet.File
	if err = checkFooter(f, size); err == nil {
		p, err = parquet.OpenFile(f, size, &parquet.FileConfig{SkipPageIndex: true, SkipBloomFilters: true})
	}
	if err != nil {
		return nil, engine.Hinted(fmt.Errorf("its description, which is at its end, can't be read: %w", err), "the whole file; it may be truncated, or still being written")
	}
	return p, nil
}

// parquetPanic converts a panic: the library may panic on damaged files.
func parquetPanic(err *error) {
	if r := recover(); r != nil {
		*err = errors.Join(fmt.Errorf("it is damaged: %v", r), *err)
	}
}

// A parquetReader renders the rows of a file.
type parquetReader struct {
	in      *Input
	file    io.ReaderAt
	of      *parquet.File
	group   int // index of the next row group
	columns []*parquetColumn
	rows    int64 // rows of the file
	done    int64 // rows rendered
	left    int64 // rows of the current group
	block   int   // rows rendered at a time
	out     []byte
	buf     []byte // the memory of out
	err     error
}

type parquetColumn struct {
	name   string
	index  int // among the leaf columns of the file
	render func(dst []byte, v parquet.Value) []byte
	pages  parquet.Pages
	page   parquet.Page
	values parquet.ValueReader
	buf    []parquet.Value
	text   []byte // the rendered values of a block, one after the other
	ends   []int
}

const (
	// parquetRows limits the rows of a block, parquetBytes its text.
	parquetRows  = 256
	parquetBytes = 1 << 20
)

func (r *parquetReader) choose(root *parquet.Column, s *engine.Schema, selected *Format) ([]string, error) {
	fields := root.Columns()
	var have []string
	for _, c := range fields {
		have = append(have, c.Name())
	}
	for _, name := range selected.SkipColumns {
		if !isNamed(have, name) {
			return nil, errSkipped(name, have)
		}
	}
	names := selected.Columns
	if names == nil {
		names = slices.DeleteFunc(slices.Clone(have), func(name string) bool { return isNamed(selected.SkipColumns, name) || isConstant(selected, name) })
	}
	for _, name := range names {
		i := slices.IndexFunc(have, func(h string) bool { return h == name })
		if i < 0 {
			i = slices.IndexFunc(have, func(h string) bool { return strings.EqualFold(h, name) })
		}
		if i < 0 {
			return nil, engine.Hinted(fmt.Errorf("it has no column %s; its columns are %s", name, strings.Join(have, ", ")), "--columns with some of these")
		}
		c, to := fields[i], s.Find(name)
		others := slices.DeleteFunc(slices.Clone(have), func(h string) bool { return s.Find(h) == nil || h == name })
		if to == nil {
			return nil, engine.Hinted(fmt.Errorf("column %s isn't one of table %s, whose columns are %s", name, s.Name, strings.Join(s.Names(), ", ")),
				"--columns %s", strings.Join(others, ","))
		}
		if !c.Leaf() || c.Repeated() {
			return nil, engine.Hinted(fmt.Errorf("column %s has several values in a row: it is a list, a map or a structure", name), "--columns %s", strings.Join(others, ","))
		}
		render := parquetText(c.Type(), to.Kind)
		if render == nil {
			return nil, engine.Hinted(fmt.Errorf("column %s of type %s can't be loaded into one of type %s", name, c.Type(), to.Native), "--columns %s", strings.Join(others, ","))
		}
		r.columns = append(r.columns, &parquetColumn{name: name, index: c.Index(), render: render, buf: make([]parquet.Value, parquetRows)})
	}
	if len(r.columns) == 0 {
		return nil, errors.New("it has no columns")
	}
	r.block = parquetRows
	return names, nil
}

// Read implements io.Reader.
func (r *parquetReader) Read(p []byte) (int, error) {
	for len(r.out) == 0 && r.err == nil {
		r.err = r.fill()
		r.in.read.Store(int64(float64(r.in.Size) * float64(r.done) / float64(r.rows)))
	}
	if len(r.out) == 0 {
		return 0, r.err
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}

func (r *parquetReader) fill() (err error) {
	defer parquetPanic(&err)
	for r.left == 0 {
		r.closePages()
		groups := r.of.RowGroups()
		if r.group == len(groups) {
			return io.EOF
		}
		chunks, described := groups[r.group].ColumnChunks(), r.of.Metadata().RowGroups[r.group].Columns
		if r.left = groups[r.group].NumRows(); r.left < 0 {
			return errThrift
		}
		for _, c := range r.columns {
			if err := checkPages(r.file, r.of.Size(), &described[c.index].MetaData, chunks[c.index].Type(), r.left); err != nil {
				return fmt.Errorf("row group %d, column %s: %w", r.group+1, c.name, err)
			}
			c.pages = chunks[c.index].Pages()
		}
		r.group++
	}
	n := int(min(r.left, int64(r.block)))
	for _, c := range r.columns {
		if err := c.read(n); err != nil {
			return fmt.Errorf("row %d, column %s: %w", r.done+1, c.name, err)
		}
	}
	r.buf = r.buf[:0]
	for row := range n {
		for i, c := range r.columns {
			text := c.text[c.ends[row]:c.ends[row+1]]
			if i > 0 {
				r.buf = append(r.buf, '\t')
			} else if len(text) > 0 && text[0] == ByteOrderMark[0] {
				r.buf = append(r.buf, '\\') // else a byte order mark that begins the text would be removed
			}
			r.buf = append(r.buf, text...)
		}
		r.buf = append(r.buf, '\n')
	}
	r.out = r.buf
	r.left -= int64(n)
	r.done += int64(n)
	r.block = max(min(parquetRows, parquetBytes*n/max(len(r.out), 1)), 1)
	return nil
}

func (c *parquetColumn) read(n int) error {
	c.text, c.ends = c.text[:0], append(c.ends[:0], 0)
	for empty := 0; len(c.ends) <= n; {
		if c.values == nil {
			page, err := c.pages.ReadPage()
			if errors.Is(err, io.EOF) || err == nil && page == nil {
				return errors.New("it is damaged: the column has fewer values than the file has rows")
			}
			if err != nil {
				return fmt.Errorf("it is damaged: %w", err)
			}
			c.page, c.values = page, page.Values()
		}
		got, err := c.values.ReadValues(c.buf[:n-len(c.ends)+1])
		for _, v := range c.buf[:got] {
			if v.IsNull() {
				c.text = append(c.text, `\N`...)
			} else {
				c.text = c.render(c.text, v)
			}
			c.ends = append(c.ends, len(c.text))
		}
		switch {
		case errors.Is(err, io.EOF):
			c.release()
		case err != nil:
			return fmt.Errorf("it is damaged: %w", err)
		}
		if empty++; got > 0 {
			empty = 0
		} else if empty > 1000 {
			return errors.New("it is damaged: reading it returns neither values nor the end")
		}
	}
	return nil
}

func (c *parquetColumn) release() {
	if c.page != nil {
		parquet.Release(c.page)
	}
	c.page, c.values = nil, nil
}

func (r *parquetReader) closePages() {
	for _, c := range r.columns {
		c.release()
		if c.pages != nil {
			_ = c.pages.Close() // nothing was written
		}
		c.pages = nil
	}
}

func (r *parquetReader) close() {
	var err error // an error of the pages no longer matters: the file is not used any more
	defer parquetPanic(&err)
	r.closePages()
}

// parquetText returns how values of type t are written for a column of kind to; nil: they can't be.
func parquetText(t parquet.Type, to value.Kind) func(dst []byte, v parquet.Value) []byte {
	var logical any
	if l := t.LogicalType(); l != nil {
		logical = l.Value
	}
	if d, is := logical.(*format.DecimalType); is {
		return parquetDecimal(t.Kind(), int(d.Scale))
	}
	switch t.Kind() {
	case parquet.Boolean:
		return func(dst []byte, v parquet.Value) []byte {
			if v.Boolean() {
				return append(dst, '1')
			}
			return append(dst, '0')
		}
	case parquet.Int32, parquet.Int64:
		number := func(v parquet.Value) int64 { return v.Int64() }
		if t.Kind() == parquet.Int32 {
			number = func(v parquet.Value) int64 { return int64(v.Int32()) }
		}
		return parquetInt(logical, t.Kind() == parquet.Int32, number)
	case parquet.Int96:
		return func(dst []byte, v parquet.Value) []byte { return appendInt96(dst, v.Int96()) }
	case parquet.Float:
		return func(dst []byte, v parquet.Value) []byte {
			return strconv.AppendFloat(dst, float64(v.Float()), 'g', -1, 64)
		}
	case parquet.Double:
		return func(dst []byte, v parquet.Value) []byte { return strconv.AppendFloat(dst, v.Double(), 'g', -1, 64) }
	}
	if to == value.Bytes {
		return func(dst []byte, v parquet.Value) []byte { return hex.AppendEncode(dst, v.ByteArray()) }
	}
	switch logical.(type) {
	case nil, *format.StringType, *format.EnumType, *format.JsonType:
		return func(dst []byte, v parquet.Value) []byte { return AppendEscaped(dst, v.ByteArray()) }
	case *format.UUIDType:
		return func(dst []byte, v parquet.Value) []byte {
			d := hex.EncodeToString(v.ByteArray())
			return fmt.Appendf(dst, "%s-%s-%s-%s-%s", d[:8], d[8:12], d[12:16], d[16:20], d[20:])
		}
	}
	return nil
}

// parquetInt returns how integers are written. logical is what they mean, e.g. a date; may be nil.
func parquetInt(logical any, short bool, number func(parquet.Value) int64) func(dst []byte, v parquet.Value) []byte {
	units := func(u format.TimeUnit) int64 { // per second
		switch u.Value.(type) {
		case *format.MilliSeconds:
			return 1e3
		case *format.NanoSeconds:
			return 1e9
		}
		return 1e6
	}
	switch l := logical.(type) {
	case *format.DateType:
		return func(dst []byte, v parquet.Value) []byte {
			return time.Unix(number(v)*24*3600, 0).UTC().AppendFormat(dst, time.DateOnly)
		}
	case *format.TimestampType:
		per, layout := units(l.Unit), "2006-01-02 15:04:05.999999999"
		if l.IsAdjustedToUTC {
			layout += "Z"
		}
		return func(dst []byte, v parquet.Value) []byte { return appendUnits(dst, number(v), per, layout) }
	case *format.TimeType:
		per := units(l.Unit)
		return func(dst []byte, v parquet.Value) []byte {
			return appendUnits(dst, number(v), per, "15:04:05.999999999")
		}
	case *format.IntType:
		if !l.IsSigned {
			return func(dst []byte, v parquet.Value) []byte {
				n := uint64(number(v))
				if short {
					n = uint64(uint32(n))
				}
				return strconv.AppendUint(dst, n, 10)
			}
		}
	}
	return func(dst []byte, v parquet.Value) []byte { return strconv.AppendInt(dst, number(v), 10) }
}

// appendUnits appends the time n units after 1970. A second has per units.
func appendUnits(dst []byte, n, per int64, layout string) []byte {
	seconds, rest := n/per, n%per
	if rest < 0 {
		seconds, rest = seconds-1, rest+per
	}
	return time.Unix(seconds, rest*(1e9/per)).UTC().AppendFormat(dst, layout)
}

// appendInt96 appends a time of older writers: nanoseconds and the Julian day, without a zone.
func appendInt96(dst []byte, v deprecated.Int96) []byte {
	const julianDay1970 = 2440588
	nanos := int64(uint64(v[1])<<32 | uint64(v[0]))
	day := int64(v[2]) - julianDay1970
	return time.Unix(day*24*3600+nanos/1e9, nanos%1e9).UTC().AppendFormat(dst, "2006-01-02 15:04:05.999999999")
}

func parquetDecimal(k parquet.Kind, scale int) func(dst []byte, v parquet.Value) []byte {
	return func(dst []byte, v parquet.Value) []byte {
		var digits string
		switch k {
		case parquet.Int32:
			digits = strconv.FormatInt(int64(v.Int32()), 10)
		case parquet.Int64:
			digits = strconv.FormatInt(v.Int64(), 10)
		default: // two's complement, the most significant byte first
			b := v.ByteArray()
			n := new(big.Int).SetBytes(b)
			if len(b) > 0 && b[0]&0x80 != 0 {
				n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(len(b)*8)))
			}
			digits = n.String()
		}
		return append(dst, value.FormatUnscaled(digits, scale)...)
	}
}
