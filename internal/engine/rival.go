package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// A Rival is something on a server, other than rowmill, that creates or drops partitions of a
// table, such as a job.
type Rival struct {
	// Name identifies the rival, such as "event e_partitions".
	Name string
	// Does says what else is known of the rival; it may be "".
	Does string
	// Off are the statements that stop the rival. On are those that start it again as it was.
	Off, On []string
	// Others are other tables whose partitions the rival maintains. If the rival is stopped, nobody
	// maintains these tables.
	Others []string
	// Unsure means that the rival's text doesn't name the table, or that rowmill can't read the text.
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
	// Rivals returns the active rivals for a table.
	Rivals(ctx context.Context, table string) ([]Rival, error)
}

// A Job is SQL, in Text, that a server executes by itself at scheduled times.
type Job struct {
	Rival
	Text string
}

// RivalsOf returns the jobs that change, or may change, the partitions of a table. It searches the
// text of each job and the bodies of the routines that the job calls. routines maps the names of
// routines in lower case to their bodies; an unreadable body is "". others are the partitioned
// tables.
//
// A job with the word PARTITION and the table's name is a rival. A job with PARTITION and without
// the table's name is an Unsure rival if it names none of the tables in others, or calls a routine
// with an unreadable body.
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
