package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
)

// A readConnector makes connections for reading, which have the settings of any client.
type readConnector struct {
	db      *server
	several bool // a text may have several statements
}

func (readConnector) Driver() driver.Driver { return mysql.MySQLDriver{} }

func (r readConnector) Connect(ctx context.Context) (driver.Conn, error) {
	c := &readConn{}
	cfg := r.db.config.Clone()
	cfg.MultiStatements = r.several
	network, security := cfg.Net, tlsOf(cfg)
	cfg.DialFunc = func(ctx context.Context, _, addr string) (net.Conn, error) {
		d := net.Dialer{Timeout: connectTimeout}
		nc, err := d.DialContext(ctx, network, addr)
		if err != nil || security == nil {
			c.net = nc
			return nc, err
		}
		t := &tunnel{Conn: nc, ctx: ctx, config: security, optional: cfg.TLSConfig == "preferred"}
		if deadline, ok := ctx.Deadline(); ok {
			if err := nc.SetDeadline(deadline); err != nil {
				return nil, errors.Join(err, nc.Close())
			}
		}
		if err := t.greet(); err != nil {
			return nil, errors.Join(err, nc.Close())
		}
		c.net = t
		return t, nc.SetDeadline(time.Time{})
	}
	if security != nil {
		cfg.TLSConfig, cfg.Net = "false", "unix" // see tunnel
	}
	connector, err := r.db.connector(cfg, reading)
	if err != nil {
		return nil, err
	}
	conn, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c.driverConn = conn.(driverConn)
	c.watch, c.in.src = engine.NewWatch(c.net), c.net
	return c, nil
}

// readSettings are the settings of a reading session that don't change answers: each statement is a
// transaction by itself, and a reader of many rows may pause.
func readSettings() []string {
	return []string{
		"SET NAMES utf8mb4", // with the server's own collation
		// MariaDB describes results by the collation of SET NAMES until character_set_results is set by
		// itself, as DescribeQuery does. It is set here, so that all results are described alike.
		"SET SESSION autocommit = 1, character_set_results = utf8mb4, completion_type = 'NO_CHAIN', net_write_timeout = " + netWrite,
		"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE",
	}
}

// unlimited replaces the server's max_execution_time for one of rowmill's own SELECTs. With a limit
// of a few milliseconds, even the simplest statement may take too long on a busy server.
const unlimited = "/*+ MAX_EXECUTION_TIME(60000) */ "

// A reader implements engine.Reader: it runs queries in pieces.
type reader struct {
	*server
	states     lazily[[]string]   // the stateVariables that the server has
	spider     lazily[bool]       // see hasSpider
	collations lazily[collations] // see knownCollations
	logged     lazily[logging]    // see logsAll
	tables     knownTables        // see TableParts
}

func (db *reader) ReadSession(ctx context.Context, st engine.State) (*engine.Session, error) {
	return db.readSession(ctx, db.reads, st)
}

func (db *reader) Talk(ctx context.Context) (*engine.Session, error) {
	return db.readSession(ctx, db.talks, nil)
}

func (db *reader) readSession(ctx context.Context, pool *sql.DB, st engine.State) (*engine.Session, error) {
	words := db.sessionWords()
	words.Prepares = false
	words.Text, words.Describe, words.SetAll, words.Fixed = text, describe, setAll, []string{packetLimit}
	words.Consistent = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
	s, err := engine.OpenSession(ctx, db, pool, words, nil)
	if err != nil {
		return nil, err
	}
	if len(st) == 0 {
		return s, nil
	}
	// Settings that are the server's own are not set again: the server may refuse that.
	own, err := db.ReadState(ctx, s)
	if err == nil {
		s.Knows(own)
		err = s.SetStates(ctx, st)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a session for reading: %w", err), s.Close())
	}
	return s, nil
}

// currentDatabase is the name of the current database in a State.
const currentDatabase = "database"

// stateVariables are the variables of a session that can change an answer, in the order in which
// they are set. A server may lack some of them.
var stateVariables = []string{
	"sql_mode", "old_mode", "time_zone", "character_set_client", "character_set_results", "collation_connection", "character_set_collations", "default_collation_for_utf8mb4",
	"div_precision_increment", "group_concat_max_len", "sql_select_limit", "lc_time_names", "lc_messages", "default_week_format",
	"sql_auto_is_null", "max_sort_length", "sql_big_selects", "max_join_size", "block_encryption_mode", "windowing_use_high_precision", "default_regex_flags",
	"cte_max_recursion_depth", "max_recursive_iterations", "standard_compliant_cte", "max_execution_time", "max_statement_time", "system_versioning_asof", "wsrep_sync_wait", packetLimit,
}

// packetLimit limits the length of a function's result: a longer result is NULL. A session gets it
// from the server when it connects, and nothing changes it.
const packetLimit = "max_allowed_packet"

// stateNames returns the stateVariables that the server has.
func (db *reader) stateNames(ctx context.Context) ([]string, error) {
	return db.states.once(func() ([]string, error) {
		have, err := engine.Pairs[string](ctx, db, db.pool, "SHOW SESSION VARIABLES WHERE Variable_name IN ("+engine.QuoteList(stateVariables, quoteText)+")")
		return slices.DeleteFunc(slices.Clone(stateVariables), func(v string) bool { _, ok := have[v]; return !ok }), err
	})
}

