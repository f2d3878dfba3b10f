package mysql

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-sql-driver/mysql"
)

// answerOf returns the packets of an answer, numbered from 1.
func answerOf(bodies ...string) []byte {
	var out []byte
	for i, b := range bodies {
		n := len(b)
		out = append(append(out, byte(n), byte(n>>8), byte(n>>16), byte(i+1)), b...)
	}
	return out
}

// affected reads the answer to a statement without a result, and received that to a
// prepared one.
func affected(src io.Reader) (int64, error) {
	n, _, err := (&packets{src: src}).ok(1)
	return n, err
}

func received(src io.Reader) (int64, error) { return (&packets{src: src}).count() }

const (
	column     = "\x03def\x00\x00\x00\x01a\x00\x0c\x3f\x00\x0b\x00\x00\x00\x08\x81\x00\x00\x00\x00"
	row        = "\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"
	okEnd      = "\xfe\x00\x00\x02\x00\x00\x00"
	classicEOF = "\xfe\x00\x00\x02\x00"
)

func TestAnswers(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3000)
	longRow := "\x00\x00" + strings.Repeat("x", 50000)
	many := []string{"\x01", column}
	for range 300 { // the sequence numbers wrap around
		many = append(many, row)
	}
	for _, c := range []struct {
		name   string
		read   func(io.Reader) (int64, error)
		sent   []byte
		rows   int64
		err    string // a part of it; "" means no error
		number uint16 // of a server error
	}{
		{"one row", affected, answerOf("\x00\x01\x00\x02\x00\x00\x00"), 1, "", 0},
		{"251 rows", affected, answerOf("\x00\xfc\xfb\x00\x00\x02\x00\x00\x00"), 251, "", 0},
		{"70000 rows", affected, answerOf("\x00\xfd\x70\x11\x01\x00\x02\x00\x00\x00"), 70000, "", 0},
		{"2^32 rows", affected, answerOf("\x00\xfe\x00\x00\x00\x00\x01\x00\x00\x00\x00"), 1 << 32, "", 0},
		{"more rows than there can be", affected, answerOf("\x00\xfe\xff\xff\xff\xff\xff\xff\xff\xff"), 0, "malformed", 0},
		{"rows cut off", affected, answerOf("\x00\xfc\x01"), 0, "malformed", 0},
		{"no rows", affected, answerOf("\x00"), 0, "malformed", 0},
		{"duplicate key", affected, answerOf("\xff\x26\x04#23000Duplicate entry"), 0, "Error 1062 (23000): Duplicate entry", 1062},
		{"error without a state", affected, answerOf("\xff\x10\x04Too many connections"), 0, "Error 1040: Too many connections", 1040},
		{"error with a long text", affected, answerOf("\xff\x26\x04#23000" + long), 0, "Error 1062 (23000): " + long, 1062},
		{"error cut off", affected, answerOf("\xff\x26"), 0, "malformed", 0},
		{"rows of a query", affected, answerOf("\x01"), 0, "malformed", 0},
		{"a file is asked for", affected, answerOf("\xfb/etc/passwd"), 0, "malformed", 0},
		{"empty", affected, answerOf(""), 0, "malformed", 0},
		{"wrong number", affected, append([]byte{1, 0, 0, 0}, 0), 0, "malformed", 0},
		{"two packets", affected, answerOf("\x00\x01\x00", "\x00\x01\x00"), 0, "malformed", 0},
		{"head cut off", affected, []byte{1, 0}, 0, "EOF", 0},
		{"body cut off", affected, answerOf("\x00\x01\x00\x02\x00\x00\x00")[:7], 0, "EOF", 0},
		{"nothing", affected, nil, 0, "EOF", 0},

		{"none", received, answerOf("\x01", column, okEnd), 0, "", 0},
		{"two", received, answerOf("\x02", column, column, row, row, okEnd), 2, "", 0},
		{"an old server's columns", received, answerOf("\x01", column, classicEOF), 0, "older than", 0},
		{"columns that are known", received, answerOf("\x02\x00", row, okEnd), 1, "", 0},
		{"columns that follow", received, answerOf("\x02\x01", column, column, row, okEnd), 1, "", 0},
		{"300", received, answerOf(append(many, okEnd)...), 300, "", 0},
		{"rows beyond the buffer", received, answerOf("\x01", column, row, longRow, row, longRow, longRow, okEnd), 5, "", 0},
		{"rows affected", received, answerOf("\x00\x07\x00\x02\x00\x00\x00"), 7, "", 0},
		{"an error", received, answerOf("\xff\x7a\x04#42S02no such table"), 0, "Error 1146 (42S02): no such table", 1146},
		{"an error after a row", received, answerOf("\x01", column, row, "\xff\x25\x05#70100interrupted"), 0, "Error 1317", 1317},
		{"more than an answer", received, answerOf("\x01", column, okEnd, row), 0, "malformed", 0},
		{"odd columns", received, answerOf("\xfb"), 0, "malformed", 0},
		{"an odd row", received, answerOf("\x01", column, "\x07"), 0, "malformed", 0},
		{"an empty packet", received, answerOf("\x01", column, ""), 0, "malformed", 0},
		{"cut off", received, answerOf("\x01", column, row, okEnd)[:40], 0, "EOF", 0},
		{"cut off in a long row", received, answerOf("\x01", column, longRow, okEnd)[:40000], 0, "EOF", 0},
		{"no result", received, nil, 0, "EOF", 0},
		{"no first packet", received, answerOf("\x01", column, okEnd)[5:], 0, "malformed", 0},
	} {
		for _, slow := range []bool{false, true} {
			if slow && (c.name == "two packets" || c.name == "more than an answer") {
				continue // the rest hasn't arrived; the next statement reads it
			}
			src := bytes.NewReader(c.sent)
			var from io.Reader = src
			if slow {
				from = iotest.OneByteReader(src)
			}
			rows, err := c.read(from)
			if rows != c.rows || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s, slow %v: %d rows, %v; want %d, %q", c.name, slow, rows, err, c.rows, c.err)
			}
			var server *mysql.MySQLError
			if errors.As(err, &server) != (c.number != 0) || c.number != 0 && server.Number != c.number {
				t.Errorf("%s: %v; want number %d", c.name, err, c.number)
			}
			if err != nil && c.number == 0 && !errors.Is(err, mysql.ErrInvalidConn) {
				t.Errorf("%s: %v is of no connection", c.name, err)
			}
			if err == nil && src.Len() > 0 {
				t.Errorf("%s: %d bytes were left unread", c.name, src.Len())
			}
		}
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, answer string
		want         int
	}{
		{"none", "\x00\x01\x00\x02\x00\x00\x00", 0},
		{"three", "\x00\x01\x00\x02\x00\x03\x00", 3},
		{"65535 of many rows", "\x00\xfd\x70\x11\x01\xfc\x01\x02\x02\x00\xff\xff", 65535},
		{"large key", "\x00\x01\xfe\x00\x00\x00\x00\x01\x00\x00\x80\x02\x00\x07\x00", 7},
		{"text after it", "\x00\x01\x00\x02\x00\x02\x00Records: 2", 2},
		{"cut off", "\x00\x01\x00\x02\x00", -1},
		{"key cut off", "\x00\x01", -1},
		{"an error", "\xff\x26\x04#23000", -1},
	} {
		if _, got, _ := parseAnswer([]byte(c.answer)); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

// FuzzAnswers: any data from the server is parsed or refused, the same however it arrives.
func FuzzAnswers(f *testing.F) {
	f.Add(answerOf("\x00\x01\x00\x02\x00\x00\x00"))
	f.Add(answerOf("\x00\xfe\xff"))
	f.Add(answerOf("\x02", column, column, row, row, okEnd))
	f.Add(answerOf("\x01", column, classicEOF, row, classicEOF))
	f.Add(answerOf("\xff\x7a\x04#42S02no such table"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		for _, read := range []func(io.Reader) (int64, error){affected, received} {
			n, err := read(bytes.NewReader(sent))
			m, slow := read(iotest.OneByteReader(bytes.NewReader(sent)))
			if err == nil && (n < 0 || m != n || slow != nil || len(sent) == 0) {
				t.Errorf("%d rows at once, %d and %v byte by byte", n, m, slow)
			}
		}
	})
}
