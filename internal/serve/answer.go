package serve

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/mysqlwire"
	"github.com/rowmill/rowmill/internal/query"
	"github.com/rowmill/rowmill/internal/query/parse"
	"github.com/rowmill/rowmill/internal/query/plan"
)

// An Answerer answers queries in pieces: a *query.Runner.
type Answerer interface {
	Plan(ctx context.Context, statement string, st engine.State) (*plan.Plan, error)
	Run(ctx context.Context, p *plan.Plan, sink query.Sink) (*query.Report, error)
}

// Reasons for which a query that could be split is passed on whole, in metrics.
const (
	whyState    = "session"     // settings of the session
	whyRefused  = "refused"     // the server doesn't accept it from this client, or at all
	whySmall    = "small"       // few rows, or one partition
	whyForm     = "form"        // it can't be split
	whyTable    = "table"       // a view, a temporary table, a table with columns that depend on the user
	whyPlan     = "plan"        // the server plans it in another way for a part than for the whole
	whyBusy     = "busy"        // no sessions were free
	whyFailed   = "failed"      // pieces or the merge failed, or can't determine the answer
	whyWarnings = "warnings"    // the query has warnings, which pieces would repeat
	whyGone     = "interrupted" // killed, or the client has left
)

// queueWait is how long a query waits for sessions, after which it is passed on whole.
const queueWait = 2 * time.Second

// A whole is why a query is passed on whole.
type whole struct{ reason, detail string }

func (w *whole) Error() string { return w.reason + ": " + w.detail }

// answered is the query that was split just before.
type answered struct {
	text  string
	notes []note
	found int64 // what FOUND_ROWS() returns; -1 is unknown
	// warned reports warnings of the server, which it lists if it runs the query whole.
	warned bool
}

// A note is a row of SHOW WARNINGS.
type note struct{ level, code, text string }

// errKilled ends pieces on behalf of KILL.
var errKilled = errors.New("killed")

// split answers a query in pieces. handled is false if it is to be passed on.
func (c *client) split(ctx context.Context, shape uint64, run *execution) (handled bool, err error) {
	f := c.front
	begin := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	c.setCancel(cancel)
	c.enter(phasePieces)
	ended := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		defer close(ended)
		if errors.Is(context.Cause(ctx), errGone) {
			// A statement of the client's own connection may be running. Without the privilege, it ends by itself.
			_ = f.o.Reader.Kill(context.WithoutCancel(ctx), int64(c.id))
		}
	})
	defer func() {
		c.setCancel(nil)
		if !unwatch() {
			<-ended
		}
		cancel(nil)
		c.enter(phaseOther)
	}()
	err = engine.Guarded(func() error { return c.inPieces(ctx, run) })
	cause := context.Cause(ctx)
	bug, isBug := errors.AsType[*engine.Bug](err)
	if isBug {
		f.report(c, bug)
		c.broken = c.broken || c.reply.expect != expectNothing // the connection is within a response
	}
	var why *whole
	reason := ""
	switch {
	case err == nil:
		f.metrics.split.Inc()
		f.metrics.seconds.Observe(time.Since(begin).Seconds())
		return true, nil
	case errors.Is(cause, errKilled), !run.begun && errors.Is(err, errKilled):
		f.metrics.whole.WithLabelValues(whyGone).Inc()
		interrupted := serverErrorOf(codeInterrupted, "70100", "Query execution was interrupted")
		_, err := c.user.Write(interrupted.Packet(run.seq))
		return true, err
	case cause != nil:
		f.metrics.whole.WithLabelValues(whyGone).Inc()
		return true, errGone
	case run.begun:
		// Rows have been passed on already.
		f.metrics.whole.WithLabelValues(whyFailed).Inc()
		_, err := c.user.Write(serverErrorOf(codeUnknown, "HY000", "rowmill serve: "+err.Error()).Packet(run.seq))
		return true, err
	case c.broken:
		return true, errGone
	case errors.As(err, &why):
		f.metrics.whole.WithLabelValues(why.reason).Inc()
		reason = why.detail
	case isBug: // the log has it
		reason = err.Error()
		f.metrics.whole.WithLabelValues(whyFailed).Inc()
	default:
		reason = err.Error()
		f.metrics.whole.WithLabelValues(whyFailed).Inc()
		f.say(fmt.Sprintf("client %s: a query is passed on whole: %v", c.user.RemoteAddr(), err))
		if errors.Is(err, engine.ErrConnectionLost) {
			c.session.Why = &reason
			return false, nil // it says nothing about the query: idle connections end with the server, and the next ones are new
		}
	}
	// The cost of looking is at most half a percent of the time, if statements of this shape come one after the other.
	pause := min(max(200*time.Since(begin), time.Second), 30*time.Second)
	f.shapes.rest(shape, f.clock.Load()+uint64(pause.Milliseconds()), &reason)
	c.session.Why = &reason
	return false, nil
}

