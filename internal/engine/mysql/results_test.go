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
