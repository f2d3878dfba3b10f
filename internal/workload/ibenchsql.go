package workload

import (
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// Statements returns every statement that the steps execute, in order, like
// Insert.Statements.
func (b *Ibench) Statements(dropExisting, verify bool) ([]Statement, error) {
	l := listing{w: b.Insert, dialect: b.db.Dialect()}
	l.add("each connection", engine.Session{})
	l.add("the connection that changes tables", engine.Session{Maintenance: true})
	for _, t := range b.tables {
		l.add("look for the table", engine.Inspect{Table: &t.Table})
	}
	if b.Creates() {
		for _, t := range b.tables {
			if dropExisting {
				l.add("drop the table if it exists", engine.DropTable{Table: &t.Table})
			}
			l.add("create the table", engine.CreateTable{Table: &t.Table})
		}
	}
	for _, s := range b.Steps() {
		for _, t := range b.tables {
			b.list(&l, s, t)
		}
		if s.Name == "settle" {
			l.add("settle: finish what writes have left", engine.Settle{Tables: b.Tables()})
		}
	}
	l.add("sample the server, every interval", engine.Sample{Tables: b.Tables()})
	for _, t := range b.tables {
		if verify {
			l.add("verify every row at the end", engine.Select{Table: &t.Table})
		}
		l.add("measure the table after each step", engine.Measure{Table: &t.Table})
	}
	return l.out, l.err
}

// list adds the statements of a step on a table.
func (b *Ibench) list(l *listing, s Step, t *table) {
	if s.Name == "l.x" {
		for _, ix := range b.indexes {
			l.add("l.x: build the indexes, one after the other", engine.CreateIndexes{Table: &t.Table, Indexes: []engine.Index{ix}})
		}
	}
	if !s.Loads() {
		return
	}
	l.insert(fmt.Sprintf("%s: insert a batch of %d rows in one transaction", s.Name, s.Batch), &t.Table, t.stream, s.Batch)
	if s.Deletes {
		l.deletes(s.Name+": ", t, s.Batch)
	}
	indexed := t.Table
	indexed.Indexes = b.indexes
	switch s.Query {
	case "qr":
		l.queries(s.Name+": ", ibenchRanges(&indexed))
	case "qp":
		l.queries(s.Name+": ", ibenchPoints(&indexed))
	}
}

func (l *listing) deletes(step string, t *table, batch int) {
	l.add(fmt.Sprintf("%sdelete the oldest %d rows, while inserts run", step, batch), engine.Delete{Table: &t.Table, By: l.w.preset.by})
}

func (l *listing) queries(step string, all []query) {
	for _, q := range all {
		l.add(strings.TrimSpace(step+" query")+", while inserts run", *q.find)
	}
}
