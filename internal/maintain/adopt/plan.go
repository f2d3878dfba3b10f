package adopt

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain/copier"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// Plan checks whether the plain table t can be adopted, as Run does, and returns the
// statements that Run would execute, in order, and notes for the user. Statements
// that run repeatedly, for example once for each chunk, are listed once, with
// placeholders for the values. Comments begin with "--". If an adoption is in
// progress, the plan consists of a note only.
func Plan(ctx context.Context, db engine.Keeper, st *state.Store, t *engine.Table, schema *engine.Schema, d *rolling.Declaration) (statements, notes []string, err error) {
	return plan(ctx, Options{DB: db, State: st, Table: t, Schema: schema, Declared: d})
}

func plan(ctx context.Context, o Options) (statements, notes []string, err error) {
	j := &job{Options: o}
	c, err := UnderWay(ctx, o.State, o.Table.Name)
	if err != nil {
		return nil, nil, err
	}
	if c != nil {
		return nil, []string{fmt.Sprintf("the adoption of %s is under way, at step %s: it goes on from there", o.Table.Name, c.Step)}, nil
	}
	found, err := j.check(ctx)
	if err != nil {
		return nil, nil, err
	}
	j.use(*found)
	rows := extent{j.data.Of, j.data.First, j.data.Last}
	m := j.there()
	if m.parts, err = j.periods(ctx, rows); err != nil {
		return nil, nil, err
	}
	p := planner{job: j, mirror: m}
	for _, part := range []func(context.Context) error{p.made, p.hooked, p.copied, p.compared, p.renamed, p.left} {
		if err := part(ctx); err != nil {
			return nil, nil, err
		}
	}
	return p.out, p.notes(rows), nil
}

// A planner collects the statements of the steps, from the same functions that the
// steps use.
type planner struct {
	*job
	mirror *mirror
	out    []string
}

func (p *planner) say(comment string, statements ...string) {
	p.out = append(p.out, "-- "+comment)
	p.out = append(p.out, statements...)
}

func (p *planner) made(ctx context.Context) error {
	if words, ok := p.DB.Words().(engine.ProbeWords); ok {
		statements, _ := words.Probe(p.needs())
		p.say("check the account's privileges with a scratch table", statements...)
	}
	missing, err := p.State.Missing(ctx)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		p.say("create rowmill's own tables", p.State.Statements(missing...)...)
	}
	beside, err := p.beside(ctx, p.mirror)
	if err != nil {
		return err
	}
	p.say("a log of keys that change, and a table for rows outside of every period", beside...)
	create, err := p.DB.Dialect().Render(engine.CreateTable{Table: p.mirror.table(p.mirror.dst), Partitions: p.mirror.parts})
	if err != nil {
		return err
	}
	p.say("the rolling table, with "+figure.Plural(len(p.mirror.parts), "period", "periods"), create...)
	grants, err := p.grants(ctx)
	if err != nil {
		return err
	}
	if len(grants) > 0 {
		p.say("its privileges", grants...)
	}
	return nil
}

func (p *planner) hooked(ctx context.Context) error {
	schema, err := p.schema(ctx)
	if err != nil {
		return err
	}
	triggers := p.mirror.triggerStatements(schema)
	var names []string
	for name := range triggers {
		names = append(names, name)
	}
	sort.Strings(names)
	p.say("triggers, which need the lock of " + p.Table.Name + " for a moment")
	for _, name := range names {
		p.out = append(p.out, triggers[name]...)
	}
	return nil
}

// chunk returns the keys along which rows are processed, and the condition of a chunk
// with an example key.
func (p *planner) chunk() (keys *copier.Keys, where string, err error) {
	if keys, err = copier.NewKeys(p.DB, p.data.Key); err != nil {
		return nil, "", err
	}
	example := slices.Repeat([]string{"00"}, len(p.data.Key))
	where, _, err = keys.Range(example, example)
	return keys, where, err
}

func (p *planner) copied(context.Context) error {
	_, where, err := p.chunk()
	if err != nil {
		return err
	}
	c := p.mirror.copier()
	var inserts []string
	if c.Each == nil {
		inserts = []string{p.DB.Bind(c.Insert(and(where, c.Where)))}
	} else {
		for _, part := range p.mirror.parts {
			one := *c
			one.Into = p.DB.Words().From(p.mirror.table(p.mirror.dst), part)
			inserts = append(inserts, p.DB.Bind(one.Insert(and(where, c.Where, p.mirror.in("", part.Period)))))
		}
	}
	inserts = append(inserts, p.DB.Bind(p.mirror.logFrom(p.mirror.src.name, and(where, "("+c.Where+") IS NOT TRUE"))))
	p.say("for each chunk of rows, after a key up to another one", inserts...)
	p.drained()
	return nil
}

