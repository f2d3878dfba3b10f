package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/value"
)

// A Rejected row couldn't be loaded.
type Rejected struct {
	// Line is the number of its first line in the source, from 1; Offset is the byte
	// offset of that line.
	Line, Offset int64
	// Column is the column with the invalid value, "" if unknown.
	Column string
	Reason string
	// Row is the original row, or the beginning of a row that is too long to be
	// loaded.
	Row []byte
}

// A place is the location of a row within a batch's bytes.
type place struct {
	line     int64
	from, to int // offsets in the batch's bytes
}

// A parser fills batches. It must not be used by several goroutines at once.
type parser struct {
	*target
	batch    *engine.Batch
	places   []place // of the batch's rows
	rejected []Rejected
	torn     error // the error of the first row; nil if it is valid
	rows     int64 // rows of the batch, including rejected ones
	kept     []int // buffer of bounds.check

	fields []field
	buf    []byte
	values []field // of an object, by column
	seen   []bool  // the columns present in the object

	// absent is a bitmap of the columns that get their default in the current row,
	// empty if there are none. rowShapes contains the shape of each row of the batch;
	// nil means all columns. Formats with fields don't use it.
	absent    []byte
	shapes    map[string]*shape
	rowShapes []*shape
}

var lineBreak = []byte("\n")

func newParser(t *target) *parser { return &parser{target: t, batch: engine.NewBatch(t.table.Columns)} }

// parse reads the rows of a batch's bytes. first means that they are the beginning of
// the file.
func (p *parser) parse(data []byte, line, offset int64, first bool) {
	p.batch.Reset()
	p.places, p.rejected, p.rows, p.rowShapes = p.places[:0], p.rejected[:0], 0, p.rowShapes[:0]
	header := first && p.format.header()
	for at := 0; at < len(data); {
		// A batch contains only complete records, so no further bytes are needed to
		// find their ends.
		n, err := p.format.end(data[at:], true)
		if err != nil || n == 0 {
			n = len(data) - at
		}
		if i := bytes.IndexByte(data, '\n'); at == 0 && p.torn != nil && i >= 0 {
			n = i + 1
		}
		record := data[at : at+n]
		where := place{line, at, at + n}
		line += int64(bytes.Count(record, lineBreak))
		at += n
		if first && where.from == 0 && len(record) >= 3 && string(record[:3]) == string(byteOrderMark) {
			record = record[3:]
		}
		record = trimBreak(record)
		if header {
			header = false
			continue
		}
		if len(record) == 0 {
			continue
		}
		p.rows++
		if where.from == 0 && p.torn != nil {
			p.reject(where, offset, data, "", p.torn)
			continue
		}
		if len(record) > maxLine {
			p.reject(where, offset, data, "", errLong)
			continue
		}
		if column, err := p.row(record); err != nil {
			p.batch.Truncate(len(p.places))
			p.reject(where, offset, data, column, err)
			continue
		}
		p.batch.EndRow()
		p.places = append(p.places, where)
		if p.format.Kind == JSONL {
			var s *shape
			if len(p.absent) > 0 {
				s = p.shapeOf(p.absent)
			}
			p.rowShapes = append(p.rowShapes, s)
		}
	}
}

// reject records a row that can't be loaded.
func (p *parser) reject(where place, offset int64, data []byte, column string, err error) {
	p.rejected = append(p.rejected, Rejected{Line: where.line, Offset: offset + int64(where.from), Column: column,
		Reason: err.Error(), Row: slices.Clone(beginOf(trimBreak(data[where.from:where.to])))})
}

// beginOf returns a row, or the first KiB of a row that is too long, without
// splitting a character if it is text.
func beginOf(row []byte) []byte {
	if len(row) <= maxLine {
		return row
	}
	const most = 1 << 10
	for n := most; n > most-utf8.UTFMax; n-- {
		if utf8.Valid(row[:n]) {
			return row[:n]
		}
	}
	return row[:most]
}

// row appends a record to the batch, or returns the error and its column.
func (p *parser) row(record []byte) (string, error) {
	p.buf = p.buf[:0]
	if p.format.Kind == JSONL {
		if column, err := p.object(record); err != nil {
			return column, err
		}
		return p.append(p.values)
	}
	var err error
	if p.fields, p.buf, err = p.format.split(record, p.fields[:0], p.buf); err != nil {
		return "", err
	}
	if len(p.fields) != len(p.columns) {
		return "", fmt.Errorf("it has %s for %s", figure.Plural(len(p.fields), "field", "fields"), figure.Plural(len(p.columns), "column", "columns"))
	}
	return p.append(p.fields)
}

