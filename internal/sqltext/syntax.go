package sqltext

// Syntax has the lexical rules for a server's statements. The zero value is standard SQL: 'text'
// with doubled quotes, "identifier", -- comment, /* comment */.
type Syntax struct {
	Backslash          bool // \ escapes within strings
	DoubleQuoted       bool // "x" is a string, not an identifier
	Backquoted         bool // `x` is an identifier
	Bracketed          bool // [x] is an identifier
	Dollar             bool // $tag$text$tag$ is a string, $1 a parameter
	Prefixed           bool // E'..', B'..', X'..', U&'..' are strings
	Introducer         bool // _utf8mb4'..', N'..', x'..', b'..', 0x.., 0b.. are literals, and adjacent strings are one
	HashComments       bool // # begins a comment
	DashSpace          bool // -- begins a comment only before white space
	ExecutableComments bool // /*! begins text that is executed
	NestedComments     bool // comments nest
	ConcatPipes        bool // || concatenates; otherwise it is OR
	HighNot            bool // NOT binds as tightly as unary operators
	Casts              bool // x::type
	WithRollup         bool // GROUP BY ... WITH ROLLUP
	LimitComma         bool // LIMIT offset, count
	UserVars           bool // @x and @@x are variables
}
