//go:build cgo

package sqlite

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

/*
// The driver contains SQLite's code, but binds each value with a call from Go to
// C and an allocation, which takes longer than the insert. So inserts call SQLite
// directly, once for many rows. The linker resolves its functions when it links
// the program, not when cgo builds this package.
#cgo linux LDFLAGS: -Wl,--unresolved-symbols=ignore-in-object-files
#cgo darwin LDFLAGS: -Wl,-undefined,dynamic_lookup
#cgo noescape rowmill_step
#cgo noescape rowmill_exec
#cgo noescape rowmill_rows
#cgo noescape rowmill_insert
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int sqlite3_db_status(void *db, int op, int *current, int *highest, int reset);
int sqlite3_prepare_v2(void *db, const char *sql, int bytes, void **stmt, const char **tail);
int sqlite3_step(void *stmt);
int sqlite3_reset(void *stmt);
int sqlite3_finalize(void *stmt);
int sqlite3_clear_bindings(void *stmt);
int sqlite3_bind_null(void *stmt, int i);
int sqlite3_bind_int64(void *stmt, int i, long long v);
int sqlite3_bind_double(void *stmt, int i, double v);
int sqlite3_bind_text(void *stmt, int i, const char *p, int bytes, void (*free)(void *));
int sqlite3_bind_blob(void *stmt, int i, const void *p, int bytes, void (*free)(void *));
void sqlite3_progress_handler(void *db, int ops, int (*f)(void *), void *arg);
long long sqlite3_changes64(void *db);
int sqlite3_total_changes(void *db);
int sqlite3_extended_errcode(void *db);
int sqlite3_system_errno(void *db);
const char *sqlite3_errmsg(void *db);
int sqlite3_auto_extension(void (*init)(void));
int sqlite3_create_function(void *db, const char *name, int values, int encoding, void *data,
	void (*f)(void *, int, void **), void (*step)(void *, int, void **), void (*final)(void *));
void *sqlite3_context_db_handle(void *ctx);
void sqlite3_result_int64(void *ctx, long long v);

enum { DONE = 101, ROW = 100 };

// rowmill_bind binds the `values` values at *at, in the format of appendBound, and
// advances *at past them.
static int rowmill_bind(void *stmt, const unsigned char **at, int values) {
	const unsigned char *p = *at;
	for (int i = 1; i <= values; i++) {
		int64_t n; double f; uint32_t len;
		int rc;
		switch (*p++) {
		case 'i': memcpy(&n, p, 8); p += 8; rc = sqlite3_bind_int64(stmt, i, n); break;
		case 'f': memcpy(&f, p, 8); p += 8; rc = sqlite3_bind_double(stmt, i, f); break;
		// SQLite doesn't copy the text, which stays valid until the bindings are
		// cleared.
		case 't': memcpy(&len, p, 4); p += 4; rc = sqlite3_bind_text(stmt, i, (const char *)p, len, 0); p += len; break;
		case 'b': memcpy(&len, p, 4); p += 4; rc = sqlite3_bind_blob(stmt, i, p, len, 0); p += len; break;
		default: rc = sqlite3_bind_null(stmt, i);
		}
		if (rc) return rc;
	}
	*at = p;
	return 0;
}

// rowmill_step runs the statement `times` times, each time with the next
// `values` values at p.
static int rowmill_step(void *stmt, const unsigned char *p, int values, int times) {
	int rc = DONE;
	while (times-- > 0 && rc == DONE) {
		rc = rowmill_bind(stmt, &p, values);
		if (rc) goto out;
		rc = sqlite3_step(stmt);
		int again = sqlite3_reset(stmt);
		if (rc == ROW) rc = DONE;
		if (rc != DONE && again) rc = again; // the more specific code
	}
out:
	sqlite3_clear_bindings(stmt);
	return rc == DONE ? 0 : rc;
}

// rowmill_insert is rowmill_step, but returns the number of changed rows, without
// those that triggers changed, or a negated error code.
static long long rowmill_insert(void *db, void *stmt, const unsigned char *p, int values, int times) {
	long long n = 0;
	int rc = DONE;
	while (times-- > 0) {
		rc = rowmill_bind(stmt, &p, values);
		if (rc) break;
		rc = sqlite3_step(stmt);
		int again = sqlite3_reset(stmt);
		if (rc != DONE) {
			if (again) rc = again; // the more specific code
			break;
		}
		n += sqlite3_changes64(db);
	}
	sqlite3_clear_bindings(stmt);
	return rc == DONE ? n : -rc;
}

// rowmill_rows executes a query with the values at p and returns the number of
// rows or a negated error code. SQLite computes each row completely.
static long long rowmill_rows(void *stmt, const unsigned char *p, int values) {
	long long n = 0;
	int rc = rowmill_bind(stmt, &p, values);
	if (!rc) {
		while ((rc = sqlite3_step(stmt)) == ROW) n++;
		int again = sqlite3_reset(stmt);
		if (rc != DONE && again) rc = again; // the more specific code
	}
	sqlite3_clear_bindings(stmt);
	return rc == DONE ? n : -rc;
}

// rowmill_stop is called while a statement runs; a result other than 0 interrupts
// it.
static int rowmill_stop(void *flag) { return __atomic_load_n((int *)flag, __ATOMIC_RELAXED); }

// STOP_OPS is the number of SQLite virtual machine operations, of some 10 ns each,
// between two calls.
enum { STOP_OPS = 1000 };

static void rowmill_attach(void *db, int *flag) {
	sqlite3_progress_handler(db, flag ? STOP_OPS : 0, flag ? rowmill_stop : 0, flag);
}

// rowmill_exec executes one statement given as text.
static int rowmill_exec(void *db, const char *sql, int bytes) {
	void *stmt = 0;
	int rc = sqlite3_prepare_v2(db, sql, bytes, &stmt, 0);
	if (rc || !stmt) return rc;
	sqlite3_step(stmt);
	return sqlite3_finalize(stmt); // which returns step's error
}

// Every connection gets the function rowmill_handle, which returns SQLite's pointer to
// the connection: the driver has no other way to it.
static void rowmill_handle(void *ctx, int values, void **v) { sqlite3_result_int64(ctx, (intptr_t)sqlite3_context_db_handle(ctx)); }

static int rowmill_connected(void *db, char **error, const void *api) {
	enum { UTF8 = 1 };
	return sqlite3_create_function(db, "rowmill_handle", 0, UTF8, 0, rowmill_handle, 0, 0);
}

static int rowmill_begin(void) { return sqlite3_auto_extension((void (*)(void))rowmill_connected); }

static void *rowmill_pointer(long long p) { return (void *)(intptr_t)p; }

static void *rowmill_prepare(void *db, const char *sql, int bytes, int *rc) {
	void *stmt = 0;
	*rc = sqlite3_prepare_v2(db, sql, bytes, &stmt, 0);
	return stmt;
}
*/
import "C"

