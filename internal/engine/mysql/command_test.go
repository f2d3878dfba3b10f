package mysql

import (
	"bytes"
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
