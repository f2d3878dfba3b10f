package serve

import (
	"encoding/binary"

	"github.com/rowmill/rowmill/internal/mysqlwire"
	"github.com/rowmill/rowmill/internal/serve/session"
)

// A reply follows the bytes of the server's response to one command. It finds the end of the
// response, and notes what the response says about the session. It keeps no bytes.
type reply struct {
	// What client and server have negotiated. eofs: an EOF packet ends the definitions of columns.
	// meta: a flag follows the number of columns.
	eofs, meta bool

	expect expectation
	cursor bool // the command asks for a cursor
	count  int  // of packets that expectSkip passes over
	then   bool // rows follow expectSkip, after an EOF packet if eofs is set
	left   int  // bytes of the current packet that are still to come
	more   bool // the next packet continues the current one

	// What the last OK, EOF or error packet said.
	status, warnings uint16
	failed           bool
	affected         bool // the last result had no columns, and rows that were changed
	several          bool // there was more than one result
	// The statement that was prepared, with its numbers of parameters and columns.
	statement       uint32
	params, columns int
}

// An expectation is which packet comes next.
type expectation int

const (
	expectNothing expectation = iota // the response is complete
	expectFirst                      // the first packet of the response to a query
	expectOne                        // the only packet of the response
	expectPrepared
	expectFields // definitions, until EOF
	expectSkip   // reply.count packets, which aren't examined
	expectDefsEOF
	expectRows
	expectFile // the client sends a file
)

// expected says for each command what its response begins with. A command that isn't listed has no
// response (see silent), or one that isn't followed (see opaque).
var expected = [256]expectation{
	mysqlwire.ComQuery: expectFirst, mysqlwire.ComStmtExecute: expectFirst, mysqlwire.ComBulkExecute: expectFirst,
	mysqlwire.ComStmtPrepare: expectPrepared, mysqlwire.ComFieldList: expectFields, mysqlwire.ComStmtFetch: expectRows,
	mysqlwire.ComInitDB: expectOne, 0x05: expectOne, 0x06: expectOne, 0x07: expectOne, 0x08: expectOne, 0x09: expectOne, 0x0A: expectFirst,
	mysqlwire.ComProcessKill: expectOne, 0x0D: expectOne, mysqlwire.ComPing: expectOne, 0x15: expectOne,
	mysqlwire.ComStmtReset: expectOne, 0x1B: expectOne, mysqlwire.ComReset: expectOne,
}

// silent are the commands without a response.
func silent(command byte) bool {
	return command == mysqlwire.ComStmtLongData || command == mysqlwire.ComStmtClose
}

// opaque reports whether a command ends the alternation of commands and responses, e.g. because a
// binary log follows. From then on, all bytes are passed on in both directions until the connection
// ends.
func opaque(command byte) bool { return expected[command] == expectNothing }

// A reply reads at most headBytes bytes of a payload: in an OK packet, two length-encoded integers,
// the status and the warnings.
const headBytes = 23

// outcome returns what the response says about the session.
func (r *reply) outcome() session.Outcome {
	return session.Outcome{Status: r.status, Failed: r.failed, Affected: r.affected, Several: r.several, Statement: r.statement, Params: r.params}
}

// follow prepares for the response to a command. p is the command's payload, or its beginning; a
// COM_STMT_EXECUTE must be there at least up to the flags.
func (r *reply) follow(p []byte) {
	r.start(expected[p[0]])
	r.cursor = p[0] == mysqlwire.ComStmtExecute && len(p) > mysqlwire.ExecutionFlags && p[mysqlwire.ExecutionFlags]&mysqlwire.CursorReadOnly != 0
}

// start prepares for a response.
func (r *reply) start(e expectation) {
	r.expect, r.left, r.more, r.failed, r.several = e, 0, false, false, false
	if e == expectNothing {
		return
	}
	r.warnings = 0
	if e == expectFirst {
		r.affected = false
	}
}

