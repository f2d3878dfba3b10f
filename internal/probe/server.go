package probe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/result"
)

const (
	// queryLimit is the timeout of a query for the server's counters. It is long, because most drivers
	// close the connection after a timeout: a stall of some seconds shouldn't end the sampling.
	queryLimit = 30 * time.Second
	// closeLimit is how long Close waits for a cancelled query.
	closeLimit = 5 * time.Second
)

// Reasons why a sample has no server counters.
var (
	errStillOpen = errors.New("the previous query has not returned")
	errLate      = errors.New("the query took too long")
)

// A poller queries an engine's counters in a separate goroutine. At most one query is in progress.
type poller struct {
	described []result.Counter
	figures   []serverFigure
	// values is nil while a query is in progress, because the goroutine uses it.
	values   []float64
	asks     chan []float64
	answers  chan answer
	stop     context.CancelFunc
	done     chan struct{}
	asked    bool // by the present sample
	answered bool // at least once
	// resets counts the samples in which a figure went backwards; resetName is the first such figure.
	resets    int
	resetName string
}

type serverFigure struct {
	name       string
	cumulative bool
	meter      meter
	seen       bool // it had a value at least once
}

type answer struct {
	at     time.Time // the middle of the query's duration
	values []float64
	err    error
}

// warnings returns warnings about irregular answers so far.
func (p *poller) warnings() []string {
	var out, unseen []string
	if p.resets > 0 {
		out = append(out, fmt.Sprintf("server counters went backwards %s, first %s: the server restarted, and its rates are left out of those intervals",
			figure.Plural(p.resets, "time", "times"), p.resetName))
	}
	for _, f := range p.figures {
		if p.answered && !f.seen {
			unseen = append(unseen, f.name)
		}
	}
	if len(unseen) > 0 {
		out = append(out, "server counters missing in all intervals, the server does not provide them: "+strings.Join(unseen, ", "))
	}
	return out
}

// newPoller starts the goroutine; close stops it.
func newPoller(ctx context.Context, db engine.Counters) *poller {
	counters := db.Describe()
	p := &poller{
		figures: make([]serverFigure, len(counters)),
		values:  make([]float64, len(counters)),
		asks:    make(chan []float64, 1),
		answers: make(chan answer, 1),
		done:    make(chan struct{}),
	}
	for i, c := range counters {
		d := result.Counter{Name: c.Name, Group: groupServer, Unit: c.Unit, Help: c.Help}
		p.figures[i] = serverFigure{name: d.Name, cumulative: c.Cumulative}
		if c.Cumulative {
			d.Unit += "/s"
		}
		p.described = append(p.described, d)
	}
	ctx, p.stop = context.WithCancel(ctx)
	go p.poll(ctx, db)
	return p
}

// poll executes one query for each request of ask, until ctx ends. Each channel has room for one
// element, and at most one query is in progress, so that the channels never block poll forever.
func (p *poller) poll(ctx context.Context, db engine.Counters) {
	defer close(p.done)
	for {
		select {
		case <-ctx.Done():
			return
		case values := <-p.asks:
			for i := range values {
				values[i] = math.NaN()
			}
			query, cancel := context.WithTimeout(ctx, queryLimit)
			begin := time.Now()
			err := db.Sample(query, values)
			cancel()
			p.answers <- answer{at: begin.Add(time.Since(begin) / 2), values: values, err: err}
		}
	}
}

// ask requests a query unless the previous one is still in progress. An answer that
// came too late for its own interval is discarded here.
func (p *poller) ask() {
	if p.values == nil {
		select {
		case a := <-p.answers:
			p.values = a.values
		default:
			p.asked = false
			return
		}
	}
	p.asks <- p.values
	p.values, p.asked = nil, true
}

// await waits for the answer until ctx ends, and adds its figures to out.
func (p *poller) await(ctx context.Context, out figures) error {
	if !p.asked {
		return errStillOpen
	}
	var a answer
	select {
	case a = <-p.answers:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	p.values = a.values
	if a.err == nil {
		p.take(a, out)
	}
	return a.err
}

// take converts an answer to figures. If one counter went backwards, the server has restarted: all
// counters began at 0, even those that are now above their old values.
func (p *poller) take(a answer, out figures) {
	p.answered = true
	restarted := false
	for i := range p.figures {
		f := &p.figures[i]
		if f.cumulative && !f.meter.at.IsZero() && a.values[i] < f.meter.value {
			if p.resetName == "" {
				p.resetName = f.name
			}
			restarted = true
		}
	}
	if restarted {
		p.resets++
	}
	for i := range p.figures {
		f := &p.figures[i]
		f.seen = f.seen || !math.IsNaN(a.values[i])
		switch {
		case !f.cumulative:
			put(out, f.name, a.values[i])
		case restarted:
			f.meter = meter{}
			f.meter.advance(a.values[i], a.at)
		default:
			f.meter.rate(a.values[i], a.at, f.name, out)
		}
	}
}

// restarted discards the counters' values from before a restart.
func (p *poller) restarted() {
	for i := range p.figures {
		p.figures[i].meter = meter{}
	}
}

// close stops the goroutine and waits for it.
func (p *poller) close() error {
	p.stop()
	select {
	case <-p.done:
		return nil
	case <-time.After(closeLimit):
		return fmt.Errorf("stop sampling server counters: the query still runs %v after it was cancelled", closeLimit)
	}
}
