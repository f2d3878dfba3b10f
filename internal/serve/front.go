// Package serve speaks the MySQL protocol in front of a MariaDB or MySQL server. Each client has a
// connection of its own to the server. Everything is passed on as it is, even the handshake, so
// that users, passwords, transactions, prepared statements and errors are the server's own.
//
// In: connections of clients, and the address of a server. Out: the server's bytes. It refuses
// protocols older than 4.1, and doesn't offer compression.
//
// A client's bytes are relayed, its session is remembered, and some of its queries are answered:
//
//	front.go, metrics.go         clients, and what is counted of them
//	handshake.go                 a client becomes known to the server
//	relay.go, step.go, loop_*.go commands and responses, passed on by a goroutine or a loop
//	reply.go                     where a response ends
//	session                      the state of the client's session, which decides about splitting
//	handle.go, answer.go         a query that is split: checked (check.go, settings.go) and planned,
//	                             run, and passed on in the server's form (result.go, binary.go)
//	server.go                    the front's own statements on a client's connection to the server
package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query"
)

// Protocol is the protocol's name, in flags.
const Protocol = "mysql"

// Options are the settings of a Front.
type Options struct {
	// Wire is where the server is.
	Wire engine.Wire
	// TLS is for connections of clients; nil doesn't offer it.
	TLS *tls.Config
	// MaxConnections limits the number of clients; 0 is any number.
	MaxConnections int
	// Reader is the server with the account that runs pieces of queries; nil passes all queries on
	// whole.
	Reader engine.Reader
	// Parallel limits the sessions that run the pieces of one query: see query.Options. MaxPieces
	// limits the sessions of all queries together; 0 is four times Parallel.
	Parallel, MaxPieces int
	// Memory limits the memory, in bytes, that all queries together use for merging; 0 is
	// query.DefaultMemory.
	Memory int64
	// Rollups describes the roll-ups of tables, from which queries are answered; nil means none.
	Rollups query.Rollups
	// NoRollups and NoCache are as in query.Options.
	NoRollups, NoCache bool
	// Answer answers queries in the place of a query.Runner, in tests.
	Answer Answerer
	// Say receives lines for a log. Calls come from several goroutines.
	Say func(line string)
}

// A Front serves clients.
type Front struct {
	o       Options
	mu      sync.Mutex
	clients map[*client]bool
	said    time.Time // of the last line about a client; unsaid is the number of lines withheld since
	unsaid  int       // both with mu
	closing atomic.Bool
	loops   *loops
	runner  *query.Runner // of its own; nil without a Reader, or with an Answerer
	metrics *metrics
	queue   *queue
	shapes  shapes
	clock   atomic.Uint64 // milliseconds since 1970, as of the last sweep
	names   struct {      // of the settings that are read from clients' connections
		sync.Mutex
		list []string
	}
	isolation string // the variable with the isolation level
}

// keepAlive is the interval of probes by which dead hosts are noticed.
const keepAlive = 30 * time.Second

// drainTime is how long statements and transactions may go on when a front ends.
const drainTime = 30 * time.Second

// New returns a front.
func New(o Options) (*Front, error) {
	if o.TLS != nil && o.Wire.TLS == nil {
		return nil, engine.Hinted(errors.New("clients with TLS need TLS to the server, and the target doesn't say how the server is verified"),
			"?tls=true in the target; or ?tls=skip-verify, which believes any server")
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if o.Reader != nil {
		o.complete()
	}
	f := &Front{o: o, clients: map[*client]bool{}, metrics: newMetrics(), queue: newQueue(o.MaxPieces)}
	if o.Reader != nil && o.Answer == nil {
		f.runner = o.runner()
		f.o.Answer = f.runner
	}
	return f, nil
}

// complete sets the limits that are not given.
func (o *Options) complete() {
	if o.Parallel <= 0 {
		o.Parallel = o.Reader.Cores()
	}
	if o.Parallel <= 0 {
		o.Parallel = query.DefaultParallel
	}
	if o.MaxPieces <= 0 {
		o.MaxPieces = piecesPerQuery * o.Parallel
	}
	if o.Memory <= 0 {
		o.Memory = query.DefaultMemory
	}
}

// piecesPerQuery is how many queries may run in pieces at once, by default.
const piecesPerQuery = 4

// runner returns the Answerer of a front whose Options have none.
func (o *Options) runner() *query.Runner {
	atOnce := int64((o.MaxPieces + o.Parallel - 1) / o.Parallel)
	return query.New(o.Reader, query.Options{Parallel: o.Parallel, Memory: o.Memory / atOnce, NoRerun: true, Rollups: o.Rollups, NoRollups: o.NoRollups, NoCache: o.NoCache})
}

// Serve serves the clients of a listener until ctx ends. Then it closes the listener, and each
// session that waits for a command. A session with a statement or a transaction in progress is
// closed when that has ended, or after drainTime.
func (f *Front) Serve(ctx context.Context, l net.Listener) (err error) {
	var all sync.WaitGroup
	defer all.Wait()
	if f.runner != nil {
		defer func() { err = errors.Join(err, f.runner.Close()) }()
	}
	if f.loops, err = startLoops(f.loopCount()); err != nil {
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	}
	defer func() { err = errors.Join(err, f.loops.stop()) }()
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	all.Go(func() { f.sweep(work) })
	closed := context.AfterFunc(ctx, func() { l.Close() })
	defer closed()
	var sessions sync.WaitGroup
	var failed error
	for pause := 5 * time.Millisecond; ; {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			if errors.Is(err, net.ErrClosed) {
				failed = fmt.Errorf("accept clients on %s: %w", l.Addr(), err)
				break
			}
			// For instance, there are no descriptors left: sessions that end will free some.
			f.o.Say(fmt.Sprintf("accept clients on %s: %v", l.Addr(), err))
			pause = min(2*pause, time.Second)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			continue
		}
		pause = 5 * time.Millisecond
		sessions.Go(func() { f.serve(work, conn) })
	}
	f.drain(&sessions)
	return failed
}

