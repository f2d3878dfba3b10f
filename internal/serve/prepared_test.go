package serve

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/mysqlwire"
	"github.com/rowmill/rowmill/internal/testdb"
)

// prepare prepares a statement and returns its number.
func (r *rawClient) prepare(q string) string {
	r.t.Helper()
	r.command(mysqlwire.ComStmtPrepare, q)
	return string(binary.LittleEndian.AppendUint32(nil, r.reply.statement))
}

// bound is the end of a COM_STMT_EXECUTE with one parameter. Without a type, the server has it.
func bound(kind byte, value uint64) string {
	types := "\x00"
	if kind != 0 {
		types = "\x01" + string([]byte{kind, 0})
	}
	return "\x00\x01\x00\x00\x00\x00" + types + string(binary.LittleEndian.AppendUint64(nil, value))
}

// pair are a client of the front and one of the server.
func (x *fixture) pair(t *testing.T, caps, extended uint32) (through, direct *rawClient) {
	return dialRaw(t, "tcp", x.address, x.name, caps, extended), dialRaw(t, x.wire.Network, x.wire.Address, x.name, caps, extended)
}

// TestTypesReachTheServer sends the types of parameters with an execution in pieces, and none with
// one that is passed on.
func TestTypesReachTheServer(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x, a := startCounting(t, kind, nil)
		execute(t, x.client(t), "CREATE TABLE p (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 4", "INSERT INTO p VALUES (1, 1), (2, 2), (3, 4), (4, 8)",
			"CREATE TABLE l (a INT)", "ANALYZE TABLE p")
		through, direct := x.pair(t, 0, 0)
		const query = "SELECT COUNT(*), SUM(v) FROM p WHERE v <> ?"
		const two = 0x4000000000000000 // as DOUBLE
		for _, c := range []*rawClient{through, direct} {
			c.command(mysqlwire.ComQuery, "SET SESSION sql_notes = 0")
		}
		ids := [2]string{through.prepare(query), direct.prepare(query)}
		for i, step := range []struct {
			text    string
			execute string // of the prepared statement
			split   bool
		}{
			{execute: bound(typeLonglong, 2), split: true},
			{execute: bound(0, 4), split: true},
			{text: "INSERT INTO l VALUES (1)"},
			{execute: bound(0, 4)}, // after a change
			{text: "BEGIN"},
			{execute: bound(0, 8)},
			{text: "COMMIT"},
			{execute: bound(typeDouble, two), split: true},
			{execute: bound(0, two), split: true},
			{text: "BEGIN"},
			{execute: bound(0, two)},
			{execute: bound(typeLonglong, 2)},
			{execute: bound(0, 2)},
			{text: "COMMIT"},
			{execute: bound(0, 2), split: true},
			{execute: bound(typeDouble, two), split: true},
			{execute: "reset"},
			{text: "BEGIN"},
			{execute: bound(0, two)},
		} {
			before := a.ran.Load()
			var answers [2][][]byte
			for k, c := range []*rawClient{through, direct} {
				switch {
				case step.text != "":
					answers[k] = c.command(mysqlwire.ComQuery, step.text)
				case step.execute == "reset":
					answers[k] = c.command(mysqlwire.ComStmtReset, ids[k])
				default:
					answers[k] = c.command(mysqlwire.ComStmtExecute, ids[k]+step.execute)
				}
			}
			if !sameAnswer(answers[0], answers[1]) {
				t.Errorf("%d: %s%q:\n got %q\nwant %q", i, step.text, step.execute, answers[0], answers[1])
			}
			if split := a.ran.Load() > before; split != step.split {
				t.Errorf("%d: in pieces: %v", i, split)
			}
		}
		// Two parts of a packet, as networks may deliver it: the types in it are the server's, and
		// known.
		p, _ := mysqlwire.End(append(append(mysqlwire.Begin(nil, 0), mysqlwire.ComStmtExecute), ids[0]+bound(typeLonglong, 2)...), 0)
		for _, part := range [][]byte{p[:7], p[7:18], p[18:]} {
			if _, err := through.Conn.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		through.reply.start(expectFirst)
		for through.reply.expect != expectNothing {
			p, err := through.packet(mysqlwire.MaxPayload)
			if err != nil {
				t.Fatal(err)
			}
			through.reply.feed(p)
		}
		through.command(mysqlwire.ComQuery, "COMMIT")
		direct.command(mysqlwire.ComQuery, "COMMIT")
		direct.command(mysqlwire.ComStmtExecute, ids[1]+bound(typeLonglong, 2))
		if got, want := through.command(mysqlwire.ComStmtExecute, ids[0]+bound(0, 2)), direct.command(mysqlwire.ComStmtExecute, ids[1]+bound(0, 2)); !sameAnswer(got, want) {
			t.Errorf("after parts:\n got %q\nwant %q", got, want)
		}
	})
}

