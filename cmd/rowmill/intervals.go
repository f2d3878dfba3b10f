package main

import (
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/result"
)

// An intervalFormat is how intervals are printed.
type intervalFormat string

// The formats of intervals; the zero value of a flag is the first.
const (
	formatRowmill intervalFormat = "rowmill"
	formatIbench  intervalFormat = "ibench"
)

// Set implements pflag.Value.
func (f *intervalFormat) Set(s string) error {
	switch v := intervalFormat(s); v {
	case formatRowmill, formatIbench:
		*f = v
		return nil
	}
	return fmt.Errorf("unknown format %q: there are %s", s, strings.Join([]string{string(formatRowmill), string(formatIbench)}, ", "))
}

// String implements pflag.Value.
func (f *intervalFormat) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *intervalFormat) Type() string { return "string" }

// ibenchLines prints the insert benchmark's 17 columns for each interval, and all
// other output as comments.
type ibenchLines struct {
	lines
	ibench report.IbenchLines
}

func (l *ibenchLines) Begin(run result.Run) {
	l.Note(run.Name + ", " + run.Target)
	l.ibench = report.IbenchLines{}
	if run.Loads() {
		l.print(report.IbenchHeader())
	}
}

func (l *ibenchLines) Interval(iv result.Interval) { l.print(l.ibench.Line(&iv)) }

func (l *ibenchLines) Note(text string) { l.print("# " + text) }
