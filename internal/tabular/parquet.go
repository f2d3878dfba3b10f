package tabular

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

// Limits of Parquet files, of answers and of archived periods.
const (
	// GroupRows and GroupBytes limit a row group, which is held in memory by writer and readers.
	GroupRows  = 100_000
	GroupBytes = 64 << 20
	// BatchRows and BatchBytes limit the rows that are passed to the library at a time.
	BatchRows  = 128
	BatchBytes = 1 << 20
	// DictionaryBytes limits the dictionary of a row group's texts.
	DictionaryBytes = 1 << 20
)

// parquetWriter writes a Parquet file. Every column may have NULL.
type parquetWriter struct {
	out   io.Writer
	w     *parquet.GenericWriter[any]
	cols  []parquetColumn
	rows  int64
	batch []parquet.Row
	// values are the batch's values, text the bytes to which they refer.
	values  []parquet.Value
	text    []byte
	inGroup int64 // bytes of the current group
	began   int64 // rows before the current group
}

// A parquetColumn is a column and the form in which the file has it.
type parquetColumn struct {
	engine.ResultColumn
	form form
}

func (c *parquetColumn) node() parquet.Node {
	switch c.form {
	case formInt:
		if c.Unsigned {
			return parquet.Encoded(parquet.Uint(64), &parquet.DeltaBinaryPacked)
		}
		return parquet.Encoded(parquet.Int(64), &parquet.DeltaBinaryPacked)
	case formBits:
		return parquet.Encoded(parquet.Uint(64), &parquet.DeltaBinaryPacked)
	case formDecimal:
		return Decimal(c.Precision, c.Scale)
	case formFloat:
		return parquet.Leaf(parquet.DoubleType)
	case formBool:
		return parquet.Leaf(parquet.BooleanType)
	case formDate:
		return parquet.Date()
	case formTime:
		return parquet.Encoded(parquet.TimestampAdjusted(parquet.Microsecond, false), &parquet.DeltaBinaryPacked)
	case formInstant:
		return parquet.Encoded(parquet.TimestampAdjusted(parquet.Microsecond, true), &parquet.DeltaBinaryPacked)
	case formBytes, formHex:
		return parquet.Leaf(parquet.ByteArrayType)
	}
	return parquet.Encoded(parquet.String(), &parquet.RLEDictionary)
}

// hasBounds reports whether the minima and maxima that the library writes are right and useful.
func (c *parquetColumn) hasBounds() bool {
	switch c.form {
	case formText, formBytes, formHex, formFloat:
		return false
	case formDecimal:
		return c.Precision <= 18
	}
	return true
}

func (p *parquetWriter) Columns(cols []engine.ResultColumn) error {
	fields := make([]Field, len(cols))
	names := keys(cols)
	opts := []parquet.WriterOption{
		nil, // the schema
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedDefault}),
		parquet.CreatedBy("rowmill", "1", "query"),
		parquet.DictionaryMaxBytes(DictionaryBytes),
	}
	p.cols = make([]parquetColumn, len(cols))
	for i := range cols {
		c := &p.cols[i]
		*c = parquetColumn{cols[i], formOf(cols[i])}
		if c.form == formDecimal && (c.Precision < 1 || c.Precision > MaxPrecision || c.Scale < 0 || c.Scale > c.Precision) {
			c.form = formText // a number of digits that readers have no type for
		}
		if !utf8.ValidString(names[i]) {
			return notUTF8(0, names[i], "Parquet")
		}
		fields[i] = Field{names[i], parquet.Optional(c.node())}
		if !c.hasBounds() {
			opts = append(opts, parquet.SkipPageBounds(names[i]))
		}
	}
	opts[0] = NewSchema("answer", fields)
	p.w = parquet.NewGenericWriter[any](p.out, opts...)
	return nil
}