// A handle is SQLite's own pointer to a connection.
type handle struct{ p unsafe.Pointer }

// handleOf returns the handle in a driver's connection.
func handleOf(conn *connection) (handle, error) {
	p, err := queryInt(conn, "SELECT rowmill_handle()")
	return handle{C.rowmill_pointer(C.longlong(p))}, err
}

// giveHandles gives connections that are opened from now on the function that handleOf
// calls.
var giveHandles = sync.OnceValue(func() error {
	if rc := C.rowmill_begin(); rc != 0 {
		return fmt.Errorf("SQLite refuses functions for every connection: code %d", rc)
	}
	return nil
})

// A stmt is a prepared statement.
type stmt struct {
	db handle
	p  unsafe.Pointer
}

func (h handle) prepare(sql string) (stmt, error) {
	var rc C.int
	p := C.rowmill_prepare(h.p, (*C.char)(unsafe.Pointer(unsafe.StringData(sql))), C.int(len(sql)), &rc)
	if rc != 0 {
		return stmt{}, h.failure(rc)
	}
	return stmt{h, p}, nil
}

// step executes the statement several times, each time with the next of the bound
// values.
func (s stmt) step(bound []byte, values, times int) error {
	if rc := C.rowmill_step(s.p, (*C.uchar)(unsafe.SliceData(bound)), C.int(values), C.int(times)); rc != 0 {
		return s.db.failure(rc)
	}
	return nil
}

