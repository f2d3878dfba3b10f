package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/figure"
)

// A flagValue is the value of a flag: how it is read, its text, and the name of its type.
type flagValue struct {
	set  func(string) error
	text func() string
	of   string
}

func (v flagValue) Set(s string) error { return v.set(s) }

func (v flagValue) String() string { return v.text() }

func (v flagValue) Type() string { return v.of }

// countOf is a whole number in the syntax of figure.ParseCount.
func countOf(n *int64) flagValue {
	return flagValue{func(s string) error {
		v, err := figure.ParseWhole(s)
		if err == nil {
			*n = v
		}
		return err
	}, func() string { return strconv.FormatInt(*n, 10) }, "N"}
}

// countOrAuto is a count above 0, or "auto", which is 0.
func countOrAuto(n *int64) flagValue {
	v := countOf(n)
	return flagValue{func(s string) error {
		if s == "auto" {
			*n = 0
			return nil
		}
		var given int64
		switch err := countOf(&given).Set(s); {
		case err != nil:
			return err
		case given == 0:
			return fmt.Errorf("0 makes no sense; give a number, or auto")
		}
		*n = given
		return nil
	}, func() string {
		if *n == 0 {
			return "auto"
		}
		return v.String()
	}, v.of}
}

// rateOf is a rate per second: 20000, 20k, 0.5. without is the result of omitting the flag;
// "" means none.
func rateOf(v *float64, without string) flagValue {
	return flagValue{func(s string) error {
		rate, err := figure.ParseCount(strings.TrimSuffix(s, "/s"))
		switch {
		case err != nil:
			return err
		case rate == 0 && without != "":
			return fmt.Errorf("0 rows/s makes no sense; leave the flag out %s", without)
		case rate == 0:
			return fmt.Errorf("0 rows/s never ends")
		}
		*v = rate
		return nil
	}, func() string {
		if *v == 0 {
			return ""
		}
		return strconv.FormatFloat(*v, 'g', -1, 64)
	}, "R/s"}
}

// intOf is a small whole number, also written as 10k. It accepts negative numbers; the
// check of the flags refuses them.
func intOf(n *int) flagValue {
	return flagValue{func(s string) error {
		if v, err := strconv.Atoi(s); err == nil {
			*n = v
			return nil
		}
		var v int64
		if err := countOf(&v).Set(s); err != nil {
			return err
		}
		if v > math.MaxInt32 {
			return fmt.Errorf("%s is more than %d", s, math.MaxInt32)
		}
		*n = int(v)
		return nil
	}, func() string { return strconv.Itoa(*n) }, "N"}
}

// intVar defines a flag of intOf with its default.
func intVar(flags *pflag.FlagSet, n *int, name string, value int, usage string) {
	*n = value
	flags.Var(intOf(n), name, usage)
}

// targetOf is the only target of a Spec.
func targetOf(targets *[]string) flagValue {
	return flagValue{func(s string) error { *targets = []string{s}; return nil }, func() string { return strings.Join(*targets, ",") }, "string"}
}

// optional is a value that is nil unless the flag is given.
func optional[T any](p **T, of func(*T) flagValue) flagValue {
	return flagValue{func(s string) error {
		*p = new(T)
		return of(*p).Set(s)
	}, func() string {
		if *p == nil {
			return ""
		}
		return of(*p).String()
	}, of(new(T)).of}
}

func boolOf(b *bool) flagValue {
	return flagValue{func(s string) (err error) { *b, err = strconv.ParseBool(s); return err }, func() string { return strconv.FormatBool(*b) }, "bool"}
}

// durationVar defines a flag that holds a duration of a Spec, 1m30s, or in seconds, 90.
func durationVar(flags *pflag.FlagSet, d *experiment.Duration, name string, value time.Duration, usage string) {
	*d = experiment.Duration(value)
	flags.Var(durationOf(d), name, usage)
}

func durationOf(d *experiment.Duration) flagValue {
	return flagValue{func(s string) error {
		if v, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(v) < mostSeconds {
			*d = experiment.Duration(v * float64(time.Second))
			return nil
		}
		v, err := time.ParseDuration(s)
		if err != nil {
			return fmt.Errorf("%q is no time; write it like 90s, 1m30s, or 90 for seconds", s)
		}
		*d = experiment.Duration(v)
		return nil
	}, func() string {
		if *d == 0 {
			return ""
		}
		return d.D().String()
	}, "duration"}
}

// mostSeconds is the greatest number of seconds that fits a duration.
const mostSeconds = math.MaxInt64 / 1e9

// timeVar defines the flag for how long a verb of bench measures.
func timeVar(flags *pflag.FlagSet, d *experiment.Duration, value time.Duration, usage string) {
	durationVar(flags, d, "time", value, strings.Replace(usage, "`time`", "`time`, such as 90, 90s or 2h", 1))
}

// warmupVar defines the flag for how long the load runs before it is measured.
func warmupVar(flags *pflag.FlagSet, s *experiment.Spec, of string) {
	durationVar(flags, &s.Warmup, "warmup", 0, "run "+of+" for this `time` before, and don't measure that (default none)")
}

// fitInterval shortens the interval of a short run, unless it was given.
func fitInterval(flags *pflag.FlagSet, s *experiment.Spec) {
	if !flags.Changed("interval") {
		s.FitInterval()
	}
}

// earlierTimes are names that --time had in the verbs of bench, and is still known by.
var earlierTimes = []string{"--max-time", "--for", "--seconds", "--query-time"}

// benchFlagName returns the name of a flag of bench.
func benchFlagName(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if slices.Contains(earlierTimes, "--"+name) {
		name = "time"
	}
	return pflag.NormalizedName(name)
}

// rowsOr is a number of rows above 0; without is the result of omitting the flag.
func rowsOr(n *int, without string) flagValue {
	v := intOf(n)
	return flagValue{func(s string) error {
		switch err := v.set(s); {
		case err != nil:
			return err
		case *n < 1:
			return fmt.Errorf("want at least 1 row; leave the flag out for %s", without)
		}
		return nil
	}, func() string {
		if *n == 0 {
			return ""
		}
		return v.String()
	}, v.of}
}
