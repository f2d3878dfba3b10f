package format

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"

	"github.com/influxdata/line-protocol/v2/lineprotocol"

	"github.com/rowmill/rowmill/internal/value"
)

// pointsUnit is the unit of timestamps in line protocol unless another is given.
const pointsUnit = "ns"

var unixUnits = map[string]time.Duration{"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond, pointsUnit: time.Nanosecond}

// pointEnd is End for a line of line protocol that contains a quote. line is the end of p's first
// line; 0 if unknown. Quoted field values of a well-formed point may contain line breaks; a
// malformed point ends at its first line break.
func (f *Format) pointEnd(p []byte, line int, final bool) (int, error) {
	q := p[:min(len(p), maxQuoted)]
	i := skipPointSpace(q, 0)
	broken := i < len(q) && q[i] == '#'
	i = takePoint(q, i, " \n") // measurement and tags
	if i = skipPointSpace(q, i); i < len(q) && q[i] == '\n' {
		broken = true
	}
	for !broken && i < len(q) {
		i = takePoint(q, i, "= \n") // a field's key
		if i == len(q) {
			break
		}
		if q[i] != '=' {
			broken = true
			break
		}
		if i++; i < len(q) && q[i] == '"' {
			if i = takeQuoted(q, i+1); i < 0 {
				break
			}
		} else {
			for i < len(q) && q[i] != ',' && q[i] != ' ' && q[i] != '\n' {
				i++
			}
		}
		if i < len(q) && q[i] == ',' {
			i++
			continue
		}
		if end := bytes.IndexByte(p[i:], '\n'); end >= 0 && i < len(q) { // after the fields
			return i + end + 1, nil
		}
		if final && (i < len(q) || len(q) == len(p)) {
			return len(p), nil
		}
		break
	}
	if !broken && !final && len(p) <= maxQuoted {
		return 0, nil
	}
	return lineEnd(p, line, final)
}

func skipPointSpace(p []byte, i int) int {
	for i < len(p) && p[i] == ' ' {
		i++
	}
	return i
}

// takePoint returns the position of the first byte of ends that isn't escaped.
func takePoint(p []byte, i int, ends string) int {
	for ; i < len(p) && bytes.IndexByte([]byte(ends), p[i]) < 0; i++ {
		if p[i] == '\\' && i+1 < len(p) && (p[i+1] == ' ' || p[i+1] == ',' || p[i+1] == '=') {
			i++
		}
	}
	return i
}

// takeQuoted returns the place after the closing quote of a text that begins at i, or -1.
func takeQuoted(p []byte, i int) int {
	for ; i < len(p); i++ {
		switch {
		case p[i] == '"':
			return i + 1
		case p[i] == '\\' && i+1 < len(p) && (p[i+1] == '"' || p[i+1] == '\\'):
			i++
		}
	}
	return -1
}

// isPoint matches a line that is a point with a timestamp. Lines of other formats don't match.
var isPoint = regexp.MustCompile(`^[^ "]+ +[^ ="]+=.* -?\d+$`)

// blankPoint reports whether a line has no point: it is empty or a comment.
func blankPoint(record []byte) bool {
	record = bytes.TrimLeft(record, " ")
	return len(record) == 0 || record[0] == '#'
}

// Measurement returns the measurement of a line, which may refer to the line's memory; "" is none.
func Measurement(line []byte) string {
	d := lineprotocol.NewDecoderWithBytes(line)
	if !d.Next() {
		return ""
	}
	name, err := d.Measurement()
	if err != nil {
		return ""
	}
	return string(name)
}

// point splits a line into p.values: tags and fields by keys, the timestamp for the column By.
func (p *Parser) point(record []byte) (string, error) {
	if bytes.IndexByte(record, '\\') >= 0 {
		p.buf = appendVerbatim(p.buf, record)
		record = p.buf
	}
	d := lineprotocol.NewDecoderWithBytes(record)
	if !d.Next() {
		return "", errors.New("it has no point")
	}
	p.beginKeys()
	name, err := d.Measurement()
	if err != nil {
		return "", pointError(err)
	}
	if string(name) != p.measurement {
		return "", fmt.Errorf("its measurement is %q, and only %q is loaded (see --measurement)", name, p.measurement)
	}
	// What the decoder returns is valid only until its next call.
	keep := func(text []byte) []byte {
		from := len(p.buf)
		p.buf = append(p.buf, text...)
		return p.buf[from:len(p.buf):len(p.buf)]
	}
	for {
		key, text, err := d.NextTag()
		if err != nil {
			return "", pointError(err)
		}
		if key == nil {
			break
		}
		i, err := p.key(unsafeString(key))
		if err != nil {
			return "", err
		}
		if i >= 0 {
			p.values[i] = field{value: keep(text), quoted: true}
		}
	}
	fields := 0
	for {
		key, kind, text, err := d.NextFieldBytes()
		if err != nil {
			return "", pointError(err)
		}
		if key == nil {
			break
		}
		fields++
		v, err := lineprotocol.NewValueFromBytes(kind, text)
		if err != nil {
			return "", fmt.Errorf("field %q: %q: %w", key, text, err)
		}
		i, err := p.key(unsafeString(key))
		if err != nil {
			return "", err
		}
		if i < 0 {
			continue
		}
		switch {
		case kind == lineprotocol.Bool:
			p.values[i] = field{value: strconv.AppendBool(nil, v.BoolV())}
		case kind == lineprotocol.Float && p.Columns[i].Kind == value.Int:
			p.values[i] = field{value: p.integral(keep(text))}
		default:
			p.values[i] = field{value: keep(text), quoted: kind == lineprotocol.String}
		}
	}
	at, err := d.TimeBytes()
	if err != nil {
		return "", pointError(err)
	}
	if d.Next() {
		return "", errors.New("it is followed by another point in the same line")
	}
	if fields == 0 {
		return "", errors.New("it has no field")
	}
	if len(at) > 0 {
		if column, err := p.timestamp(keep(at)); err != nil {
			return column, err
		}
	}
	return p.endKeys()
}

// appendVerbatim appends a line and doubles each backslash in its strings that escapes nothing. In
// line protocol only \" and \\ are escapes, but the decoder would also read \n, \r and \t as such.
func appendVerbatim(dst, line []byte) []byte {
	begin := takePoint(line, skipPointSpace(line, 0), " ") // behind measurement and tags
	dst = append(dst, line[:begin]...)
	quoted := false
	for i := begin; i < len(line); i++ {
		if dst = append(dst, line[i]); line[i] == '"' && (quoted || line[i-1] == '=') {
			quoted = !quoted
		}
		if !quoted || line[i] != '\\' {
			continue
		}
		if i+1 < len(line) && (line[i+1] == '"' || line[i+1] == '\\') {
			i++
		}
		dst = append(dst, line[i])
	}
	return dst
}

// timestamp sets the value of the column by which the table rolls.
func (p *Parser) timestamp(text []byte) (string, error) {
	c := &p.Columns[p.By]
	if !p.byTime {
		if p.Format.Columns != nil {
			return "", nil
		}
		return "", fmt.Errorf("it has a timestamp, and the table rolls by the number %s (see --columns)", c.Name)
	}
	if p.seen[p.By] {
		return c.Name, fmt.Errorf("it has a timestamp, and key %q too", c.Name)
	}
	p.seen[p.By] = true
	if p.epoch > 0 { // a number of units
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return c.Name, quoteValue(text, errors.New("it is not a timestamp"))
		}
		from, to := int64(p.stampUnit), int64(p.epoch)
		switch {
		case from >= to:
			if n > math.MaxInt64/(from/to) || n < math.MinInt64/(from/to) {
				return c.Name, quoteValue(text, errors.New("it is out of range"))
			}
			n *= from / to
		default:
			rest := n % (to / from)
			if rest != 0 && !p.truncate {
				return c.Name, quoteValue(text, fmt.Errorf("it is not a whole number of %s, the unit of the column", p.epoch))
			}
			if n /= to / from; rest < 0 {
				n--
			}
		}
		text = strconv.AppendInt(nil, n, 10)
	}
	p.values[p.By] = field{value: text}
	return "", nil
}

// pointError drops the prefix of a decoder's error, because the row's line is reported anyway.
func pointError(err error) error {
	var syntax *lineprotocol.DecodeError
	if errors.As(err, &syntax) {
		return fmt.Errorf("character %d: %w", syntax.Column, syntax.Err)
	}
	return err
}

// points describes how timestamps of line protocol become values of a table's column.
type points struct {
	measurement string
	byTime      bool          // the table rolls by time
	epoch       time.Duration // the unit of an integer time column; 0 for other columns
	stampUnit   time.Duration
	truncate    bool
}
