package sandbox

import (
	"cmp"
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

// A parameter is one setting of a target. It points to its value: a text, a size in bytes, a
// number, or true or false. The parameter "set" points to no value.
type parameter struct {
	key    string
	text   *string
	size   *int64
	number *int
	flag   *bool
}

// parameters returns the parameters of a target, in the order of its text form.
func (o *Options) parameters() []parameter {
	all := []parameter{
		{key: "version", text: &o.Version}, {key: "memory", size: &o.Memory}, {key: "redo", size: &o.Redo}, {key: "durability", text: &o.Durability},
		{key: "engine", text: &o.Storage}, {key: "port", text: &o.Port}, {key: "keep", text: &o.Keep},
	}
	k, err := kindOf(cmp.Or(o.Kind, kinds()[0].name))
	if err == nil && k.nodesKey != "" {
		all = append(all, parameter{key: k.nodesKey, number: &o.Nodes})
	}
	all = append(all, parameter{key: "replicas", number: &o.Replicas}, parameter{key: "semisync", flag: &o.SemiSync})
	if err == nil && k.replication.joined != nil {
		all = append(all, parameter{key: "galera", number: &o.Galera})
	}
	return append(all, parameter{key: "set"})
}

// ParseTarget parses the text form of Options:
//
//	sandbox:mariadb?version=11.8&memory=64MB&redo=512MB&durability=full&engine=rocksdb&port=auto&keep=DIR&spider=3&replicas=2&semisync=true&set=name=value,name=value
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
	var keys []string
	for _, p := range o.parameters() {
		keys = append(keys, p.key)
	}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(query, "&") {
		if part == "" {
			continue
		}
		key, value, _ := strings.Cut(part, "=")
		if err := oneOf("parameter", key, keys...); err != nil {
			return Options{}, err
		}
		if value == "" {
			return Options{}, fmt.Errorf("parameter %s has no value", key)
		}
		if seen[key] && key != "set" {
			return Options{}, fmt.Errorf("parameter %s is given twice", key)
		}
		seen[key] = true
		if err := o.parameters()[slices.Index(keys, key)].parse(&o, value); err != nil {
			return Options{}, err
		}
	}
	return o, o.Validate()
}

func (p parameter) parse(o *Options, encoded string) error {
	if p.key == "set" {
		return o.setVariables(encoded)
	}
	value, err := url.PathUnescape(encoded)
	if err != nil {
		return fmt.Errorf("parameter %s: %w", p.key, err)
	}
	if p.text != nil {
		*p.text = value
		return nil
	}
	if p.number != nil {
		if *p.number, err = strconv.Atoi(value); err != nil || *p.number == 0 {
			return fmt.Errorf("%s: %q is not a number of servers", p.key, value)
		}
		return nil
	}
	if p.flag != nil {
		if err := oneOf(p.key, value, "true", "false"); err != nil {
			return err
		}
		*p.flag = value == "true"
		return nil
	}
	*p.size, err = ParseSize(value)
	if err == nil && *p.size == 0 {
		err = errors.New("must be more than 0")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.key, err)
	}
	return nil
}

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

// Target returns the text form of o, which ParseTarget accepts. Root is not
// included: it depends on the calling process.
func (o Options) Target() string {
	var parts []string
	for _, p := range o.parameters() {
		var value string
		switch {
		case p.text != nil:
			value = escape(*p.text)
		case p.number != nil:
			if *p.number != 0 {
				value = strconv.Itoa(*p.number)
			}
		case p.flag != nil:
			if *p.flag {
				value = "true"
			}
		case p.size == nil:
			var set []string
			for _, name := range slices.Sorted(maps.Keys(o.Set)) {
				set = append(set, escape(name)+"="+escape(o.Set[name]))
			}
			value = strings.Join(set, ",")
		case *p.size != 0:
			value = strings.ReplaceAll(FormatSize(*p.size), " ", "")
		}
		if value != "" {
			parts = append(parts, p.key+"="+value)
		}
	}
	target := targetPrefix + cmp.Or(o.Kind, kinds()[0].name)
	if len(parts) > 0 {
		target += "?" + strings.Join(parts, "&")
	}
	return target
}

func escape(s string) string {
	return strings.NewReplacer("+", "%20", "%2F", "/", "%3A", ":").Replace(url.QueryEscape(s))
}

// units are the suffixes of sizes, powers of 1024 in each spelling, as in MySQL: 64MB is 64MiB.
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

// FormatSize formats a size in bytes in the largest unit that needs no fraction: "64 MiB".
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
