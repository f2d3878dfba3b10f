//go:build !cgo

package sqlite

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"modernc.org/libc"
	sqlite3lib "modernc.org/sqlite/lib"
)

// A native has SQLite's own pointer to a connection, and memory for the arguments of SQLite's
// functions: text and out. SQLite may use the addresses of text and out during a call, because
// objects on Go's heap don't move, and a native is on the heap.
type native struct {
	db  uintptr
	tls *libc.TLS // separate from the driver's, which is closed with the connection

	text []byte // a statement, or values, during a call
	out  struct {
		stmt, tail       uintptr
		current, highest int32
	}

	uses atomic.Int32 // references by the connection and each statement
}

// newNative returns the native of a driver's connection.
func newNative(conn driverConn) (*native, error) {
	p, err := queryInt(conn, "SELECT rowmill_handle()")
	n := &native{db: uintptr(p), tls: libc.NewTLS()}
	n.uses.Add(1)
	return n, err
}

// giveHandles gives every connection that is opened from now on the function rowmill_handle, which
// returns SQLite's pointer to the connection. The driver offers no other way to this pointer.
var giveHandles = sync.OnceValue(func() error {
	if rc := sqlite3lib.Xsqlite3_auto_extension(libc.NewTLS(), *(*uintptr)(unsafe.Pointer(&connected))); rc != 0 {
		return fmt.Errorf("SQLite refuses functions for every connection: code %d", rc)
	}
	return nil
})

// The translated code calls these: it takes a function as the address of its Go func value.
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

// release removes one reference. Statements may be closed after their connection.
func (n *native) release() {
	if n.uses.Add(-1) == 0 {
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

// A pointer is an address that SQLite has returned.
type pointer = uintptr

// bind sets the next parameters of s to values that are encoded in bound from offset i on. It
// returns the offset after them. at is the address of bound.
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
			// SQLite doesn't copy the text, which stays valid until the bindings are cleared.
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

func (s stmt) run(bound []byte, values, times int) (n int64, err error) {
	t, at, i := s.db.tls, s.db.hold(bound), 0
	query := sqlite3lib.Xsqlite3_column_count(t, s.p) > 0
	rc := int32(sqlite3lib.SQLITE_DONE)
	for range times {
		if i, rc = s.bind(bound, at, i, values); rc != 0 {
			break
		}
		for rc = sqlite3lib.Xsqlite3_step(t, s.p); rc == sqlite3lib.SQLITE_ROW; rc = sqlite3lib.Xsqlite3_step(t, s.p) {
			n++
		}
		again := sqlite3lib.Xsqlite3_reset(t, s.p)
		if rc != sqlite3lib.SQLITE_DONE {
			if again != 0 {
				rc = again // the more specific code
			}
			break
		}
		if !query {
			n += sqlite3lib.Xsqlite3_changes64(t, s.db.db)
		}
	}
	if rc != sqlite3lib.SQLITE_DONE {
		n, err = 0, s.db.failure(rc)
	}
	sqlite3lib.Xsqlite3_clear_bindings(t, s.p)
	runtime.KeepAlive(s.db.native)
	return n, err
}

func (s stmt) close() {
	sqlite3lib.Xsqlite3_finalize(s.db.tls, s.p)
	s.db.release()
}

// prepareFirst prepares the first statement of a text. rest is the number of bytes after it.
func (h handle) prepareFirst(sql string) (s stmt, rest int, err error) {
	p, rest, rc := h.first([]byte(sql))
	if rc != 0 {
		return stmt{}, 0, h.failure(rc)
	}
	h.uses.Add(1)
	return stmt{h, p}, rest, nil
}

func (h handle) first(sql []byte) (p uintptr, rest int, rc int32) {
	at := h.hold(sql)
	h.out.stmt, h.out.tail = 0, at
	rc = sqlite3lib.Xsqlite3_prepare_v2(h.tls, h.db, at, int32(len(sql)+1), uintptr(unsafe.Pointer(&h.out.stmt)), uintptr(unsafe.Pointer(&h.out.tail)))
	runtime.KeepAlive(h.native)
	return h.out.stmt, max(0, len(sql)-int(h.out.tail-at)), rc
}

// empty reports a text without a statement: blanks, or a comment.
func (s stmt) empty() bool { return s.p == 0 }

// columns returns the names and the declared types, "" for an expression, of a statement's result.
func (s stmt) columns() (names, types []string) {
	t := s.db.tls
	for i := range sqlite3lib.Xsqlite3_column_count(t, s.p) {
		names = append(names, libc.GoString(sqlite3lib.Xsqlite3_column_name(t, s.p, i)))
		types = append(types, libc.GoString(sqlite3lib.Xsqlite3_column_decltype(t, s.p, i)))
	}
	return names, types
}

// texts writes rows to buf: for each value its length, -1 for NULL, and its text. It returns the
// number of bytes written, or the negated size of the next row if that alone is larger than buf.
// *state is kept between calls: codeRow if the current row is still to be written, because it
// didn't fit; after the last row codeDone, or the code of an error.
func (s stmt) texts(buf []byte, state *int32) int {
	t, used := s.db.tls, 0
	columns := sqlite3lib.Xsqlite3_column_count(t, s.p)
	value := func(i int32) (p uintptr, n int32) {
		switch sqlite3lib.Xsqlite3_column_type(t, s.p, i) {
		case sqlite3lib.SQLITE_NULL:
			return 0, -1
		case sqlite3lib.SQLITE_BLOB:
			p = sqlite3lib.Xsqlite3_column_blob(t, s.p, i)
		default:
			p = sqlite3lib.Xsqlite3_column_text(t, s.p, i)
		}
		return p, sqlite3lib.Xsqlite3_column_bytes(t, s.p, i)
	}
	for {
		if *state != codeRow {
			if rc := sqlite3lib.Xsqlite3_step(t, s.p); rc != codeRow {
				*state = rc
				return used
			}
			*state = codeRow
		}
		need := 0
		for i := range columns {
			_, n := value(i)
			need += 4 + max(0, int(n))
		}
		if need > len(buf)-used {
			if used > 0 {
				return used
			}
			return -need
		}
		for i := range columns {
			p, n := value(i)
			binary.NativeEndian.PutUint32(buf[used:], uint32(n))
			used += 4
			if n > 0 {
				used += copy(buf[used:], unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), n))
			}
		}
		*state = 0
	}
}

