package figure

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// countUnits are the suffixes of counts. They are decimal, as rows are counted.
var countUnits = map[byte]float64{'k': 1e3, 'K': 1e3, 'm': 1e6, 'M': 1e6, 'g': 1e9, 'G': 1e9}

// ParseCount parses a count: 1500000, 1_500_000, 1.5M, 10k, 1e6.
func ParseCount(s string) (float64, error) {
	wrong := fmt.Errorf("%q is not a number; write it like 1500000, 1_500_000, 1.5M or 10k", s)
	number, unit := s, 1.0
	if s != "" {
		if u, ok := countUnits[s[len(s)-1]]; ok {
			number, unit = s[:len(s)-1], u
		}
	}
	if strings.ContainsAny(number, "xXpP+") {
		return 0, wrong // strconv would accept hexadecimal
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(number, "_", ""), 64)
	v *= unit
	switch {
	case err != nil || math.IsNaN(v) || math.IsInf(v, 0):
		return 0, wrong
	case v < 0:
		return 0, fmt.Errorf("%s is negative", s)
	}
	return v, nil
}

// ParseWhole parses a whole number in the syntax of ParseCount.
func ParseWhole(s string) (int64, error) {
	v, err := ParseCount(s)
	if err != nil {
		return 0, err
	}
	// Beyond 2^53 a float64 can't represent every whole number.
	if v != math.Trunc(v) || v > 1<<53 {
		return 0, fmt.Errorf("%s is not a whole number up to 2^53", s)
	}
	return int64(v), nil
}

// ParseShare parses a share from 0 to below 1: 5%, 0.05.
func ParseShare(s string) (float64, error) {
	number, percent := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(number, 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v < 1) {
		return 0, fmt.Errorf("%q is not a share below 1; write it like 5%% or 0.05", s)
	}
	return v, nil
}

// Share formats a share as a percentage: 5%.
func Share(f float64) string { return strconv.FormatFloat(100*f, 'g', 4, 64) + "%" }
