package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/value"
)

// A Rejected row couldn't be loaded.
type Rejected struct {
	// Line is the number of the row's first line in the source, from 1, and Offset the byte offset of
	// that line.
	Line, Offset int64
	// Column is the column with the invalid value, "" if unknown.
	Column string
	Reason string
	// Row is the original row, or the beginning of a row that is too long to be loaded.
	Row []byte
	// Skipped reports that it was not rejected, but skipped: its key was there already.
	Skipped bool
}

// A place is the location of a row within a batch's bytes.
type place struct {
	Line     int64
	From, to int // offsets in the batch's bytes
}

// A Parser fills batches. It must not be used by several goroutines at once.
type Parser struct {
	*Target
	From     *Batch // the batch that was parsed last
	Batch    *engine.Batch
	Places   []place // where the batch's rows are
	Rejected []Rejected
	Rows     int64  // rows of the batch, including rejected ones
	Kept     []int  // a buffer for callers of Keep
	keyBuf   []byte // buffer of keyHash

	fields []field
	buf    []byte
	values []field // the values of an object, by column
	seen   []bool  // the columns present in the object

	// absent is a bitmap of the columns that get their default in the current row; empty means none.
	// rowShapes has the shape of each row, if rows are objects. shapes has the shapes of all rows so
	// far, by their absent.
	absent    []byte
	rowShapes []*shape
	shapes    map[string]*shape
}

// LineBreak ends a line.
var LineBreak = []byte("\n")

// NewParser returns a parser of batches for a target.
func NewParser(t *Target) *Parser {
	return &Parser{Target: t, Batch: engine.NewBatch(t.All.Table.Columns), shapes: map[string]*shape{"": t.All}}
}

// Parse fills p with the rows of a batch, which replace the previous batch's rows.
func (p *Parser) Parse(b *Batch) {
	p.From = b
	p.Batch.Reset()
	p.Places, p.Rejected, p.Rows, p.rowShapes = p.Places[:0], p.Rejected[:0], 0, p.rowShapes[:0]
	for _, s := range b.parts() {
		p.parseSpan(b, s)
	}
}

func (p *Parser) parseSpan(b *Batch, s span) {
	data, line, at := b.Data[:s.end], s.Line, s.at
	if b.First {
		at = p.Format.Beginning(data)
		line += int64(bytes.Count(data[:at], LineBreak))
	}
	for at < len(data) {
		// A batch contains only complete records, so no further bytes are needed to find their ends.
		n, err := p.Format.End(data[at:], true)
		if err != nil || n == 0 {
			n = len(data) - at
		}
		if at == 0 && b.torn != nil {
			if i := bytes.IndexByte(data, '\n'); i >= 0 {
				n = i + 1
			}
		}
		record := data[at : at+n]
		where := place{line, at, at + n}
		line += int64(bytes.Count(record, LineBreak))
		at += n
		if b.First && where.From == 0 {
			record = bytes.TrimPrefix(record, ByteOrderMark)
		}
		record = trimBreak(record)
		if len(record) == 0 || p.Format.isComment(record) {
			continue
		}
		if p.Format.Kind == LineProtocol && blankPoint(record) {
			continue
		}
		if p.Format.Kind == JSON {
			from, to, empty := element(data[where.From:where.to])
			if empty {
				continue
			}
			record = data[where.From+from : where.From+to]
			where.Line += int64(bytes.Count(data[where.From:where.From+from], LineBreak))
			where.From, where.to = where.From+from, where.From+to
		}
		p.Rows++
		if where.From == 0 && b.torn != nil {
			p.unread(where, "", b.torn)
			continue
		}
		if len(record) > maxLine {
			p.unread(where, "", errLong)
			continue
		}
		column, err := p.row(record)
		if err == nil {
			column, err = p.unshared()
		}
		if err != nil {
			p.Batch.Truncate(len(p.Places))
			p.unread(where, column, err)
			continue
		}
		if p.share != nil && p.others() {
			p.Batch.Truncate(len(p.Places))
			p.Rows--
			continue
		}
		p.Batch.EndRow()
		p.Places = append(p.Places, where)
		if p.Format.Kind.Keyed() {
			p.rowShapes = append(p.rowShapes, p.shapeOf(p.absent))
		}
	}
}