// failed returns the error of a statement's last step.
func (s stmt) failed(code int32) error { return s.db.failure(code) }

// changed returns the number of rows that the connection's last statement has changed.
func (h handle) changed() int64 { return sqlite3lib.Xsqlite3_changes64(h.tls, h.db) }

func (h handle) execute(sql []byte) (int64, error) {
	p, _, rc := h.first(sql)
	if rc == 0 && p != 0 {
		sqlite3lib.Xsqlite3_step(h.tls, p)
		rc = sqlite3lib.Xsqlite3_finalize(h.tls, p) // which returns step's error
	}
	if rc != 0 {
		return 0, h.failure(rc)
	}
	return sqlite3lib.Xsqlite3_changes64(h.tls, h.db), nil
}

// failure returns the error of the connection's last call, which returned rc.
func (h handle) failure(rc int32) error {
	if f, ok := h.last(int(rc)); ok {
		return f
	}
	return &failure{codes{result: int(rc)}, libc.GoString(sqlite3lib.Xsqlite3_errstr(h.tls, rc))}
}

func (h handle) status(op int) float64 {
	rc := sqlite3lib.Xsqlite3_db_status(h.tls, h.db, int32(op), uintptr(unsafe.Pointer(&h.out.current)), uintptr(unsafe.Pointer(&h.out.highest)), 0)
	runtime.KeepAlive(h.native)
	if rc != 0 {
		return math.NaN()
	}
	return float64(h.out.current)
}

func newStopper() *stopper { return &stopper{new(int32)} }

// stopProgress is called while a statement runs; a result other than 0 interrupts it.
// Its argument is the address of a flag, which doesn't move.
var stopProgress = struct {
	f func(*libc.TLS, uintptr) int32
}{func(_ *libc.TLS, flag uintptr) int32 { return atomic.LoadInt32(*(**int32)(unsafe.Pointer(&flag))) }}

// stopOps is the number of SQLite virtual machine operations between two calls of stopProgress.
const stopOps = 1000

func (s *stopper) attach(h handle) {
	sqlite3lib.Xsqlite3_progress_handler(h.tls, h.db, stopOps, *(*uintptr)(unsafe.Pointer(&stopProgress)), uintptr(unsafe.Pointer(s.flag)))
}

func detach(h handle) { sqlite3lib.Xsqlite3_progress_handler(h.tls, h.db, 0, 0, 0) }

func (*stopper) free() {}

// shareHeap and trimHeap do nothing: Go's memory isn't divided by threads, and Go returns it.
func shareHeap() {}
func trimHeap()  {}
