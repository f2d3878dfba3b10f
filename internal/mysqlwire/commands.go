package mysqlwire

import "encoding/binary"

// Commands: each is the first byte of a payload from a client.
const (
	ComQuit         = 0x01
	ComInitDB       = 0x02
	ComQuery        = 0x03
	ComFieldList    = 0x04
	ComProcessKill  = 0x0C
	ComPing         = 0x0E
	ComChangeUser   = 0x11
	ComStmtPrepare  = 0x16
	ComStmtExecute  = 0x17
	ComStmtLongData = 0x18
	ComStmtClose    = 0x19
	ComStmtReset    = 0x1A
	ComStmtFetch    = 0x1C
	ComReset        = 0x1F
	ComBulkExecute  = 0xFA
)

// ExecutionFlags is the offset of the flags in COM_STMT_EXECUTE. CursorReadOnly is the flag that
// asks for a cursor.
const ExecutionFlags, CursorReadOnly = 5, 1

// OfStatement reports whether a command has the id of a prepared statement: see StatementID.
func OfStatement(command byte) bool {
	switch command {
	case ComStmtExecute, ComBulkExecute, ComStmtLongData, ComStmtClose, ComStmtReset, ComStmtFetch:
		return true
	}
	return false
}

// StatementID reads the id of a prepared statement from a command; 0 if the command is incomplete.
func StatementID(p []byte) uint32 {
	if len(p) < 5 {
		return 0
	}
	return binary.LittleEndian.Uint32(p[1:])
}