// insert executes the statement several times, as step does, and returns the
// number of changed rows, without those that triggers changed.
func (s stmt) insert(bound []byte, values, times int) (int64, error) {
	n := C.rowmill_insert(s.db.p, s.p, (*C.uchar)(unsafe.SliceData(bound)), C.int(values), C.int(times))
	if n < 0 {
		return 0, s.db.failure(C.int(-n))
	}
	return int64(n), nil
}

// rows executes a query with bound values and returns its number of rows.
func (s stmt) rows(bound []byte, values int) (int, error) {
	n := C.rowmill_rows(s.p, (*C.uchar)(unsafe.SliceData(bound)), C.int(values))
	if n < 0 {
		return 0, s.db.failure(C.int(-n))
	}
	return int(n), nil
}

// changes returns the number of rows that the last statement changed.
func (h handle) changes() int64 { return int64(C.sqlite3_changes64(h.p)) }

// A stopper interrupts statements of the connections that it is attached to. Its
// flag is in C's memory, because SQLite keeps the pointer.
type stopper struct{ flag *C.int }

func newStopper() *stopper { return &stopper{(*C.int)(C.calloc(1, C.sizeof_int))} }

// SetDeadline sets the flag, or clears it if t is the zero time.
func (s *stopper) SetDeadline(t time.Time) error {
	var v int32
	if !t.IsZero() {
		v = 1
	}
	atomic.StoreInt32((*int32)(s.flag), v)
	return nil
}

func (s *stopper) attach(h handle) { C.rowmill_attach(h.p, s.flag) }

func detach(h handle) { C.rowmill_attach(h.p, nil) }

// free frees the flag. No connection may have it then.
func (s *stopper) free() { C.free(unsafe.Pointer(s.flag)) }

// close frees the statement. It may be called after the connection was closed.
func (s stmt) close() { C.sqlite3_finalize(s.p) }

// exec executes one statement given as text, which must not contain a NUL.
func (h handle) exec(sql []byte) error {
	if len(sql) > math.MaxInt32 {
		return errors.New("a statement of more than 2 GB")
	}
	if rc := C.rowmill_exec(h.p, (*C.char)(unsafe.Pointer(unsafe.SliceData(sql))), C.int(len(sql))); rc != 0 {
		return h.failure(rc)
	}
	return nil
}

// totalChanges returns the number of rows that the connection has changed since it
// was opened, modulo 2^32.
func (h handle) totalChanges() uint32 { return uint32(C.sqlite3_total_changes(h.p)) }

// failure returns the error of the connection's last call, which returned rc.
func (h handle) failure(rc C.int) error {
	ext := C.sqlite3_extended_errcode(h.p)
	if ext&0xff != rc&0xff {
		ext = rc
	}
	return &failure{codes{int(ext), syscall.Errno(C.sqlite3_system_errno(h.p))}, C.GoString(C.sqlite3_errmsg(h.p))}
}

// status returns a figure of a connection, or NaN if SQLite doesn't have it.
func (h handle) status(op int) float64 {
	var current, highest C.int
	if rc := C.sqlite3_db_status(h.p, C.int(op), &current, &highest, 0); rc != 0 {
		return math.NaN()
	}
	return float64(current)
}
