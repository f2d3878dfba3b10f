package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
)

// Operations of a HotRow: a run as a whole, and its parts.
const (
	OpRun       = "run"
	OpReadCount = "read-count" // SELECT fans
	OpReadFan   = "read-fan"   // SELECT user_id
	OpCommit    = "transaction"
)

var hotParts = [3]string{OpReadCount, OpReadFan, OpCommit}

// hotArriving is how many clients may be on the way to their first transaction. If thousands begin in the same
// millisecond, the one that holds the lock waits for a processor behind all others, and nothing is committed for minutes.
const hotArriving = 32

// HotGrace is how long the runs in progress may take when the time is over: all clients wait for one row.
func HotGrace(clients int) time.Duration {
	return 10*time.Second + time.Duration(clients)*20*time.Millisecond
}

// MaxHotClients is what the servers' limit of open files and a process of rowmill allow.
const MaxHotClients = 10_000

// hotItem is the item that everybody wants.
const hotItem = "12345678"

// Ways of a HotRow. HotNoDetect and HotThreadPool are settings of the server.
const (
	HotPlain       = "plain"        // BEGIN, INSERT, UPDATE, COMMIT
	HotUpdateFirst = "update-first" // the UPDATE before the INSERT, so that its lock is held for longer
	HotOneTrip     = "one-trip"     // all four statements in one round trip
	HotSlots       = "slots"        // the counter is several rows, each run takes one: a free one by SKIP LOCKED, or a random one
	HotNoDetect    = "no-detect"    // plain, and the server looks for no deadlocks
	HotThreadPool  = "thread-pool"  // plain, and the server's threads are fewer than its connections
	HotAppend      = "append"       // an event is appended to a rolling table, whose roll-up is the counter
)

// The rolling table of HotAppend, its time, and its roll-up, whose live view is the counter.
const (
	HotEvents     = "fan_event"
	HotEventTime  = "ts"
	HotLevel      = "fans_1s"
	hotRollEvery  = 500 * time.Millisecond
	hotFreshness  = time.Second // between two readings of the live view
	hotTimeLayout = "2006-01-02 15:04:05"
)

// HotWays returns the ways in order.
func HotWays() []string {
	return []string{HotPlain, HotUpdateFirst, HotOneTrip, HotSlots, HotNoDetect, HotThreadPool, HotAppend}
}

// HotRowOptions are the parameters of a HotRow.
type HotRowOptions struct {
	// Clients is the number of connections.
	Clients int
	// Way is one of the HotWays; those that are settings of the server send what HotPlain sends.
	Way string
	// Slots is the number of rows that HotSlots spreads the counter over.
	Slots int
	// Cache is how old an answer to the first query may be; 0 asks each time.
	Cache time.Duration
}

// A HotRow is the counter of a report of 2010: each run reads how many fans an item has, looks
// whether the user is one already, and makes it one in a transaction that counts it. All clients
// count in one row, whose lock each holds until its commit has returned.
type HotRow struct {
	db     engine.DB
	reader engine.Reader // nil if the engine stores nothing
	opt    HotRowOptions
	tables []*engine.Table

	count cachedCount
	// Roll, if set, computes the roll-up of HotAppend up to a time, before which no event is missing.
	Roll    func(ctx context.Context, upTo time.Time) error
	clients []*hotClient // guarded by mu
	// arriving has an element for each client on the way to its first transaction.
	arriving chan struct{}
	// acked counts the runs that were acknowledged, doubt those that ended without an answer.
	acked, doubt atomic.Int64
	mu           sync.Mutex
	causes       map[string]int64
	// Took, if set, is called with the duration of each query of a run, by several goroutines.
	Took func(part string, d time.Duration)
}

type cachedCount struct {
	mu sync.Mutex
	at time.Time
}

// fresh reports whether the count was read within a time, and notes that it is read now if not.
func (c *cachedCount) fresh(within time.Duration) bool {
	if within <= 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.at) > within {
		c.at = now
		return false
	}
	return true
}

