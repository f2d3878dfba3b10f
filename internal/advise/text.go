package advise

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// width is the width of a comment.
const width = 110

// Text returns the declaration as TOML, with the reason above each line. A line that is only
// proposed is commented out.
func (p *Proposal) Text() string {
	w := writer{}
	w.say("Table %s on %s%s.", p.Table, p.Target, onlyIf(p.Size != "", ": "+p.Size))
	for _, warning := range p.Warnings {
		w.say("Warning: %s", warning)
	}
	w.line("[table]")
	w.line("name   = %s", strconv.Quote(p.Table))
	w.line("target = %s", strconv.Quote(p.Target))
	for _, c := range p.Changes {
		w.say("Changed: %s.", c)
	}
	w.line("create = %s", long(p.Create))
	w.say("%s.", strings.Join(p.Time.Reasons, "; "))
	w.line("time   = %s", strconv.Quote(p.Time.Column))
	if p.Time.Unit != "" && p.Time.Unit != byRows {
		w.line("epoch  = %s", strconv.Quote(p.Time.Unit))
	}
	for _, o := range p.Others {
		w.say("Or time = %q: %s.", o.Column, strings.Join(o.Reasons, "; "))
	}
	w.line("\n[period]")
	w.say("%s.", p.EveryFrom)
	w.line("%s", p.Every)
	if p.Time.Unit == byRows {
		w.say("All rows are kept. With keep, older periods are dropped, each in a moment:")
		w.line(`# keep = "100000000 rows"`)
		return w.String()
	}
	keep, since := p.keep()
	w.say("All rows are kept. With keep, periods are dropped once they are older, each in a moment%s:", since)
	w.line("# keep = %q", keep)
	w.line("\n# [seal]")
	w.say("What old periods may be made: smaller, fewer, and files before they are dropped.")
	w.line("# compress = true")
	w.line(`# archive  = "archive/%s"`, p.Table)
	w.rollup(p)
	return w.String()
}

// keep returns the shortest usual retention under which none of the sampled rows is dropped now.
func (p *Proposal) keep() (keep, since string) {
	if p.Time.From.IsZero() {
		return "90d", ""
	}
	days := p.Time.To.Sub(p.Time.From).Hours() / 24
	since = "; the first sampled row is of " + p.Time.From.Format(time.DateOnly)
	for _, k := range []struct {
		keep string
		days float64
	}{{"30d", 30}, {"90d", 90}, {"1y", 365}, {"2y", 730}, {"5y", 1826}} {
		if days < k.days {
			return k.keep, since
		}
	}
	return "10y", since
}

type writer struct{ strings.Builder }

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// say writes a comment.
func (w *writer) say(format string, args ...any) {
	line := "#"
	for _, word := range strings.Fields(fmt.Sprintf(format, args...)) {
		if len(line)+1+len(word) > width && line != "#" {
			w.line("%s", line)
			line = "#"
		}
		line += " " + word
	}
	w.line("%s", line)
}

func (w *writer) rollup(p *Proposal) {
	w.line("")
	w.say("A roll-up answers questions by the hour without reading the rows, and is kept after they are dropped. %s",
		cmp.Or(onlyIf(len(p.groups) > 0, "In the sampled rows, these have few values: "+strings.Join(p.groups, ", ")), "by names the columns of its groups, if any."))
	w.line("# [[rollup]]")
	w.line("# name   = %q", p.Table+"_1h")
	w.line(`# every  = "1h"`)
	if len(p.groups) > 0 {
		quoted := make([]string, len(p.groups))
		for i, g := range p.groups {
			quoted[i] = strconv.Quote(g)
		}
		w.line("# by     = [%s]", strings.Join(quoted, ", "))
	}
	measures := `n = "count(*)"`
	for i, m := range p.measures {
		measures += fmt.Sprintf(", mean%d = %q, most%d = %q", i+1, "avg("+m+")", i+1, "max("+m+")")
	}
	w.line("# select = { %s }", measures)
}

func onlyIf(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

// long writes a text of several lines in TOML, unescaped if possible.
func long(text string) string {
	if !strings.Contains(text, "'''") && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }) {
		return "'''\n" + text + onlyIf(strings.HasSuffix(text, "'"), "\n") + "'''"
	}
	quoted, _ := json.Marshal(text) // a JSON string is also a TOML string; a string never fails
	return string(quoted)
}
