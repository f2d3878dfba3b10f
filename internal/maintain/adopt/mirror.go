package adopt

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain/copier"
	"github.com/rowmill/rowmill/rolling"
)

// A side is one of the two tables.
type side struct {
	name  string
	key   []engine.SchemaColumn
	rolls bool
}

// A mirror makes one table, the target dst, equal to another, the source src, by
// means of a log of the keys that change in the source.
type mirror struct {
	*job
	src, dst side
	// parts are the periods of dst, if it is a rolling table.
	parts []rolling.Partition
	// coming is the condition for rows that the copy is still to reach.
	coming condition
	// past is the condition for rows beyond all those that the target had when the
	// copy began.
	past condition
}

// A condition is SQL with question marks for its arguments. "" is no condition.
type condition struct {
	text string
	args []any
}

// leave makes drain discard log entries whose rows the copy is still to reach: rows
// with keys after one key, up to another, that satisfy a condition. The copy reads
// these rows in their then current state. A row that has ceased to satisfy the
// condition has another entry, which is applied.
func (m *mirror) leave(after, until []string, where string) error {
	if m.sqlite() {
		return nil
	}
	keys, err := copier.NewKeys(m.DB, m.src.key)
	if err != nil {
		return err
	}
	text, args, err := keys.Range(after, until)
	if err != nil {
		return err
	}
	m.coming = condition{and(text, where, m.past.text), append(args, m.past.args...)}
	return nil
}

// arrived determines, before the first chunk, up to which key the target has rows. A
// copy that was interrupted after its last chunk may have applied changes to rows
// beyond the key that it recorded. The copy keeps such rows unchanged when it reaches
// them, so their entries must not be left to the copy.
func (m *mirror) arrived(ctx context.Context) error {
	m.past = condition{}
	if m.sqlite() {
		return nil
	}
	keys, err := copier.NewKeys(m.DB, m.src.key)
	if err != nil {
		return err
	}
	last, err := keys.Last(ctx, m.DB.SQL(), m.q(m.dst.name), "")
	if err != nil || last == nil {
		return err
	}
	m.past.text, m.past.args, err = keys.Range(last, nil)
	return err
}

// there returns the mirror from the plain table to the rolling one.
func (j *job) there() *mirror {
	return &mirror{job: j, src: side{j.Table.Name, j.data.Key, false}, dst: side{newName(j.Table.Name), j.data.NewKey, true}}
}

// back returns the mirror from the rolling table to the former plain table.
func (j *job) back() *mirror {
	return &mirror{job: j, src: side{j.Table.Name, j.data.NewKey, true}, dst: side{oldName(j.Table.Name), j.data.Key, false}}
}

// table describes a side for the engine.
func (m *mirror) table(s side) *engine.Table {
	if !s.rolls {
		return &engine.Table{Name: s.name}
	}
	t := *m.Table
	t.Name = s.name
	return &t
}

// logged returns the columns of the log: those of both keys.
func (j *job) logged() []engine.SchemaColumn {
	out := slices.Clone(j.data.Key)
	for _, c := range j.data.NewKey {
		if !slices.ContainsFunc(out, func(o engine.SchemaColumn) bool { return o.Name == c.Name }) {
			out = append(out, c)
		}
	}
	return out
}

// names returns the columns quoted, each after a prefix such as "NEW.".
func (j *job) names(cols []engine.SchemaColumn, prefix string) []string {
	out := make([]string, len(cols))
	for i, c := range cols {
		out[i] = prefix + j.q(c.Name)
	}
	return out
}

func (j *job) list(cols []engine.SchemaColumn, prefix string) string {
	return strings.Join(j.names(cols, prefix), ", ")
}

// look reads the periods of the rolling side.
func (m *mirror) look(ctx context.Context) error {
	if !m.dst.rolls {
		return nil
	}
	parts, err := m.DB.Catalog().Partitions(ctx, m.table(m.dst))
	if err == nil && len(parts) == 0 {
		err = fmt.Errorf("%s has no periods", m.dst.name)
	}
	m.parts = parts
	return err
}

// inside returns a condition on rows of the source that the target has a period for
// them; alias is "" or "o.". It returns "" if the target accepts every row.
func (m *mirror) inside(alias string) string {
	if !m.dst.rolls || len(m.parts) == 0 {
		return ""
	}
	return m.in(alias, rolling.Period{From: m.parts[0].From, To: m.parts[len(m.parts)-1].To})
}

func (m *mirror) in(alias string, p rolling.Period) string {
	by, w := alias+m.q(m.Table.By), m.DB.Words()
	return by + " >= " + w.Literal(m.Table, p.From) + " AND " + by + " < " + w.Literal(m.Table, p.To)
}

// and joins conditions with AND.
func and(cond string, more ...string) string {
	for _, m := range more {
		if m != "" {
			cond = "(" + cond + ") AND (" + m + ")"
		}
	}
	return cond
}

// logStatements returns the statements that create the log.
func (m *mirror) logStatements(types []string) []string {
	id := "rowmill_id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, "
	switch {
	case m.sqlite():
		id = "rowmill_id INTEGER PRIMARY KEY, "
	case m.postgres():
		// Without a sequence, so that lastval() in the client's session still returns
		// the value of the table's own sequence.
		id = ""
	}
	return []string{"CREATE TABLE IF NOT EXISTS " + m.q(logName(m.Table.Name)) + " (" + id + strings.Join(types, ", ") + ")"}
}