// drained adds the statements that apply the log.
func (p *planner) drained() {
	var drain []string
	switch {
	case p.postgres():
		take, use := p.mirror.postgresDrain("n")
		drain = slices.Concat([]string{strings.Join(byIndex, "; "), take}, use)
	case p.sqlite():
		drain = p.mirror.sqliteDrain(p.mirror.parts)
	default:
		drain = p.mirror.mysqlDrain("?")
	}
	p.say("between chunks, for the keys in the log that the work has passed", drain...)
}

func (p *planner) compared(context.Context) error {
	keys, where, err := p.chunk()
	if err != nil {
		return err
	}
	m := p.mirror
	p.say("for each chunk, as of one moment: keys in the log, which are left out, and checksums of both tables",
		p.DB.Bind(m.pendingQuery(keys, where)),
		p.DB.Bind(m.sumQuery(p.q(m.src.name), and(where, m.inside("")))), p.DB.Bind(m.sumQuery(p.q(m.dst.name), where)))
	return nil
}

func (p *planner) renamed(context.Context) error {
	const what = "under the lock: what is left in the log as above, and the names"
	m := p.mirror
	switch {
	case p.postgres():
		names, err := m.namesPostgres()
		if err != nil {
			return err
		}
		p.say(what, slices.Concat([]string{"BEGIN", m.lockPostgres()}, names, []string{"COMMIT"})...)
	case p.sqlite():
		names, err := m.namesSQLite(m.parts)
		if err != nil {
			return err
		}
		if m.src.rolls {
			names = slices.Concat(m.catchUpStatements(), names)
		}
		p.say(what, slices.Concat([]string{"PRAGMA legacy_alter_table = ON", "BEGIN IMMEDIATE"}, names, []string{"COMMIT", "PRAGMA legacy_alter_table = OFF"})...)
	default:
		sentry, lock, rename, unsentry := m.mysqlNames()
		p.say(what+"; a second connection waits with RENAME until the first gives its locks back", sentry, lock, rename, unsentry, "UNLOCK TABLES")
	}
	return nil
}

func (p *planner) left(context.Context) error {
	p.say("triggers and log", slices.Concat(p.dropTriggers(oldName(p.Table.Name)), p.dropFunctions(), []string{p.dropLog()})...)
	p.say("rowmill apply FILE --finish then drops the old table: " + p.dropOldStatement())
	return nil
}

// notes returns the notes for the user.
func (p *planner) notes(rows extent) []string {
	t := p.Table
	out := []string{fmt.Sprintf("%s copied into %s while %s is written to; the old table stays as %s", figure.Plural(rows.count, "row is", "rows are"), figure.Plural(len(p.mirror.parts), "period", "periods"), t.Name, oldName(t.Name))}
	if rows.count > 0 {
		out = append(out, fmt.Sprintf("rows are from %s to %s", t.Grid.Format(rows.from), t.Grid.Format(rows.to)))
	}
	out = append(out, fmt.Sprintf("rows that come meanwhile and lie outside of every period go to %s", lateName(t.Name)))
	if c := p.Schema.Find(t.By); c != nil && c.Null {
		out = append(out, fmt.Sprintf("column %s may be NULL now and may not afterwards: such inserts will fail", t.By))
	}
	if len(p.data.Key) > 0 && len(p.data.NewKey) > 0 && p.data.Key[0].Name != p.data.NewKey[0].Name {
		out = append(out, fmt.Sprintf("the new primary key doesn't begin with %s, as the old one does: comparing and taking back read far more of the rolling table", p.data.Key[0].Name))
	}
	for _, c := range p.data.Columns {
		if d := p.Declared.Definition.Column(c.Name); p.sqlite() && c.Auto && d != nil {
			out = append(out, fmt.Sprintf("SQLite counts %s up only while it is the whole primary key: inserts must give it afterwards", c.Name))
		}
	}
	if lost := Lost(p.Schema, t, p.Declared.Definition); len(lost) > 0 {
		out = append(out, fmt.Sprintf("no longer unique: %s; each period checks its own rows only, which --allow-duplicates accepts", strings.Join(lost, ", ")))
	}
	if p.mysql() {
		out = append(out, "TRUNCATE runs no trigger: don't while the table is adopted")
	}
	return out
}