// TestLastStatement names the statement that was prepared last as MariaDB's libraries do, right
// behind its preparation.
func TestLastStatement(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x, a := startCounting(t, kind, nil)
		execute(t, x.client(t), "CREATE TABLE p (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 4", "INSERT INTO p VALUES (1, 1), (2, 2), (3, 4), (4, 8)", "ANALYZE TABLE p")
		through, direct := x.pair(t, 0, 0)
		const last, parts = "\xff\xff\xff\xff", "SELECT COUNT(*), SUM(v) FROM p"
		const run = "\x00\x01\x00\x00\x00"
		var ids [2][]string // of the statements, in order
		for i, step := range []struct {
			command byte
			of      int // the statement; -1 is the last one, -2 none
			text    string
		}{
			{mysqlwire.ComQuery, -2, "SET sql_notes = 0"}, {mysqlwire.ComStmtExecute, -1, run},
			{mysqlwire.ComStmtPrepare, -2, parts}, {mysqlwire.ComStmtExecute, -1, run}, {mysqlwire.ComStmtExecute, 0, run},
			{mysqlwire.ComStmtPrepare, -2, parts}, {mysqlwire.ComStmtExecute, 1, run}, {mysqlwire.ComStmtPrepare, -2, "SELECT 5"}, {mysqlwire.ComStmtExecute, -1, run}, {mysqlwire.ComStmtExecute, 1, run},
			{mysqlwire.ComStmtPrepare, -2, parts}, {mysqlwire.ComStmtExecute, 3, run}, {mysqlwire.ComReset, -2, ""}, {mysqlwire.ComStmtExecute, -1, run},
		} {
			var answers [2][][]byte
			for k, c := range []*rawClient{through, direct} {
				of := ""
				if step.of >= 0 {
					of = ids[k][step.of]
				} else if step.of == -1 {
					of = last
				}
				answers[k] = c.command(step.command, of+step.text)
				if step.command == mysqlwire.ComStmtPrepare && !c.reply.failed {
					ids[k] = append(ids[k], string(binary.LittleEndian.AppendUint32(nil, c.reply.statement)))
					answers[k] = nil
				}
			}
			if (len(answers[0]) > 0 || len(answers[1]) > 0) && !sameAnswer(answers[0], answers[1]) {
				t.Errorf("%d: %#x %d %s:\n got %q\nwant %q", i, step.command, step.of, step.text, answers[0], answers[1])
			}
		}
		if n := a.ran.Load(); n != 2 {
			t.Errorf("%d in pieces", n)
		}
	})
}

// TestLimitAsText binds the number of a LIMIT as a text, as some drivers do.
func TestLimitAsText(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x, a := startCounting(t, kind, nil)
		execute(t, x.client(t), "CREATE TABLE p (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 4", "INSERT INTO p VALUES (1, 1), (2, 2), (3, 4), (4, 8)", "ANALYZE TABLE p")
		through, direct := x.pair(t, 0, 0)
		const q = "SELECT v, COUNT(*) FROM p GROUP BY v ORDER BY v LIMIT ?"
		id, own := through.prepare(q), direct.prepare(q)
		for _, test := range []struct {
			limit string
			split bool
		}{{"3", true}, {"03", true}, {"", false}, {"3 ", false}, {"-1", false}, {"99999999999999999999", false}} {
			clear(x.shapes[:])
			before, text := a.ran.Load(), "\x00\x01\x00\x00\x00\x00\x01\xfd\x00"+string(mysqlwire.AppendInt(nil, uint64(len(test.limit))))+test.limit
			got, want := through.command(mysqlwire.ComStmtExecute, id+text), direct.command(mysqlwire.ComStmtExecute, own+text)
			if !sameAnswer(got, want) || (a.ran.Load() > before) != test.split {
				t.Errorf("LIMIT %q: got %q, want %q; in pieces: %v", test.limit, got, want, a.ran.Load() > before)
			}
		}
	})
}

// TestCursorIsClosed fetches from a cursor after further executions of its statement, which close
// it. A statement that has had one is relayed.
func TestCursorIsClosed(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x, a := startCounting(t, kind, nil)
		execute(t, x.client(t), "CREATE TABLE p (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 4", "INSERT INTO p VALUES (1, 1), (2, 2), (3, 4), (4, 8)", "ANALYZE TABLE p")
		through, direct := x.pair(t, 0, 0)
		const run, open, row = "\x00\x01\x00\x00\x00", "\x01\x01\x00\x00\x00", "\x01\x00\x00\x00"
		var ids [2]string
		for k, c := range []*rawClient{through, direct} {
			c.command(mysqlwire.ComQuery, "SET sql_notes = 0")
			ids[k] = c.prepare("SELECT v, COUNT(*) FROM p GROUP BY v ORDER BY v")
		}
		for i, step := range []struct {
			command byte
			text    string
			pieces  int64 // executions in pieces after it
		}{
			{mysqlwire.ComStmtExecute, run, 1}, {mysqlwire.ComStmtFetch, row, 1},
			{mysqlwire.ComStmtExecute, open, 1}, {mysqlwire.ComStmtFetch, row, 1}, {mysqlwire.ComStmtExecute, run, 1}, {mysqlwire.ComStmtFetch, row, 1}, {mysqlwire.ComStmtExecute, run, 1}, {mysqlwire.ComStmtFetch, row, 1},
			{mysqlwire.ComStmtExecute, open, 1}, {mysqlwire.ComStmtFetch, row, 1}, {mysqlwire.ComStmtReset, "", 1}, {mysqlwire.ComStmtFetch, row, 1}, {mysqlwire.ComStmtExecute, run, 1}, {mysqlwire.ComStmtFetch, row, 1},
		} {
			clear(x.shapes[:])
			got, want := through.command(step.command, ids[0]+step.text), direct.command(step.command, ids[1]+step.text)
			if !sameAnswer(got, want) && (!through.reply.failed || !direct.reply.failed || mysqlwire.ReadError(got[0][mysqlwire.HeaderSize:]).Code != mysqlwire.ReadError(want[0][mysqlwire.HeaderSize:]).Code) {
				t.Errorf("%d: %#x:\n got %q\nwant %q", i, step.command, got, want)
			}
			if n := a.ran.Load(); n != step.pieces {
				t.Errorf("%d: %d in pieces, want %d", i, n, step.pieces)
			}
		}
	})
}

