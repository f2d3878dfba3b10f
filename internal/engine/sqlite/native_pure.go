//go:build !cgo

package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"modernc.org/libc"
	sqlite3lib "modernc.org/sqlite/lib"
)

// A native is SQLite's own pointer to a connection, with the arguments that its
// functions need. The driver takes each value as an interface, which takes longer
// than the insert. So inserts call SQLite directly, as in native_cgo.go.
//
// SQLite may use addresses of Go memory during a call, because objects on the
// heap don't move. text and out are on the heap because a native is.
type native struct {
	db  uintptr
	tls *libc.TLS // separate from the driver's, which is closed with the connection

	text []byte // a statement, or values, during a call
	out  struct {
		stmt             uintptr
		current, highest int32
	}

	mu   sync.Mutex
	uses int // references by the connection and each statement
}

// newNative returns the native of a driver's connection.
func newNative(conn driverConn) (*native, error) {
	p, err := queryInt(conn, "SELECT rowmill_handle()")
	return &native{db: uintptr(p), tls: libc.NewTLS(), uses: 1}, err
}

// giveHandles gives every connection that is opened from now on the function
// rowmill_handle, which returns SQLite's pointer to the connection: the driver has no
// other way to it.
var giveHandles = sync.OnceValue(func() error {
	if rc := sqlite3lib.Xsqlite3_auto_extension(libc.NewTLS(), *(*uintptr)(unsafe.Pointer(&connected))); rc != 0 {
		return fmt.Errorf("SQLite refuses functions for every connection: code %d", rc)
	}
	return nil
})

// The translated code calls these: it takes a function as the address of its Go func
// value.
var (
	handleFunction = struct {
		f func(t *libc.TLS, ctx uintptr, values int32, v uintptr)
	}{func(t *libc.TLS, ctx uintptr, _ int32, _ uintptr) {
		sqlite3lib.Xsqlite3_result_int64(t, ctx, int64(sqlite3lib.Xsqlite3_context_db_handle(t, ctx)))
	}}
	connected = struct {
		f func(t *libc.TLS, db, text, api uintptr) int32
	}{func(t *libc.TLS, db, _, _ uintptr) int32 {
		f := *(*uintptr)(unsafe.Pointer(&handleFunction))
		return sqlite3lib.Xsqlite3_create_function_v2(t, db, uintptr(unsafe.Pointer(&handleName)), 0, sqlite3lib.SQLITE_UTF8, 0, f, 0, 0, 0)
	}}
	handleName = [...]byte{'r', 'o', 'w', 'm', 'i', 'l', 'l', '_', 'h', 'a', 'n', 'd', 'l', 'e', 0}
)

func (n *native) use() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.uses++
}

// release removes one reference. Statements may be closed after their connection.
func (n *native) release() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.uses--; n.uses == 0 {
		n.tls.Close()
	}
}

// hold copies bytes to the heap, appends a zero byte, and returns the address.
func (n *native) hold(b []byte) uintptr {
	n.text = append(append(n.text[:0], b...), 0)
	return uintptr(unsafe.Pointer(unsafe.SliceData(n.text)))
}

func (n *native) autoCommit() bool {
	return sqlite3lib.Xsqlite3_get_autocommit(n.tls, n.db) != 0
}

func (n *native) limit(id, value int) int {
	return int(sqlite3lib.Xsqlite3_limit(n.tls, n.db, int32(id), int32(value)))
}

// last returns the connection's last error if it has the given code.
func (n *native) last(code int) (*failure, bool) {
	ext := int(sqlite3lib.Xsqlite3_extended_errcode(n.tls, n.db))
	if ext&0xff != code&0xff {
		return nil, false
	}
	return &failure{codes{ext, syscall.Errno(sqlite3lib.Xsqlite3_system_errno(n.tls, n.db))},
		libc.GoString(sqlite3lib.Xsqlite3_errmsg(n.tls, n.db))}, true
}

// A handle is SQLite's own pointer to a connection.
type handle struct{ *native }

// handleOf returns the handle in a driver's connection.
func handleOf(conn *connection) (handle, error) { return handle{conn.native}, nil }