func (p *parser) append(fields []field) (string, error) {
	for i := range fields {
		c, v, f := &p.columns[i], &p.batch.Columns[i], &fields[i]
		isText := c.Kind == value.Text
		switch {
		case f.absent:
			v.AppendNull() // a placeholder, which is not sent
			continue
		case f.null || len(f.value) == 0 && !f.quoted && p.format.Kind == CSV && (c.Null || !isText):
			// An empty CSV field is NULL if the column allows it, as in COPY.
			if !c.Null {
				if f.null {
					return c.Name, errNull
				}
				return c.Name, errEmpty
			}
			v.AppendNull()
			continue
		case len(f.value) == 0 && !isText && c.Kind != value.Bytes && c.Kind != value.Other:
			return c.Name, errEmpty
		}
		if isText && c.Null && !f.quoted && p.format.Null == "" && string(f.value) == "NULL" {
			return c.Name, errNullWord
		}
		var err error
		switch {
		case c.Int != nil:
			var n int64
			if n, err = c.Int(f.value); err == nil {
				v.Ints = append(v.Ints, n)
			}
		case c.Append != nil:
			if v.Bytes, err = c.Append(v.Bytes, f.value); err == nil {
				v.EndBytes()
			}
		default:
			var x float64
			if x, err = c.Float(f.value); err == nil {
				v.Floats = append(v.Floats, x)
			}
		}
		if err != nil {
			return c.Name, quoteValue(f.value, err)
		}
	}
	return "", nil
}

// errNullWord concerns the word that mysql -B and other programs write for NULL. Only
// the user knows whether it means NULL or text.
var errNullWord = errors.New(`NULL may be text, or mean that there is no value: --null NULL takes it for that, --null '\N' for text`)

// quoteValue adds the value to an error.
func quoteValue(text []byte, err error) error {
	const most = 60
	if len(text) > most {
		return fmt.Errorf("%q...: %w", text[:most], err)
	}
	return fmt.Errorf("%q: %w", text, err)
}

var (
	errEmpty     = errors.New("it is empty")
	errNull      = errors.New("it is NULL, which the column can't be")
	errNoObject  = errors.New("it is no JSON object")
	errMissing   = errors.New("it is missing")
	errSurrogate = errors.New("it has half of a surrogate pair, which is no character")
)

// object splits a JSON object into p.values, which refer to the record or to p.buf.
// An absent key is NULL or, if the column has one, the default.
func (p *parser) object(record []byte) (string, error) {
	p.absent = p.absent[:0]
	o, err := parseObject(record)
	if err != nil {
		return "", err
	}
	p.values = slices.Grow(p.values[:0], len(p.columns))[:len(p.columns)]
	p.seen = slices.Grow(p.seen[:0], len(p.columns))[:len(p.columns)]
	for i := range p.values {
		p.values[i], p.seen[i] = field{null: true}, false
	}
	o.ForEach(func(key, v gjson.Result) bool {
		i, known := p.byName[key.Str]
		if !known {
			if i, known = p.fold(key.Str); !known {
				if p.format.Columns != nil {
					return true // only the named columns are loaded
				}
				err = fmt.Errorf("key %q isn't one of the columns that are loaded, %s (see --columns)", key.Str, p.names())
				return false
			}
		}
		if p.seen[i] {
			err = fmt.Errorf("it has key %q twice", key.Str)
			return false
		}
		p.seen[i] = true
		switch {
		case v.Type == gjson.Null:
			p.values[i] = field{null: true}
		case v.Type == gjson.String && p.columns[i].Logical != value.JSON:
			if strings.Contains(v.Str, "\ufffd") && halfSurrogate(v.Raw) {
				err = fmt.Errorf("key %q: %w", key.Str, errSurrogate)
				return false
			}
			p.values[i] = field{value: unsafeBytes(v.Str), quoted: true}
		case v.Type == gjson.Number && p.columns[i].Kind == value.Int:
			p.values[i] = field{value: p.integral(unsafeBytes(v.Raw))}
		default: // a number, true, false, or JSON, unchanged
			p.values[i] = field{value: unsafeBytes(v.Raw)}
		}
		return true
	})
	if err != nil {
		return "", err
	}
	for i, seen := range p.seen {
		c := &p.columns[i]
		switch {
		case seen:
		case i != p.by && (c.Default != "" || c.Auto):
			p.values[i] = field{absent: true}
			p.absentIn(i)
		case i == p.by || !c.Null:
			return c.Name, errMissing
		}
	}
	return "", nil
}

// integral converts a JSON number with a point or an exponent to an integer without
// either, if its value is one.
func (p *parser) integral(number []byte) []byte {
	if !bytes.ContainsAny(number, ".eE") {
		return number
	}
	from := len(p.buf)
	out, is := value.AppendInteger(p.buf, number)
	if !is {
		return number
	}
	p.buf = out
	return p.buf[from:len(p.buf):len(p.buf)]
}

// fold finds a column by name, ignoring case.
func (p *parser) fold(name string) (int, bool) {
	for i := range p.columns {
		if strings.EqualFold(p.columns[i].Name, name) {
			return i, true
		}
	}
	return 0, false
}

func (t *target) names() string {
	var out []string
	for _, c := range t.columns {
		out = append(out, c.Name)
	}
	return strings.Join(out, ", ")
}

// position returns the position of row i of the batch on the table's axis.
func (p *parser) position(i int) int64 {
	n := p.batch.Columns[p.by].Ints[i]
	if n > math.MaxInt64/p.unit || n < math.MinInt64/p.unit {
		return math.MaxInt64 // outside every period
	}
	return n * p.unit
}

// keep removes all rows except the given ones from the batch.
func (p *parser) keep(rows []int) {
	p.batch.Keep(rows)
	for to, from := range rows {
		p.places[to] = p.places[from]
	}
	p.places = p.places[:len(rows)]
	if len(p.rowShapes) > 0 {
		for to, from := range rows {
			p.rowShapes[to] = p.rowShapes[from]
		}
		p.rowShapes = p.rowShapes[:len(rows)]
	}
}
