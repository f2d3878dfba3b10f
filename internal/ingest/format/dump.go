package format

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/value"
)

// A DumpTable describes which rows of a dump are read, and into what.
type DumpTable struct {
	of engine.Dump
	// table is the table whose rows are read: its name without a schema, or a pattern of path.Match.
	table string
	// schema is the table into which they are loaded.
	schema *engine.Schema
	// offset is the time zone with which times are read: "+00:00", or another offset or name.
	offset string
	// encoding is the encoding from which the text was decoded, "" for UTF-8.
	encoding string
}

// A DumpReader reads a dump of SQL and returns the rows of one table as TSV with a header. A dump
// always gives the same text, whose bytes and lines identify batches and bad rows.
type DumpReader struct {
	*DumpTable
	source *ended // what r reads
	r      *bufio.Reader
	out    []byte // the text of rows; the part before at has been returned
	at     int
	err    error // what Read returns after all of out

	// columns are those of the header, created those of CREATE TABLE. convert has one func per column.
	columns, created []string
	convert          []func(dst []byte, v *literal) ([]byte, error)
	// rows reports that the next bytes are tuples of an INSERT, copying that they are rows of a COPY.
	rows, copying bool
	values        []literal
	count         int64 // of rows so far

	plain    bool   // strings have no backslash escapes
	wasPlain bool   // plain, before the dump last set it
	began    bool   // a first line was read that requires a last line, e.g. "-- Dump completed"
	complete bool   // that last line was read
	zone     string // the session's time zone, "" if the dump doesn't set it
	charset  string // the session's character set, "" if the dump doesn't set it
	// tables are up to mostTables other tables with rows. skipped counts the skipped statements.
	tables  []string
	skipped int64
}

// NewDumpTable returns how a dump is read, and sets f to the format of the resulting text.
func NewDumpTable(o *Reading, f *Format) *DumpTable {
	d := &DumpTable{of: *f.dump, table: cmp.Or(o.FromTable, o.Table.Name), schema: o.Schema, offset: "+00:00", encoding: f.Encoding}
	if zone := o.Values.Zone; zone != nil && zone.String() != time.UTC.String() {
		d.offset = zone.String()
	}
	*f = Format{Kind: TSV, Nulls: []string{`\N`}, Header: true, Columns: f.Columns, SkipColumns: f.SkipColumns, Set: f.Set, Encoding: f.Encoding, raw: true}
	return d
}

// mostTables limits the tables that an error lists.
const mostTables = 20

type literal struct {
	form literalForm
	text []byte
}

type literalForm int

const (
	nullLiteral literalForm = iota
	defaultLiteral
	numberLiteral
	trueLiteral
	falseLiteral
	textLiteral   // a string, or a field of COPY
	binaryLiteral // 0x0A of MySQL: bytes, which are also a number
	bytesLiteral  // x'0A', which is a number to MySQL, and a string to MariaDB
	bitsLiteral   // b'1010': to MySQL the same as 0x0A. PostgreSQL: binary digits, from B'1010' or X'0A'
)

func newDump(f *DumpTable, r io.Reader) *DumpReader {
	source := &ended{context.Background(), r}
	return &DumpReader{DumpTable: f, source: source, r: bufio.NewReaderSize(source, blockSize), plain: f.of.Standard, wasPlain: f.of.Standard}
}

// Within makes reads end with ctx.
func (d *DumpReader) Within(ctx context.Context) { d.source.ctx = ctx }

// Read implements io.Reader.
func (d *DumpReader) Read(p []byte) (int, error) {
	if d.at == len(d.out) {
		d.out, d.at = d.out[:0], 0
	}
	for len(d.out) < len(p) && d.at == 0 && d.err == nil {
		if d.err = d.step(); errors.Is(d.err, io.EOF) {
			d.err = d.end()
		} else if d.err != nil {
			d.err = fmt.Errorf("the dump, after row %d of table %s: %w", d.count, d.table, d.err)
		}
	}
	n := copy(p, d.out[d.at:])
	if d.at += n; n > 0 {
		return n, nil
	}
	return 0, d.err
}