// inPieces plans the query, proves that this client may have its answer, runs it, and passes the answer on. Its error is a
// *whole for a query that is better passed on.
func (c *client) inPieces(ctx context.Context, run *execution) error {
	f := c.front
	st, err := c.settings()
	if err != nil {
		return err
	}
	syntax := f.o.Reader.Syntax(st.State)
	if run.literal = run.text; run.prepared != nil {
		if err := run.insert(syntax, st.State); err != nil {
			return err
		}
	}
	text := run.literal
	q, err := parse.Parse(text, syntax)
	if err != nil {
		return &whole{whyForm, err.Error()}
	}
	if why := effects(q, f.o.Reader); why != "" {
		return &whole{whyForm, why}
	}
	if further(text[q.To:]) { // a comment: to the server it is a second statement
		return &whole{whyForm, "text follows its semicolon"}
	}
	// Before anything else: even EXPLAIN calls the functions of a view that has no table.
	if err := c.baseTables(q, run.prepared != nil && run.prepared.Params > 0); err != nil {
		return err
	}
	run.offset = -1
	if q.First == nil && len(q.Rest) == 0 {
		run.offset = 0
		if q.Offset != nil {
			if run.offset, err = strconv.ParseInt(q.Offset.Of(text), 10, 64); err != nil {
				run.offset = -1
			}
		}
	}
	// The client's own connection has to accept it before anything is done with another account.
	want, err := c.explain(text)
	if err != nil {
		return err
	}
	plan, err := f.o.Answer.Plan(ctx, text, st.State)
	if errors.Is(err, engine.ErrConnectionLost) {
		return err
	}
	if err != nil {
		return &whole{whyRefused, err.Error()}
	}
	if plan.Whole != "" {
		reason := whyForm
		if strings.HasPrefix(plan.Whole, "it reads only") || strings.HasPrefix(plan.Whole, "only one p") || strings.HasPrefix(plan.Whole, "there is only one") || strings.HasPrefix(plan.Whole, "no partition") {
			reason = whySmall
		}
		return &whole{reason, plan.Whole}
	}
	if t := plan.Table; t != nil && (t.Remote || len(plan.Fetched) > 0) {
		return &whole{whyTable, "it reads rows of other servers, of which a transaction has no snapshot"}
	}
	if len(plan.Branches) > 0 {
		return &whole{whyForm, "it has a set operation, of whose columns no partition gives the definitions"}
	}
	part, err := c.place(text, q, plan)
	if err != nil {
		return err
	}
	partText, err := part(text)
	if err != nil {
		return err
	}
	have, err := c.explain(partText)
	if err != nil {
		return err
	}
	if partText, err = part(run.text); err != nil {
		return err
	}
	if want != have {
		return &whole{whyPlan, "the server plans it in another way for a partition"}
	}
	give, ok := f.queue.take(ctx, min(len(plan.Pieces), f.o.Parallel), queueWait)
	if !ok {
		return &whole{whyBusy, "no sessions are free"}
	}
	defer give()
	// The query over one small partition, on the client's own connection, gives the definitions of the columns: they
	// depend on how the server executes a query, and its description differs from them.
	sample := make(chan *sampled, 1)
	go func() {
		var s *sampled
		err := engine.Guarded(func() (err error) {
			s, err = c.sample(run, partText)
			return err
		})
		if err != nil {
			s = &sampled{err: err}
		}
		sample <- s
	}()
	sink := &sink{c: c, run: run, seq: run.seq, sample: sample, notes: st.notes, unconverted: st.unconverted}
	pieces, stop := context.WithTimeout(ctx, st.idle*3/4)
	report, err := f.o.Answer.Run(pieces, plan, sink)
	late := pieces.Err() != nil && ctx.Err() == nil
	stop()
	if sink.got == nil {
		sink.got = <-sample
	}
	if _, bug := errors.AsType[*engine.Bug](sink.got.err); err == nil || bug {
		err = errors.Join(err, sink.got.err)
	}
	if err != nil && late && !run.begun {
		return &whole{whyState, "it takes longer than the server lets its connection be idle, by wait_timeout"}
	}
	if err != nil {
		return err
	}
	f.metrics.pieces.Add(float64(len(plan.Pieces)))
	f.metrics.cached.Add(float64(report.Cached))
	return sink.end(report)
}

