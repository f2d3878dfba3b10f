package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/experiment"
)

// countUnits are the suffixes of counts. They are decimal, as rows are counted.
var countUnits = map[byte]float64{'k': 1e3, 'K': 1e3, 'm': 1e6, 'M': 1e6, 'g': 1e9, 'G': 1e9}

// parseCount parses a count: 1500000, 1_500_000, 1.5M, 10k, 1e6.
func parseCount(s string) (float64, error) {
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

// A countValue is a flag that holds a whole number in the syntax of parseCount.
type countValue struct {
	n    *int64
	auto bool // accepts "auto", as 0
}

func (c countValue) Set(s string) error {
	if c.auto && s == "auto" {
		*c.n = 0
		return nil
	}
	v, err := parseCount(s)
	if err != nil {
		return err
	}
	// Beyond 2^53 a float64 can't represent every whole number.
	if v != math.Trunc(v) || v > 1<<53 {
		return fmt.Errorf("%s is not a whole number up to 2^53", s)
	}
	if c.auto && v == 0 {
		return fmt.Errorf("0 makes no sense; give a number, or auto")
	}
	*c.n = int64(v)
	return nil
}

func (c countValue) String() string {
	if c.auto && *c.n == 0 {
		return "auto"
	}
	return strconv.FormatInt(*c.n, 10)
}

func (c countValue) Type() string { return "N" }

// A rateValue is a flag that holds a rate per second: 20000, 20k, 0.5.
type rateValue struct {
	v *float64
	// without is the result of omitting the flag; "" means none.
	without string
}

func (r rateValue) Set(s string) error {
	v, err := parseCount(strings.TrimSuffix(s, "/s"))
	if err != nil {
		return err
	}
	if v == 0 {
		if r.without != "" {
			return fmt.Errorf("0 rows/s makes no sense; leave the flag out %s", r.without)
		}
		return fmt.Errorf("0 rows/s never ends")
	}
	*r.v = v
	return nil
}

func (r rateValue) String() string {
	if *r.v == 0 {
		return ""
	}
	return strconv.FormatFloat(*r.v, 'g', -1, 64)
}

func (r rateValue) Type() string { return "R/s" }

// An intValue is a flag that holds a small whole number, also written as 10k. It
// accepts negative numbers; the check of the flags refuses them.
type intValue struct{ n *int }

// intVar defines an intValue flag with its default.
func intVar(flags *pflag.FlagSet, n *int, name string, value int, usage string) {
	*n = value
	flags.Var(intValue{n}, name, usage)
}

func (i intValue) Set(s string) error {
	if n, err := strconv.Atoi(s); err == nil {
		*i.n = n
		return nil
	}
	var n int64
	if err := (countValue{n: &n}).Set(s); err != nil {
		return err
	}
	if n > math.MaxInt32 {
		return fmt.Errorf("%s is more than %d", s, math.MaxInt32)
	}
	*i.n = int(n)
	return nil
}

func (i intValue) String() string { return strconv.Itoa(*i.n) }

func (i intValue) Type() string { return "N" }

// A targetValue is a flag that holds the only target of a Spec.
type targetValue struct{ targets *[]string }

func (t targetValue) Set(s string) error {
	*t.targets = []string{s}
	return nil
}

func (t targetValue) String() string { return strings.Join(*t.targets, ",") }

func (t targetValue) Type() string { return "string" }

// An optionalInt is a whole number that is nil unless the flag is given.
type optionalInt struct{ n **int }

func (o optionalInt) Set(s string) error {
	*o.n = new(int)
	return intValue{*o.n}.Set(s)
}

func (o optionalInt) String() string {
	if *o.n == nil {
		return ""
	}
	return strconv.Itoa(**o.n)
}

func (o optionalInt) Type() string { return "N" }

// An optionalBool is a bool that is nil unless the flag is given.
type optionalBool struct{ b **bool }

func (o optionalBool) Set(s string) error {
	b, err := strconv.ParseBool(s)
	*o.b = &b
	return err
}

func (o optionalBool) String() string {
	if *o.b == nil {
		return ""
	}
	return strconv.FormatBool(**o.b)
}

func (o optionalBool) Type() string { return "bool" }

// durationVar defines a flag that holds a duration of a Spec.
func durationVar(flags *pflag.FlagSet, d *experiment.Duration, name string, value time.Duration, usage string) {
	flags.DurationVar((*time.Duration)(d), name, value, usage)
}
