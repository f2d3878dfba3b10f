package serve

import "encoding/binary"

// Commands: first bytes of packets from clients.
const (
	comQuit           = 0x01
	comInitDB         = 0x02
	comQuery          = 0x03
	comFieldList      = 0x04
	comProcessKill    = 0x0C
	comPing           = 0x0E
	comChangeUser     = 0x11
	comBinlogDump     = 0x12
	comTableDump      = 0x13
	comStmtPrepare    = 0x16
	comStmtExecute    = 0x17
	comStmtLongData   = 0x18
	comStmtClose      = 0x19
	comStmtReset      = 0x1A
	comStmtFetch      = 0x1C
	comBinlogDumpGTID = 0x1E
	comReset          = 0x1F
	comBulkExecute    = 0xFA
)

// executionFlags is where COM_STMT_EXECUTE has its flags, of which cursorReadOnly asks for a cursor.
const executionFlags, cursorReadOnly = 5, 1

// expected is which response a command has. Every command that is not listed has a response of one packet, or is
// not known: see opaque.
var expected = [256]expectation{
	comQuery: expectFirst, comStmtExecute: expectFirst, comBulkExecute: expectFirst,
	comStmtPrepare: expectPrepared, comFieldList: expectFields, comStmtFetch: expectRows,
	comInitDB: expectOne, 0x05: expectOne, 0x06: expectOne, 0x07: expectOne, 0x08: expectOne, 0x09: expectOne, 0x0A: expectFirst,
	comProcessKill: expectOne, 0x0D: expectOne, comPing: expectOne, 0x15: expectOne,
	comStmtReset: expectOne, 0x1B: expectOne, comReset: expectOne,
}

// silent are the commands without a response.
func silent(command byte) bool { return command == comStmtLongData || command == comStmtClose }

// opaque reports a command after which the connection carries something else, such as a binary log, or one that is not known: bytes are
// then passed in both directions until the end.
func opaque(command byte) bool { return expected[command] == expectNothing }

// statementID reads the id of a prepared statement from a command.
func statementID(p []byte) uint32 {
	if len(p) < 5 {
		return 0
	}
	return binary.LittleEndian.Uint32(p[1:])
}
