package adopt

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
)

// A Planned is the plan of an adoption.
type Planned struct {
	// Statements are the statements that Run would execute, in order. A statement that runs
	// repeatedly, e.g. once for each chunk, is listed once, with placeholders for the values. Comments
	// begin with "--".
	Statements []string
	Notes      []string // for the user
	found      *data
}

// planned returns the data that Plan has found. If Plan wasn't called, it checks the table itself.
func (j *job) planned(ctx context.Context) (*data, error) {
	if j.Planned != nil && j.Planned.found != nil {
		return j.Planned.found, nil
	}
	return j.checker().check(ctx)
}

// Plan plans the adoption that Run would do, and makes the same checks of the plain table as Run.
// If an adoption is in progress, the plan consists of a note only.
func Plan(ctx context.Context, o Options) (*Planned, error) {
	j := &job{Options: o}
	c, err := UnderWay(ctx, o.State, o.Table.Name)
	if err != nil {
		return nil, err
	}
	if c != nil {
		return &Planned{Notes: []string{fmt.Sprintf("an adoption of %s is in progress, at step %s: it continues from there", o.Table.Name, c.Step)}}, nil
	}
	found, err := j.checker().check(ctx)
	if err != nil {
		return nil, err
	}
	j.use(*found)
	rows := j.data.extent
	m := j.forward()
	if m.Target.Periods, err = j.periods(ctx, rows); err != nil {
		return nil, err
	}
	p := planner{job: j, mirror: m}
	if err := p.show(ctx, stepCreate, stepKept); err != nil {
		return nil, err
	}
	return &Planned{Statements: p.out, Notes: p.notes(rows), found: found}, nil
}

// Script renders statements, and the comments between them, a line each.
func Script(statements []string) string {
	var b strings.Builder
	for _, q := range statements {
		if !strings.HasPrefix(q, "-- ") {
			q += ";"
		}
		b.WriteString(q + "\n")
	}
	return b.String()
}

// A planner collects the statements of the steps, from the same functions that the steps use.
type planner struct {
	*job
	mirror *mirror
	out    []string
}

