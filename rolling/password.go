package rolling

import (
	"regexp"
	"strings"
)

// A password with its keyword, as in libpq's keyword form, which has no scheme, and
// in any other place.
var namedPassword = regexp.MustCompile(`(?i)(^|[\s;:&?,'"])(ssl)?(password|passwd|pass|pwd|secret|token)\s*=`)

// USER:PASSWORD@, the beginning of drivers' data source names.
var userPassword = regexp.MustCompile(`^[^/@?]*:[^/@?]*@`)

// HoldsPassword reports whether the text of a target contains a password in a place
// where no URL has one: "host=db password=...", "mysql:user:...@tcp(db)/x". Such a
// text must be neither printed nor stored. It does not examine the options after
// "?".
func HoldsPassword(target string) bool {
	before, _, _ := strings.Cut(target, "?")
	_, rest, _ := strings.Cut(before, ":")
	return namedPassword.MatchString(before) || userPassword.MatchString(rest)
}

// OptionHoldsPassword reports whether an option's value contains a password.
func OptionHoldsPassword(value string) bool { return namedPassword.MatchString(value) }