// unread rejects a row that can't be read. Of loads with shares, only the one with Rest rejects it.
func (p *Parser) unread(where place, column string, err error) {
	if p.share != nil && !p.share.Rest {
		p.Rows--
		return
	}
	p.Reject(where, column, err)
}

// Reject adds a row of the batch to the rejected ones. The caller removes it by Keep.
func (p *Parser) Reject(where place, column string, err error) {
	p.Rejected = append(p.Rejected, p.RejectedAt(where, column, err.Error()))
}

// RejectedAt returns a row of the batch as a rejected one.
func (p *Parser) RejectedAt(where place, column, reason string) Rejected {
	offset := p.From.offset(where.From)
	if p.From.Numbered { // a chunk may have more rows now than when it was planned
		offset = min(p.From.From+where.Line-p.From.Line, p.From.To-1)
	}
	row := trimBreak(p.From.Data[where.From:where.to])
	if len(row) > maxLine {
		row = row[:tooLongKept]
	}
	return Rejected{Line: where.Line, Offset: offset, Column: column, Reason: reason, Row: slices.Clone(row)}
}

// tooLongKept is how many bytes are kept of a row that is too long to be loaded.
const tooLongKept = 1 << 10

func (p *Parser) row(record []byte) (string, error) {
	p.buf = p.buf[:0]
	var err error
	if p.Format.Kind.Keyed() {
		column := ""
		if p.Format.Kind != LineProtocol {
			column, err = p.object(record)
		} else {
			column, err = p.point(record)
		}
		if err != nil {
			return column, err
		}
		return p.append(p.values)
	}
	if p.fields, p.buf, err = p.Format.split(record, p.fields[:0], p.buf); err != nil {
		return "", err
	}
	if len(p.fields) != p.width {
		err := fmt.Errorf("it has %s for %s", figure.Plural(len(p.fields), "field", "fields"), figure.Plural(p.width, "column", "columns"))
		if bytes.IndexByte(record, '\r') >= 0 {
			err = fmt.Errorf("%w, and a CR: do its lines end with CR alone?", err)
		}
		return "", err
	}
	if p.taken != nil {
		p.fields = kept(p.fields, p.taken)
	}
	if len(p.constants) > 0 {
		p.fields = append(p.fields, p.constants...)
	}
	return p.append(p.fields)
}

