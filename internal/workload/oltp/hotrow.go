package oltp

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
	"github.com/rowmill/rowmill/internal/workload"
)

// Operations of a HotRow: a run as a whole, and its parts.
const (
	OpRun       = "run"
	OpReadCount = "read-count" // SELECT fans
	OpReadFan   = "read-fan"   // SELECT user_id
	OpCommit    = "transaction"
)

var hotParts = [3]string{OpReadCount, OpReadFan, OpCommit}

// hotArriving is the number of clients that may begin their first transaction at the same time. If
// thousands begin at once, the client that holds the lock waits for a processor behind all others,
// and nothing is committed for minutes.
const hotArriving = 32

// HotGrace returns how long a run (see OpRun) may still take if it is in progress when the
// measurement ends. It depends on the number of clients, because all of them wait for the same row.
func HotGrace(clients int) time.Duration {
	return 10*time.Second + time.Duration(clients)*20*time.Millisecond
}

// MaxHotClients is as many connections as servers and rowmill can have open.
const MaxHotClients = 10_000

// hotItem is the item whose fans are counted.
const hotItem = "12345678"

// Ways of a HotRow. HotNoDetect and HotThreadPool are settings of the server.
const (
	HotPlain       = "plain"        // BEGIN, INSERT, UPDATE, COMMIT
	HotUpdateFirst = "update-first" // the UPDATE before the INSERT, so that its lock is held for longer
	HotOneTrip     = "one-trip"     // all four statements in one round trip
	HotSlots       = "slots"        // the counter is several rows, each run takes one: a free one by SKIP LOCKED, or a random one
	HotNoDetect    = "no-detect"    // plain, and the server looks for no deadlocks
	HotThreadPool  = "thread-pool"  // plain, and the server's threads are fewer than its connections
	HotAppend      = "append"       // fan_of is a rolling table, whose roll-up is the counter: one INSERT
)

// With HotAppend, table fan_of is a rolling table divided by time, with one row for each fan. The
// counter is the live view of the table's roll-up.
const (
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
	// Way is one of HotWays. HotNoDetect and HotThreadPool send the same statements as HotPlain.
	Way string
	// Slots is the number of rows that HotSlots spreads the counter over.
	Slots int
	// Cache is how old the count that a run has read may be; with 0, each run reads it.
	Cache time.Duration
}

// A HotRow is the workload that a report of 2010 describes: a counter of an item's fans. Each
// operation (a run) looks whether a user is a fan of the item, and if not, inserts and counts the
// user in one transaction; some also read the counter first. All clients count in one row, except
// in some ways (HotSlots, HotAppend). Each client holds the row's lock until its commit has
// returned.
type HotRow struct {
	db     engine.DB
	reader engine.Reader // nil if the engine stores nothing
	opt    HotRowOptions
	tables []*engine.Table

	made time.Time
	// read is when the count was last read, in nanoseconds since made; 0 is never.
	read atomic.Int64
	// Roll, if set, computes the roll-up of HotAppend up to a time. Events before it are committed.
	Roll    func(ctx context.Context, upTo time.Time) error
	clients []*hotClient // guarded by mu
	// arriving has an element for each client that is beginning its first transaction.
	arriving chan struct{}
	// acked counts the runs that were acknowledged, doubt those that ended without an answer.
	acked, doubt atomic.Int64
	mu           sync.Mutex
	causes       causes
	// Took, if set, is called with the duration of each query of a run, by several goroutines.
	Took func(part string, d time.Duration)
}

