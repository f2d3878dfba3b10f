package serve

import "github.com/rowmill/rowmill/internal/mysqlwire"

// expected is which response a command has. Every command that is not listed has a response of one packet, or is
// not known: see opaque.
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

// opaque reports a command after which the connection carries something else, such as a binary log, or one that is not known: bytes are
// then passed in both directions until the end.
func opaque(command byte) bool { return expected[command] == expectNothing }