// further reports text behind a semicolon.
func further(t string) bool {
	i := strings.IndexByte(t, ';')
	return i >= 0 && len(strings.TrimLeft(t[i:], "; \t\r\n")) > 0
}

// effects returns what EXPLAIN might do more than explain: it evaluates constants, and calls of functions among them. Such a query is
// passed on before anything is asked about it. A text with several statements isn't parsed at all.
func effects(q *parse.Query, reader engine.Reader) (why string) {
	q.Walk(nil, func(e *parse.Expr) bool {
		if e.Kind == parse.Call && (e.Qualified || reader.Function(e.Name, len(e.Args)) == engine.UnknownFunction) {
			why = "function " + e.Name + " isn't known"
		}
		return why == ""
	})
	return why
}

// baseTables checks that the tables of the query are what pieces read: no views, whose rows may depend on the user, no temporary tables of
// the session, no columns that are computed from the session.
func (c *client) baseTables(q *parse.Query, params bool) error {
	tables, ctes := tablesOf(q)
	checked := map[string]bool{}
	for _, t := range tables {
		name := nameOf(t)
		if checked[name] {
			continue
		}
		checked[name] = true
		// Within its own definition, and outside of its query, the name of a CTE is that of a table.
		if err := c.baseTable(name, t.Database == "" && ctes[strings.ToLower(t.Table)], params); err != nil {
			return err
		}
	}
	return nil
}

// place returns what puts one small partition in the place of the table that is cut.
func (c *client) place(text string, q *parse.Query, plan *plan.Plan) (part func(string) (string, error), err error) {
	reader := c.front.o.Reader
	var cut []*parse.From
	tables, ctes := tablesOf(q)
	for _, t := range tables {
		cte := t.Database == "" && ctes[strings.ToLower(t.Table)]
		// The catalog may have names in lower case. Two that differ by case only are one too many.
		if !cte && strings.EqualFold(t.Table, plan.Table.Name) && len(t.Partitions) == 0 && !t.Hinted && strings.EqualFold(cmp.Or(t.Alias, t.Table), plan.Alias) {
			cut = append(cut, t)
		}
	}
	name, fewest := "", int64(-1)
	for _, p := range plan.Table.Parts {
		if slices.Contains(plan.Parts, p.Name) && (fewest < 0 || fewest == 0 && p.Rows > 0 || p.Rows > 0 && p.Rows < fewest) {
			name, fewest = p.Name, p.Rows
		}
	}
	if len(cut) != 1 || name == "" {
		return nil, &whole{whyForm, "the place of the partitions isn't known"}
	}
	span := cut[0].Name
	operand := reader.PartFrom(plan.Table, []string{name})
	if t := cut[0]; t.Alias == "" && t.Table != plan.Table.Name { // the definitions of columns have the name as it is written
		operand += " AS " + quote(t.Table)
	}
	// A text with parameters is the same before the table or behind it.
	head, tail := text[:span.To], text[span.From:]
	return func(t string) (string, error) {
		if strings.HasPrefix(t, head) {
			return t[:span.From] + operand + t[span.To:], nil
		}
		if rest, ok := strings.CutSuffix(t, tail); ok {
			return rest + operand + text[span.To:], nil
		}
		return "", &whole{whyForm, "parameters stand on both sides of the table that is cut"}
	}, nil
}

