package rolling

import (
	"regexp"
	"strings"
)

// A password with its name, in libpq's keywords, which have no scheme, and
// wherever else somebody may have put one.
var namedPassword = regexp.MustCompile(`(?i)(^|[\s;:&?,'"])(ssl)?(password|passwd|pass|pwd|secret|token)\s*=`)

// USER:PASSWORD@, as drivers' names of a database begin.
var userPassword = regexp.MustCompile(`^[^/@?]*:[^/@?]*@`)

// HoldsPassword reports whether the text of a target holds a password where no
// URL has one: "host=db password=...", "mysql:user:...@tcp(db)/x". Such a text
// may be neither printed nor kept. It does not look at the options behind "?".
func HoldsPassword(target string) bool {
	before, _, _ := strings.Cut(target, "?")
	_, rest, _ := strings.Cut(before, ":")
	return namedPassword.MatchString(before) || userPassword.MatchString(rest)
}

// OptionHoldsPassword reports whether an option's value holds one.
func OptionHoldsPassword(value string) bool { return namedPassword.MatchString(value) }