// A stmt is a prepared statement.
type stmt struct {
	db handle
	p  uintptr
}

func (h handle) prepare(sql string) (stmt, error) {
	p, rc := h.prepared([]byte(sql))
	if rc != 0 {
		return stmt{}, h.failure(rc)
	}
	h.use()
	return stmt{h, p}, nil
}

func (h handle) prepared(sql []byte) (uintptr, int32) {
	at := h.hold(sql)
	h.out.stmt = 0
	rc := sqlite3lib.Xsqlite3_prepare_v2(h.tls, h.db, at, int32(len(sql)+1), uintptr(unsafe.Pointer(&h.out.stmt)), 0)
	runtime.KeepAlive(h.native)
	return h.out.stmt, rc
}

const (
	resultDone = sqlite3lib.SQLITE_DONE
	resultRow  = sqlite3lib.SQLITE_ROW
)

// bind binds the next values of bound, which begin at offset i, and returns the
// offset after them. at is the address of bound.
func (s stmt) bind(bound []byte, at uintptr, i, values int) (int, int32) {
	t := s.db.tls
	for v := int32(1); v <= int32(values); v++ {
		kind := bound[i]
		i++
		var rc int32
		switch kind {
		case 'i':
			rc = sqlite3lib.Xsqlite3_bind_int64(t, s.p, v, int64(binary.NativeEndian.Uint64(bound[i:])))
			i += 8
		case 'f':
			rc = sqlite3lib.Xsqlite3_bind_double(t, s.p, v, math.Float64frombits(binary.NativeEndian.Uint64(bound[i:])))
			i += 8
		case 't', 'b':
			n := int(binary.NativeEndian.Uint32(bound[i:]))
			i += 4
			// SQLite doesn't copy the text, which stays valid until the bindings
			// are cleared.
			if kind == 't' {
				rc = sqlite3lib.Xsqlite3_bind_text(t, s.p, v, at+uintptr(i), int32(n), 0)
			} else {
				rc = sqlite3lib.Xsqlite3_bind_blob(t, s.p, v, at+uintptr(i), int32(n), 0)
			}
			i += n
		default:
			rc = sqlite3lib.Xsqlite3_bind_null(t, s.p, v)
		}
		if rc != 0 {
			return i, rc
		}
	}
	return i, 0
}

// run executes the statement several times, each time with the next of the bound
// values, and calls each, if not nil, after every success.
func (s stmt) run(bound []byte, values, times int, each func()) error {
	at, i := s.db.hold(bound), 0
	var rc int32
	for range times {
		if i, rc = s.bind(bound, at, i, values); rc != 0 {
			break
		}
		rc = sqlite3lib.Xsqlite3_step(s.db.tls, s.p)
		again := sqlite3lib.Xsqlite3_reset(s.db.tls, s.p)
		if rc != resultDone && rc != resultRow {
			if again != 0 {
				rc = again // the more specific code
			}
			break
		}
		rc = 0
		if each != nil {
			each()
		}
	}
	var err error
	if rc != 0 {
		err = s.db.failure(rc)
	}
	sqlite3lib.Xsqlite3_clear_bindings(s.db.tls, s.p)
	runtime.KeepAlive(s.db.native)
	return err
}

// step executes the statement several times, each time with the next of the bound
// values.
func (s stmt) step(bound []byte, values, times int) error { return s.run(bound, values, times, nil) }

// insert executes the statement several times, as step does, and returns the
// number of changed rows, without those that triggers changed.
func (s stmt) insert(bound []byte, values, times int) (n int64, err error) {
	if err := s.run(bound, values, times, func() { n += s.db.changes() }); err != nil {
		return 0, err
	}
	return n, nil
}