// NewHotRow checks the options. It does not access the database.
func NewHotRow(db engine.DB, opt HotRowOptions) (*HotRow, error) {
	switch {
	case opt.Clients < 1 || opt.Clients > MaxHotClients:
		return nil, fmt.Errorf("%d clients: want 1 to %d", opt.Clients, MaxHotClients)
	case opt.Slots < 1:
		return nil, fmt.Errorf("%d slots: want at least 1", opt.Slots)
	case (opt.Way == HotSlots || opt.Way == HotAppend) && db.Capabilities().SerialWrites:
		return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("way %s: %s has one writer at a time, and no locks of rows", opt.Way, db.Info().Engine))
	}
	id := engine.Column{Name: "item_id", Type: engine.Int64}
	if opt.Way == HotAppend {
		opt.Cache = max(opt.Cache, hotFreshness)
	}
	w := &HotRow{db: db, opt: opt, causes: map[string]int64{}, arriving: make(chan struct{}, hotArriving)}
	w.tables = []*engine.Table{
		{Name: "fan_of", Columns: []engine.Column{{Name: "user_id", Type: engine.Int64}, id}, PrimaryKey: []string{"user_id", "item_id"},
			Indexes: []engine.Index{{Name: "fans_of_item", Columns: []string{"item_id"}}}},
		{Name: "fan_count", Columns: []engine.Column{id, {Name: "slot", Type: engine.Int64}, {Name: "fans", Type: engine.Int64}}, PrimaryKey: []string{"item_id", "slot"}},
	}
	return w, nil
}

// Events is the table that the runs of HotAppend append to.
func (w *HotRow) Events() *engine.Table {
	return &engine.Table{Name: HotEvents, Columns: []engine.Column{{Name: HotEventTime, Type: engine.Time}, {Name: "item_id", Type: engine.Int64},
		{Name: "user_id", Type: engine.Int64}}, PrimaryKey: []string{HotEventTime, "item_id", "user_id"}}
}

// counter is the table or view that a run reads the count from.
func (w *HotRow) counter() string {
	if w.opt.Way == HotAppend {
		return HotLevel + "_live"
	}
	return "fan_count"
}

// Deviations lists the differences from the published definition.
func (w *HotRow) Deviations() []string {
	out := []string{"fan_count has a column slot in its key, 0 but for way slots"}
	if w.opt.Way == HotAppend {
		out = append(out, "the count is read from "+w.counter()+" at most once a second, and not by each run")
	}
	return out
}

// Tables returns the tables.
func (w *HotRow) Tables() []*engine.Table { return w.tables }

func (w *HotRow) slots() int {
	if w.opt.Way == HotSlots {
		return w.opt.Slots
	}
	return 1
}

// Setup creates the tables, with a counter of 0. It returns the statements that created the schema.
func (w *HotRow) Setup(ctx context.Context, dropExisting bool) (schema []string, err error) {
	for _, t := range w.tables {
		exists, err := w.db.Catalog().Exists(ctx, t)
		if err != nil {
			return nil, err
		}
		if exists && !dropExisting {
			return nil, engine.Hinted(engine.Classed(engine.ErrTableExists, fmt.Errorf("table %s exists in %s", t.Name, w.db.Info().Target)),
				"--drop-existing to drop it with all its rows, or another database")
		}
		if exists {
			if err := w.db.Apply(ctx, engine.DropTable{Table: t}); err != nil {
				return nil, err
			}
		}
		create := engine.CreateTable{Table: t}
		text, err := w.db.Dialect().Render(create)
		if err == nil {
			err = w.db.Apply(ctx, create)
		}
		if err != nil {
			return nil, err
		}
		schema = append(schema, text...)
	}
	if !w.db.Capabilities().Stores {
		return schema, nil
	}
	reader, ok := w.db.(engine.Reader)
	if !ok {
		return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("%s answers no queries", w.db.Info().Engine))
	}
	w.reader = reader
	rows := make([]string, w.slots())
	for i := range rows {
		rows[i] = fmt.Sprintf("(%s, %d, 0)", hotItem, i)
	}
	return schema, w.with(ctx, func(s *engine.Session) error {
		_, err := s.Exec(ctx, "INSERT INTO fan_count (item_id, slot, fans) VALUES "+strings.Join(rows, ", "))
		return err
	})
}

