// Package tabular writes the rows of an answer in one of five formats: a table for people, CSV,
// TSV, NDJSON and Parquet.
//
// Its input is the columns of a result as the server describes them (engine.ResultColumn), and the
// rows as the server's texts. Its output is bytes on an io.Writer. Values are passed on exactly: a
// number becomes a binary fraction only if it is one on the server. A value that the format can't
// hold, such as a text that isn't UTF-8 in JSON, causes an error that names row and column. A
// Writer needs memory for one row, and for a sample of rows (Table) or a row group (Parquet).
//
//	w, err := tabular.New(tabular.CSV, os.Stdout, tabular.Options{})
//	err = w.Columns(columns)
//	err = w.Row(values) // for each row
//	err = w.Close()
package tabular

import (
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// An output collects bytes until there are flushAt of them.
type output struct {
	out io.Writer
	buf []byte
}

// flushAt is how many bytes are collected before they are written.
const flushAt = 64 << 10

func (o *output) flush() error {
	_, err := o.out.Write(o.buf)
	o.buf = o.buf[:0]
	return err
}

// Close implements Writer.
func (o *output) Close() error { return o.flush() }

// A Format is how rows are written.
type Format string

const (
	// Table is boxes around columns that are as wide as their values, numbers to the right.
	Table Format = "table"
	// CSV is RFC 4180 with lines that end in a line feed. NULL is an empty field, the empty text "".
	CSV Format = "csv"
	// TSV has \t, \n, \0 and \\ for a tab, line feed, zero byte and backslash, and \N for NULL.
	TSV Format = "tsv"
	// NDJSON is a JSON object for each row, on a line of its own.
	NDJSON Format = "ndjson"
	// Parquet is a Parquet file with columns of native types.
	Parquet Format = "parquet"
)

// Formats returns all formats.
func Formats() []Format { return []Format{Table, CSV, TSV, NDJSON, Parquet} }

var endings = map[string]Format{".csv": CSV, ".tsv": TSV, ".tab": TSV, ".ndjson": NDJSON, ".jsonl": NDJSON, ".parquet": Parquet, ".txt": Table}

// FormatOf returns the format that the ending of a file's name implies, or "".
func FormatOf(path string) Format { return endings[strings.ToLower(filepath.Ext(path))] }

// HasHeader reports whether a format has a line of names, which Options.NoHeader omits.
func (f Format) HasHeader() bool { return f == Table || f == CSV || f == TSV }

// Options are the options of a Writer. The zero value is the default.
type Options struct {
	// NoHeader omits the line with the columns' names.
	NoHeader bool
}

// A Writer writes one answer. Call Columns once, then Row for each row, then Close, which writes
// the rest and does not close the io.Writer. Without Close the answer is incomplete.
type Writer interface {
	Columns(cols []engine.ResultColumn) error
	// Row takes the texts of the server, nil for NULL. It doesn't keep them after the call.
	Row(values [][]byte) error
	Close() error
}

// New returns a Writer of a format.
func New(f Format, w io.Writer, o Options) (Writer, error) {
	var of Writer
	switch f {
	case Table:
		of = &table{output: output{out: w}, noHeader: o.NoHeader}
	case CSV:
		of = &lines{output: output{out: w}, noHeader: o.NoHeader, field: appendCSV, between: ','}
	case TSV:
		of = &lines{output: output{out: w}, noHeader: o.NoHeader, field: appendTSV, between: '\t'}
	case NDJSON:
		of = &ndjson{output: output{out: w}}
	case Parquet:
		of = &parquetWriter{out: w}
	default:
		return nil, fmt.Errorf("unknown format %q: there are %v", f, Formats())
	}
	return &bitWriter{Writer: of}, nil
}

// A form says what the texts of a column are, such as integers: it decides how a format has them.
type form int

const (
	formText form = iota
	formInt
	formDecimal
	formFloat
	formBool    // t or f
	formBytes   // the bytes themselves
	formHex     // \x and two digits for each byte
	formBits    // the bytes of a number, the highest first
	formDate    // 2006-01-02
	formTime    // date and time of day without a zone
	formInstant // date and time of day with an offset
)

// typeForms has forms by the server's names of types, where a column's class doesn't say the form.
var typeForms = map[string]form{
	"bool": formBool, "date": formDate,
	"datetime": formTime, "timestamp": formTime, "timestamp without time zone": formTime,
	"timestamptz": formInstant, "timestamp with time zone": formInstant,
	"numeric": formDecimal, // without a fixed scale
}

func formOf(c engine.ResultColumn) form {
	switch {
	case c.Hex:
		return formHex
	case c.Binary && strings.EqualFold(c.Native, "bit"):
		return formBits
	case c.Binary:
		return formBytes
	}
	switch c.Class {
	case engine.ClassInt:
		return formInt
	case engine.ClassDecimal:
		return formDecimal
	case engine.ClassFloat:
		return formFloat
	case engine.ClassOther, engine.ClassTime:
		native, _, _ := strings.Cut(strings.ToLower(c.Native), "(")
		return typeForms[strings.TrimSpace(native)]
	}
	return formText
}

// number reports whether the values are numbers.
func (f form) number() bool {
	return f == formInt || f == formDecimal || f == formFloat || f == formBits
}

// binary reports whether the values are bytes.
func (f form) binary() bool { return f == formBytes || f == formHex }

// appendBits appends a number of up to 64 bits in decimal: hexadecimal digits could be misread.
func appendBits(dst, text []byte) []byte { return strconv.AppendUint(dst, bitsOf(text), 10) }

func bitsOf(text []byte) (n uint64) {
	for _, b := range text {
		n = n<<8 | uint64(b)
	}
	return n
}

// appendHex appends the hexadecimal digits of a value of bytes.
func (f form) appendHex(dst, text []byte) []byte {
	if f == formHex {
		return append(dst, strings.TrimPrefix(string(text), `\x`)...)
	}
	return hex.AppendEncode(dst, text)
}

// keys returns distinct names for the columns, none empty: a name that is taken gets a number.
func keys(cols []engine.ResultColumn) []string {
	names := make([]string, len(cols))
	for i, c := range cols {
		names[i] = c.Name
	}
	out := make([]string, len(cols))
	for i, name := range names {
		if name == "" {
			name = "column_" + strconv.Itoa(i+1)
		}
		taken := func(s string) bool { return slices.Contains(out[:i], s) || s != names[i] && slices.Contains(names, s) }
		out[i] = name
		for n := 2; taken(out[i]); n++ {
			out[i] = name + "_" + strconv.Itoa(n)
		}
	}
	return out
}

// unfit returns the error for a value that a format can't hold. Rows count from 1.
func unfit(row int64, column, why, hint string) error {
	return engine.Hinted(fmt.Errorf("row %d, column %s: %s", row, column, why), "%s", hint)
}

// notUTF8 refuses a text that has bytes outside of UTF-8.
func notUTF8(row int64, column, format string) error {
	return unfit(row, column, "it has bytes that aren't UTF-8, which "+format+" can't hold", "--format csv, or select HEX of the column")
}

// preview shortens a value for a message.
func preview(text []byte) string {
	const most = 40
	if len(text) <= most {
		return strconv.Quote(string(text))
	}
	return fmt.Sprintf("%.*q...", most, text)
}