// show adds the statements of the steps from one step up to, but not including, another.
func (p *planner) show(ctx context.Context, from, to string) error {
	for s := from; s != to; s = steps[s].next {
		if err := steps[s].show(p, ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *planner) say(comment string, statements ...string) {
	p.out = append(p.out, "-- "+comment)
	p.out = append(p.out, statements...)
}

func (p *planner) created(ctx context.Context) error {
	if words, ok := p.DB.Words().(engine.ProbeWords); ok {
		statements, _ := words.Probe(p.needs())
		p.say("check the account's privileges with a scratch table", statements...)
	}
	_, missing, err := p.State.Missing(ctx)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		p.say("create rowmill's own tables", missing...)
	}
	m := p.mirror
	p.say("a log of keys that change, and a table for rows outside of every period", m.sql.Tables()...)
	create, err := p.DB.Dialect().Render(engine.CreateTable{Table: m.Side(m.Target), Partitions: m.Target.Periods})
	if err != nil {
		return err
	}
	p.say("the rolling table, with "+figure.Plural(len(m.Target.Periods), "period"), create...)
	return p.carriedOver(ctx)
}

// carriedOver adds the statements that give the target the attributes of the source.
func (p *planner) carriedOver(ctx context.Context) error {
	now, _, err := p.mirror.lacking(ctx, p.mirror.Source.Rolls)
	if len(now) > 0 {
		p.say("attributes of the table beside its definition, such as grants and comments", now...)
	}
	return err
}

func (p *planner) triggers(ctx context.Context) error {
	triggers, err := p.mirror.sql.Triggers(ctx)
	if err != nil {
		return err
	}
	p.say("triggers, which need the lock of " + p.Table.Name + " for a moment")
	for _, t := range triggers {
		p.out = append(p.out, t.Statements...)
	}
	return nil
}

// chunk returns the keys along which rows are processed, and the condition of an example chunk.
func (p *planner) chunk() (keys *engine.Keys, where string, err error) {
	if keys, err = engine.NewKeys(p.DB, p.data.Key); err != nil {
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
	m, c := p.mirror, p.mirror.copier()
	var inserts []string
	if c.Each == nil {
		inserts = []string{p.DB.Bind(c.Insert(and(where, c.Where)))}
	} else {
		for _, part := range m.Target.Periods {
			inserts = append(inserts, p.DB.Bind(m.intoPeriod(c, part, and(where, c.Where))))
		}
	}
	inserts = append(inserts, p.DB.Bind(m.logFrom(m.Source.Name, and(where, "("+c.Where+") IS NOT TRUE"))))
	p.say("for each chunk of rows, after a key up to another one", inserts...)
	p.replayed()
	return nil
}

func (p *planner) replayed() {
	p.say("between chunks, for the keys in the log that the work has passed", p.mirror.sql.ReplayStatements()...)
}

func (p *planner) compared(context.Context) error {
	keys, where, err := p.chunk()
	if err != nil {
		return err
	}
	m := p.mirror
	sums := func(from, where string) string {
		return engine.ChecksumQuery(p.DB.Words().MatchHash(m.Columns), from, where)
	}
	p.say("for each chunk, as of one moment: keys in the log, which are left out, and checksums of both tables",
		p.DB.Bind(m.pendingQuery(keys, where)),
		p.DB.Bind(sums(p.quote(m.Source.Name), and(where, m.Inside("")))), p.DB.Bind(sums(p.quote(m.Target.Name), where)))
	return nil
}

func (p *planner) cutOver(ctx context.Context) error {
	_, final, err := p.mirror.lacking(ctx, p.mirror.Source.Rolls)
	if err != nil {
		return err
	}
	if p.mirror.unlogged() {
		final = p.mirror.catchUpStatements()
	}
	remark, statements, err := p.mirror.sql.CutOverStatements(final)
	if err != nil {
		return err
	}
	p.say("under the lock: what is left in the log as above, and the names"+remark, statements...)
	return nil
}

func (p *planner) cleaned(context.Context) error {
	p.dropsTriggers(p.mirror.Aside, "triggers and log")
	p.say("rowmill apply FILE --finish then drops the old table: " + p.dropOldStatement())
	return nil
}

func (p *planner) notes(rows extent) []string {
	t := p.Table
	out := []string{fmt.Sprintf("%s copied into %s while %s is written to; the old table stays as %s", figure.Plural(rows.Of, "row is", "rows are"), figure.Plural(len(p.mirror.Target.Periods), "period"), t.Name, oldName(t.Name))}
	if rows.Of > 0 {
		out = append(out, fmt.Sprintf("rows are from %s to %s", t.Grid.Format(rows.First), t.Grid.Format(rows.Last)))
	}
	out = append(out, fmt.Sprintf("rows that come meanwhile and lie outside of every period go to %s", lateName(t.Name)))
	if c := p.Schema.Find(t.By); c != nil && c.Null {
		out = append(out, fmt.Sprintf("column %s may be NULL now and may not afterwards: such inserts will fail", t.By))
	}
	if len(p.data.Key) > 0 && len(p.data.NewKey) > 0 && p.data.Key[0].Name != p.data.NewKey[0].Name {
		out = append(out, fmt.Sprintf("the new primary key doesn't begin with %s, as the old one does: verifying and --undo read far more of the rolling table", p.data.Key[0].Name))
	}
	for _, c := range p.data.Columns {
		if d := p.Declared.Definition.Column(c.Name); p.DB.Capabilities().AutoWholeKey && c.Auto && d != nil {
			out = append(out, fmt.Sprintf("the server assigns values to %s only while it is the whole primary key: inserts must give it afterwards", c.Name))
		}
	}
	if lost := Lost(p.Schema, t, p.Declared.Definition); len(lost) > 0 {
		out = append(out, fmt.Sprintf("no longer unique: %s; each period checks its own rows only, which --allow-duplicates accepts", strings.Join(lost, ", ")))
	}
	return append(out, p.mirror.sql.Notes()...)
}

// PlanFinish returns the statements that Finish would run, in the form of Planned.Statements. It
// fails if Finish would refuse.
func PlanFinish(ctx context.Context, o Options) ([]string, error) {
	j, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := j.mayFinish(); err != nil {
		return nil, err
	}
	p := planner{job: j}
	if err := p.show(ctx, stepDrop, ""); err != nil {
		return nil, err
	}
	p.say("rowmill's record of the adoption, in rowmill_journal, is deleted")
	return p.out, nil
}

func (p *planner) droppedOld(context.Context) error {
	p.say("the plain table from before the adoption, with its rows", p.dropOldStatement())
	return nil
}

// PlanUndo returns the statements that Undo would run from the adoption's current step, in the form
// of Planned.Statements. It fails if Undo would refuse.
func PlanUndo(ctx context.Context, o Options) ([]string, error) {
	j, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := j.mayUndo(); err != nil {
		return nil, err
	}
	p := planner{job: j, mirror: j.back()}
	step := j.change.Step
	if !Undoing(j.change) {
		if step, err = j.undoFrom(ctx); err != nil {
			return nil, err
		}
		if step == stepBack {
			if err := p.dropped(ctx, oldName(o.Table.Name), "what remains of the adoption"); err != nil {
				return nil, err
			}
		}
	}
	if err := p.show(ctx, step, ""); err != nil {
		return nil, err
	}
	p.say("rowmill's records of the table, in rowmill_journal, rowmill_tables, rowmill_states and rowmill_leaders, are deleted")
	return p.out, nil
}

func (p *planner) cancelled(ctx context.Context) error {
	if err := p.dropped(ctx, p.Table.Name, "triggers and log"); err != nil {
		return err
	}
	s, err := p.exists(ctx, newName(p.Table.Name))
	if err != nil || s == nil {
		return err
	}
	return p.dropsNew(ctx, newName(p.Table.Name))
}

func (p *planner) cleanedBack(ctx context.Context) error {
	if err := p.dropped(ctx, newName(p.Table.Name), "triggers and log"); err != nil {
		return err
	}
	return p.dropsNew(ctx, p.rollingNow(ctx))
}

func (p *planner) undoPrepared(ctx context.Context) error {
	p.say("a log of keys that change in the rolling table", p.mirror.sql.Tables()...)
	if p.mirror.unlogged() {
		return nil
	}
	if err := p.carriedOver(ctx); err != nil {
		return err
	}
	return p.triggers(ctx)
}

func (p *planner) comparedBack(ctx context.Context) error {
	if p.mirror.unlogged() {
		return nil // everything happens under the lock
	}
	if err := p.compared(ctx); err != nil {
		return err
	}
	_, where, err := p.chunk()
	if err != nil {
		return err
	}
	c := p.mirror.copier()
	c.Skip = false
	p.say("for each chunk that differs, its rows again", p.DB.Bind("DELETE FROM "+c.Into+" WHERE "+where), p.DB.Bind(c.Insert(and(where, c.Where))))
	p.replayed()
	return nil
}

func (p *planner) cutOverBack(ctx context.Context) error {
	parts, err := p.DB.Catalog().Partitions(ctx, p.mirror.Side(p.mirror.Source))
	if err != nil {
		return err
	}
	p.mirror.Source.Periods = parts
	return p.cutOver(ctx)
}

// dropped adds the removal of the log and the triggers. on is the name of their table by then.
func (p *planner) dropped(ctx context.Context, on, what string) error {
	late, err := p.emptyLate(ctx)
	if err != nil {
		return err
	}
	p.dropsTriggers(on, what, late...)
	return nil
}

func (p *planner) dropsTriggers(on, what string, more ...string) {
	triggers, functions := p.mirror.sql.DropTriggers(on)
	p.say(what, slices.Concat(triggers, functions, []string{p.dropLog()}, more)...)
}

func (p *planner) rollingNow(ctx context.Context) string {
	if swapped, err := p.swapped(ctx); err == nil && swapped {
		return p.Table.Name
	}
	return newName(p.Table.Name)
}

// dropsNew adds the statements that drop the rolling table. now is the name that the table has now;
// in the statements it has the name that it will have when they are executed.
func (p *planner) dropsNew(ctx context.Context, now string) error {
	t := *p.Table
	t.Name = now
	parts, err := p.DB.Catalog().Partitions(ctx, &t)
	if err != nil {
		return err
	}
	t.Name = newName(p.Table.Name)
	drop, err := p.DB.Dialect().Render(engine.DropTable{Table: &t, Partitions: parts, Views: p.liveViews()})
	if err != nil {
		return err
	}
	p.say("the rolling table", drop...)
	return nil
}
