package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/figure"
)

// A FlagValue is the value of a flag; see pflag.Value.
type FlagValue struct {
	set  func(string) error
	text func() string
	of   string // the name of its type
}

// Set parses the text that the user wrote.
func (v FlagValue) Set(s string) error { return v.set(s) }

// String returns the value as text, or "" if it is the zero value.
func (v FlagValue) String() string { return v.text() }

// Type returns the name of the type in the help.
func (v FlagValue) Type() string { return v.of }

// parsed returns a FlagValue of v. parse reads the value, text returns it as text.
func parsed[T any](v *T, of string, parse func(string) (T, error), text func() string) FlagValue {
	return FlagValue{func(s string) error {
		read, err := parse(s)
		if err == nil {
			*v = read
		}
		return err
	}, text, of}
}

// CountOf is a whole number in the syntax of figure.ParseCount: 1500000, 1_500_000, 1.5M.
func CountOf(n *int64) FlagValue {
	return parsed(n, "N", figure.ParseWhole, func() string { return strconv.FormatInt(*n, 10) })
}

// CountOrAuto is a count above 0, or "auto", which is 0.
func CountOrAuto(n *int64) FlagValue {
	parse := func(s string) (int64, error) {
		if s == "auto" {
			return 0, nil
		}
		n, err := figure.ParseWhole(s)
		if err == nil && n == 0 {
			err = errors.New("0 makes no sense; give a number, or auto")
		}
		return n, err
	}
	return parsed(n, "N", parse, func() string {
		if *n == 0 {
			return "auto"
		}
		return strconv.FormatInt(*n, 10)
	})
}

// CountsOf is a list of whole numbers, kept as text: 1,100,10k. The first use of the flag replaces
// the default.
func CountsOf(all *[]string) FlagValue {
	given := false
	return FlagValue{func(s string) error {
		if !given {
			*all, given = nil, true
		}
		for part := range strings.SplitSeq(s, ",") {
			n, err := figure.ParseWhole(strings.TrimSpace(part))
			if err != nil {
				return err
			}
			*all = append(*all, strconv.FormatInt(n, 10))
		}
		return nil
	}, func() string { return strings.Join(*all, ",") }, "list"}
}

// RateOf is a rate per second: 20000, 20k, 0.5. It refuses a rate of 0; the error then suggests to
// leave the flag out. without says in the error what happens then; "" if the flag has a default.
func RateOf(v *float64, without string) FlagValue {
	parse := func(s string) (float64, error) {
		rate, err := figure.ParseCount(strings.TrimSuffix(s, "/s"))
		switch {
		case err != nil:
			return 0, err
		case rate == 0 && without != "":
			return 0, fmt.Errorf("0 rows/s makes no sense; leave the flag out %s", without)
		case rate == 0:
			return 0, errors.New("0 rows/s never ends")
		}
		return rate, nil
	}
	return parsed(v, "R/s", parse, func() string {
		if *v == 0 {
			return ""
		}
		return strconv.FormatFloat(*v, 'g', -1, 64)
	})
}

// ScaleOf is a factor above 0: 0.02, 10.
func ScaleOf(scale *float64) FlagValue {
	parse := func(s string) (float64, error) {
		v, err := figure.ParseCount(s)
		if err == nil && v == 0 {
			err = errors.New("0 leaves no rows")
		}
		return v, err
	}
	return parsed(scale, "S", parse, func() string { return "" })
}

// FractionOf is a share: 5%, 0.05. A negative value means that none is given.
func FractionOf(share *float64) FlagValue {
	return parsed(share, "share", figure.ParseShare, func() string {
		if *share < 0 {
			return ""
		}
		return figure.Share(*share)
	})
}

// IntOf is a whole number, also written as 10k. Negative numbers are accepted: the check of the
// flags refuses them.
func IntOf(n *int) FlagValue {
	parse := func(s string) (int, error) {
		if v, err := strconv.Atoi(s); err == nil {
			return v, nil
		}
		v, err := figure.ParseWhole(s)
		if err == nil && v > math.MaxInt32 {
			err = fmt.Errorf("%s is more than %d", s, math.MaxInt32)
		}
		return int(v), err
	}
	return parsed(n, "N", parse, func() string { return strconv.Itoa(*n) })
}