// feed follows the bytes p of the response, and returns how many of them may be passed on: all,
// except the beginning of a packet of which too little has arrived to know its meaning. ended
// reports that the response is complete, or that the client has to send a file.
func (r *reply) feed(p []byte) (n int, ended bool) {
	for {
		if r.left > 0 {
			k := min(r.left, len(p)-n)
			n += k
			r.left -= k
			if r.left > 0 {
				return n, false
			}
		}
		if !r.more && (r.expect == expectNothing || r.expect == expectFile) {
			return n, true
		}
		rest := p[n:]
		if len(rest) < mysqlwire.HeaderSize {
			return n, false
		}
		size := mysqlwire.Length(rest)
		if r.more {
			r.more = size == mysqlwire.MaxPayload
			r.left = size
			n += mysqlwire.HeaderSize
			continue
		}
		body := rest[mysqlwire.HeaderSize:]
		if size > 0 && r.expect != expectSkip {
			need := 1
			if len(body) > 0 && (r.expect != expectRows || body[0] >= mysqlwire.EOF) {
				need = min(size, headBytes)
			}
			if len(body) < need {
				return n, false
			}
		}
		r.packet(body[:min(size, len(body))], size)
		r.more = size == mysqlwire.MaxPayload
		r.left = size
		n += mysqlwire.HeaderSize
	}
}

// packet decides from the beginning of a packet what comes next. size is the length of its payload.
func (r *reply) packet(head []byte, size int) {
	first := byte(mysqlwire.OK)
	if len(head) > 0 {
		first = head[0]
	}
	if r.expect != expectSkip && first == mysqlwire.Error && size < mysqlwire.MaxPayload {
		r.error(head)
		return
	}
	switch r.expect {
	case expectFirst:
		switch {
		case first == mysqlwire.OK:
			r.affected = len(head) > 1 && head[1] != 0
			r.ok(head)
		case first == mysqlwire.File:
			r.expect = expectFile
		default:
			r.resultSet(head)
		}
	case expectOne:
		// A response of another form, such as that to COM_STATISTICS, says nothing about the session.
		if first == mysqlwire.OK || first == mysqlwire.EOF {
			r.ok(head)
		}
		r.expect = expectNothing
	case expectPrepared:
		r.prepared(head)
	case expectFields:
		if first == mysqlwire.EOF {
			r.ok(head)
			r.expect = expectNothing
		}
	case expectSkip:
		if r.count--; r.count > 0 {
			return
		}
		switch {
		case !r.then:
			r.expect = expectNothing
		case r.eofs:
			r.expect = expectDefsEOF
		default:
			r.expect = expectRows
		}
	case expectDefsEOF:
		r.expect = expectRows
		r.read(head)
		// The server also sets the cursor bit if a stored program opens cursors. In that case, rows and
		// another result follow.
		if r.cursor && r.status&(mysqlwire.StatusCursor|mysqlwire.StatusMoreResults) == mysqlwire.StatusCursor {
			r.expect = expectNothing
		}
	case expectRows:
		// A row may begin with this byte, too, if its first value has 16 MB or more.
		if first == mysqlwire.EOF && (size < 9 || !r.eofs && size < mysqlwire.MaxPayload) {
			r.ok(head)
		}
	}
}

// error ends the response. MariaDB also reports progress in the form of an error.
func (r *reply) error(head []byte) {
	if len(head) >= 3 && head[1] == 0xFF && head[2] == 0xFF {
		return
	}
	r.failed = true
	r.expect = expectNothing
}

// ok reads an OK or EOF packet and expects another result, if there is one.
func (r *reply) ok(head []byte) {
	r.read(head)
	r.expect = expectNothing
	if r.status&mysqlwire.StatusMoreResults != 0 {
		r.expect, r.several = expectFirst, true
	}
}

// read reads the status of an OK or EOF packet. A packet of five bytes is EOF.
func (r *reply) read(head []byte) {
	if d, ok := mysqlwire.ReadDone(head); ok && d.Complete {
		r.status, r.warnings = d.Status, d.Warnings
	}
}

// resultSet begins a result with rows.
func (r *reply) resultSet(head []byte) {
	r.affected = false
	n, p, ok := mysqlwire.Int(head)
	defined := true
	if r.meta && ok && len(p) > 0 {
		defined = p[0] != 0
	}
	r.expect, r.count, r.then = expectSkip, int(min(n, 1<<20)), true
	if !defined || r.count == 0 {
		r.expect = expectRows
		if r.eofs {
			r.expect = expectDefsEOF
		}
	}
}

// prepared reads the response to COM_STMT_PREPARE.
func (r *reply) prepared(head []byte) {
	r.expect = expectNothing
	if len(head) < 12 {
		return
	}
	r.statement = binary.LittleEndian.Uint32(head[1:])
	r.columns, r.params = int(binary.LittleEndian.Uint16(head[5:])), int(binary.LittleEndian.Uint16(head[7:]))
	r.warnings = binary.LittleEndian.Uint16(head[10:])
	r.count, r.then = r.columns+r.params, false
	if r.eofs {
		r.count += min(r.columns, 1) + min(r.params, 1)
	}
	if r.count > 0 {
		r.expect = expectSkip
	}
}
