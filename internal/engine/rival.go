package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// A Rival is something on a server that creates or drops the partitions of a table besides rowmill,
// such as a job.
type Rival struct {
	// Name says what it is: "event e_partitions".
	Name string
	// Does says more about it, "" if there is nothing.
	Does string
	// Off are the statements that stop it, On those that start it again as it was.
	Off, On []string
	// Others are the tables with partitions that it keeps, too: nobody would keep them without it.
	Others []string
	// Unsure means that its text doesn't name the table, or can't be read.
	Unsure bool
}

// Text says what the rival does to a table.
func (r Rival) Text(table string) string {
	switch {
	case r.Unsure && r.Does == "":
		return fmt.Sprintf("%s changes partitions, and may change those of table %s: its text doesn't say of which tables, or calls a routine that the account can't read", r.Name, table)
	case r.Unsure:
		return fmt.Sprintf("%s may create or drop partitions of table %s: %s", r.Name, table, r.Does)
	}
	text := fmt.Sprintf("%s creates or drops partitions of table %s", r.Name, table)
	if r.Does != "" {
		text += ": " + r.Does
	}
	if len(r.Others) > 0 {
		text += ", and of " + strings.Join(r.Others, ", ")
	}
	return text
}

// A Rivaled is a Keeper whose server may have rivals.
type Rivaled interface {
	// Rivals returns those of a table that are active.
	Rivals(ctx context.Context, table string) ([]Rival, error)
}

// A Job is what a server does by itself at some times. Text is its SQL.
type Job struct {
	Rival
	Text string
}

// RivalsOf returns the jobs whose text, with the bodies of routines that it calls, has PARTITION
// and the table's name. routines are by name in lower case, "" for one that can't be read. A job is
// Unsure if it names none of the tables with partitions, others, or calls one that can't be read.
func RivalsOf(jobs []Job, routines map[string]string, table string, others []string) (out []Rival) {
	for _, j := range jobs {
		has, hidden, partitions := map[string]bool{}, false, false
		texts := []string{j.Text}
		for i := 0; i < len(texts); i++ {
			partitions = partitions || strings.Contains(strings.ToLower(texts[i]), "partition")
			for _, w := range strings.FieldsFunc(strings.ToLower(texts[i]), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '$' }) {
				if body, is := routines[w]; is && !has[w] {
					texts, hidden = append(texts, body), hidden || body == ""
				}
				has[w] = true
			}
		}
		r := j.Rival
		for _, name := range others {
			if name != table && has[strings.ToLower(name)] {
				r.Others = append(r.Others, name)
			}
		}
		r.Unsure = !has[strings.ToLower(table)]
		if partitions && (!r.Unsure || hidden || len(r.Others) == 0) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b Rival) int { return strings.Compare(a.Name, b.Name) })
	return out
}