// due reports whether a run must read the count, because the last reading is older than the cache
// permits.
func (w *HotRow) due() bool {
	now, last := int64(time.Since(w.made)), w.read.Load()
	return w.opt.Cache <= 0 || (last == 0 || now-last > int64(w.opt.Cache)) && w.read.CompareAndSwap(last, now)
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
	user, item, slot := engine.Column{Name: "user_id", Type: engine.Int64}, engine.Column{Name: "item_id", Type: engine.Int64}, engine.Column{Name: "slot", Type: engine.Int64}
	tables := []*engine.Table{
		{Name: "fan_of", Columns: []engine.Column{user, item}, PrimaryKey: []string{"user_id", "item_id"}, Indexes: []engine.Index{{Name: "fans_of_item", Columns: []string{"item_id"}}}},
		{Name: "fan_count", Columns: []engine.Column{item, slot, {Name: "fans", Type: engine.Int64}}, PrimaryKey: []string{"item_id", "slot"}},
	}
	if opt.Way == HotAppend {
		opt.Cache = max(opt.Cache, hotFreshness)
		tables = []*engine.Table{{Name: "fan_of", Columns: []engine.Column{{Name: HotEventTime, Type: engine.Time}, item, user}, PrimaryKey: []string{HotEventTime, "item_id", "user_id"},
			Indexes: []engine.Index{{Name: "item_of_fan", Columns: []string{"user_id", "item_id"}}}}}
	}
	return &HotRow{db: db, opt: opt, made: time.Now(), arriving: make(chan struct{}, hotArriving), tables: tables}, nil
}

// counter returns the table or view from which runs read the count.
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
		out = []string{"the count is read from " + w.counter() + " at most once a second, and not by each run",
			"fan_of has a time and is partitioned by it: its key can't refuse a fan a second time, whom the second query of a run finds",
			"fan_of has its index for the second query, and none on item_id alone"}
	}
	return out
}

// Tables returns the tables.
func (w *HotRow) Tables() []*engine.Table { return w.tables }

// Setup creates the tables, with a counter of 0, except the table of HotAppend, which the caller
// creates. It returns the statements that created the schema.
func (w *HotRow) Setup(ctx context.Context, dropExisting bool) (schema []string, err error) {
	if w.opt.Way == HotAppend {
		_, err = workload.Exists(ctx, w.db, w.tables[0], false)
	} else {
		schema, err = workload.CreatePlain(ctx, w.db, w.tables, dropExisting)
	}
	if err != nil || !w.db.Capabilities().Stores {
		return schema, err
	}
	reader, ok := w.db.(engine.Reader)
	if !ok {
		return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("%s answers no queries", w.db.Info().Engine))
	}
	if w.reader = reader; w.opt.Way == HotAppend {
		return nil, nil
	}
	rows := []string{"(" + hotItem + ", 0, 0)"}
	for i := 1; i < w.opt.Slots && w.opt.Way == HotSlots; i++ {
		rows = append(rows, fmt.Sprintf("(%s, %d, 0)", hotItem, i))
	}
	s, err := reader.ReadSession(ctx, nil)
	if err != nil {
		return nil, err
	}
	_, err = s.Exec(ctx, "INSERT INTO fan_count (item_id, slot, fans) VALUES "+strings.Join(rows, ", "))
	return schema, errors.Join(err, s.Close())
}

