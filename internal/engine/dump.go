package engine

// A Dump describes the SQL that the programs write that dump a server's tables, as far as
// it differs between servers.
type Dump struct {
	// Marks are texts of which a dump has one near its beginning.
	Marks []string
	// Begin and End are the beginnings of comments at both ends: a dump that has one of
	// Begin is complete if it has one of End.
	Begin, End []string
	// Standard reports strings without backslash escapes unless they are written E'...', and
	// comments and quoted text as in the SQL standard, with $tag$; otherwise they are MySQL's.
	Standard bool
	// Packed is the beginning of a file in a format that only a program of the server reads, and
	// Unpack how that is called.
	Packed, Unpack string
}