func (p *parquetWriter) Row(values [][]byte) error {
	p.rows++
	begin := len(p.values)
	for i, text := range values {
		v := parquet.NullValue().Level(0, 0, i)
		if text != nil {
			var why string
			if v, why = p.value(&p.cols[i], text); why != "" {
				return unfit(p.rows, p.cols[i].Name, why, "CAST the column to text in the query, or --format csv")
			}
			v = v.Level(0, 1, i)
			p.inGroup += int64(len(text))
		}
		p.values = append(p.values, v)
		p.inGroup += 8
	}
	p.batch = append(p.batch, p.values[begin:len(p.values):len(p.values)])
	full := p.inGroup >= GroupBytes || p.rows-p.began >= GroupRows
	if len(p.batch) < BatchRows && len(p.text) < BatchBytes && !full {
		return nil
	}
	if err := p.flush(); err != nil || !full {
		return err
	}
	p.inGroup, p.began = 0, p.rows
	return p.w.Flush()
}

func (p *parquetWriter) flush() error {
	n, err := p.w.WriteRows(p.batch)
	if err == nil && n != len(p.batch) {
		err = io.ErrShortWrite
	}
	p.batch, p.values, p.text = p.batch[:0], p.values[:0], p.text[:0]
	return err
}

func (p *parquetWriter) Close() error {
	if p.w == nil { // there was no answer
		return nil
	}
	if err := p.flush(); err != nil {
		return err
	}
	return p.w.Close()
}

// kept copies a text into p.text. If p.text grows and moves, earlier values keep the old memory.
func (p *parquetWriter) kept(text []byte) []byte {
	at := len(p.text)
	p.text = append(p.text, text...)
	return p.text[at:len(p.text):len(p.text)]
}

const microsPerDay = int64(24 * time.Hour / time.Microsecond)

// value returns the value of a column from its text, or why the column can't have it.
func (p *parquetWriter) value(c *parquetColumn, text []byte) (v parquet.Value, why string) {
	isNo := func(what string) (parquet.Value, string) {
		return parquet.Value{}, fmt.Sprintf("%s is not %s", preview(text), what)
	}
	switch c.form {
	case formInt:
		if c.Unsigned {
			n, err := strconv.ParseUint(string(text), 10, 64)
			if err != nil {
				return isNo("an integer from 0 to 2^64-1")
			}
			return parquet.Int64Value(int64(n)), "" // the format stores the same bits
		}
		n, err := value.ParseInt(text)
		if err != nil {
			return isNo("an integer of 64 bits")
		}
		return parquet.Int64Value(n), ""
	case formDecimal:
		var buf [MaxPrecision + 2]byte
		digits, exact := value.AppendUnscaled(buf[:0], text, c.Scale)
		if !exact {
			return isNo(fmt.Sprintf("a decimal number with %d digits after the point", c.Scale))
		}
		v, fits := DecimalValue(digits, c.Precision)
		if !fits {
			return isNo(fmt.Sprintf("a decimal number of at most %d digits", c.Precision))
		}
		return v, ""
	case formFloat:
		f, err := value.ParseFloat(text, 64)
		if err != nil {
			return isNo("a binary fraction of 64 bits")
		}
		return parquet.DoubleValue(f), ""
	case formBool:
		if len(text) != 1 || text[0] != 't' && text[0] != 'f' {
			return isNo("a truth value")
		}
		return parquet.BooleanValue(text[0] == 't'), ""
	case formDate, formTime, formInstant:
		return c.time(text)
	case formBits:
		return parquet.Int64Value(int64(bitsOf(text))), ""
	case formBytes:
		return parquet.ByteArrayValue(p.kept(text)), ""
	case formHex:
		raw, err := hex.AppendDecode(nil, bytes.TrimPrefix(text, []byte(`\x`)))
		if err != nil {
			return isNo("a text of hexadecimal digits")
		}
		return parquet.ByteArrayValue(p.kept(raw)), ""
	}
	if !utf8.Valid(text) {
		return v, "it has bytes that aren't UTF-8"
	}
	return parquet.ByteArrayValue(p.kept(text)), ""
}

func (c *parquetColumn) time(text []byte) (parquet.Value, string) {
	micros, exact, err := value.ParseTime(text, nil)
	switch {
	case err != nil:
		return parquet.Value{}, preview(text) + " is not a time that Parquet has"
	case !exact:
		return parquet.Value{}, preview(text) + " has digits beyond a microsecond"
	case c.form != formDate:
		return parquet.Int64Value(micros), ""
	case micros%microsPerDay != 0:
		return parquet.Value{}, preview(text) + " is not a date"
	}
	return parquet.Int32Value(int32(micros / microsPerDay)), ""
}