// tablesOf returns the tables of a query, and the names of its CTEs in lower case, which may be among them.
func tablesOf(q *parse.Query) (tables []*parse.From, ctes map[string]bool) {
	ctes = map[string]bool{}
	q.Walk(func(q *parse.Query) bool {
		for _, w := range q.With {
			ctes[strings.ToLower(w.Name)] = true
		}
		if q.Body != nil {
			for _, f := range q.Body.From {
				for _, t := range f.Tables() {
					if t.Query == nil && t.Table != "" {
						tables = append(tables, t)
					}
				}
			}
		}
		return true
	}, nil)
	return tables, ctes
}

func nameOf(t *parse.From) string {
	if t.Database == "" {
		return quote(t.Table)
	}
	return quote(t.Database) + "." + quote(t.Table)
}

func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// shortTimes matches a column of TIME or YEAR in the definition of a table. ANSI_QUOTES and sql_quote_show_create change the quotes.
var shortTimes = regexp.MustCompile("(?mi)^  (?:`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"|[^`\"\\s]+) (?:time|year)\\b")

// baseTable refuses what isn't a table whose rows are the same for everybody. The table of an optional name needn't exist.
func (c *client) baseTable(name string, optional, params bool) error {
	r, err := c.ask("SHOW CREATE TABLE " + name)
	if err != nil {
		var refused *serverError
		if optional && errors.As(err, &refused) && (refused.Code == codeNoTable || refused.Code == codeNoDatabase) {
			return nil
		}
		return c.refusal(err)
	}
	if len(r.rows) != 1 || len(r.rows[0]) != 2 || !bytes.HasPrefix(r.rows[0][1], []byte("CREATE TABLE ")) {
		return &whole{whyTable, name + " is a view or a temporary table"}
	}
	ddl := r.rows[0][1]
	if params && !c.mariadb && shortTimes.Match(ddl) {
		return &whole{whyTable, name + " has a column of TIME or YEAR, to which the server converts a parameter by other rules than a literal"}
	}
	return nil
}

// refusal makes an error of the server a reason to pass the query on.
func (c *client) refusal(err error) error {
	var e *serverError
	if errors.As(err, &e) {
		if e.Code == codeInterrupted {
			return errKilled // on the server, and so the whole query would have been
		}
		return &whole{whyRefused, e.Error()}
	}
	c.broken = true
	return err
}

// explain asks the server for the plan of a query, as this client, and returns what decides about the form of
// the result: which tables are read in which order, and whether rows go through temporary tables.
func (c *client) explain(text string) (string, error) {
	words := "EXPLAIN "
	if !c.mariadb { // where explain_format may be another
		words = "EXPLAIN FORMAT=TRADITIONAL "
	}
	r, err := c.ask(words + text)
	if err != nil {
		return "", c.refusal(err)
	}
	column := func(name string) int {
		return slices.IndexFunc(r.definitions, func(d []byte) bool { c, _ := mysqlwire.ReadColumn(d); return c.Name == name })
	}
	kind, table, access, extra := column("select_type"), column("table"), column("type"), column("Extra")
	if kind < 0 || table < 0 || access < 0 || extra < 0 {
		return "", &whole{whyPlan, "EXPLAIN has another form"}
	}
	var out strings.Builder
	for _, row := range r.rows {
		fmt.Fprintf(&out, "%s %s", row[kind], row[table])
		if a := string(row[access]); a == "const" || a == "system" {
			out.WriteString(" " + a)
		}
		for _, word := range []string{"temporary", "filesort", "optimized away", "mpossible", "for group-by", "no matching", "Distinct", "Materialize", "join buffer"} {
			if bytes.Contains(row[extra], []byte(word)) {
				out.WriteString(" " + word)
			}
		}
		out.WriteByte('\n')
	}
	return out.String(), nil
}
