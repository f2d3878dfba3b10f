package workload

import (
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/engine"
)

// A Statement is SQL that a run uses, and what for.
type Statement struct {
	Purpose string
	SQL     string
}

// shownRows is how many rows of a batch Statements writes out.
const shownRows = 2

// Statements returns every statement that a run would use, in order and
// rendered by the code that runs them; inserts with their first rows. It asks
// nothing of the database. Periods that aren't measured yet are shown at an
// assumed length.
func (w *Insert) Statements(dropExisting, verify bool) ([]Statement, error) {
	var out []Statement
	add := func(purpose string, step engine.Step) error {
		text, err := w.db.Dialect().Render(step)
		for _, q := range text {
			out = append(out, Statement{purpose, q})
		}
		return err
	}
	steps := []struct {
		purpose string
		step    engine.Step
	}{{"each connection", engine.Session{}}, {"the connection that changes tables", engine.Session{Maintenance: true}}}
	if w.opt.Layout == Rolling && !w.tables[0].Rolling() {
		scratch := w.tables[0].Table
		scratch.Name = "rowmill_sample_" + scratch.Name
		for _, s := range []engine.Step{engine.CreateTable{Table: &scratch}, engine.Measure{Table: &scratch}, engine.DropTable{Table: &scratch}} {
			steps = append(steps, struct {
				purpose string
				step    engine.Step
			}{"measure bytes per row on a sample, to find the period", s})
		}
		rows := int64(assumedPeriodRows)
		if err := w.roll(rows, fmt.Sprintf("assumed %d rows; a run measures it", rows)); err != nil {
			return nil, err
		}
	}
	for _, s := range steps {
		if err := add(s.purpose, s.step); err != nil {
			return nil, err
		}
	}
	for _, t := range w.tables {
		create, err := w.createStep(t)
		if err != nil {
			return nil, err
		}
		if dropExisting {
			if err := add("drop the table if it exists, with its periods", engine.DropTable{Table: &t.Table, Partitions: create.Partitions}); err != nil {
				return nil, err
			}
		}
		if err := add("create the table", create); err != nil {
			return nil, err
		}
		if err := w.addInserts(t, &out); err != nil {
			return nil, err
		}
		if t.Rolling() {
			s, err := t.roller.policy.Steps(create.Partitions, create.Partitions[0].To)
			if err != nil {
				return nil, err
			}
			if err := add("create periods ahead, while inserts run", engine.CreatePartitions{Table: &t.Table, Have: create.Partitions, New: s.Create}); err != nil {
				return nil, err
			}
			if w.opt.KeepPeriods > 0 {
				if err := add("drop the oldest period, while inserts run", engine.DropPartition{Table: &t.Table, Have: create.Partitions, Drop: create.Partitions[0]}); err != nil {
					return nil, err
				}
			}
		}
		if err := add("sample the server, every interval", engine.Sample{Table: &t.Table}); err != nil {
			return nil, err
		}
		if verify && w.db.Capabilities().Stores {
			sel := engine.Select{Table: &t.Table}
			if t.Rolling() && t.ServerKey == "" {
				sel.Partition = &create.Partitions[0]
			}
			if err := add("verify every row at the end", sel); err != nil {
				return nil, err
			}
		}
		if err := add("measure the table at the end", engine.Measure{Table: &t.Table}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// assumedPeriodRows stands for a period's length before it is measured.
const assumedPeriodRows = 100000

// addInserts appends what is sent for the table's first batch.
func (w *Insert) addInserts(t *table, out *[]Statement) error {
	b := engine.NewBatch(t.Inserted())
	n := min(w.opt.Batch, shownRows)
	w.preset.fill(b, t.stream, 0, n)
	text, err := w.db.Dialect().Render(engine.Insert{Table: &t.Table, Method: w.opt.Method, Batch: b})
	if err != nil {
		return err
	}
	purpose := fmt.Sprintf("insert a batch of %d row", w.opt.Batch)
	if w.opt.Batch > 1 {
		purpose += "s in one transaction"
	}
	if w.opt.Batch > n {
		purpose += fmt.Sprintf("; its first %d are shown", n)
	}
	for _, q := range text {
		*out = append(*out, Statement{purpose, strings.TrimSpace(q)})
	}
	return nil
}
