package workload

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/workload/draw"
)

// A Statement is SQL that a run executes, and its purpose.
type Statement struct {
	Purpose string
	SQL     string
}

// Statements are the statements that one part of an experiment would execute.
type Statements struct {
	// About names the part, such as "layout plain", and On the database.
	About, On string
	All       []Statement
}

// Text returns the statements as SQL, with comments.
func (s *Statements) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "-- %s on %s\n", s.About, s.On)
	purpose := ""
	for _, q := range s.All {
		if q.Purpose != purpose {
			fmt.Fprintf(&b, "\n-- %s\n", q.Purpose)
			purpose = q.Purpose
		}
		fmt.Fprintf(&b, "%s;\n", q.SQL)
	}
	return b.String() + "\n"
}

// shownRows is the number of rows of a batch in the SQL of Statements.
const shownRows = 2

// Statements returns every statement that a run executes, in order. It does not access the
// database. A batch of rows is cut to its first shownRows rows. If a run would first measure how
// long periods must be, Statements assumes a length. Statements by which connections identify
// themselves, read settings and refresh statistics are left out.
func (w *Insert) Statements(dropExisting, verify bool) ([]Statement, error) {
	l := listing{w: w, dialect: w.db.Dialect()}
	l.add("each connection", engine.Connect{})
	l.add("the connection that changes tables", engine.Connect{Maintenance: true})
	if w.opt.Layout == Rolling && !w.tables[0].Rolling() {
		l.sample()
		// On a copy, because Measure has not determined this workload's period yet.
		l.w = newInsert(w.db, w.opt, w.preset)
		if err := l.w.roll(assumedPeriodRows, fmt.Sprintf("assumed %d rows; a run measures it", assumedPeriodRows)); err != nil {
			return nil, err
		}
	}
	for _, t := range l.w.tables {
		l.add("look for the table and its periods", engine.Inspect{Table: &t.Table})
	}
	for _, t := range l.w.tables {
		l.table(t, dropExisting)
	}
	l.add("sample the server, every interval", engine.Sample{Tables: l.w.Tables()})
	for _, t := range l.w.tables {
		l.end(t, verify)
	}
	return l.out, l.err
}

// A listing collects statements until the first error.
type listing struct {
	w       *Insert
	dialect engine.Dialect
	out     []Statement
	err     error
}

func (l *listing) add(purpose string, steps ...engine.Step) {
	for _, s := range steps {
		if l.err != nil {
			return
		}
		var text []string
		text, l.err = l.dialect.Render(s)
		for _, q := range text {
			l.out = append(l.out, Statement{purpose, strings.TrimSpace(q)})
		}
	}
}

func (l *listing) sample() {
	scratch := l.w.scratch()
	l.add("measure bytes per row on a sample, to find the period", engine.DropTable{Table: scratch}, engine.CreateTable{Table: scratch})
	l.insert("load the sample", scratch, l.w.tables[0].stream, max(l.w.opt.Batch, minPeriodRows))
	l.add("measure bytes per row on a sample, to find the period", engine.Measure{Table: scratch}, engine.DropTable{Table: scratch})
}

func (l *listing) table(t *table, dropExisting bool) {
	create, err := l.w.createStep(t)
	if err != nil {
		l.err = errors.Join(l.err, err)
		return
	}
	if dropExisting {
		l.add("drop the table if it exists, with its periods", engine.DropTable{Table: &t.Table, Partitions: create.Partitions})
	}
	l.add("create the table", create)
	purpose := fmt.Sprintf("insert a batch of %d row", l.w.opt.Batch)
	if l.w.opt.Batch > 1 {
		purpose += "s in one transaction"
	}
	l.insert(purpose, &t.Table, t.stream, l.w.opt.Batch)
	if t.Rolling() {
		s, err := t.roller.policy(0).Steps(create.Partitions, create.Partitions[0].To)
		if err != nil {
			l.err = errors.Join(l.err, err)
			return
		}
		l.add("create periods ahead, while inserts run", engine.CreatePartitions{Table: &t.Table, Have: create.Partitions, New: s.Create})
		if l.w.opt.KeepPeriods > 0 {
			l.add("drop the oldest period, while inserts run", engine.DropPartition{Table: &t.Table, Have: create.Partitions, Drop: create.Partitions[0]})
		}
	} else if l.w.opt.KeepRows > 0 {
		l.add(fmt.Sprintf("delete the oldest %d rows, while inserts run", l.w.opt.Batch), engine.Delete{Table: &t.Table, By: l.w.preset.by})
	}
	if l.w.opt.Readers > 0 {
		for _, q := range l.w.preset.queries(&t.Table) {
			l.add("query, while inserts run", *q.find)
		}
	}
}

func (l *listing) end(t *table, verify bool) {
	if verify && l.w.db.Capabilities().Stores {
		sel := engine.Select{Table: &t.Table}
		if create, err := l.w.createStep(t); err != nil {
			l.err = errors.Join(l.err, err)
		} else if t.Rolling() {
			sel.Partition = &create.Partitions[0]
		}
		l.add("verify every row at the end", sel)
	}
	l.add("measure the table at the end", engine.Measure{Table: &t.Table})
}

// assumedPeriodRows is the assumed length of a period that is not measured yet.
const assumedPeriodRows = 100000

func (l *listing) insert(purpose string, t *engine.Table, from draw.Stream, n int) {
	b := engine.NewBatch(t.Inserted())
	shown := min(n, shownRows)
	l.w.preset.fill(b, from, 0, shown)
	if n > shown {
		purpose += fmt.Sprintf("; its first %d are shown", shown)
	}
	l.add(purpose, engine.Insert{Table: t, Method: l.w.opt.Method, Batch: b})
}