func (p *Parser) append(fields []field) (string, error) {
	for i := range fields {
		c, v, f := &p.Columns[i], &p.Batch.Columns[i], &fields[i]
		isText := c.Kind == value.Text
		switch {
		case f.absent:
			v.AppendNull() // a placeholder, which is not sent
			continue
		case f.null || len(f.value) == 0 && !f.quoted && p.Format.Kind == CSV && (c.Null || !isText):
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
		if isText && c.Null && !f.quoted && len(p.Format.Nulls) == 0 && string(f.value) == "NULL" {
			return c.Name, errNullWord
		}
		text := f.value
		var err error
		if c.comma && (f.quoted || !p.Format.Kind.Keyed()) { // JSON's own numbers have a point
			if text, err = p.decimalPoint(text); err != nil {
				return c.Name, quoteValue(f.value, err)
			}
		}
		switch {
		case c.Int != nil:
			var n int64
			if n, err = c.Int(text); err == nil {
				v.Ints = append(v.Ints, n)
			}
		case c.Append != nil:
			if v.Bytes, err = c.Append(v.Bytes, text); err == nil {
				v.EndBytes()
			}
		default:
			var x float64
			if x, err = c.Float(text); err == nil {
				v.Floats = append(v.Floats, x)
			}
		}
		if err != nil {
			return c.Name, quoteValue(f.value, c.hinted(f.value, err))
		}
	}
	return "", nil
}

// hinted adds a hint to the reason why a value is refused: the flag with which it can be read.
func (c *Column) hinted(text []byte, err error) error {
	isTime := c.Kind == value.Time || c.Logical == value.Date
	flag := ""
	switch {
	case !c.hints:
	case !utf8.Valid(text):
		flag = "--encoding latin1, if it is Latin-1"
	case strings.Contains(err.Error(), "digits of a second"):
		flag = "--truncate-times cuts them off"
	case isTime && !c.formed && value.IsNumber(text):
		flag = "--unix-times s, ms, us or ns reads numbers"
	case isTime && !c.formed:
		flag = "--time-format reads other forms"
	case c.Numeric() && !c.comma && bytes.IndexByte(text, ',') >= 0:
		flag = "--decimal-comma, if it is the decimal sign"
	}
	if flag == "" {
		return err
	}
	return fmt.Errorf("%w; %s", err, flag)
}

var errPoint = errors.New("it has a point, and --decimal-comma reads a comma as the decimal sign")

// decimalPoint replaces the decimal comma of a number by a point.
func (p *Parser) decimalPoint(text []byte) ([]byte, error) {
	if bytes.IndexByte(text, '.') >= 0 {
		return nil, errPoint
	}
	i := bytes.IndexByte(text, ',')
	if i < 0 {
		return text, nil
	}
	from := len(p.buf)
	p.buf = append(p.buf, text...)
	p.buf[from+i] = '.'
	return p.buf[from:len(p.buf):len(p.buf)], nil
}

// errNullWord concerns the word NULL, as mysql -B writes it: only the user knows what it means.
var errNullWord = errors.New(`NULL may be text, or mean that there is no value: --null NULL reads it as no value, --null '\N' as text`)

func quoteValue(text []byte, err error) error {
	const most = 60
	if len(text) > most {
		return fmt.Errorf("%q...: %w", text[:most], err)
	}
	return fmt.Errorf("%q: %w", text, err)
}

var (
	errEmpty = errors.New("it is empty")
	errNull  = errors.New("it is NULL, and the column is NOT NULL")
)

// Position returns the position of row i of the batch on the table's axis.
func (p *Parser) Position(i int) int64 {
	n := p.Batch.Columns[p.By].Ints[i]
	if n > math.MaxInt64/p.unit || n < math.MinInt64/p.unit {
		return math.MaxInt64 // outside every period
	}
	return n * p.unit
}

// Keep removes all rows except those with the given indexes.
func (p *Parser) Keep(rows []int) {
	p.Batch.Keep(rows)
	p.Places = kept(p.Places, rows)
	if len(p.rowShapes) > 0 {
		p.rowShapes = kept(p.rowShapes, rows)
	}
}

// kept moves the elements with these indexes to the beginning of all, and returns them.
func kept[T any](all []T, indexes []int) []T {
	for to, from := range indexes {
		all[to] = all[from]
	}
	return all[:len(indexes)]
}

// A shape is the columns into which an object's row is inserted: those for which the object has a
// key. Other columns get their default. Shapes are reused, because loaders cache data for each
// engine.Table.
type shape struct {
	Table   *engine.Table
	Plain   *engine.Table // Table, but duplicates are errors
	columns []int         // the indexes of its columns in the target
}

func newShape(t *engine.Table, columns []int) *shape {
	table := *t
	table.Columns = nil
	for _, i := range columns {
		table.Columns = append(table.Columns, t.Columns[i])
	}
	if slices.ContainsFunc(table.PrimaryKey, func(name string) bool { return table.Column(name) < 0 }) {
		table.Update = false // the server assigns a new key, so no row has it yet
	}
	plain := table
	plain.Ignore, plain.Update = false, false
	return &shape{&table, &plain, columns}
}

// shapeOf returns the shape without the columns whose bits are set.
func (p *Parser) shapeOf(absent []byte) *shape {
	s := p.shapes[string(absent)]
	if s == nil {
		var columns []int
		for i := range p.Columns {
			if absent[i/8]>>(i%8)&1 == 0 {
				columns = append(columns, i)
			}
		}
		s = newShape(p.All.Table, columns)
		p.shapes[string(absent)] = s
	}
	return s
}

func (p *Parser) absentIn(column int) {
	for len(p.absent) < (len(p.Columns)+7)/8 {
		p.absent = append(p.absent, 0)
	}
	p.absent[column/8] |= 1 << (column % 8)
}

// A Part is the rows of a batch that have the same shape.
type Part struct {
	*shape
	Batch *engine.Batch
	// rows are the indexes of its rows in the parser's batch; nil means all rows.
	rows []int
}

// Place returns the index of a row in the parser's batch.
func (p *Part) Place(row int) int {
	if p.rows == nil {
		return row
	}
	return p.rows[row]
}

// Parts groups the batch's rows by shape, i.e. by the columns that they fill. The largest group is
// first, because later inserts of a transaction cost more. Updates of one key stay in order, even
// if their shapes differ.
func (p *Parser) Parts() []*Part {
	by := map[*shape]*Part{}
	var out []*Part
	inOrder := p.All.Table.Update && p.keyInShapes()
	for i, s := range p.rowShapes {
		if by[s] == nil || inOrder && p.rowShapes[i-1] != s {
			by[s] = &Part{shape: s}
			out = append(out, by[s])
		}
		by[s].rows = append(by[s].rows, i)
	}
	if len(out) == 0 || len(out) == 1 && out[0].shape == p.All {
		return []*Part{{p.All, p.Batch, nil}}
	}
	if !inOrder {
		slices.SortStableFunc(out, func(a, b *Part) int { return len(b.rows) - len(a.rows) })
	}
	for _, part := range out {
		part.Batch = pick(p.Batch, part.columns, part.rows)
	}
	return out
}

// pick returns a batch with some columns and some rows of b. It may share b's values.
func pick(b *engine.Batch, columns, rows []int) *engine.Batch {
	out := &engine.Batch{}
	for _, c := range columns {
		from := &b.Columns[c]
		if len(rows) == b.Rows() {
			out.Columns = append(out.Columns, *from)
			continue
		}
		v := engine.Vector{Type: from.Type}
		for _, row := range rows {
			switch {
			case from.Null(row):
				v.AppendNull()
			case len(from.Ends) > 0:
				v.AppendBytes(from.Value(row))
			case len(from.Floats) > 0:
				v.Floats = append(v.Floats, from.Floats[row])
			default:
				v.Ints = append(v.Ints, from.Ints[row])
			}
		}
		out.Columns = append(out.Columns, v)
	}
	out.EndRows(len(rows))
	return out
}

// keyHash returns a hash of a row's key, without trailing blanks, which most servers ignore.
func (p *Parser) keyHash(i int) uint64 {
	p.keyBuf = p.keyBuf[:0]
	for _, c := range p.Primary {
		v := &p.Batch.Columns[c]
		if len(v.Ints) > 0 {
			p.keyBuf = binary.LittleEndian.AppendUint64(p.keyBuf, uint64(v.Ints[i]))
			continue
		}
		from := len(p.keyBuf)
		p.keyBuf = v.AppendText(p.keyBuf, i)
		p.keyBuf = p.keyBuf[:from+len(bytes.TrimRight(p.keyBuf[from:], " "))]
		p.keyBuf = append(p.keyBuf, 0xff) // a byte that UTF-8 never has separates the values
	}
	return xxhash.Sum64(p.keyBuf)
}

// HasKey reports whether the rows have all columns of the primary key.
func (s *shape) HasKey() bool {
	return len(s.Table.PrimaryKey) > 0 && !slices.ContainsFunc(s.Table.PrimaryKey, func(name string) bool { return s.Table.Column(name) < 0 })
}

// SchemaOf returns the columns of a part.
func (p *Parser) SchemaOf(part *Part) []engine.SchemaColumn {
	cols := make([]engine.SchemaColumn, len(part.shape.columns))
	for i, c := range part.shape.columns {
		cols[i] = p.Columns[c].SchemaColumn
	}
	return cols
}

// foreignTriggers reports whether a table has triggers that aren't rowmill's.
func foreignTriggers(s *engine.Schema) bool {
	return slices.ContainsFunc(s.Triggers, func(name string) bool { return !strings.HasPrefix(name, "rowmill_") })
}

// keyInShapes reports whether a key occurs in rows of different shapes.
func (p *Parser) keyInShapes() bool {
	if len(p.Primary) == 0 || !slices.ContainsFunc(p.rowShapes, func(s *shape) bool { return s != p.rowShapes[0] }) {
		return false
	}
	of := make(map[uint64]*shape, len(p.rowShapes))
	for i, s := range p.rowShapes {
		h := p.keyHash(i)
		if was, there := of[h]; there && was != s {
			return true
		}
		of[h] = s
	}
	return false
}
