package engine

// A Dump describes the SQL dumps of a kind of server, as far as they differ between servers.
type Dump struct {
	// Marks are texts that identify a dump: it has one of them near its beginning.
	Marks []string
	// Begin and End are the beginnings of comments at both ends of a dump, such as "-- Dump
	// completed". A dump with one of Begin is complete only if it has one of End.
	Begin, End []string
	// Standard reports the rules of the SQL standard for strings, comments and quoted text:
	// backslashes are escapes only in E'...'; $tag$ quotes text. Otherwise the rules are MySQL's.
	Standard bool
	// Packed is the beginning of a dump in a binary format. Unpack is the command that converts it to
	// SQL.
	Packed, Unpack string
}
