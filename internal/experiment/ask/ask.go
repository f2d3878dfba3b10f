// Package ask asks a database queries in the ways that a partition scan compares: on one
// connection, split over several connections, and through rowmill serve.
package ask

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query"
	"github.com/rowmill/rowmill/internal/serve"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// Open opens a way of asking, one of result.ScanWays. The ways other than serial read on the given
// number of sessions in parallel; 0 is the default of query.Options. The way serve needs a database
// that is an engine.Wired.
func Open(ctx context.Context, db *target.DB, reader engine.Reader, way string, sessions int) (workload.Asker, error) {
	switch way {
	case result.ScanSerial:
		s, err := reader.ReadSession(ctx, nil)
		if err != nil {
			return nil, err
		}
		return &sessionAsker{s}, nil
	case result.ScanParallel:
		return newSplitAsker(ctx, reader, sessions)
	}
	return newServeAsker(ctx, db, reader, sessions)
}

// Explain returns how many of the sessions a query uses, and why it isn't split; "" if it is split.
// The answer holds for the ways parallel and serve, which plan alike.
func Explain(ctx context.Context, reader engine.Reader, q string, sessions int) (used int, whole string, err error) {
	a, err := newSplitAsker(ctx, reader, sessions)
	if err != nil {
		return 0, "", err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	p, err := a.r.Plan(ctx, q, a.state)
	if err != nil {
		return 0, "", err
	}
	e, err := a.r.Explain(ctx, p)
	if err != nil {
		return 0, "", err
	}
	return max(e.Sessions, 1), p.Whole, nil
}

// answer is a query.Sink that makes each row a line, with tabs between the values.
type answer struct{ rows []string }

func (a *answer) Columns([]engine.ResultColumn) error { return nil }

func (a *answer) Row(values [][]byte) error {
	a.rows = append(a.rows, string(bytes.Join(values, []byte("\t"))))
	return nil
}

// A sessionAsker asks on one connection.
type sessionAsker struct{ s *engine.Session }

func (a *sessionAsker) Ask(ctx context.Context, q string) ([]string, error) {
	var got answer
	err := a.s.Text(ctx, q, got.Columns, got.Row)
	return got.rows, err
}

func (a *sessionAsker) Close() error { return a.s.Close() }

// A splitAsker is a query.Runner with the settings of an ordinary session.
type splitAsker struct {
	r     *query.Runner
	state engine.State
}

func newSplitAsker(ctx context.Context, reader engine.Reader, sessions int) (*splitAsker, error) {
	s, err := reader.ReadSession(ctx, nil)
	if err != nil {
		return nil, err
	}
	st, err := reader.ReadState(ctx, s)
	if err := errors.Join(err, s.Close()); err != nil {
		return nil, err
	}
	return &splitAsker{query.New(reader, query.Options{Parallel: sessions}), st}, nil
}

func (a *splitAsker) Ask(ctx context.Context, q string) ([]string, error) {
	var got answer
	p, err := a.r.Plan(ctx, q, a.state)
	if err != nil {
		return nil, err
	}
	_, err = a.r.Run(ctx, p, &got)
	return got.rows, err
}

func (a *splitAsker) Close() error { return a.r.Close() }

// A serveAsker is a client of rowmill serve in this process, on the loopback interface.
type serveAsker struct {
	sessionAsker
	db    engine.DB
	stop  context.CancelFunc
	ended chan error
}

func newServeAsker(ctx context.Context, db *target.DB, reader engine.Reader, sessions int) (_ workload.Asker, err error) {
	front, err := serve.New(serve.Options{Wire: db.DB.(engine.Wired).Wire(), Reader: reader, Parallel: sessions})
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the client of serve: %w", err)
	}
	a := &serveAsker{ended: make(chan error, 1)}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	a.stop = stop
	go func() { a.ended <- front.Serve(serving, l) }()
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if a.db, err = db.At(ctx, l.Addr().String()); err != nil {
		return nil, fmt.Errorf("connect to serve: %w", err)
	}
	if a.s, err = a.db.(engine.Reader).ReadSession(ctx, nil); err != nil {
		return nil, fmt.Errorf("connect to serve: %w", err)
	}
	return a, nil
}

func (a *serveAsker) Close() error {
	var errs []error
	if a.s != nil {
		errs = append(errs, a.s.Close())
	}
	if a.db != nil {
		errs = append(errs, a.db.Close())
	}
	a.stop()
	return errors.Join(append(errs, <-a.ended)...)
}
