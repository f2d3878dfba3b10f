package value

import (
	"errors"
	"regexp"
	"strconv"
	"time"
)

// zoneOffset is a time zone offset in the form in which servers write it.
var zoneOffset = regexp.MustCompile(`^([+-])(\d\d):?(\d\d)$`)

// ParseZone parses the name of a time zone, or its offset from UTC.
func ParseZone(s string) (*time.Location, error) {
	if m := zoneOffset.FindStringSubmatch(s); m != nil {
		hours, _ := strconv.Atoi(m[2]) // the pattern guarantees digits
		minutes, _ := strconv.Atoi(m[3])
		seconds := hours*3600 + minutes*60
		if hours > 14 || minutes > 59 {
			return nil, errors.New("there is no such offset")
		}
		if m[1] == "-" {
			seconds = -seconds
		}
		return time.FixedZone(s, seconds), nil
	}
	zone, err := time.LoadLocation(s)
	if err != nil || s == "" || s == "Local" {
		return nil, errors.New("there is no such zone")
	}
	return zone, nil
}
