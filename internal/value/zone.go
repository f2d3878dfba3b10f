package value

import (
	"errors"
	"time"
)

// ParseZone parses the name of a time zone, e.g. "Europe/Berlin", or its offset, e.g. "+02:00".
func ParseZone(s string) (*time.Location, error) {
	if s != "" && (s[0] == '+' || s[0] == '-') {
		seconds, ok := offsetOf([]byte(s))
		if !ok {
			return nil, errors.New("there is no such offset")
		}
		return time.FixedZone(s, int(seconds)), nil
	}
	zone, err := time.LoadLocation(s)
	if err != nil || s == "" || s == "Local" {
		return nil, errors.New("there is no such zone")
	}
	return zone, nil
}
