package enginetest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// updates returns the table readings with Update, and with only the columns id, ts and note.
func (lo *loading) updates() *engine.Table {
	t := *lo.rolls
	t.Columns = []engine.Column{t.Columns[0], t.Columns[1], t.Columns[5]}
	t.PrimaryKey, t.Update = []string{"id", "ts"}, true
	return &t
}

// noted returns rows of the first day for updates, with a note; "" is NULL.
func (lo *loading) noted(t *engine.Table, rows ...struct {
	id   int64
	note string
}) *engine.Batch {
	b := engine.NewBatch(t.Columns)
	for _, r := range rows {
		b.Columns[0].Ints = append(b.Columns[0].Ints, r.id)
		b.Columns[1].Ints = append(b.Columns[1].Ints, lo.parts[0].From+r.id*second)
		if r.note == "" {
			b.Columns[2].AppendNull()
		} else {
			b.Columns[2].AppendBytes([]byte(r.note))
		}
		b.EndRow()
	}
	return b
}

type noted = struct {
	id   int64
	note string
}

func (lo *loading) upsert(t *engine.Table, b *engine.Batch, want engine.Ack) {
	lo.Helper()
	ack, err := lo.l.Insert(within(lo), t, b, 0, b.Rows())
	if err != nil {
		lo.Fatalf("update %s: %v", t.Name, err)
	}
	if ack.Rows != want.Rows || ack.Skipped != want.Skipped || ack.Updated != want.Updated {
		lo.Fatalf("update %s: inserted %d, updated %d, unchanged %d; want %d, %d, %d", t.Name, ack.Rows, ack.Updated, ack.Skipped, want.Rows, want.Updated, want.Skipped)
	}
}

// hasNote checks the note and the number n of a reading.
func (lo *loading) hasNote(id int64, note string, n any) {
	lo.Helper()
	where := fmt.Sprintf("readings WHERE id = %d AND ", id)
	if note == "" {
		where += "note IS NULL"
	} else {
		where += "note = '" + note + "'"
	}
	if n == nil {
		where += " AND n IS NULL"
	} else {
		where += fmt.Sprintf(" AND n = %v", n)
	}
	if found := lo.count(where); found != 1 {
		lo.Errorf("%d rows of %s, want 1", found, where)
	}
}

// updating checks three things: rows with an existing key are updated, in the columns that are
// sent; rows with the same key take effect in order; inserted, updated and unchanged rows are
// counted.
func (s loaders) updating(t *testing.T) {
	lo := s.loading(t)
	table := lo.updates()
	send := func(want engine.Ack, rows ...noted) {
		t.Helper()
		lo.upsert(table, lo.noted(table, rows...), want)
	}
	lo.begin()
	full := *lo.rolls
	rows := lo.readings(1, 2)
	rows.Columns[2] = engine.Vector{Type: engine.Int32, Ints: []int64{7, 8}}
	lo.insert(&full, rows)
	lo.commit()
	for _, more := range []bool{false, true} {
		lo.begin()
		if more { // the transaction has rows already
			lo.insert(lo.notes, lo.entries("more"))
		}
		send(engine.Ack{Rows: 1, Updated: 1, Skipped: 1}, noted{1, "one"}, noted{2, ""}, noted{3, "three"})
		send(engine.Ack{Updated: 2, Skipped: 1}, noted{1, "One"}, noted{2, "two"}, noted{3, "three"}) // another case is another value
		send(engine.Ack{Updated: 1}, noted{2, ""})
		// The last row of a key wins, also if the key is new.
		send(engine.Ack{Rows: 2, Updated: 5, Skipped: 2}, noted{4, "a"}, noted{4, "b"}, noted{1, "x"}, noted{1, "y"}, noted{4, "b"}, noted{5, "c"}, noted{4, "a"},
			noted{2, "z"}, noted{5, "c"})
		send(engine.Ack{Updated: 1}, noted{2, ""})
		lo.commit()
		lo.hasNote(1, "y", 7)
		lo.hasNote(2, "", 8)
		lo.hasNote(3, "three", nil)
		lo.hasNote(4, "a", nil)
		lo.hasNote(5, "c", nil)
		lo.exec(t, lo.db.SQL(), "DELETE FROM readings WHERE id > 2")
		lo.exec(t, lo.db.SQL(), "UPDATE readings SET note = NULL")
	}
	lo.exec(t, lo.db.SQL(), "DELETE FROM notes")

	// A table of key columns alone has nothing to update.
	keys := *table
	keys.Columns = keys.Columns[:2]
	b := lo.noted(table, noted{1, ""}, noted{6, ""}, noted{6, ""})
	b.Columns = b.Columns[:2]
	lo.begin()
	lo.upsert(&keys, b, engine.Ack{Rows: 1, Skipped: 2})
	lo.commit()

	// Every type is compared as it is stored.
	typed := *lo.rolls
	typed.PrimaryKey, typed.Update = table.PrimaryKey, true
	first := lo.batch(lo.parts[1], 0, 50)
	lo.begin()
	lo.upsert(&typed, first, engine.Ack{Rows: 50})
	lo.commit()
	lo.begin()
	lo.upsert(&typed, first, engine.Ack{Skipped: 50})
	lo.commit()
	var many []noted
	for i := range int64(4000) {
		many = append(many, noted{i % 3000, fmt.Sprint(i)})
	}
	lo.begin()
	send(engine.Ack{Rows: 2997, Updated: 1003}, many...) // 1, 2 and 6 exist
	send(engine.Ack{Updated: 2000, Skipped: 2000}, many...)
	lo.commit()
	lo.rows(3000+50, 0)

	// Rows without the key can't be updated.
	without := *table
	without.PrimaryKey = []string{"id", "other"}
	lo.begin()
	if _, err := lo.l.Insert(within(t), &without, lo.noted(table, noted{1, ""}), 0, 1); err == nil || errors.Is(err, engine.ErrRefused) {
		t.Errorf("without the key: %v", err)
	}
	lo.reset()
}

// updateRefused checks that after a refusal, no row of the batch is inserted or updated, and
// that the transaction continues.
func (s loaders) updateRefused(t *testing.T) {
	lo := s.there(t) // readings has row 7
	table := lo.updates()
	for _, more := range []bool{false, true} {
		lo.begin()
		if more {
			lo.insert(lo.notes, lo.entries("more"))
		}
		b := lo.noted(table, noted{7, "changed"}, noted{8, "new"}, noted{9, "outside"})
		b.Columns[1].Ints[2] = lo.parts[1].To + day
		lo.refuse(table, b, engine.ErrNoPartition)
		lo.upsert(table, lo.noted(table, noted{7, "other"}, noted{8, "eight"}), engine.Ack{Rows: 1, Updated: 1})
		lo.commit()
		lo.hasNote(7, "other", nil)
		lo.hasNote(8, "eight", nil)
		lo.exec(t, lo.db.SQL(), "DELETE FROM readings WHERE id = 8")
		lo.exec(t, lo.db.SQL(), "UPDATE readings SET note = NULL")
	}
	lo.rows(1, 2)
}
