package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query"
	"github.com/rowmill/rowmill/internal/query/parse"
	"github.com/rowmill/rowmill/internal/query/plan"
	"github.com/rowmill/rowmill/internal/serve/session"
)

// An Answerer answers queries in pieces: a *query.Runner.
type Answerer interface {
	Plan(ctx context.Context, statement string, st engine.State) (*plan.Plan, error)
	Run(ctx context.Context, p *plan.Plan, sink query.Sink) (*query.Report, error)
}

// Reasons, in metrics, why a query that could be split is passed on whole.
const (
	whyState    = "session"     // settings of the session
	whyRefused  = "refused"     // the server doesn't accept it from this client, or at all
	whySmall    = "small"       // few rows, or one partition
	whyForm     = "form"        // it can't be split
	whyTable    = "table"       // a view or a temporary table
	whyPlan     = "plan"        // the server plans it in another way for a part than for the whole
	whyBusy     = "busy"        // no sessions were free
	whyFailed   = "failed"      // pieces or the merge failed, or can't determine the answer
	whyWarnings = "warnings"    // the query has warnings, which pieces would repeat
	whyGone     = "interrupted" // killed, or the client has left
)

// queueWait is how long a query waits for sessions. After that it is passed on whole.
const queueWait = 2 * time.Second

// A notSplit error says why a query is passed on whole.
type notSplit struct{ reason, detail string }

func (w *notSplit) Error() string { return w.reason + ": " + w.detail }

// answered describes the client's last command, if it was a query that was split.
type answered struct {
	text  string
	notes []note
	found int64 // the value of FOUND_ROWS() after it; -1 is unknown
	// warned reports that pieces had warnings: to list them, the server has to run the query whole.
	warned bool
}

// A note is a row of SHOW WARNINGS.
type note struct{ level, code, text string }

// errKilled ends pieces on behalf of KILL.
var errKilled = errors.New("killed")

// An attempt answers a query in pieces. It has the client's command, and the state of the answer.
type attempt struct {
	c *client
	// prepared is nil for a query as text.
	prepared *session.Statement
	values   []byte // the part of COM_STMT_EXECUTE with the parameters
	text     string // the query of the client, with parameters
	literal  string // the same with values in place of parameters
	offset   int64  // of LIMIT, which FOUND_ROWS() includes; -1 is unknown

	state   *sessionState
	samples chan *sampled
	got     *sampled
	out     outgoing // not passed on yet
	passed  byte     // the sequence number of the next packet to the client
	begun   bool     // something has been passed on
}