func (d *DumpReader) end() error {
	switch {
	case d.began && !d.complete:
		return errors.New("the dump is not complete: its last line is missing")
	case d.columns == nil && d.created == nil:
		err := fmt.Errorf("the dump has no rows of a table %s", d.table)
		if len(d.tables) > 0 {
			return engine.Hinted(fmt.Errorf("%w; it has rows of %s", err, strings.Join(d.tables, ", ")), "--from-table with one of them")
		}
		return err
	}
	return io.EOF
}

var errCutShort = errors.New("it ends in the middle of a statement")

// cutShort returns err, or errCutShort if the dump has ended within a statement.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return errCutShort
	}
	return err
}

// SaySkipped says what was not read of a dump.
func (d *DumpReader) SaySkipped(say func(format string, args ...any)) {
	of := ""
	if len(d.tables) > 0 {
		of = ", with the rows of " + strings.Join(d.tables, ", ")
	}
	if d.skipped > 0 {
		say("%s skipped in the dump%s", figure.Plural(d.skipped, "statement was", "statements were"), of)
	}
}

// step reads a tuple, a row of a COPY, or a statement.
func (d *DumpReader) step() error {
	switch {
	case d.rows:
		return cutShort(d.tuple())
	case d.copying:
		return cutShort(d.copyRow())
	}
	c, err := d.next()
	if err != nil {
		return err
	}
	if c == ';' {
		_, err := d.r.Discard(1)
		return err
	}
	if c == '\\' { // a command of psql
		text, err := d.line()
		d.setting(text)
		return err
	}
	word, err := d.word()
	if err != nil {
		return cutShort(err)
	}
	d.skipped++
	switch word {
	case "INSERT", "REPLACE":
		err = d.insert()
	case "COPY":
		err = d.copyFrom()
	case "CREATE":
		err = d.create()
	case "DELIMITER":
		err = d.delimiter()
	case "SET", "SELECT":
		var text string
		if text, err = d.skip(); err == nil {
			d.setting(text)
		}
	default:
		_, err = d.skip()
	}
	return cutShort(err)
}

// delimiter skips statements that end in another way than with a semicolon: triggers and routines.
func (d *DumpReader) delimiter() error {
	text, err := d.line()
	for err == nil && strings.TrimSpace(text) != ";" {
		text, err = d.line()
		rest, is := strings.CutPrefix(text, "DELIMITER")
		if text = "more"; is {
			text = rest
		}
	}
	return err
}

func (d *DumpReader) wanted(table string) bool {
	if table == d.table {
		return true
	}
	is, err := path.Match(d.table, table)
	return err == nil && is
}

func (d *DumpReader) other(table string) {
	if len(d.tables) < mostTables && !slices.Contains(d.tables, table) {
		d.tables = append(d.tables, table)
	}
}

// create reads CREATE TABLE, which has the names of columns.
func (d *DumpReader) create() error {
	word, err := d.word()
	if err == nil && (word == "UNLOGGED" || word == "FOREIGN") {
		word, err = d.word()
	}
	if err != nil {
		return err
	}
	if word != "TABLE" {
		_, err := d.skip()
		return err
	}
	name, err := d.name()
	if err == nil && strings.EqualFold(name, "IF") { // IF NOT EXISTS
		for range 2 {
			if _, err = d.name(); err != nil {
				return err
			}
		}
		name, err = d.name()
	}
	if err != nil {
		return err
	}
	if c, err := d.next(); err != nil || c != '(' || !d.wanted(name) {
		if err == nil {
			_, err = d.skip()
		}
		return err
	}
	d.created = []string{}
	return d.items()
}

// notColumns are words that begin an item of CREATE TABLE that is no column.
var notColumns = []string{"PRIMARY", "KEY", "UNIQUE", "CONSTRAINT", "FULLTEXT", "SPATIAL", "INDEX", "CHECK", "FOREIGN", "PERIOD", "EXCLUDE", "LIKE"}

