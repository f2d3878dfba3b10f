package format

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/value"
)

func (d *DumpReader) peek() (byte, error) {
	p, err := d.r.Peek(1)
	if len(p) == 0 {
		return 0, err
	}
	return p[0], nil
}

// next returns the next byte behind white space and comments, without reading it.
func (d *DumpReader) next() (byte, error) {
	if err := d.blank(); err != nil {
		return 0, err
	}
	return d.peek()
}

// token reads the next byte behind white space and comments.
func (d *DumpReader) token() (byte, error) {
	if _, err := d.next(); err != nil {
		return 0, err
	}
	return d.r.ReadByte()
}

// upTo reads the bytes before one of stops.
func (d *DumpReader) upTo(stops string) (out []byte, err error) {
	for {
		c, err := d.peek()
		if err != nil || strings.IndexByte(stops, c) >= 0 {
			return out, err
		}
		if out = append(out, c); len(out) > maxRecord {
			return nil, errEndless
		}
		if _, err := d.r.Discard(1); err != nil {
			return nil, err
		}
	}
}

// line reads the rest of a line. It returns at most as much of it as fits the buffer.
func (d *DumpReader) line() (string, error) {
	first := ""
	for i := 0; ; i++ {
		p, err := d.r.ReadSlice('\n')
		if i == 0 {
			first = string(p)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if errors.Is(err, io.EOF) && first != "" {
			err = nil
		}
		return first, err
	}
}

// blank skips white space and comments.
func (d *DumpReader) blank() error {
	for {
		c, err := d.peek()
		if err != nil {
			return err
		}
		next, _ := d.r.Peek(3)
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f':
			_, err = d.r.Discard(1)
		case c == '#' && !d.of.Standard:
			_, err = d.line()
		case bytes.HasPrefix(next, []byte("--")) && (d.of.Standard || len(next) < 3 || next[2] <= ' '):
			var text string
			if text, err = d.line(); err == nil {
				d.remark(text)
			}
		case bytes.HasPrefix(next, []byte("/*")):
			var text string
			if text, err = d.comment(""); err == nil && (strings.HasPrefix(text, "/*!") || strings.HasPrefix(text, "/*M!")) {
				d.setting(text)
			}
		default:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// remark takes note of the lines at both ends of a dump.
func (d *DumpReader) remark(line string) {
	is := func(p string) bool { return strings.HasPrefix(line, p) }
	d.began = d.began || slices.ContainsFunc(d.of.Begin, is)
	d.complete = d.complete || slices.ContainsFunc(d.of.End, is)
}

// setting takes note of settings that change what values mean.
func (d *DumpReader) setting(text string) {
	if set := charsetSet.FindStringSubmatch(text); set != nil {
		d.charset = set[1]
	}
	upper := string(upperASCII([]byte(text)))
	if i := strings.Index(upper, "SQL_MODE"); i >= 0 && !d.of.Standard {
		switch rest := upper[i:]; {
		case strings.Contains(rest, "'"):
			d.plain, d.wasPlain = strings.Contains(rest, "NO_BACKSLASH_ESCAPES"), d.plain
		case strings.Contains(rest, "@") && !strings.Contains(rest, "@@"): // SET sql_mode = @saved_sql_mode
			d.plain = d.wasPlain
		}
	}
	if i := strings.Index(upper, "STANDARD_CONFORMING_STRINGS"); i >= 0 && d.of.Standard {
		d.plain = !strings.Contains(upper[i:], "OFF")
	}
	if i := strings.Index(upper, "TIME_ZONE"); i >= 0 && !d.of.Standard {
		if parts := strings.SplitN(text[i:], "'", 3); len(parts) == 3 && !strings.Contains(parts[0], "@@") {
			d.zone = parts[1]
		}
	}
}

// charsetSet finds the character set of a session, in statements and in a command of psql.
var charsetSet = regexp.MustCompile(`(?i)(?:\bSET\s+NAMES|ENCODING['"]?\s*(?:=|,|\bTO\b)?)\s*['"]?([\w-]+)`)

// upperASCII changes ASCII letters to upper case, in place. Other letters may change their length.
func upperASCII(text []byte) []byte {
	for i, c := range text {
		if c >= 'a' && c <= 'z' {
			text[i] = c - 'a' + 'A'
		}
	}
	return text
}

// mostText limits the text of a comment or statement that is kept.
const mostText = 4 << 10

// comment reads the rest of a comment in /* and */. begin is what has been read of it.
func (d *DumpReader) comment(begin string) (string, error) {
	text := []byte(begin)
	for last := byte(0); ; {
		c, err := d.r.ReadByte()
		if err != nil {
			return "", cutShort(err)
		}
		if len(text) < mostText {
			text = append(text, c)
		}
		if last == '*' && c == '/' && len(text) > 3 {
			return string(text), nil
		}
		last = c
	}
}

// word reads a word in upper case, after white space and comments; it may be empty.
func (d *DumpReader) word() (string, error) {
	if err := d.blank(); err != nil {
		return "", err
	}
	var out []byte
	for {
		c, err := d.peek()
		if err != nil && (len(out) == 0 || !errors.Is(err, io.EOF)) {
			return "", err
		}
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= '0' && c <= '9' || c >= 0x80 || c == '$'
		if err != nil || !letter || len(out) > 200 {
			return strings.ToUpper(string(out)), nil
		}
		out = append(out, c)
		if _, err := d.r.Discard(1); err != nil {
			return "", err
		}
	}
}

// name reads an identifier, quoted or not. Of a.b.c it returns c.
func (d *DumpReader) name() (string, error) {
	for {
		c, err := d.next()
		if err != nil {
			return "", err
		}
		var out []byte
		switch c {
		case '`', '"':
			if _, err := d.r.Discard(1); err != nil {
				return "", err
			}
			if out, err = d.quoted(nil, c, true); err != nil {
				return "", err
			}
		default:
			if out, err = d.upTo(" \t\r\n(),;.`\"'"); err != nil {
				return "", err
			}
			if len(out) == 0 {
				return "", fmt.Errorf("%q is no name", c)
			}
		}
		if c, err = d.peek(); err != nil || c != '.' {
			return string(out), nil
		}
		if _, err := d.r.Discard(1); err != nil {
			return "", err
		}
	}
}

// quoted appends the text up to a quote. A doubled quote stands for one. plain: without escapes.
func (d *DumpReader) quoted(dst []byte, quote byte, plain bool) ([]byte, error) {
	stops := string(quote)
	if !plain {
		stops += `\`
	}
	for {
		if _, err := d.r.Peek(1); err != nil {
			return dst, err
		}
		p, _ := d.r.Peek(d.r.Buffered())
		i := bytes.IndexAny(p, stops)
		if i < 0 {
			i = len(p)
		}
		dst = append(dst, p[:i]...)
		if len(dst) > maxRecord {
			return dst, errEndless
		}
		if i == len(p) {
			if _, err := d.r.Discard(i); err != nil {
				return dst, err
			}
			continue
		}
		stop := p[i]
		if _, err := d.r.Discard(i + 1); err != nil {
			return dst, err
		}
		c, err := d.peek()
		if err != nil && (stop != quote || !errors.Is(err, io.EOF)) {
			return dst, err
		}
		switch {
		case stop == quote && (err != nil || c != quote):
			return dst, nil
		case stop == quote:
			dst = append(dst, quote)
		case c == '0' && !d.of.Standard:
			dst = append(dst, 0)
		case c == 'Z' && !d.of.Standard || strings.IndexByte("bfnrtv", c) >= 0 && (d.of.Standard || c != 'f' && c != 'v'):
			dst = append(dst, escapes[c])
		case !d.of.Standard && (c == '%' || c == '_'):
			dst = append(dst, '\\', c)
		case d.of.Standard && (c >= '0' && c <= '7' || c == 'x' || c == 'u' || c == 'U'):
			return dst, fmt.Errorf(`a string has the escape \%c, which no dump has`, c)
		default:
			dst = append(dst, c)
		}
		if _, err := d.r.Discard(1); err != nil {
			return dst, err
		}
	}
}

// skip reads the rest of a statement, and returns the beginning of that rest.
func (d *DumpReader) skip() (string, error) {
	var text []byte
	for {
		c, err := d.r.ReadByte()
		if err != nil {
			return "", err
		}
		if len(text) < mostText {
			text = append(text, c)
		}
		next, _ := d.r.Peek(2)
		switch {
		case c == ';':
			return string(text), nil
		case c == '\'' || c == '"' || c == '`':
			from := len(text)
			// Only skipped rows have long quoted texts, and nobody needs these.
			if err = d.skipQuoted(c, &text); err == nil && from == mostText {
				text = text[:from]
			}
		case c == '-' && len(next) > 0 && next[0] == '-' && (d.of.Standard || len(next) > 1 && next[1] <= ' '):
			_, err = d.line()
		case c == '/' && len(next) > 0 && next[0] == '*':
			_, err = d.comment("/")
		case c == '$' && d.of.Standard:
			err = d.dollar()
		}
		if err != nil {
			return "", err
		}
	}
}

// skipQuoted reads up to the closing quote, and appends to text what fits.
func (d *DumpReader) skipQuoted(quote byte, text *[]byte) error {
	for {
		c, err := d.r.ReadByte()
		if err != nil {
			return err
		}
		if len(*text) < mostText {
			*text = append(*text, c)
		}
		switch {
		case c == '\\' && quote != '`' && !d.plain:
			if _, err := d.r.Discard(1); err != nil {
				return err
			}
		case c == quote: // a doubled quote begins another quoted text
			return nil
		}
	}
}

// dollar skips a text in dollars, e.g. $body$...$body$, behind its first dollar.
func (d *DumpReader) dollar() error {
	tag, _ := d.r.Peek(64)
	i := bytes.IndexByte(tag, '$')
	if i < 0 || bytes.ContainsAny(tag[:i], " \t\r\n;,()'\"") {
		return nil
	}
	end := "$" + string(tag[:i+1])
	if _, err := d.r.Discard(i + 1); err != nil {
		return err
	}
	var last []byte
	for {
		c, err := d.r.ReadByte()
		if err != nil {
			return err
		}
		if last = append(last, c); len(last) > len(end) {
			last = last[len(last)-len(end):]
		}
		if string(last) == end {
			return nil
		}
	}
}

// list reads names in parentheses, if there are any.
func (d *DumpReader) list() ([]string, error) {
	if c, err := d.next(); err != nil || c != '(' {
		return nil, err
	}
	out := []string{}
	for {
		if _, err := d.r.Discard(1); err != nil { // a parenthesis or a comma
			return nil, err
		}
		name, err := d.name()
		if err != nil {
			return nil, err
		}
		out = append(out, name)
		switch c, err := d.next(); {
		case err != nil:
			return nil, err
		case c == ')':
			_, err := d.r.Discard(1)
			return out, err
		case c != ',':
			return nil, fmt.Errorf("%q follows a column", c)
		}
	}
}

func (d *DumpReader) expect(want byte) error {
	c, err := d.token()
	if err == nil && c != want {
		err = fmt.Errorf("%q, want %q", c, want)
	}
	return err
}

func (d *DumpReader) value() (literal, error) {
	c, err := d.next()
	if err != nil {
		return literal{}, err
	}
	if c == '\'' || c == '"' && !d.of.Standard { // mydumper writes double quotes
		return d.text(d.plain)
	}
	out, err := d.upTo(" \t\r\n(),;'/")
	if err != nil {
		return literal{}, err
	}
	if len(out) > 2 && out[0] == '0' && (out[1] == 'x' || out[1] == 'b') && !d.of.Standard {
		return d.digitsLiteral(binaryLiteral, out[1], out[2:])
	}
	word := strings.ToUpper(string(out[:min(len(out), 20)]))
	if c, err = d.peek(); err != nil {
		return literal{}, err
	}
	switch {
	case word == "NULL":
		return literal{}, nil
	case word == "DEFAULT":
		return literal{form: defaultLiteral}, nil
	case word == "TRUE":
		return literal{form: trueLiteral}, nil
	case word == "FALSE":
		return literal{form: falseLiteral}, nil
	case strings.HasPrefix(word, "_") && slices.Contains([]string{"_BINARY", "_UTF8", "_UTF8MB3", "_UTF8MB4", "_ASCII"}, word):
		return d.value()
	case word == "CONVERT" && c == '(': // of mydumper: CONVERT('...' USING UTF8MB4)
		return d.converted()
	case c == '\'' && word == "E" && d.of.Standard:
		return d.text(false)
	case c == '\'' && word == "N":
		return d.text(d.plain)
	case c == '\'' && (word == "X" || word == "B"):
		v, err := d.text(true)
		if err != nil {
			return v, err
		}
		return d.digitsLiteral(bytesLiteral, word[0]|0x20, v.text)
	case c != '(' && c != '\'' && value.IsNumber(out):
		return literal{numberLiteral, out}, nil
	}
	return literal{}, fmt.Errorf("%.40q is not a literal value", string(out)+string(c))
}

func (d *DumpReader) text(plain bool) (literal, error) {
	quote, err := d.r.ReadByte()
	if err != nil {
		return literal{}, err
	}
	out, err := d.quoted(nil, quote, plain)
	return literal{textLiteral, out}, err
}

// digitsLiteral returns the value of hexadecimal (x) or binary (b) digits.
func (d *DumpReader) digitsLiteral(form literalForm, letter byte, digits []byte) (literal, error) {
	set := map[byte]string{'b': "01", 'x': "0123456789abcdefABCDEF"}[letter]
	if len(bytes.Trim(digits, set)) > 0 {
		return literal{}, fmt.Errorf("%.40q are not digits of %c'...'", digits, letter)
	}
	switch {
	case letter == 'b':
		return literal{bitsLiteral, digits}, nil
	case d.of.Standard:
		var bits []byte
		for _, c := range digits {
			n, _ := strconv.ParseUint(string(c), 16, 4)
			bits = fmt.Appendf(bits, "%04b", n)
		}
		return literal{bitsLiteral, bits}, nil
	}
	out, err := hex.DecodeString(strings.Repeat("0", len(digits)%2) + string(digits))
	return literal{form, out}, err
}

// converted reads (value USING charset).
func (d *DumpReader) converted() (literal, error) {
	if err := d.expect('('); err != nil {
		return literal{}, err
	}
	v, err := d.value()
	if err != nil {
		return v, err
	}
	for _, want := range []string{"USING", "UTF8"} {
		word, err := d.word()
		if err != nil {
			return v, err
		}
		if !strings.HasPrefix(word, want) {
			return v, fmt.Errorf("CONVERT: %q, want %s", word, want)
		}
	}
	return v, d.expect(')')
}