// Prove compares the counter with the number of rows in fan_of, and both with the number of
// acknowledged runs. It returns expected, the number of runs that must have been counted, and
// found, the value of the counter. expected includes runs whose commit was not answered, but whose
// rows exist.
func (w *HotRow) Prove(ctx context.Context, reader engine.Reader) (expected, found int64, err error) {
	s, err := roomIn(ctx, reader)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var rows int64
	fans := "SELECT COUNT(*) FROM fan_of"
	if w.opt.Way == HotAppend {
		fans = "SELECT COUNT(DISTINCT user_id) FROM fan_of" // the key doesn't make user_id unique
	}
	for q, into := range map[string]*int64{"SELECT SUM(fans) FROM " + w.counter(): &found, fans: &rows} {
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

// A server may need leaveTime to close the connections of thousands of clients; roomIn tries again
// every leavePoll.
const (
	leaveTime = time.Minute
	leavePoll = 100 * time.Millisecond
)

// roomIn opens a session as soon as the server has closed enough connections of the clients.
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

// Held updates the counter runs times with one client, each time in a transaction. It returns the
// median of the times for which the client holds the counter's lock: from sending the UPDATE to the
// answer to COMMIT.
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

// Causes returns how often runs were repeated, by the error that ended them.
func (w *HotRow) Causes() map[string]int64 { return w.causes.of }

// Background implements bench.Workload: it refreshes the roll-up of HotAppend up to the oldest
// event that is not committed yet.
func (w *HotRow) Background(ctx context.Context, _ func(string, string, time.Time)) error {
	for w.Roll != nil && engine.Sleep(ctx, hotRollEvery) == nil {
		w.mu.Lock()
		upTo := time.Now() // an event whose time is not known yet is later
		for _, c := range w.clients {
			if at := c.event.Load(); at != 0 {
				upTo = time.Unix(min(at, upTo.Unix()), 0)
			}
		}
		w.mu.Unlock()
		err := w.Roll(ctx, upTo)
		// If the server is killed, the roll-up is canceled because its lease is lost.
		if err != nil && ctx.Err() == nil && !engine.Retryable(err) && !errors.Is(err, engine.ErrUnreachable) && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("roll up the events: %w", err)
		}
	}
	return nil
}

// Crashed is called when the server was killed. It has nothing to do: clients notice by themselves.
func (w *HotRow) Crashed(time.Time) {}

// Client implements bench.Workload. Client n of c has the user ids n, n+c, n+2c and so on.
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

// A hotClient is one connection. On an engine that stores nothing it sends nothing.
type hotClient struct {
	w          *HotRow
	s          *engine.Session
	user, next int64
	// asked means that a commit was sent and not answered.
	asked  bool
	took   [3]time.Duration
	locked time.Time // when the UPDATE was sent
	// event is the time of the row of HotAppend that is being inserted, in seconds since 1970; 0 is
	// none. It is set while HotRow.mu is held.
	event atomic.Int64
	// arriving means that the client has an element in HotRow.arriving, there that it has had one.
	arriving, there bool
}

// arrive waits until the client may begin its first transaction; arrived lets another client begin.
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
	if c.w.due() {
		before := c.w.acked.Load()
		text, err := c.ask(ctx, "SELECT SUM(fans) FROM "+c.w.counter()+" WHERE item_id = "+hotItem)
		if err != nil {
			return err
		}
		if fans, _ := strconv.ParseInt(text, 10, 64); fans < before && c.w.reader != nil { // "" is 0
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
	c.w.acked.Add(1)
	for i, op := range hotParts {
		if c.took[i] > 0 && c.w.Took != nil {
			c.w.Took(op, c.took[i])
		}
	}
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
		// If the transaction is repeated, its event keeps the time: the roll-up waits for an event with
		// this time, and the key, which contains the time, prevents a second row.
		if c.event.Load() == 0 {
			c.w.mu.Lock()
			c.event.Store(time.Now().Unix())
			c.w.mu.Unlock()
		}
		at := time.Unix(c.event.Load(), 0).UTC().Format(hotTimeLayout)
		statements = []string{"INSERT INTO fan_of (" + HotEventTime + ", item_id, user_id) VALUES ('" + at + "', " + hotItem + ", " + user + ")"}
	}
	if c.w.reader == nil {
		return nil
	}
	for i, q := range statements {
		last, counts := i == len(statements)-1, strings.Contains(q, update)
		if counts || last && i == 0 {
			c.locked = time.Now()
			if c.w.opt.Way == HotSlots {
				slot, err := c.slot(ctx)
				if err != nil {
					return err
				}
				q = update + slot
			}
			c.arrived() // from here on, the client waits for the lock and not for a processor
		}
		c.asked = c.asked || last
		if _, err := c.s.Exec(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// slot chooses a row of the counter: a free one, or a random one if there are more clients than
// slots. With more clients, SKIP LOCKED would look through many locked rows and find none.
func (c *hotClient) slot(ctx context.Context) (string, error) {
	if c.w.opt.Clients <= c.w.opt.Slots {
		slot, err := c.ask(ctx, "SELECT slot FROM fan_count WHERE item_id = "+hotItem+" ORDER BY slot LIMIT 1 FOR UPDATE SKIP LOCKED")
		if err != nil || slot != "" {
			return slot, err
		}
	}
	return strconv.Itoa(rand.IntN(c.w.opt.Slots)), nil
}

// Recover implements bench.Client.
func (c *hotClient) Recover(ctx context.Context, failed error) (err error) {
	c.w.causes.add(failed)
	c.asked = c.asked && errors.Is(failed, engine.ErrConnectionLost) // other errors are answers: nothing was committed
	c.s, err = renewed(ctx, c.s, failed, func(ctx context.Context) (*engine.Session, error) { return engine.Talk(ctx, c.w.reader) })
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