// with runs fn on a connection of its own.
func (w *HotRow) with(ctx context.Context, fn func(*engine.Session) error) error {
	s, err := w.reader.ReadSession(ctx, nil)
	if err != nil {
		return err
	}
	return errors.Join(fn(s), s.Close())
}

// Prove compares the counter with the rows, and both with the runs that were acknowledged. It returns how
// many runs there must be, of which some may not have been answered, and how many were counted.
func (w *HotRow) Prove(ctx context.Context, reader engine.Reader) (expected, found int64, err error) {
	s, err := roomIn(ctx, reader)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var rows int64
	for q, into := range map[string]*int64{"SELECT SUM(fans) FROM " + w.counter(): &found, "SELECT COUNT(*) FROM fan_of": &rows} {
		text, err := firstValue(ctx, s, q)
		if err == nil {
			*into, err = strconv.ParseInt(text, 10, 64)
		}
		if err != nil {
			return 0, 0, fmt.Errorf("%s: %w", q, err)
		}
	}
	expected = w.acked.Load()
	if more := rows - expected; more > 0 && more <= w.doubt.Load() {
		expected += more // their commit was not answered
	}
	switch {
	case found != rows:
		err = fmt.Errorf("the counter is %s, and fan_of has %s", figure.Count(found), figure.Plural(rows, "row", "rows"))
	case found != expected:
		err = fmt.Errorf("%s were acknowledged, and the counter is %s", figure.Plural(expected, "run", "runs"), figure.Count(found))
	}
	return expected, found, err
}

// A server needs this long, and polls that often, to take leave of thousands of clients.
const (
	leaveTime = time.Minute
	leavePoll = 100 * time.Millisecond
)

// roomIn opens a session on a server that may still be ending those of the clients.
func roomIn(ctx context.Context, reader engine.Reader) (*engine.Session, error) {
	for began := time.Now(); ; {
		s, err := reader.ReadSession(ctx, nil)
		if err == nil || !errors.Is(err, engine.ErrUnreachable) || time.Since(began) > leaveTime {
			return s, err
		}
		if err := engine.Sleep(ctx, leavePoll); err != nil {
			return nil, err
		}
	}
}