// items reads the columns of CREATE TABLE, from its parenthesis on, and skips the rest.
func (d *DumpReader) items() error {
	depth, begin := 0, true
	for {
		if begin && depth == 1 {
			begin = false
			c, err := d.next()
			if err != nil {
				return err
			}
			if c != ')' {
				name, err := d.name()
				if err != nil {
					return err
				}
				if c == '`' || c == '"' || !slices.Contains(notColumns, strings.ToUpper(name)) {
					d.created = append(d.created, name)
				}
			}
		}
		c, err := d.token()
		if err != nil {
			return err
		}
		switch c {
		case '(':
			depth++
			begin = depth == 1
		case ')':
			if depth--; depth == 0 {
				_, err := d.skip() // skip the table's options and partitions
				return err
			}
		case ',':
			begin = depth == 1
		case '\'', '"', '`':
			var none []byte
			err = d.skipQuoted(c, &none)
		case ';':
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// insert reads an INSERT up to its first tuple.
func (d *DumpReader) insert() error {
	if err := d.until("INTO"); err != nil { // INSERT IGNORE INTO
		return err
	}
	name, err := d.name()
	if err != nil {
		return err
	}
	if !d.wanted(name) {
		d.other(name)
		_, err := d.skip()
		return err
	}
	columns, err := d.list()
	if err != nil {
		return err
	}
	if err := d.until("VALUES"); err != nil { // OVERRIDING SYSTEM VALUE VALUES
		return err
	}
	d.rows = true
	return d.begin(columns)
}

// until reads words up to one that the statement must have.
func (d *DumpReader) until(want string) error {
	for {
		word, err := d.word()
		if err != nil || word == want {
			return err
		}
		if word == "" {
			return fmt.Errorf("INSERT without %s", want)
		}
	}
}

// copyFrom reads COPY t (columns) FROM stdin;
func (d *DumpReader) copyFrom() error {
	name, err := d.name()
	if err != nil {
		return err
	}
	columns, err := d.list()
	if err != nil {
		return err
	}
	text, err := d.skip()
	if err != nil || !strings.EqualFold(strings.Join(strings.Fields(text), " "), "FROM stdin;") {
		if err == nil {
			err = fmt.Errorf("COPY %s %.40s: want FROM stdin", name, text)
		}
		return err
	}
	if _, err := d.line(); err != nil {
		return err
	}
	if d.wanted(name) {
		d.copying = true
		return d.begin(columns)
	}
	d.other(name)
	for {
		text, err := d.line()
		if err != nil || strings.TrimRight(text, "\r\n") == `\.` {
			return err
		}
	}
}

// begin sets the columns of an INSERT or COPY; nil means all columns of the table.
func (d *DumpReader) begin(columns []string) error {
	switch {
	case columns != nil:
	case d.created != nil:
		columns = d.created
	default:
		for _, c := range d.schema.Columns {
			if d.of.Standard || !c.Generated { // pg_dump writes DEFAULT for computed columns, mysqldump omits them
				columns = append(columns, c.Name)
			}
		}
	}
	d.skipped--
	if utc := d.zone == "+00:00" || d.zone == "UTC"; d.zone != "" && d.zone != "SYSTEM" && d.zone != d.offset && !(utc && d.offset == "+00:00") {
		return engine.Hinted(fmt.Errorf("its times are in the time zone %s, and --time-zone is another", d.zone), "--time-zone %s", d.zone)
	}
	if utf8 := asUTF8.MatchString(d.charset); d.charset != "" && !utf8 && d.encoding == "" {
		err := fmt.Errorf("its text is in the character set %s", d.charset)
		if _, unknown := Encoding(d.charset); unknown != nil {
			return engine.Hinted(err, "--encoding with one of %s; or a dump in UTF-8", strings.Join(Encodings(), ", "))
		}
		return engine.Hinted(err, "--encoding %s", d.charset)
	}
	if d.columns == nil {
		d.columns = columns
		var header []byte
		for i, name := range columns {
			if i > 0 {
				header = append(header, '\t')
			}
			header = AppendEscaped(header, []byte(name))
			c := d.schema.Find(name)
			if c == nil {
				c = &engine.SchemaColumn{Name: name}
			}
			d.convert = append(d.convert, d.conversion(c))
		}
		d.out = append(append(d.out, header...), '\n')
		return nil
	}
	if !slices.Equal(columns, d.columns) {
		return fmt.Errorf("the rows have the columns %s, and those before %s", strings.Join(columns, ", "), strings.Join(d.columns, ", "))
	}
	return nil
}

// conversion returns a function that writes literals for a column, as the dump's server reads them.
func (d *DumpReader) conversion(c *engine.SchemaColumn) func(dst []byte, v *literal) ([]byte, error) {
	bit, numeric, isText := c.Logical == value.Bit, c.Numeric(), c.Kind == value.Text || c.Kind == value.Bytes
	member := c.Logical == value.Enum || c.Logical == value.Set
	return func(dst []byte, v *literal) ([]byte, error) {
		form, text := v.form, v.text
		if form == bitsLiteral && !bit && !d.of.Standard {
			form, text = binaryLiteral, bytesOfBits(text)
		}
		switch {
		case form == nullLiteral || form == defaultLiteral && c.Generated: // a generated column is skipped
			return append(dst, `\N`...), nil
		case form == defaultLiteral:
			return dst, fmt.Errorf("DEFAULT, for column %s, is not a literal value", c.Name)
		case d.of.Standard && !bit && form != textLiteral && (c.Kind == value.Bytes || form == bitsLiteral && !isText):
			return dst, fmt.Errorf("column %s of type %s gets a literal of another type", c.Name, c.Native)
		case form == trueLiteral || form == falseLiteral:
			if form == trueLiteral {
				text = []byte("1")
			} else {
				text = []byte("0")
			}
			if d.of.Standard && !numeric {
				text = strconv.AppendBool(nil, form == trueLiteral)
			}
		case form == numberLiteral && (!isText || bit):
		case form == numberLiteral:
			out, plain := value.AppendPlain(dst, text)
			if !plain || member { // to ENUM and SET, a number is the number of a member
				return dst, fmt.Errorf("%.40s, a number, is for column %s of type %s", text, c.Name, c.Native)
			}
			return out, nil
		case bit && form == bitsLiteral:
			return append(append(dst, "0b"...), cmp.Or(string(text), "0")...), nil
		case bit && d.of.Standard && len(text) != c.Bits && len(bytes.Trim(text, "01")) == 0:
			return append(append(dst, "0b"...), text...), nil
		case bit && !d.of.Standard:
			return append(append(dst, "0x"...), cmp.Or(hex.EncodeToString(text), "0")...), nil
		case numeric && (form == bytesLiteral || form == binaryLiteral && len(text) > 64): // the column will refuse it
			return fmt.Appendf(dst, "x'%x'", text), nil
		case numeric && form == binaryLiteral:
			return new(big.Int).SetBytes(text).Append(dst, 10), nil
		case c.Kind == value.Bytes && d.of.Standard && bytes.HasPrefix(text, []byte(`\x`)):
			if p, err := hex.DecodeString(string(text[2:])); err == nil {
				text = p
			}
		case c.Kind == value.Bytes && form == textLiteral && d.encoding != "" && bytes.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }):
			return dst, engine.Hinted(fmt.Errorf("bytes for column %s were read as text in %s", c.Name, d.encoding), "a dump with --hex-blob")
		case numeric && d.of.Standard && (string(text) == "t" || strings.EqualFold(string(text), "true")):
			return append(dst, '1'), nil
		case numeric && d.of.Standard && (string(text) == "f" || strings.EqualFold(string(text), "false")):
			return append(dst, '0'), nil
		}
		return AppendEscaped(dst, text), nil
	}
}

// bytesOfBits returns the bytes that MySQL makes of binary digits.
func bytesOfBits(digits []byte) []byte {
	out := make([]byte, (len(digits)+7)/8)
	for i, c := range digits {
		at := len(digits) - 1 - i
		out[len(out)-1-at/8] |= (c - '0') << (at % 8)
	}
	return out
}

// asUTF8 matches character sets that are read as UTF-8: UTF-8, ASCII, and unknown ones.
var asUTF8 = regexp.MustCompile(`(?i)^(utf-?8|binary|default|(us-|sql_)?ascii)`)

// tuple reads a tuple of an INSERT, and the comma or the end of the statement after it.
func (d *DumpReader) tuple() error {
	if err := d.expect('('); err != nil {
		return err
	}
	d.values = d.values[:0]
	size := 0
	for {
		v, err := d.value()
		if err != nil {
			return err
		}
		if d.values = append(d.values, v); len(d.values) > 1<<16 {
			return errors.New("a row has more than 65,536 values")
		}
		if size += len(v.text); size > maxRecord {
			return errEndless
		}
		c, err := d.token()
		if err != nil {
			return err
		}
		if c == ')' {
			break
		}
		if c != ',' {
			return fmt.Errorf("%q follows the value %.40q", c, v.text)
		}
	}
	if err := d.write(); err != nil {
		return err
	}
	c, err := d.token()
	switch {
	case err != nil:
		return err
	case c == ',':
		return nil
	case c == ';':
		d.rows = false
		return nil
	}
	if err := d.r.UnreadByte(); err != nil {
		return err
	}
	d.rows = false // skip ON CONFLICT DO NOTHING, or AS new ON DUPLICATE KEY UPDATE
	_, err = d.skip()
	return err
}

// write writes the values as a row. A row with too few or too many values is a bad one.
func (d *DumpReader) write() (err error) {
	from := len(d.out)
	for i := range d.values {
		if i > 0 {
			d.out = append(d.out, '\t')
		}
		convert := d.convert[min(i, len(d.convert)-1)]
		if d.out, err = convert(d.out, &d.values[i]); err != nil {
			d.out = d.out[:from]
			return err
		}
	}
	d.count++
	d.out = append(d.out, '\n')
	return nil
}

// copyRow reads a row of a COPY, which is a record of TSV.
func (d *DumpReader) copyRow() error {
	var row []byte
	for {
		p, err := d.r.ReadSlice('\n')
		row = append(row, p...)
		if len(row) > maxRecord {
			return errEndless
		}
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
	row = trimBreak(row)
	if string(row) == `\.` {
		d.copying = false
		return nil
	}
	tsv := Format{Kind: TSV, Nulls: []string{`\N`}}
	fields, _, err := tsv.split(row, nil, nil)
	if err != nil {
		return err
	}
	d.values = d.values[:0]
	for _, f := range fields {
		v := literal{form: textLiteral, text: f.value}
		if f.null {
			v = literal{}
		}
		d.values = append(d.values, v)
	}
	return d.write()
}

// dumpBegins are the beginnings of dumps.
var dumpBegins = []string{"--", "/*", "\\restrict", "SET ", "SELECT ", "USE `", "DROP TABLE", "CREATE TABLE", "INSERT INTO", "COPY ", "LOCK TABLES", "BEGIN;", "START TRANSACTION;"}

func beginsDump(text string) bool {
	return slices.ContainsFunc(dumpBegins, func(p string) bool { return strings.HasPrefix(text, p) })
}

// setDump recognises a dump by its beginning. By the marks in f.Dumps, it recognises which program
// wrote the dump. If the user has set Kind Dump, the beginning isn't checked.
func (f *Format) setDump(head []byte) error {
	text := string(head)
	for _, d := range f.Dumps {
		if d.Packed != "" && strings.HasPrefix(text, d.Packed) {
			return engine.Hinted(errors.New("it is a dump in a format of its own"), "%s", d.Unpack)
		}
	}
	if f.Kind != Dump && !beginsDump(text) {
		return nil
	}
	for i, d := range f.Dumps {
		is := slices.ContainsFunc(d.Marks, func(p string) bool { return strings.Contains(text, p) })
		if is || f.Kind == Dump && i == len(f.Dumps)-1 {
			f.Kind, f.dump = Dump, &f.Dumps[i]
			return nil
		}
	}
	return nil
}

// ReadDump has the input return the rows of a dump as TSV.
func (in *Input) ReadDump(f *DumpTable) *DumpReader {
	d := newDump(f, in.Reader)
	in.Reader = bufio.NewReaderSize(d, blockSize)
	return d
}
