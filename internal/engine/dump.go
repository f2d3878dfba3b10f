package engine

// A Dump describes how the SQL dumps of one kind of server differ from those of others.
type Dump struct {
	// Marks are texts by which a dump is recognized: one of them is near its beginning.
	Marks []string
	// Begin has the first words of the comment at a dump's start. End has the first words of the
	// comment at its end, such as "-- Dump completed". A dump that begins with an element of Begin is
	// complete only if it ends with an element of End.
	Begin, End []string
	// Standard means that strings, comments and quoted text follow the SQL standard: backslashes are
	// escapes only in E'...'; $tag$ quotes text. Otherwise they follow MySQL's rules.
	Standard bool
	// Packed is the beginning of a dump in a binary format. Unpack is the command that converts it to
	// SQL.
	Packed, Unpack string
}