// lateStatements returns the statements that create the table for rows outside of
// every period.
func (j *job) lateStatements(types []string) []string {
	name, index := lateName(j.Table.Name), lateName(j.Table.Name)+"__rowmill"
	cols := "(" + strings.Join(types, ", ") + ", rowmill_reason VARCHAR(200), rowmill_at_us BIGINT"
	if j.mysql() {
		return []string{"CREATE TABLE IF NOT EXISTS " + j.q(name) + " " + cols + ", KEY " + j.q(index) + " (" + j.list(j.data.Key, "") + "))"}
	}
	return []string{
		"CREATE TABLE IF NOT EXISTS " + j.q(name) + " " + cols + ")",
		"CREATE INDEX IF NOT EXISTS " + j.q(index) + " ON " + j.q(name) + " (" + j.list(j.data.Key, "") + ")",
	}
}

// triggerNames returns the names of the triggers on a table that is being adopted.
func (j *job) triggerNames() []string {
	n := j.Table.Name + "__rowmill_"
	if j.postgres() {
		return []string{n + "log", n + "truncate"}
	}
	return []string{n + "insert", n + "update", n + "delete"}
}

// triggerStatements returns the statements that create the triggers on the
// source, by name. Row triggers only write keys into the log, so that no row can
// make them fail. On PostgreSQL a further trigger refuses TRUNCATE.
func (m *mirror) triggerStatements(schema string) map[string][]string {
	cols := m.logged()
	log := m.q(logName(m.Table.Name))
	insert := func(rows ...string) string {
		out := "INSERT INTO " + log + " (" + m.list(cols, "") + ") VALUES "
		for i, prefix := range rows {
			if i > 0 {
				out += ", "
			}
			out += "(" + m.list(cols, prefix) + ")"
		}
		return out
	}
	names, on := m.triggerNames(), m.q(m.src.name)
	if m.postgres() {
		// The function names the table's schema and runs with the rights of its
		// owner, so that clients need no privileges on the log.
		log = m.q(schema) + "." + log
		f, g := m.q(schema)+"."+m.q(names[0]), m.q(schema)+"."+m.q(names[1])
		function := func(name, body string) string {
			return "CREATE OR REPLACE FUNCTION " + name + "() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $rowmill$ BEGIN " + body + " RETURN NULL; END $rowmill$"
		}
		return map[string][]string{
			names[0]: {
				function(f, "IF TG_OP = 'DELETE' OR TG_OP = 'UPDATE' AND ROW("+m.list(cols, "OLD.")+") IS DISTINCT FROM ROW("+m.list(cols, "NEW.")+") THEN "+insert("OLD.")+"; END IF; "+
					"IF TG_OP <> 'DELETE' THEN "+insert("NEW.")+"; END IF;"),
				"CREATE TRIGGER " + m.q(names[0]) + " AFTER INSERT OR UPDATE OR DELETE ON " + on + " FOR EACH ROW EXECUTE FUNCTION " + f + "()",
			},
			names[1]: {
				function(g, "RAISE EXCEPTION 'rowmill adopts this table: it can be truncated once that is done';"),
				"CREATE TRIGGER " + m.q(names[1]) + " BEFORE TRUNCATE ON " + on + " FOR EACH STATEMENT EXECUTE FUNCTION " + g + "()",
			},
		}
	}
	trigger := func(name, event string, rows ...string) []string {
		head, tail := "CREATE TRIGGER "+m.q(name)+" AFTER "+event+" ON "+on+" FOR EACH ROW ", ""
		if m.sqlite() {
			head, tail = "CREATE TRIGGER "+m.q(name)+" AFTER "+event+" ON "+on+" BEGIN ", "; END"
		}
		return []string{head + insert(rows...) + tail}
	}
	return map[string][]string{
		names[0]: trigger(names[0], "INSERT", "NEW."),
		names[1]: trigger(names[1], "UPDATE", "OLD.", "NEW."),
		names[2]: trigger(names[2], "DELETE", "OLD."),
	}
}

// dropTriggers returns the statements that drop the triggers from a table.
func (j *job) dropTriggers(table string) []string {
	var out []string
	for _, n := range j.triggerNames() {
		on := ""
		if j.postgres() {
			on = " ON " + j.q(table)
		}
		out = append(out, "DROP TRIGGER IF EXISTS "+j.q(n)+on)
	}
	return out
}

// dropFunctions returns the statements that drop the triggers' functions.
func (j *job) dropFunctions() []string {
	if !j.postgres() {
		return nil
	}
	var out []string
	for _, n := range j.triggerNames() {
		out = append(out, "DROP FUNCTION IF EXISTS "+j.q(n)+"()")
	}
	return out
}

// copier returns a copy of the source's rows into the target.
func (m *mirror) copier() *copier.Copy {
	c := &copier.Copy{
		DB: m.DB, From: m.q(m.src.name), Into: m.q(m.dst.name), Columns: m.columns, Key: m.src.key,
		Where: m.inside(""), Skip: true, Chunk: m.Chunk, Limits: m.Limits,
	}
	if m.sqlite() && m.dst.rolls {
		c.Each = m.each(c)
	}
	return c
}
