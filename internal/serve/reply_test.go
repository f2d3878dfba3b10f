package serve

import (
	"bytes"
	"slices"
	"testing"

	"github.com/rowmill/rowmill/internal/mysqlwire"
)

// packets returns packets with these payloads.
func packets(payloads ...string) []byte {
	var all []byte
	for i, p := range payloads {
		start := len(all)
		all = append(mysqlwire.Begin(all, byte(i+1)), p...)
		all, _ = mysqlwire.End(all, start)
	}
	return all
}

const (
	okPacket   = "\x00\x00\x00\x02\x00\x00\x00"
	okMore     = "\x00\x01\x00\x0a\x00\x00\x00"
	eofPacket  = "\xfe\x03\x00\x02\x00"
	eofMore    = "\xfe\x00\x00\x0a\x00"
	eofCursor  = "\xfe\x00\x00\x42\x00"
	okAsEOF    = "\xfe\x00\x00\x02\x00\x05\x00"
	errPayload = "\xff\x15\x04#28000no"
	definition = "\x03def\x00\x00\x00\x01a\x00\x0c\x3f\x00\x01\x00\x00\x00\x03\x81\x00\x00\x00\x00"
)

func TestReply(t *testing.T) {
	huge := "\xfe" + string(make([]byte, mysqlwire.MaxPayload+10))
	for _, test := range []struct {
		name       string
		eofs, meta bool
		expect     expectation
		payloads   []string
		file       bool
		failed     bool
		warnings   uint16
	}{
		{"ok", true, false, expectFirst, []string{okPacket}, false, false, 0},
		{"error", true, false, expectFirst, []string{errPayload}, false, true, 0},
		{"progress, then ok", true, false, expectFirst, []string{"\xff\xff\xff\x01\x01\x02", okPacket}, false, false, 0},
		{"rows with EOF", true, false, expectFirst, []string{"\x01", definition, "\xfe\x00\x00\x02\x00", "\x011", "\x012", eofPacket}, false, false, 3},
		{"rows with OK", false, false, expectFirst, []string{"\x01", definition, "\x011", "\x012", okAsEOF}, false, false, 5},
		{"rows of NULL and empty text", false, false, expectFirst, []string{"\x01", definition, "\xfb", "\x00", okAsEOF}, false, false, 5},
		{"an error among rows", false, false, expectFirst, []string{"\x01", definition, "\x011", errPayload}, false, true, 0},
		{"two results", true, false, expectFirst, []string{"\x01", definition, "\xfe\x00\x00\x0a\x00", "\x011", eofMore, okMore, okPacket}, false, false, 0},
		{"no definitions", true, true, expectFirst, []string{"\x01\x00", "\xfe\x00\x00\x02\x00", "\x011", eofPacket}, false, false, 3},
		{"definitions follow", true, true, expectFirst, []string{"\x01\x01", definition, "\xfe\x00\x00\x02\x00", "\x011", eofPacket}, false, false, 3},
		{"a row of 16 MB that looks like EOF", true, false, expectFirst, []string{"\x01", definition, "\xfe\x00\x00\x02\x00", huge, eofPacket}, false, false, 3},
		{"a row of 16 MB that looks like OK", false, false, expectFirst, []string{"\x01", definition, huge, okAsEOF}, false, false, 5},
		{"a file", true, false, expectFirst, []string{"\xfbname"}, true, false, 0},
		{"prepare without columns", true, false, expectPrepared, []string{"\x00\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"}, false, false, 0},
		{"prepare", true, false, expectPrepared, []string{"\x00\x07\x00\x00\x00\x01\x00\x02\x00\x00\x00\x00", definition, definition, eofPacket, definition, eofPacket}, false, false, 0},
		{"prepare without EOF", false, false, expectPrepared, []string{"\x00\x07\x00\x00\x00\x01\x00\x02\x00\x00\x00\x00", definition, definition, definition}, false, false, 0},
		{"a cursor", true, false, expectFirst, []string{"\x01", definition, eofCursor}, false, false, 0},
		{"the cursor of a program", true, false, expectFirst, []string{"\x01", definition, eofCursor, "\x011", eofPacket}, false, false, 3},
		{"fetch", true, false, expectRows, []string{"\x00\x00\x01\x00\x00\x00", eofPacket}, false, false, 3},
		{"fields", true, false, expectFields, []string{definition, definition, eofPacket}, false, false, 3},
		{"statistics", true, false, expectOne, []string{"Uptime: 5"}, false, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			all := packets(test.payloads...)
			const rest = "\x05\x00\x00\x00hello"
			steps := []int{1, 2, 3, 7, 24, len(all)}
			if len(all) > 1<<20 {
				steps = []int{1 << 16, len(all)}
			}
			for _, step := range steps {
				r := reply{eofs: test.eofs, meta: test.meta, cursor: test.name == "a cursor"}
				r.start(test.expect)
				n, ended := follow(&r, slices.Concat(all, []byte(rest)), step)
				if !ended || n != len(all) {
					t.Fatalf("in steps of %d: %d bytes of %d, ended %v", step, n, len(all), ended)
				}
				if (r.expect == expectFile) != test.file || r.failed != test.failed || r.warnings != test.warnings {
					t.Errorf("in steps of %d: %+v", step, r)
				}
				if r.statement != 0 && r.statement != 7 {
					t.Errorf("statement %d", r.statement)
				}
			}
			for cut := range min(len(all), 200) {
				r := reply{eofs: test.eofs, meta: test.meta, cursor: test.name == "a cursor"}
				r.start(test.expect)
				if n, ended := r.feed(all[:cut]); ended || n > cut {
					t.Fatalf("the first %d bytes: %d passed on, ended %v", cut, n, ended)
				}
			}
		})
	}
}

// follow feeds bytes in steps, as they would be read, and returns how many were passed on.
func follow(r *reply, p []byte, step int) (n int, ended bool) {
	from := 0
	for to := 0; ; {
		k, ended := r.feed(p[from:to])
		from += k
		if ended || to == len(p) {
			return from, ended
		}
		to = min(to+step, len(p))
	}
}

func FuzzReply(f *testing.F) {
	f.Add(packets("\x01", definition, "\xfe\x00\x00\x02\x00", "\x011", eofPacket), byte(1), byte(3))
	f.Add(packets("\x00\x07\x00\x00\x00\x01\x00\x02\x00\x00\x00\x00", definition, definition, definition), byte(3), byte(1))
	f.Add(packets(okMore, errPayload), byte(5), byte(2))
	f.Fuzz(func(t *testing.T, p []byte, kind, step byte) {
		once := reply{eofs: kind&1 != 0, meta: kind&2 != 0}
		once.start(expectFirst + expectation(kind>>2)%6)
		parts := once
		n, ended := once.feed(p)
		m, also := follow(&parts, p, int(step%16)+1)
		if n != m || ended != also || once != parts {
			t.Fatalf("at once %d bytes, ended %v, %+v; in steps %d, %v, %+v", n, ended, once, m, also, parts)
		}
	})
}

func BenchmarkReply(b *testing.B) {
	row := string(bytes.Repeat([]byte("\x09123456789"), 10))
	payloads := []string{"\x0a"}
	for range 10 {
		payloads = append(payloads, definition)
	}
	for range 1000 {
		payloads = append(payloads, row)
	}
	all := packets(append(payloads, okAsEOF)...)
	b.SetBytes(int64(len(all)))
	b.ReportAllocs()
	for b.Loop() {
		var r reply
		r.start(expectFirst)
		if n, ended := r.feed(all); !ended || n != len(all) {
			b.Fatal(n)
		}
	}
}