// IntVar defines a flag of IntOf with its default.
func IntVar(flags *pflag.FlagSet, n *int, name string, value int, usage string) {
	*n = value
	flags.Var(IntOf(n), name, usage)
}

// IntWithin is IntVar for values from least to most. If most is math.MaxInt32, there is no upper
// limit.
func IntWithin(flags *pflag.FlagSet, n *int, name string, value, least, most int, usage string) {
	*n = value
	v := IntOf(n)
	flags.Var(FlagValue{func(s string) error {
		var given int
		err := IntOf(&given).Set(s)
		switch {
		case err != nil:
			return err
		case given < least && most == math.MaxInt32:
			return fmt.Errorf("want %d or more", least)
		case given < least || given > most:
			return fmt.Errorf("want %d to %s", least, figure.Count(most))
		}
		*n = given
		return nil
	}, v.text, v.of}, name, usage)
}

// SizeVar defines a flag for a size in bytes, least or more. value is its default, and may be "".
func SizeVar(flags *pflag.FlagSet, n *int64, name, value string, least int64, usage string) {
	text := value
	v := FlagValue{func(s string) error {
		size, err := engine.ParseBytes(s)
		if err != nil || size < least {
			return fmt.Errorf("want a size such as 8GB, of at least %s", figure.Bytes(least))
		}
		*n, text = size, s
		return nil
	}, func() string { return text }, "string"}
	if value != "" {
		_ = v.set(value) // no error: the default is valid
	}
	flags.Var(v, name, usage)
}

// MemoryVar defines the flag for the memory of a server.
func MemoryVar(flags *pflag.FlagSet, n *int64, usage string) {
	SizeVar(flags, n, "memory", "", 1<<20, usage)
}

// A Choice is a flag with a few possible values, which the user may write in upper or lower case.
type Choice struct {
	FlagValue
	Choices []string
}

// ChoiceVar defines a flag that is a Choice. value is its default, and may be "".
func ChoiceVar[T ~string](flags *pflag.FlagSet, v *T, name string, value T, choices []T, usage string) {
	*v = value
	var texts []string
	for _, c := range choices {
		texts = append(texts, string(c))
	}
	flags.Var(Choice{FlagValue{func(s string) error {
		if given := T(strings.ToLower(s)); slices.Contains(choices, given) {
			*v = given
			return nil
		}
		return fmt.Errorf("want %s", strings.Join(texts, ", "))
	}, func() string { return string(*v) }, "string"}, texts}, name, usage)
}

// Optional is a value that is nil unless the flag is given.
func Optional[T any](p **T, of func(*T) FlagValue) FlagValue {
	return FlagValue{func(s string) error {
		*p = new(T)
		return of(*p).Set(s)
	}, func() string {
		if *p == nil {
			return ""
		}
		return of(*p).String()
	}, of(new(T)).of}
}

// BoolOf is true or false.
func BoolOf(b *bool) FlagValue {
	return parsed(b, "bool", strconv.ParseBool, func() string { return strconv.FormatBool(*b) })
}

// DurationVar defines a flag for a length of time: with a unit (1m30s), or in seconds (90).
func DurationVar(flags *pflag.FlagSet, d *experiment.Duration, name string, value time.Duration, usage string) {
	*d = experiment.Duration(value)
	parse := func(s string) (experiment.Duration, error) {
		if v, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(v) < mostSeconds {
			return experiment.Duration(v * float64(time.Second)), nil
		}
		v, err := time.ParseDuration(s)
		if err != nil {
			err = fmt.Errorf("%q is no time; write it like 90s, 1m30s, or 90 for seconds", s)
		}
		return experiment.Duration(v), err
	}
	flags.Var(parsed(d, "duration", parse, func() string {
		if *d == 0 {
			return ""
		}
		return d.D().String()
	}), name, usage)
}

// mostSeconds is the greatest number of seconds that fits a duration.
const mostSeconds = math.MaxInt64 / 1e9
