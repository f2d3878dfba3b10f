package mysql

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-sql-driver/mysql"
)

// packet returns the server's packet with a body.
func packet(body string) []byte {
	n := len(body)
	return append([]byte{byte(n), byte(n >> 8), byte(n >> 16), 1}, body...)
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3000)
	cases := []struct {
		name     string
		sent     []byte
		affected int64
		err      string // a part of it; "" means no error
		number   uint16 // of a server error
	}{
		{"one row", packet("\x00\x01\x00\x02\x00\x00\x00"), 1, "", 0},
		{"251 rows", packet("\x00\xfc\xfb\x00\x00\x02\x00\x00\x00"), 251, "", 0},
		{"70000 rows", packet("\x00\xfd\x70\x11\x01\x00\x02\x00\x00\x00"), 70000, "", 0},
		{"2^32 rows", packet("\x00\xfe\x00\x00\x00\x00\x01\x00\x00\x00\x00"), 1 << 32, "", 0},
		{"more rows than there can be", packet("\x00\xfe\xff\xff\xff\xff\xff\xff\xff\xff"), 0, "malformed", 0},
		{"rows cut off", packet("\x00\xfc\x01"), 0, "malformed", 0},
		{"no rows", packet("\x00"), 0, "malformed", 0},
		{"duplicate key", packet("\xff\x26\x04#23000Duplicate entry"), 0, "Error 1062 (23000): Duplicate entry", 1062},
		{"error without a state", packet("\xff\x10\x04Too many connections"), 0, "Error 1040: Too many connections", 1040},
		{"error with a long text", packet("\xff\x26\x04#23000" + long), 0, "Error 1062", 1062},
		{"error cut off", packet("\xff\x26"), 0, "malformed", 0},
		{"rows of a query", packet("\x01"), 0, "malformed", 0},
		{"a file is asked for", packet("\xfb/etc/passwd"), 0, "malformed", 0},
		{"empty", packet(""), 0, "malformed", 0},
		{"wrong number", append([]byte{1, 0, 0, 0}, 0), 0, "malformed", 0},
		{"two packets", append(packet("\x00\x01\x00"), 1), 0, "malformed", 0},
		{"torn head", []byte{1, 0}, 0, "unexpected EOF", 0},
		{"torn body", packet("\x00\x01\x00\x02\x00\x00\x00")[:7], 0, "EOF", 0},
		{"nothing", nil, 0, "EOF", 0},
	}
	for _, c := range cases {
		for _, slow := range []bool{false, true} {
			if slow && c.name == "two packets" {
				continue // the second packet hasn't arrived; the next statement reads it
			}
			r := bytes.NewReader(c.sent)
			var a answer
			var body []byte
			var err error
			if slow {
				body, err = a.read(iotest.OneByteReader(r))
			} else {
				body, err = a.read(r)
			}
			var affected int64
			if err == nil {
				affected, err = parseAnswer(body)
			}
			if affected != c.affected || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %d rows, %v; want %d, %q", c.name, affected, err, c.affected, c.err)
			}
			var server *mysql.MySQLError
			if errors.As(err, &server) != (c.number != 0) || c.number != 0 && server.Number != c.number {
				t.Errorf("%s: %v; want number %d", c.name, err, c.number)
			}
			if c.number == 0 && c.err == "" && r.Len() > 0 {
				t.Errorf("%s: %d bytes were left unread", c.name, r.Len())
			}
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(packet("\x00\x01\x00\x02\x00\x00\x00"))
	f.Add(packet("\xff\x26\x04#23000Duplicate entry"))
	f.Add(packet("\x00\xfe\xff"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		var a answer
		body, err := a.read(bytes.NewReader(sent))
		if err != nil {
			return
		}
		if n, err := parseAnswer(body); err == nil && n < 0 {
			t.Errorf("%d rows", n)
		}
	})
}

func TestWarningsOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, answer string
		want         int
	}{
		{"none", "\x00\x01\x00\x02\x00\x00\x00", 0},
		{"three", "\x00\x01\x00\x02\x00\x03\x00", 3},
		{"65535 of many rows", "\x00\xfd\x70\x11\x01\xfc\x01\x02\x02\x00\xff\xff", 65535},
		{"large key", "\x00\x01\xfe\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x07\x00", 7},
		{"text after it", "\x00\x01\x00\x02\x00\x02\x00Records: 2", 2},
		{"cut off", "\x00\x01\x00\x02\x00", -1},
		{"key cut off", "\x00\x01", -1},
		{"an error", "\xff\x26\x04#23000", -1},
		{"empty", "", -1},
	} {
		if got := warningsOf([]byte(c.answer)); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

// answerOf returns the packets of an answer, numbered from 1.
func answerOf(bodies ...string) []byte {
	var out []byte
	for i, b := range bodies {
		n := len(b)
		out = append(append(out, byte(n), byte(n>>8), byte(n>>16), byte(i+1)), b...)
	}
	return out
}

const (
	column     = "\x03def\x00\x00\x00\x01a\x00\x0c\x3f\x00\x0b\x00\x00\x00\x08\x81\x00\x00\x00\x00"
	row        = "\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"
	okEnd      = "\xfe\x00\x00\x02\x00\x00\x00"
	classicEOF = "\xfe\x00\x00\x02\x00"
)

func TestResults(t *testing.T) {
	t.Parallel()
	long := "\x00\x00" + strings.Repeat("x", 50000)
	many := []string{"\x01", column}
	for range 300 { // the sequence numbers wrap around
		many = append(many, row)
	}
	cases := []struct {
		name string
		sent []byte
		rows int64
		err  string
	}{
		{"none", answerOf("\x01", column, okEnd), 0, ""},
		{"two", answerOf("\x02", column, column, row, row, okEnd), 2, ""},
		{"two of an old server", answerOf("\x01", column, classicEOF, row, row, classicEOF), 2, ""},
		{"none of an old server", answerOf("\x01", column, classicEOF, classicEOF), 0, ""},
		{"columns that are known", answerOf("\x02\x00", row, okEnd), 1, ""},
		{"columns that follow", answerOf("\x02\x01", column, column, row, okEnd), 1, ""},
		{"300", answerOf(append(many, okEnd)...), 300, ""},
		{"rows beyond the buffer", answerOf("\x01", column, row, long, row, long, long, okEnd), 5, ""},
		{"affected", answerOf("\x00\x07\x00\x02\x00\x00\x00"), 7, ""},
		{"an error", answerOf("\xff\x7a\x04#42S02no such table"), 0, "Error 1146 (42S02): no such table"},
		{"an error after a row", answerOf("\x01", column, row, "\xff\x25\x05#70100interrupted"), 0, "Error 1317"},
		{"more than an answer", append(answerOf("\x01", column, okEnd), 1), 0, "malformed"},
		{"odd columns", answerOf("\xfb"), 0, "malformed"},
		{"an odd row", answerOf("\x01", column, "\x07"), 0, "malformed"},
		{"an empty packet", answerOf("\x01", column, ""), 0, "malformed"},
		{"cut off", answerOf("\x01", column, row, okEnd)[:40], 0, "EOF"},
		{"cut off in a long row", answerOf("\x01", column, long, okEnd)[:40000], 0, "EOF"},
		{"nothing", nil, 0, "EOF"},
		{"wrong number", answerOf("\x01", column, okEnd)[5:], 0, "malformed"},
	}
	for _, c := range cases {
		for _, slow := range []bool{false, true} {
			if slow && c.name == "more than an answer" {
				continue // the rest hasn't arrived; the next statement reads it
			}
			var r results
			var err error
			var rows int64
			if src := bytes.NewReader(c.sent); slow {
				rows, err = r.count(iotest.OneByteReader(src))
			} else {
				rows, err = r.count(src)
			}
			if rows != c.rows || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s, slow %v: %d rows, %v, want %d, %q", c.name, slow, rows, err, c.rows, c.err)
			}
			var server *mysql.MySQLError
			if err != nil && !errors.As(err, &server) && !errors.Is(err, mysql.ErrInvalidConn) {
				t.Errorf("%s: %v is of no connection", c.name, err)
			}
		}
	}
}

// FuzzResults: any data from the server is parsed or refused.
func FuzzResults(f *testing.F) {
	f.Add(answerOf("\x02", column, column, row, row, okEnd))
	f.Add(answerOf("\x01", column, classicEOF, row, classicEOF))
	f.Add(answerOf("\xff\x7a\x04#42S02no such table"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		var whole, slow results
		n, err := whole.count(bytes.NewReader(sent))
		m, err2 := slow.count(iotest.OneByteReader(bytes.NewReader(sent)))
		if err == nil && (m != n || err2 != nil) {
			t.Errorf("%d rows at once, %d and %v byte by byte", n, m, err2)
		}
		if binary.Size(sent) == 0 && err == nil {
			t.Error("nothing was read as an answer")
		}
	})
}
