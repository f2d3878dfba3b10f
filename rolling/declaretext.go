package rolling

import (
	"fmt"
	"strings"
	"time"
)

// String returns the declaration as TOML that ParseDeclaration reads, with all
// omitted keys filled in: two equivalent declarations have the same text.
func (d *Declaration) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	create := d.Definition.Text
	for _, ix := range d.Definition.Indexes {
		create += ";\n" + ix.Text
	}
	line("[table]\nname = %s\ntarget = %s\ncreate = %s\ntime = %s", tomlText(d.Name), tomlText(d.Target), tomlBlock(create), tomlText(d.Time))
	if name := EpochName(d.Epoch); name != "" {
		line("epoch = %q", name)
	}
	if d.Exact {
		line("exact = true")
	}
	line("\n[period]")
	switch {
	case d.Auto:
		line(`every = "auto"`)
	case d.Period.axis == Sequence:
		line("rows = %d", d.Period.step)
	default:
		line("every = %q", d.Period)
	}
	line("ahead = %q", d.Ahead)
	if !d.Keep.IsZero() {
		line("keep = %q", d.Keep)
	}
	line("late = %q", d.Late)
	line("\n[seal]\nafter = %q\ncompress = %t", d.Seal.After, d.Seal.Compress)
	if d.Seal.Merge.Valid() {
		line("merge = %q", d.Seal.Merge)
	}
	if d.Seal.Archive != "" {
		line("archive = %s", tomlText(d.Seal.Archive))
	}
	for _, l := range d.Rollups {
		line("\n[[rollup]]\nname = %s", tomlText(l.Name))
		if l.From != "" {
			line("from = %s", tomlText(l.From))
		}
		var by, sel []string
		for _, c := range l.By {
			by = append(by, tomlText(c))
		}
		for _, a := range l.Select {
			sel = append(sel, tomlText(a.Name)+" = "+tomlText(a.String()))
		}
		line("every = %q\nby = [%s]\nselect = { %s }", l.Every, strings.Join(by, ", "), strings.Join(sel, ", "))
		if !l.Keep.IsZero() {
			line("keep = %q", l.Keep)
		}
	}
	return b.String()
}

// String returns the policy as written in a declaration.
func (l Late) String() string {
	if l == LateReject {
		return "reject"
	}
	return "merge"
}

// EpochName returns the unit of an epoch as written in a declaration, "" for none.
func EpochName(unit time.Duration) string {
	for name, u := range epochs {
		if u == unit {
			return name
		}
	}
	return ""
}

// tomlText returns a text as TOML, on one line.
func tomlText(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c < ' ' || c == 127:
			fmt.Fprintf(&b, "\\u%04X", c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// tomlBlock returns a text as TOML, on separate lines if possible.
func tomlBlock(s string) string {
	control := func(c rune) bool { return c < ' ' && c != '\n' && c != '\t' || c == 127 }
	if strings.Contains(s, "'''") || strings.HasSuffix(s, "'") || strings.ContainsFunc(s, control) {
		return tomlText(s)
	}
	return "'''\n" + s + "'''"
}