// Held makes runs with one client, and returns for how long the counter's lock is held, the median:
// from sending its UPDATE to the answer to COMMIT.
func (w *HotRow) Held(ctx context.Context, runs int) (time.Duration, error) {
	made, err := w.Client(ctx, 0)
	if err != nil {
		return 0, err
	}
	c := made.(*hotClient)
	var all []time.Duration
	for range runs {
		c.Prepare(1)
		if err = c.Do(ctx); err != nil {
			break
		}
		all = append(all, time.Since(c.locked))
	}
	if err := errors.Join(err, c.Close()); err != nil {
		return 0, err
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

// firstValue returns the first value of a query's first row; "" without one.
func firstValue(ctx context.Context, s *engine.Session, q string) (out string, err error) {
	err = s.Text(ctx, q, nil, func(values [][]byte) error {
		if out == "" {
			out = string(values[0])
		}
		return nil
	})
	return out, err
}

// Causes returns how often runs were begun again, by the error that ended them.
func (w *HotRow) Causes() map[string]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.causes
}

// Background implements bench.Workload: it keeps the roll-up of HotAppend, up to the oldest event that
// may not have been committed.
func (w *HotRow) Background(ctx context.Context, _ func(string, string, time.Time)) error {
	for w.Roll != nil && engine.Sleep(ctx, hotRollEvery) == nil {
		upTo := time.Now()
		w.mu.Lock()
		for _, c := range w.clients {
			if at := c.event.Load(); at != 0 {
				upTo = time.Unix(min(at, upTo.Unix()), 0)
			}
		}
		w.mu.Unlock()
		err := w.Roll(ctx, upTo)
		if err != nil && ctx.Err() == nil && !engine.Retryable(err) && !errors.Is(err, engine.ErrUnreachable) {
			return fmt.Errorf("roll up the events: %w", err)
		}
	}
	return nil
}

// Crashed is called when the server was killed; runs whose commit was sent look for it.
func (w *HotRow) Crashed(time.Time) {}

// Client implements bench.Workload. User ids are dealt out evenly, and increase per client.
func (w *HotRow) Client(ctx context.Context, n int) (bench.Client, error) {
	c := &hotClient{w: w, next: int64(n)}
	w.mu.Lock()
	w.clients = append(w.clients, c)
	w.mu.Unlock()
	if w.reader == nil {
		return c, nil
	}
	var err error
	c.s, err = engine.Talk(ctx, w.reader)
	return c, err
}

// A hotClient is one connection. On an engine that stores nothing it does all but send.
type hotClient struct {
	w          *HotRow
	s          *engine.Session
	user, next int64
	// asked means that the last commit was sent and not answered.
	asked  bool
	took   [3]time.Duration
	locked time.Time // when the UPDATE was sent
	// event is the time of the event of HotAppend that is being appended, in seconds since the epoch; 0 is none.
	event atomic.Int64
	// arriving means that it has an element in the HotRow's, there that it has had one.
	arriving, there bool
}

// arrive waits for a place on the way to the first transaction, which arrived leaves.
func (c *hotClient) arrive(ctx context.Context) error {
	if c.there {
		return nil
	}
	select {
	case c.w.arriving <- struct{}{}:
		c.arriving, c.there = true, true
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *hotClient) arrived() {
	if c.arriving {
		c.arriving = false
		<-c.w.arriving
	}
}

func (c *hotClient) Prepare(int) {
	c.user, c.next = c.next, c.next+int64(c.w.opt.Clients)
}

func (c *hotClient) Do(ctx context.Context) error {
	if err := c.arrive(ctx); err != nil {
		return err
	}
	defer c.arrived()
	user := strconv.FormatInt(c.user, 10)
	began := time.Now()
	mark := func(part int) {
		now := time.Now()
		c.took[part], began = now.Sub(began), now
	}
	c.took = [3]time.Duration{}
	if !c.w.count.fresh(c.w.opt.Cache) {
		before := c.w.acked.Load()
		text, err := c.ask(ctx, "SELECT SUM(fans) FROM "+c.w.counter()+" WHERE item_id = "+hotItem)
		if err != nil {
			return err
		}
		if fans, _ := strconv.ParseInt(text, 10, 64); fans < before && c.w.reader != nil { // "" is none
			return fmt.Errorf("a run read a count of %s, when %s had been acknowledged before", figure.Count(fans), figure.Plural(before, "run", "runs"))
		}
		mark(0)
	}
	found, err := c.ask(ctx, "SELECT user_id FROM fan_of WHERE user_id = "+user+" AND item_id = "+hotItem)
	if err != nil {
		return err
	}
	mark(1)
	if found == "" {
		if err := c.commit(ctx, user); err != nil {
			return err
		}
	} else if !c.asked {
		return fmt.Errorf("user %s is a fan of item %s already: another program writes to these tables", user, hotItem)
	}
	mark(2)
	c.asked = false
	c.event.Store(0)
	c.w.done(c.took)
	return nil
}

func (c *hotClient) ask(ctx context.Context, q string) (string, error) {
	if c.w.reader == nil {
		return "", nil
	}
	return firstValue(ctx, c.s, q)
}

// commit makes the user a fan.
func (c *hotClient) commit(ctx context.Context, user string) error {
	insert := "INSERT INTO fan_of (user_id, item_id) VALUES (" + user + ", " + hotItem + ")"
	update := "UPDATE fan_count SET fans = fans + 1 WHERE item_id = " + hotItem + " AND slot = "
	statements := []string{"BEGIN", insert, update + "0", "COMMIT"}
	switch c.w.opt.Way {
	case HotUpdateFirst:
		statements[1], statements[2] = statements[2], statements[1]
	case HotOneTrip:
		statements = []string{strings.Join(statements, "; ")}
	case HotAppend:
		// A run that begins again keeps its event's time: no roll-up has passed it.
		if c.event.Load() == 0 {
			c.event.Store(time.Now().Unix())
		}
		at := time.Unix(c.event.Load(), 0).UTC().Format(hotTimeLayout)
		statements[2] = "INSERT INTO " + HotEvents + " (" + HotEventTime + ", item_id, user_id) VALUES ('" + at + "', " + hotItem + ", " + user + ")"
	}
	if c.w.reader == nil {
		return nil
	}
	for i, q := range statements {
		if last := i == len(statements)-1; last {
			c.asked = true
		} else if c.w.opt.Way == HotSlots && i == 2 {
			c.locked = time.Now()
			slot, err := c.slot(ctx)
			if err == nil {
				_, err = c.s.Exec(ctx, update+slot)
			}
			if err != nil {
				return err
			}
			continue
		}
		if i == 0 || strings.HasPrefix(q, update+"0") {
			c.locked = time.Now()
		}
		if len(statements) == 1 || strings.HasPrefix(q, update) {
			c.arrived() // what follows waits for the lock, and not for a processor
		}
		if _, err := c.s.Exec(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// slot chooses a row of the counter: one that is free, or any if all are taken. SKIP LOCKED looks through all locked rows,
// which costs the server more the more clients do so, and finds none if as many wait as there are slots: then the client
// takes a random one, and waits for it.
func (c *hotClient) slot(ctx context.Context) (string, error) {
	if c.w.opt.Clients <= c.w.opt.Slots {
		slot, err := c.ask(ctx, "SELECT slot FROM fan_count WHERE item_id = "+hotItem+" ORDER BY slot LIMIT 1 FOR UPDATE SKIP LOCKED")
		if err != nil || slot != "" {
			return slot, err
		}
	}
	c.arrived()
	return strconv.Itoa(rand.IntN(c.w.opt.Slots)), nil
}

func (w *HotRow) done(took [3]time.Duration) {
	w.acked.Add(1)
	for i, op := range hotParts {
		if took[i] > 0 && w.Took != nil {
			w.Took(op, took[i])
		}
	}
}

// hotCauses are why a run is begun again.
var hotCauses = []struct {
	class error
	name  string
}{
	{engine.ErrDeadlock, "deadlock"}, {engine.ErrLockTimeout, "lock timeout"}, {engine.ErrConnectionLost, "lost connection"},
}

// Recover rolls back, on a new connection if the old one is lost: the run begins again.
func (c *hotClient) Recover(ctx context.Context, failed error) error {
	cause := "other"
	if i := slices.IndexFunc(hotCauses, func(k struct {
		class error
		name  string
	}) bool {
		return errors.Is(failed, k.class)
	}); i >= 0 {
		cause = hotCauses[i].name
	}
	c.w.mu.Lock()
	c.w.causes[cause]++
	c.w.mu.Unlock()
	if !errors.Is(failed, engine.ErrConnectionLost) {
		c.asked = false // it was answered: it did not commit
		if _, err := c.s.Exec(ctx, "ROLLBACK"); err == nil {
			return nil
		} else if !errors.Is(err, engine.ErrConnectionLost) {
			return err
		}
	}
	s, err := engine.Talk(ctx, c.w.reader)
	if err != nil {
		return err
	}
	err = c.s.Close()
	c.s = s
	return err
}

func (c *hotClient) Close() error {
	if c.asked {
		c.w.doubt.Add(1)
	}
	if c.s == nil {
		return nil
	}
	return c.s.Close()
}