// rows executes a query with bound values and returns its number of rows. SQLite
// computes each row completely.
func (s stmt) rows(bound []byte, values int) (n int, err error) {
	at := s.db.hold(bound)
	_, rc := s.bind(bound, at, 0, values)
	if rc == 0 {
		for rc = sqlite3lib.Xsqlite3_step(s.db.tls, s.p); rc == resultRow; rc = sqlite3lib.Xsqlite3_step(s.db.tls, s.p) {
			n++
		}
		again := sqlite3lib.Xsqlite3_reset(s.db.tls, s.p)
		if rc == resultDone {
			rc = 0
		} else if again != 0 {
			rc = again // the more specific code
		}
	}
	if rc != 0 {
		n, err = 0, s.db.failure(rc)
	}
	sqlite3lib.Xsqlite3_clear_bindings(s.db.tls, s.p)
	runtime.KeepAlive(s.db.native)
	return n, err
}

// close frees the statement. It may be called after the connection was closed.
func (s stmt) close() {
	sqlite3lib.Xsqlite3_finalize(s.db.tls, s.p)
	s.db.release()
}

// changes returns the number of rows that the last statement changed.
func (h handle) changes() int64 { return sqlite3lib.Xsqlite3_changes64(h.tls, h.db) }

// exec executes one statement given as text, which must not contain a NUL.
func (h handle) exec(sql []byte) error {
	if len(sql) >= math.MaxInt32 {
		return errors.New("a statement of more than 2 GB")
	}
	p, rc := h.prepared(sql)
	if rc == 0 && p != 0 {
		sqlite3lib.Xsqlite3_step(h.tls, p)
		rc = sqlite3lib.Xsqlite3_finalize(h.tls, p) // which returns step's error
	}
	if rc != 0 {
		return h.failure(rc)
	}
	return nil
}

// totalChanges returns the number of rows that the connection has changed since it
// was opened, modulo 2^32.
func (h handle) totalChanges() uint32 {
	return uint32(sqlite3lib.Xsqlite3_total_changes(h.tls, h.db))
}

// failure returns the error of the connection's last call, which returned rc.
func (h handle) failure(rc int32) error {
	if f, ok := h.last(int(rc)); ok {
		return f
	}
	return &failure{codes{result: int(rc)}, libc.GoString(sqlite3lib.Xsqlite3_errstr(h.tls, rc))}
}

// status returns a figure of a connection, or NaN if SQLite doesn't have it.
func (h handle) status(op int) float64 {
	rc := sqlite3lib.Xsqlite3_db_status(h.tls, h.db, int32(op), uintptr(unsafe.Pointer(&h.out.current)), uintptr(unsafe.Pointer(&h.out.highest)), 0)
	runtime.KeepAlive(h.native)
	if rc != 0 {
		return math.NaN()
	}
	return float64(h.out.current)
}

// A stopper interrupts statements of the connections that it is attached to.
type stopper struct {
	flag atomic.Int32
	id   uintptr
}

// stoppers maps the number that is passed to SQLite to its stopper.
var (
	stoppers     sync.Map
	lastStopper  atomic.Uintptr
	stopProgress = struct {
		f func(*libc.TLS, uintptr) int32
	}{stopped}
)

func newStopper() *stopper {
	s := &stopper{id: lastStopper.Add(1)}
	stoppers.Store(s.id, s)
	return s
}

// stopped is called while a statement runs; a result other than 0 interrupts it.
func stopped(_ *libc.TLS, id uintptr) int32 {
	if s, ok := stoppers.Load(id); ok {
		return s.(*stopper).flag.Load()
	}
	return 0
}

// SetDeadline sets the flag, or clears it if t is the zero time.
func (s *stopper) SetDeadline(t time.Time) error {
	if t.IsZero() {
		s.flag.Store(0)
	} else {
		s.flag.Store(1)
	}
	return nil
}

// stopOps is the number of SQLite virtual machine operations between two calls of
// stopped.
const stopOps = 1000

func (s *stopper) attach(h handle) {
	// The translated code takes a function as the address of its Go func value.
	sqlite3lib.Xsqlite3_progress_handler(h.tls, h.db, stopOps, *(*uintptr)(unsafe.Pointer(&stopProgress)), s.id)
}

func detach(h handle) { sqlite3lib.Xsqlite3_progress_handler(h.tls, h.db, 0, 0, 0) }

// free unregisters the stopper. No connection may have it then.
func (s *stopper) free() { stoppers.Delete(s.id) }