// split answers a query in pieces. handled is false if the query is to be passed on whole.
func (a *attempt) split(ctx context.Context, shape uint64) (handled bool, err error) {
	c, f := a.c, a.c.front
	a.passed = a.out.seq
	begin := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	c.pieces.Store(&cancel)
	c.enter(phasePieces)
	ended := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		defer close(ended)
		if errors.Is(context.Cause(ctx), errGone) {
			// A statement of the front may be running on the client's own connection to the server. If the
			// account may not kill it, it runs to its end.
			_ = f.o.Reader.Kill(context.WithoutCancel(ctx), int64(c.id))
		}
	})
	defer func() {
		c.pieces.Store(nil)
		if !unwatch() {
			<-ended
		}
		cancel(nil)
		c.enter(phaseOther)
	}()
	err = engine.Guarded(func() error { return a.inPieces(ctx) })
	cause := context.Cause(ctx)
	bug, isBug := errors.AsType[*engine.Bug](err)
	if isBug {
		f.report(c, bug)
		// The bug may have interrupted a response on the client's connection to the server.
		c.server.broken = c.server.broken || c.server.reply.expect != expectNothing
	}
	passedOn := func(reason string) { f.metrics.whole.WithLabelValues(reason).Inc() }
	switch {
	case err == nil:
		f.metrics.split.Inc()
		f.metrics.seconds.Observe(time.Since(begin).Seconds())
		return true, nil
	case errors.Is(cause, errKilled), !a.begun && errors.Is(err, errKilled):
		passedOn(whyGone)
		interrupted := serverErrorOf(codeInterrupted, "70100", "Query execution was interrupted")
		_, err := c.user.Write(interrupted.Packet(a.passed))
		return true, err
	case cause != nil:
		passedOn(whyGone)
		return true, errGone
	case a.begun:
		// Rows have been passed on, so the server can't answer the query any more.
		passedOn(whyFailed)
		_, err := c.user.Write(serverErrorOf(codeUnknown, "HY000", "rowmill serve: "+err.Error()).Packet(a.passed))
		return true, err
	case c.server.broken:
		return true, errGone
	}
	why, known := errors.AsType[*notSplit](err)
	if !known {
		why = &notSplit{whyFailed, err.Error()}
	}
	passedOn(why.reason)
	c.session.Why = &why.detail
	if !known && !isBug { // the log has a bug already
		f.say(fmt.Sprintf("client %s: a query is passed on whole: %v", c.user.RemoteAddr(), err))
	}
	// A restart of the server ends idle connections. Over new ones, the next query may be split.
	if !known && errors.Is(err, engine.ErrConnectionLost) {
		return false, nil
	}
	// This shape of statement is now passed on without examination, for 200 times as long as this
	// examination took. So examinations take at most half a percent of the time, even if such
	// statements come without a break.
	pause := min(max(200*time.Since(begin), time.Second), 30*time.Second)
	f.shapes.rest(shape, f.clock.Load()+uint64(pause.Milliseconds()), &why.detail)
	return false, nil
}

// inPieces plans the query, proves that this client may read the answer, runs the pieces, and
// passes the answer on. If the query should rather be passed on whole, the error is a *notSplit.
func (a *attempt) inPieces(ctx context.Context) error {
	c, f := a.c, a.c.front
	st, err := c.settings()
	if err != nil {
		return err
	}
	a.state = st
	syntax := f.o.Reader.Syntax(st.State)
	if a.literal = a.text; a.prepared != nil {
		if err := a.insert(syntax, st.State); err != nil {
			return err
		}
	}
	text := a.literal
	q, err := parse.Parse(text, syntax)
	if err != nil {
		return &notSplit{whyForm, err.Error()}
	}
	if why := effects(q, f.o.Reader); why != "" {
		return &notSplit{whyForm, why}
	}
	if further(text[q.To:]) { // a comment, which the server takes for a second statement
		return &notSplit{whyForm, "text follows its semicolon"}
	}
	// This comes before EXPLAIN, which calls the functions of a view without tables.
	if err := c.server.baseTables(q, a.prepared != nil && a.prepared.Params > 0); err != nil {
		return err
	}
	a.offset = -1
	if q.First == nil && len(q.Rest) == 0 {
		a.offset = 0
		if q.Offset != nil {
			if a.offset, err = strconv.ParseInt(q.Offset.Of(text), 10, 64); err != nil {
				a.offset = -1
			}
		}
	}
	// The client's own account has to be allowed the query before another account runs any of it.
	want, err := c.server.explain(text)
	if err != nil {
		return err
	}
	plan, err := f.o.Answer.Plan(ctx, text, st.State)
	if errors.Is(err, engine.ErrConnectionLost) {
		return err
	}
	if err != nil {
		return &notSplit{whyRefused, err.Error()}
	}
	if plan.Whole != "" {
		for _, small := range []string{"it reads only", "only one p", "there is only one", "no partition"} {
			if strings.HasPrefix(plan.Whole, small) {
				return &notSplit{whySmall, plan.Whole}
			}
		}
		return &notSplit{whyForm, plan.Whole}
	}
	if t := plan.Table; t != nil && (t.Remote || len(plan.Fetched) > 0) {
		return &notSplit{whyTable, "it reads rows of other servers, of which a transaction has no snapshot"}
	}
	if len(plan.Branches) > 0 {
		return &notSplit{whyForm, "it has a set operation, of whose columns no partition gives the definitions"}
	}
	part, err := substitution(f.o.Reader, text, q, plan)
	if err != nil {
		return err
	}
	partText, err := part(text)
	if err != nil {
		return err
	}
	have, err := c.server.explain(partText)
	if err != nil {
		return err
	}
	if partText, err = part(a.text); err != nil {
		return err
	}
	if want != have {
		return &notSplit{whyPlan, "the server plans it in another way for a partition"}
	}
	give, ok := f.queue.take(ctx, min(len(plan.Pieces), f.o.Parallel), queueWait)
	if !ok {
		return &notSplit{whyBusy, "no sessions are free"}
	}
	defer give()
	// The query over one small partition, on the client's own connection, gives the definitions of the
	// columns. If the server only describes a query and doesn't run it, the definitions may be others.
	a.samples = make(chan *sampled, 1)
	go func() {
		var s *sampled
		err := engine.Guarded(func() (err error) {
			s, err = a.sample(partText)
			return err
		})
		if err != nil {
			s = &sampled{err: err}
		}
		a.samples <- s
	}()
	pieces, stop := context.WithTimeout(ctx, st.idle*3/4)
	report, err := f.o.Answer.Run(pieces, plan, a)
	late := pieces.Err() != nil && ctx.Err() == nil
	stop()
	if a.got == nil {
		a.got = <-a.samples
	}
	if _, bug := errors.AsType[*engine.Bug](a.got.err); err == nil || bug {
		err = errors.Join(err, a.got.err)
	}
	if err != nil && late && !a.begun {
		return &notSplit{whyState, "it takes longer than the server lets its connection be idle, by wait_timeout"}
	}
	if err != nil {
		return err
	}
	f.metrics.pieces.Add(float64(len(plan.Pieces)))
	f.metrics.cached.Add(float64(report.Cached))
	return a.end(report)
}

