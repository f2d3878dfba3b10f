package sandbox

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const targetPrefix = "sandbox:"

// targetKeys are the parameters of a target, as errors list them.
var targetKeys = []string{"version", "memory", "redo", "durability", "engine", "port", "keep", "set"}

// ParseTarget parses the text form of Options:
//
//	sandbox:mariadb?version=11.8&memory=64MB&redo=512MB&durability=full&engine=rocksdb&port=auto&keep=DIR&set=name=value,name=value
//
// Everything after the kind is optional. Percent-encoding is decoded, so a comma
// inside a value of set is written %2C. The result is valid.
func ParseTarget(target string) (Options, error) {
	o, err := parseTarget(target)
	if err != nil {
		if !strings.HasPrefix(target, targetPrefix) { // not a sandbox target; the text may contain a password
			return Options{}, fmt.Errorf("target: %w", err)
		}
		return Options{}, fmt.Errorf("target %q: %w", target, err)
	}
	return o, nil
}

func parseTarget(target string) (Options, error) {
	rest, ok := strings.CutPrefix(target, targetPrefix)
	if !ok {
		return Options{}, fmt.Errorf("it does not begin with %s", targetPrefix)
	}
	name, query, _ := strings.Cut(rest, "?")
	if _, err := kindOf(name); err != nil {
		return Options{}, err
	}
	o := Options{Kind: name}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(query, "&") {
		if part == "" {
			continue
		}
		key, value, hasValue := strings.Cut(part, "=")
		if err := oneOf("parameter", key, targetKeys...); err != nil {
			return Options{}, err
		}
		if !hasValue || value == "" {
			return Options{}, fmt.Errorf("parameter %s has no value", key)
		}
		if seen[key] && key != "set" {
			return Options{}, fmt.Errorf("parameter %s is given twice", key)
		}
		seen[key] = true
		if err := o.setParameter(key, value); err != nil {
			return Options{}, err
		}
	}
	return o, o.Validate()
}

// setParameter sets one field from a parameter of a target, still encoded.
func (o *Options) setParameter(key, encoded string) error {
	if key == "set" {
		return o.setVariables(encoded)
	}
	value, err := url.PathUnescape(encoded)
	if err != nil {
		return fmt.Errorf("parameter %s: %w", key, err)
	}
	if value == "" {
		return fmt.Errorf("parameter %s has no value", key)
	}
	switch key {
	case "version":
		o.Version = value
	case "memory":
		o.Memory, err = parsePositive(key, value)
	case "redo":
		o.Redo, err = parsePositive(key, value)
	case "durability":
		o.Durability = value
	case "engine":
		o.Storage = value
	case "port":
		o.Port = value
	case "keep":
		o.Keep = value
	}
	return err
}

// setVariables parses name=value,name=value, still encoded.
func (o *Options) setVariables(encoded string) error {
	for pair := range strings.SplitSeq(encoded, ",") {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("parameter set: %q is not name=value (a comma inside a value is written %%2C)", pair)
		}
		name, err := url.PathUnescape(name)
		if err != nil {
			return fmt.Errorf("parameter set: %w", err)
		}
		if value, err = url.PathUnescape(value); err != nil {
			return fmt.Errorf("parameter set: %w", err)
		}
		// A server accepts both spellings; they are normalised to one.
		name = strings.ReplaceAll(strings.ToLower(name), "-", "_")
		if _, twice := o.Set[name]; twice {
			return fmt.Errorf("parameter set: %s is given twice", name)
		}
		if o.Set == nil {
			o.Set = map[string]string{}
		}
		o.Set[name] = value
	}
	return nil
}

func parsePositive(what, text string) (int64, error) {
	n, err := ParseSize(text)
	if err == nil && n == 0 {
		err = errors.New("must be more than 0")
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	return n, nil
}

// Target returns the text form of o, which ParseTarget accepts. Root is not
// included: it depends on the calling process.
func (o Options) Target() string {
	var parts []string
	add := func(key, value string) {
		if value != "" {
			parts = append(parts, key+"="+value)
		}
	}
	size := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strings.ReplaceAll(FormatSize(n), " ", "")
	}
	add("version", escape(o.Version))
	add("memory", size(o.Memory))
	add("redo", size(o.Redo))
	add("durability", escape(o.Durability))
	add("engine", escape(o.Storage))
	add("port", escape(o.Port))
	add("keep", escape(o.Keep))
	var set []string
	for _, name := range slices.Sorted(maps.Keys(o.Set)) {
		set = append(set, escape(name)+"="+escape(o.Set[name]))
	}
	add("set", strings.Join(set, ","))
	kind := o.Kind
	if kind == "" {
		kind = kinds()[0].name
	}
	if len(parts) == 0 {
		return targetPrefix + kind
	}
	return targetPrefix + kind + "?" + strings.Join(parts, "&")
}

// escape encodes a value for a target, but keeps paths readable.
func escape(s string) string {
	return strings.NewReplacer("+", "%20", "%2F", "/", "%3A", ":").Replace(url.QueryEscape(s))
}

// units are the suffixes of sizes. They are powers of 1024 in each spelling, as
// in MySQL, where 1M is 1048576: 64MB and 64MiB are the same.
var units = map[string]int{
	"": 0, "b": 0,
	"k": 10, "kb": 10, "kib": 10,
	"m": 20, "mb": 20, "mib": 20,
	"g": 30, "gb": 30, "gib": 30,
	"t": 40, "tb": 40, "tib": 40,
}

// ParseSize parses a size in bytes: 67108864, 64M, 64MB, 64MiB, 1G. The units
// are powers of 1024 in each spelling and in upper or lower case.
func ParseSize(text string) (int64, error) {
	digits := strings.TrimLeft(text, "0123456789")
	number, unit := text[:len(text)-len(digits)], strings.ToLower(strings.TrimPrefix(digits, " "))
	shift, ok := units[unit]
	if number == "" || !ok {
		return 0, fmt.Errorf("%q is not a size: write 67108864, 64MB, 64MiB or 1G", text)
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("size %q is too large", text)
	}
	return n << shift, nil
}

// FormatSize formats a size in bytes in the largest unit that needs no fraction:
// "64 MiB".
func FormatSize(n int64) string {
	for _, u := range []struct {
		shift int
		name  string
	}{{40, "TiB"}, {30, "GiB"}, {20, "MiB"}, {10, "KiB"}} {
		if n != 0 && n%(1<<u.shift) == 0 {
			return fmt.Sprintf("%d %s", n>>u.shift, u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