// ReadState implements engine.Reader. It reads the values as bytes, because the session may convert
// texts to another character set.
func (db *reader) ReadState(ctx context.Context, s *engine.Session) (engine.State, error) {
	names, err := db.stateNames(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the settings of a session: %w", err)
	}
	st := engine.State{{Name: currentDatabase}}
	list := []string{asBytes("DATABASE()")}
	for _, name := range names {
		st = append(st, engine.Setting{Name: name})
		list = append(list, asBytes("@@SESSION."+name))
	}
	err = s.Text(ctx, "SELECT "+unlimited+strings.Join(list, ", ")+" LIMIT 1", nil, func(values [][]byte) error {
		for i, v := range values {
			st[i].Value = string(v)
		}
		return nil
	})
	return st, engine.About(ctx, err, "read the settings of a session")
}

// asBytes renders a value that isn't converted to the character set of the session's results.
func asBytes(expr string) string { return "CAST(CONVERT(" + expr + " USING utf8mb4) AS BINARY)" }

// setAll implements engine.SessionWords.SetAll.
func setAll(st, from engine.State) ([]string, error) {
	var out, list []string
	changed := st.Changed(from)
	plain := true
	for _, x := range changed {
		plain = plain && strings.IndexFunc(x.Value, func(r rune) bool { return r >= 0x80 || r == '\\' || r == '\'' || r == '"' }) < 0
	}
	if !plain {
		// SET NAMES and sql_mode = '' make literals readable; what they change is then set again.
		changed = slices.DeleteFunc(slices.Clone(st), func(x engine.Setting) bool {
			literal := x.Name == "sql_mode" || strings.HasPrefix(x.Name, "character_set_") || x.Name == "collation_connection"
			return !literal && slices.Contains(from, x)
		})
		out = []string{"SET NAMES utf8mb4", "SET SESSION sql_mode = ''"}
		for _, x := range from {
			if st.Get(x.Name) == "" && (x.Name == "sql_mode" || strings.HasPrefix(x.Name, "character_set_") || x.Name == "collation_connection") {
				changed = append(slices.Clone(changed), x)
			}
		}
	}
	for _, x := range changed {
		if x.Name == currentDatabase {
			if x.Value != "" {
				out = append(out, "USE "+dialect{}.Quote(x.Value))
			}
			continue
		}
		name, err := variable(x.Name)
		if err != nil {
			return nil, fmt.Errorf("set %s=%s: %w", x.Name, x.Value, err)
		}
		value := variableValue(x.Value)
		if x.Value == "" && name == "character_set_results" {
			value = "NULL"
		}
		if x.Value == "DEFAULT" && name == "system_versioning_asof" { // its value has no quotes
			value = x.Value
		}
		list = append(list, name+" = "+value)
	}
	if len(list) > 0 {
		out = append(out, "SET SESSION "+strings.Join(list, ", "))
	}
	return out, nil
}

func (db *reader) Freeze(ctx context.Context, s *engine.Session) (engine.State, error) {
	at := ""
	err := s.Text(ctx, "SELECT "+asBytes("@@SESSION.timestamp")+" LIMIT 1", nil, func(v [][]byte) error {
		at = string(v[0])
		return nil
	})
	return engine.State{{Name: "timestamp", Value: at}}, err
}

// usualSortLength is the default of max_sort_length, in bytes.
const usualSortLength = 1024

func (db *reader) StateRefusal(st engine.State) string {
	for _, name := range []string{"character_set_client", "character_set_results"} {
		if v := st.Get(name); v != "utf8mb4" && v != "utf8mb3" && v != "utf8" {
			return fmt.Sprintf("%s of the session is %q, and not utf8mb4", name, v)
		}
	}
	if strings.Contains(strings.ToUpper(st.Get("sql_mode")), "ORACLE") {
		return "sql_mode of the session is ORACLE, which has a syntax of its own"
	}
	if v := st.Get("sql_select_limit"); v != "" && v != "18446744073709551615" && !strings.EqualFold(v, "DEFAULT") {
		return "the session cuts each answer after sql_select_limit = " + v + " rows"
	}
	if v := st.Get("sql_big_selects"); v == "0" || v == "OFF" {
		return "the session limits the rows that a query may examine: sql_big_selects is 0"
	}
	if v := st.Get("max_sort_length"); v != "" && v != "DEFAULT" {
		if n, err := strconv.Atoi(v); err != nil || n < usualSortLength {
			return "the session sorts by the beginning of a text only: max_sort_length is " + v
		}
	}
	if v := st.Get("sql_auto_is_null"); v == "1" || v == "ON" {
		return "IS NULL finds the last row that the session has inserted: sql_auto_is_null is 1"
	}
	if v := st.Get("system_versioning_asof"); v != "" && !strings.EqualFold(v, "DEFAULT") {
		return "the session reads the rows of another time: system_versioning_asof is " + v
	}
	return ""
}

func (db *reader) Cores() int {
	if db.info.DataDir == "" {
		return 0
	}
	return runtime.NumCPU()
}

// A lazily is a value that is read when it is needed for the first time.
type lazily[T any] struct {
	mu   sync.Mutex
	have bool
	v    T
}

// once returns the value. If the read fails, the next call reads again.
func (l *lazily[T]) once(read func() (T, error)) (T, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.have {
		return l.v, nil
	}
	v, err := read()
	l.v, l.have = v, err == nil
	return v, err
}
