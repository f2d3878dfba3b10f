package postgres

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
)

// FuzzQuote checks that a literal reads back unchanged and can't be ended
// early.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "'", "\\", "\\'", "'); DROP TABLE x; -- ", "\x00", "a\x00", "a\\", "😀", "''", "'''a"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		literal, ok := appendQuoted(nil, p)
		if ok == bytes.ContainsRune(p, 0) {
			t.Fatalf("%q: %v", p, ok)
		}
		if !ok {
			return
		}
		inner := literal[1 : len(literal)-1]
		if literal[0] != '\'' || literal[len(literal)-1] != '\'' || strings.Contains(strings.ReplaceAll(string(inner), "''", ""), "'") {
			t.Fatalf("%q becomes %s", p, literal)
		}
		if got := strings.ReplaceAll(string(inner), "''", "'"); got != string(p) {
			t.Fatalf("%q is read as %q", p, got)
		}
	})
}

// readNumeric is the reverse of appendNumeric, from the format's description.
func readNumeric(t *testing.T, p []byte) string {
	t.Helper()
	word := func(i int) int { return int(binary.BigEndian.Uint16(p[2*i:])) }
	n, weight, scale := word(0), int(int16(word(1))), word(3)
	if len(p) != 8+2*n {
		t.Fatalf("%d digits in %d bytes", n, len(p))
	}
	if n > 0 && (word(4) == 0 || word(3+n) == 0) {
		t.Fatalf("digits begin or end with a zero: %x", p)
	}
	v := new(big.Rat)
	for i := range n {
		if word(4+i) > 9999 {
			t.Fatalf("digit %d", word(4+i))
		}
		digit := new(big.Rat).SetInt64(int64(word(4 + i)))
		power := new(big.Int).Exp(big.NewInt(10000), big.NewInt(int64(max(weight-i, i-weight))), nil)
		if i > weight {
			digit.Quo(digit, new(big.Rat).SetInt(power))
		} else {
			digit.Mul(digit, new(big.Rat).SetInt(power))
		}
		v.Add(v, digit)
	}
	if word(2) == 0x4000 {
		v.Neg(v)
	}
	return v.FloatString(scale)
}

func FuzzNumeric(f *testing.F) {
	for _, s := range []string{"0", "-0", "0.0000000000", "1", "-1.5", "10000", "9999.9999", "0.0001", "0.00001", "100000000.00000001", "12345678901234567890.0123456789",
		".5", "5.", "00012.3400", "", "-", ".", "1e5", "1.2.3", "NaN", " 1", "+7", "1\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		got, ok := appendNumeric([]byte("before"), p)
		if !ok {
			if string(got[:6]) != "before" {
				t.Fatalf("%q: %q", p, got)
			}
			return
		}
		text := strings.TrimPrefix(string(p), "+")
		want, valid := new(big.Rat).SetString(text)
		if !valid || strings.ContainsAny(text, "eEpPxX_/") {
			t.Fatalf("%q is taken as %s", p, readNumeric(t, got[6:]))
		}
		_, frac, _ := strings.Cut(text, ".")
		if s := readNumeric(t, got[6:]); s != want.FloatString(len(frac)) {
			t.Fatalf("%q becomes %s, want %s", p, s, want.FloatString(len(frac)))
		}
	})
}

func TestNumericRefuses(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "-", ".", "1e5", "1.2.3", "NaN", " 1", "--1", "1\x00", "1,5"} {
		if got, ok := appendNumeric(nil, []byte(s)); ok {
			t.Errorf("%q becomes %x", s, got)
		}
	}
}

// filled returns a table with columns of several types and a batch of its rows.
func filled(rows int) (*engine.Table, *engine.Batch) {
	return purchases(), enginetest.Repeat(purchases(), batch(), rows)
}

// A sink is a connection that gives the server replies defined by a test.
type sink struct {
	net.Conn
	answer []byte
	rest   []byte
}