// further reports text behind a semicolon.
func further(t string) bool {
	i := strings.IndexByte(t, ';')
	return i >= 0 && len(strings.TrimLeft(t[i:], "; \t\r\n")) > 0
}

// substitution returns a function that changes a text of the query: where the text names the table
// whose partitions the pieces read, the function puts one small partition of that table in its
// place.
func substitution(reader engine.Reader, text string, q *parse.Query, plan *plan.Plan) (part func(string) (string, error), err error) {
	var cut []*parse.From
	tables, ctes := tablesOf(q)
	for _, t := range tables {
		cte := t.Database == "" && ctes[strings.ToLower(t.Table)]
		// The catalog may have names in lower case. If two tables differ by case only, cut has both.
		if !cte && strings.EqualFold(t.Table, plan.Table.Name) && len(t.Partitions) == 0 && strings.EqualFold(cmp.Or(t.Alias, t.Table), plan.Alias) {
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
		return nil, &notSplit{whyForm, "the place of the partitions isn't known"}
	}
	span := cut[0].Name
	operand := reader.PartFrom(plan.Table, []string{name})
	// The definitions of columns have the table's name as the query writes it.
	if t := cut[0]; t.Alias == "" && t.Table != plan.Table.Name {
		operand += " AS " + quote(t.Table)
	}
	// t is text, with parameters in place of some values: before the table that is cut, or after it.
	head, tail := text[:span.To], text[span.From:]
	return func(t string) (string, error) {
		if strings.HasPrefix(t, head) {
			return t[:span.From] + operand + t[span.To:], nil
		}
		if rest, ok := strings.CutSuffix(t, tail); ok {
			return rest + operand + text[span.To:], nil
		}
		return "", &notSplit{whyForm, "parameters stand on both sides of the table that is cut"}
	}, nil
}