// TestCursorsOfPrograms calls procedures that have opened a cursor of their own before they return
// rows. An answer ends where that to a COM_PING behind it begins: nothing is concluded from its
// status.
func TestCursorsOfPrograms(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x := start(t, kind, nil)
		execute(t, x.client(t), "CREATE PROCEDURE walk(n INT) BEGIN DECLARE c CURSOR FOR SELECT 1; OPEN c; CLOSE c; SELECT n; SELECT n + 1 UNION ALL SELECT 7; END")
		for _, caps := range []uint32{0, mysqlwire.CapDeprecateEOF} {
			through, direct := x.pair(t, caps, 0)
			var ids [2]string
			for k, c := range []*rawClient{through, direct} {
				_ = c.SetDeadline(time.Now().Add(20 * time.Second))
				ids[k] = c.prepare("CALL walk(3)")
			}
			for _, command := range []string{"\x03CALL walk(5)", "\x17ID\x00\x01\x00\x00\x00", "\x17ID\x01\x01\x00\x00\x00", "\x03SELECT 1; CALL walk(2); SELECT 3"} {
				var answers [2]string
				for k, c := range []*rawClient{through, direct} {
					p, _ := mysqlwire.End(append(mysqlwire.Begin(nil, 0), strings.Replace(command, "ID", ids[k], 1)...), 0)
					if _, err := c.Conn.Write(append(p, 1, 0, 0, 0, mysqlwire.ComPing)); err != nil {
						t.Fatal(err)
					}
					for n := 0; ; n++ {
						p, err := c.packet(mysqlwire.MaxPayload)
						if err != nil {
							t.Fatalf("%q: packet %d: %v", command, n, err)
						}
						if answers[k] += fmt.Sprintf("%q\n", p); n > 0 && p[3] == 1 {
							break
						}
					}
				}
				if answers[0] != answers[1] || strings.Count(answers[0], "def") < 2 {
					t.Errorf("%q, capabilities %#x:\n got %s\nwant %s", command, caps, answers[0], answers[1])
				}
			}
		}
	})
}

// TestSilentCommands sends several commands without a response at once: the values in parts are
// those of each statement.
func TestSilentCommands(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x, _ := startCounting(t, kind, nil)
		execute(t, x.client(t), "CREATE TABLE p (id INT PRIMARY KEY, v VARCHAR(20)) PARTITION BY HASH (id) PARTITIONS 4", "INSERT INTO p VALUES (1, 'a'), (2, 'b'), (3, 'b')", "ANALYZE TABLE p")
		through, direct := x.pair(t, 0, 0)
		var answers [2][][]byte
		for k, c := range []*rawClient{through, direct} {
			c.command(mysqlwire.ComQuery, "SET sql_notes = 0")
			one, two := c.prepare("SELECT COUNT(*) FROM p WHERE v = ?"), c.prepare("SELECT COUNT(*), MAX(id) FROM p WHERE v = ?")
			var all []byte
			for _, id := range []string{one, two} {
				p, _ := mysqlwire.End(append(append(mysqlwire.Begin(nil, 0), mysqlwire.ComStmtLongData), id+"\x00\x00b"...), 0)
				all = append(all, p...)
			}
			if _, err := c.Conn.Write(all); err != nil {
				t.Fatal(err)
			}
			// The type, and a value in place of which the server has the parts.
			answers[k] = c.command(mysqlwire.ComStmtExecute, two+"\x00\x01\x00\x00\x00\x00\x01\xfd\x00\x01a")
		}
		if !sameAnswer(answers[0], answers[1]) {
			t.Errorf("got %q\nwant %q", answers[0], answers[1])
		}
		for _, c := range x.connected() {
			if c.id != through.id {
				continue
			}
			testdb.Until(t, "the session waits for a command", func() bool { return c.phase.Load() == phaseLoop })
			c.turn.mu.Lock()
			for id, s := range c.session.Statements {
				if !s.Relayed {
					t.Errorf("a value of statement %d in parts isn't known", id)
				}
			}
			if len(c.session.Statements) != 2 {
				t.Errorf("%d statements", len(c.session.Statements))
			}
			c.turn.mu.Unlock()
		}
	})
}
