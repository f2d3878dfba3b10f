package value

import (
	"bytes"

	"github.com/tidwall/gjson"
)

// MaxJSONDepth limits the nesting of JSON. Reading uses stack space for each level. A value has
// room for millions of levels, and the process would end when its stack is exhausted.
const MaxJSONDepth = 1000

// ValidJSON reports whether a text is JSON that isn't nested deeper than MaxJSONDepth.
func ValidJSON(text []byte) bool { return !tooDeep(text) && gjson.ValidBytes(text) }

func tooDeep(p []byte) bool {
	if bytes.Count(p, []byte("[")) <= MaxJSONDepth/2 && bytes.Count(p, []byte("{")) <= MaxJSONDepth/2 {
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > MaxJSONDepth {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}