// loopCount is the number of loops: one for each core, or half as many if the server is on this
// machine, because the server and its clients need cores, too. With fewer loops, each finds more
// events at once, and sleeps less often. One loop can pass on the answers of several server cores.
func (f *Front) loopCount() int {
	if r := f.o.Reader; r != nil && r.Cores() > 0 {
		return max(1, runtime.NumCPU()/2)
	}
	return runtime.NumCPU()
}

// drain ends the sessions.
func (f *Front) drain(sessions *sync.WaitGroup) {
	f.closing.Store(true)
	done := make(chan struct{})
	go func() {
		sessions.Wait()
		close(done)
	}()
	limit := time.After(drainTime)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, c := range f.connected() {
			// End each session that is idle outside of a transaction, or in its handshake. The other
			// sessions end themselves after their command, because they check closing then.
			switch phase := c.phase.Load() % phaseCount; {
			case phase == phaseIdle && !c.inTransaction.Load():
				_ = c.user.SetReadDeadline(past)
			case phase == phaseConnect:
				c.cut()
			}
			c.recall()
		}
		select {
		case <-done:
			return
		case <-limit:
			for _, c := range f.connected() {
				c.cut()
			}
			<-done
			return
		case <-tick.C:
		}
	}
}

// serve serves one connection.
func (f *Front) serve(ctx context.Context, conn net.Conn) {
	c := &client{front: f, found: -1}
	c.user.Conn = conn
	c.sockets.add(conn)
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetKeepAlivePeriod(keepAlive) // it only helps
	}
	defer c.close()
	defer func() {
		if bug := recover(); bug != nil {
			_ = f.panicked(c, bug)
		}
	}()
	c.phase.Store(phaseOther)
	if f.closing.Load() {
		c.refuse(serverErrorOf(codeShutdown, "08S01", "rowmill serve: it is shutting down"), 0)
		return
	}
	if n := f.add(c); f.o.MaxConnections > 0 && n > f.o.MaxConnections {
		f.metrics.refused.Inc()
		c.refuse(serverErrorOf(codeTooManyConnections, "08004", fmt.Sprintf("Too many connections (rowmill serve: --max-connections %d)", f.o.MaxConnections)), 0)
		return
	}
	f.metrics.accepted.Inc()
	err := c.run(ctx)
	if err != nil && !errors.Is(err, errGone) && !errors.Is(err, errRefused) {
		f.say(fmt.Sprintf("client %s (connection %d of the server): %v", conn.RemoteAddr(), c.id, err))
	}
}

// panicked counts and logs an error of this program, and returns it as an error.
func (f *Front) panicked(c *client, bug any) error {
	err := &engine.Bug{Value: bug, Stack: debug.Stack()}
	f.report(c, err)
	return err
}

// report counts and logs an error of this program.
func (f *Front) report(c *client, bug *engine.Bug) {
	f.metrics.panics.Inc()
	f.o.Say(fmt.Sprintf("client %s: %v\n%s", c.user.RemoteAddr(), bug, bug.Stack))
}

// sayEvery is the least time between two lines in the log about clients: while the server is down,
// every client fails again and again.
const sayEvery = time.Second

// say writes a line about one client, or counts it for the next one.
func (f *Front) say(line string) {
	f.mu.Lock()
	now := time.Now()
	if now.Sub(f.said) < sayEvery {
		f.unsaid++
		f.mu.Unlock()
		return
	}
	if f.unsaid > 0 {
		line += fmt.Sprintf(" (and %d other lines about clients before)", f.unsaid)
	}
	f.said, f.unsaid = now, 0
	f.mu.Unlock()
	f.o.Say(line)
}

// add notes a session and returns how many there are.
func (f *Front) add(c *client) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clients[c] = true
	return len(f.clients)
}

// connected returns the sessions.
func (f *Front) connected() []*client {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.clients))
}

// close closes both connections, without the farewell of TLS, which could wait for the other side.
func (c *client) close() {
	c.front.mu.Lock()
	if c.front.clients[c] {
		delete(c.front.clients, c)
		c.front.metrics.ended.add(&c.traffic)
	}
	c.front.mu.Unlock()
	c.cut()
}

// cut closes the network connections, from any goroutine.
func (c *client) cut() {
	c.endPieces(errGone)
	for _, conn := range c.sockets.list() {
		_ = conn.Close() // nothing follows
	}
}