func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		s.rest = s.answer
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// TestWritersAllocateNothing checks that a writer whose buffers have grown
// allocates nothing per row and little per batch.
func TestWritersAllocateNothing(t *testing.T) {
	const rows = 500
	inserted := "C\x00\x00\x00\x0fINSERT 0 1\x00"
	ready := "Z\x00\x00\x00\x05I"
	for m, answer := range map[engine.Method]string{
		engine.Multi: inserted + ready, engine.Single: inserted + ready, engine.Prepared: "2\x00\x00\x00\x04" + inserted + ready,
		engine.Pipeline: strings.Repeat("2\x00\x00\x00\x04"+inserted, rows) + ready, engine.Load: "G\x00\x00\x00\x07\x01\x00\x00" + inserted + ready,
	} {
		t.Run(string(m), func(t *testing.T) {
			table, b := filled(rows)
			server := &sink{answer: []byte(answer)}
			w := &writer{table: table, method: m, enc: newEncoder(newDialect(), table), stmts: map[int]bool{rows: true, 1: true},
				Link: engine.Link[*wire]{Conn: &wire{net: server, from: server, in: make([]byte, 8<<10), watch: engine.NewWatch(server)}}}
			w.copy = w.enc.copyStatement()
			ctx := t.Context()
			write := func() {
				if _, err := w.Write(ctx, b); err != nil {
					t.Fatal(err)
				}
			}
			write()
			// A batch of one statement; Single has BEGIN and COMMIT, too.
			if n := testing.AllocsPerRun(20, write); n > 6 {
				t.Errorf("%v allocations for a batch of %d rows", n, rows)
			}
		})
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for code, class := range map[string]error{
		"23505": engine.ErrDuplicateKey, "40P01": engine.ErrDeadlock, "40001": engine.ErrDeadlock, "55P03": engine.ErrLockTimeout,
		"57P01": engine.ErrConnectionLost, "57P02": engine.ErrConnectionLost, "08006": engine.ErrConnectionLost, "53100": engine.ErrDiskFull,
		"42P07": engine.ErrTableExists, "42P01": engine.ErrNoTable, "53300": engine.ErrUnreachable, "0A000": engine.ErrUnsupported,
		"23514": engine.ErrNoPartition,
	} {
		server := &pgconn.PgError{Code: code, Message: "text"}
		err := classify(fmt.Errorf("around: %w", server))
		if !errors.Is(err, class) || !errors.As(err, &server) || !strings.HasPrefix(err.Error(), "around: ") {
			t.Errorf("%s: got %v, want class %v", code, err, class)
		}
	}
	for code, want := range map[string]bool{
		"22001": true, "22003": true, "22P02": true, "23502": true, "23503": true, "23505": true, "23514": true, "23P01": true, "44000": true, "P0001": true, "54000": true,
		"428C9": false, "42804": false, "54001": false, "42P01": false, "42703": false, "42501": false, "25006": false, "25P02": false, "40001": false, "40P01": false,
		"53100": false, "55P03": false, "57014": false, "57P01": false, "58030": false, "XX001": false, "P0004": false, "0A000": false, "2": false, "": false,
	} {
		if err := classify(&pgconn.PgError{Code: code}); errors.Is(err, engine.ErrRefused) != want {
			t.Errorf("%s: refused is %v", code, !want)
		}
	}
	for _, err := range []error{errZeroByte, errNumber} {
		if !errors.Is(classify(fmt.Errorf("column c: %w", err)), engine.ErrRefused) {
			t.Errorf("%v is not refused", err)
		}
	}
	check := classify(&pgconn.PgError{Code: "23514", ConstraintName: "price_check"})
	if errors.Is(check, engine.ErrNoPartition) {
		t.Error("a table's own CHECK is called a missing partition")
	}
	for _, err := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, &net.OpError{Op: "read", Err: errors.New("reset")}, errProtocol} {
		if !errors.Is(classify(err), engine.ErrConnectionLost) {
			t.Errorf("%v is no lost connection", err)
		}
	}
	if err := classify(errors.New("other")); engine.Retryable(err) || classify(nil) != nil {
		t.Errorf("got %v", err)
	}
}

// FuzzReply checks that any server output ends in a reply or an error.
func FuzzReply(f *testing.F) {
	f.Add([]byte("C\x00\x00\x00\x0fINSERT 0 1\x00Z\x00\x00\x00\x05I"))
	f.Add([]byte("E\x00\x00\x00\x12SERROR\x00C23505\x00\x00Z\x00\x00\x00\x05E"))
	f.Add([]byte("Z\x00\x00\x00\x04"))
	f.Add([]byte("Z\x00\x00\x00\x05\x00"))
	f.Add([]byte("C\x00\x00\x00\x03"))
	f.Add([]byte("C\xff\xff\xff\xff"))
	f.Add([]byte("C\x00\x00\x00\x04Z\x00\x00\x00\x05I"))
	f.Add([]byte("N\x00\x00\x20\x00aaa"))
	f.Fuzz(func(t *testing.T, p []byte) {
		client, server := net.Pipe()
		defer client.Close()
		go func() {
			server.Write(p)
			server.Close()
		}()
		c, r := &wire{net: client, from: client, in: make([]byte, 16)}, reply{}
		err := c.finish(&r)
		if err == nil && r.tx == 0 {
			t.Fatal("a reply without an end")
		}
	})
}

// TestReplyInPieces checks that messages are assembled from any pieces,
// including messages longer than the buffer.
func TestReplyInPieces(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 20000)
	body := "SERROR\x00VERROR\x00C42P01\x00M" + long + "\x00\x00"
	text := "S\x00\x00\x00\x0ba=b\x00c=\x00" + "E" + string(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))) + body +
		"C\x00\x00\x00\x10INSERT 0 12\x00Z\x00\x00\x00\x05T"
	for _, size := range []int{1, 2, 3, 7, 100, 100000} {
		client, server := net.Pipe()
		go func() {
			for rest := []byte(text); len(rest) > 0; {
				n := min(size, len(rest))
				if _, err := server.Write(rest[:n]); err != nil {
					return
				}
				rest = rest[n:]
			}
		}()
		c, r := &wire{net: client, from: client, in: make([]byte, 16)}, reply{}
		if err := c.finish(&r); err != error(r.err) || r.tx != 'T' || r.rows != 12 || r.err == nil || r.err.Code != "42P01" || r.err.Message != long {
			t.Errorf("in pieces of %d: %+v, %v", size, r, err)
		}
		client.Close()
		server.Close()
	}
}
