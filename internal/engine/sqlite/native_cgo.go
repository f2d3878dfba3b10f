//go:build cgo

package sqlite

import (
	"fmt"
	"math"
	"sync"
	"syscall"
	"unsafe"
)

/*
// The driver contains SQLite's code. SQLite's functions, which this file calls, are resolved when
// the program is linked, not when cgo builds this package.
#cgo linux LDFLAGS: -Wl,--unresolved-symbols=ignore-in-object-files
#cgo darwin LDFLAGS: -Wl,-undefined,dynamic_lookup
#cgo noescape rowmill_exec
#cgo noescape rowmill_run
#cgo noescape rowmill_texts
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
static void rowmill_share(void) { mallopt(M_ARENA_MAX, 1); }
static void rowmill_trim(void) { malloc_trim(0); }
#else
static void rowmill_share(void) {}
static void rowmill_trim(void) {}
#endif

int sqlite3_db_status(void *db, int op, int *current, int *highest, int reset);
int sqlite3_prepare_v2(void *db, const char *sql, int bytes, void **stmt, const char **tail);
int sqlite3_step(void *stmt);
int sqlite3_reset(void *stmt);
int sqlite3_finalize(void *stmt);
int sqlite3_clear_bindings(void *stmt);
int sqlite3_column_count(void *stmt);
int sqlite3_column_type(void *stmt, int i);
int sqlite3_column_bytes(void *stmt, int i);
const void *sqlite3_column_blob(void *stmt, int i);
const unsigned char *sqlite3_column_text(void *stmt, int i);
const char *sqlite3_column_name(void *stmt, int i);
const char *sqlite3_column_decltype(void *stmt, int i);
int sqlite3_bind_null(void *stmt, int i);
int sqlite3_bind_int64(void *stmt, int i, long long v);
int sqlite3_bind_double(void *stmt, int i, double v);
int sqlite3_bind_text(void *stmt, int i, const char *p, int bytes, void (*free)(void *));
int sqlite3_bind_blob(void *stmt, int i, const void *p, int bytes, void (*free)(void *));
void sqlite3_progress_handler(void *db, int ops, int (*f)(void *), void *arg);
long long sqlite3_changes64(void *db);
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
		// SQLite doesn't copy the text, which stays valid until the bindings are cleared.
		case 't': memcpy(&len, p, 4); p += 4; rc = sqlite3_bind_text(stmt, i, (const char *)p, len, 0); p += len; break;
		case 'b': memcpy(&len, p, 4); p += 4; rc = sqlite3_bind_blob(stmt, i, p, len, 0); p += len; break;
		default: rc = sqlite3_bind_null(stmt, i);
		}
		if (rc) return rc;
	}
	*at = p;
	return 0;
}

// rowmill_run runs the statement `times` times, each time with the next `values` values at p. For a
// query it computes each row completely and returns the number of rows. Otherwise it returns how
// many rows the statement has changed, without those that triggers changed. If the statement fails,
// it returns SQLite's error code, negated.
static long long rowmill_run(void *db, void *stmt, const unsigned char *p, int values, int times) {
	long long n = 0;
	int rc = DONE, query = sqlite3_column_count(stmt) > 0;
	while (times-- > 0) {
		rc = rowmill_bind(stmt, &p, values);
		if (rc) break;
		while ((rc = sqlite3_step(stmt)) == ROW) n++;
		int again = sqlite3_reset(stmt);
		if (rc != DONE) {
			if (again) rc = again; // the more specific code
			break;
		}
		if (!query) n += sqlite3_changes64(db);
	}
	sqlite3_clear_bindings(stmt);
	return rc == DONE ? n : -rc;
}

// rowmill_stop is called while a statement runs; a result other than 0 interrupts it.
static int rowmill_stop(void *flag) { return __atomic_load_n((int *)flag, __ATOMIC_RELAXED); }

// STOP_OPS is the number of SQLite virtual machine operations, of some 10 ns each, between two
// calls of rowmill_stop.
enum { STOP_OPS = 1000 };

static void rowmill_attach(void *db, int *flag) {
	sqlite3_progress_handler(db, flag ? STOP_OPS : 0, flag ? rowmill_stop : 0, flag);
}

// rowmill_exec executes one statement given as text. It returns the number of rows that
// the statement has changed, or a negated error code.
static long long rowmill_exec(void *db, const char *sql, int bytes) {
	void *stmt = 0;
	int rc = sqlite3_prepare_v2(db, sql, bytes, &stmt, 0);
	if (rc || !stmt) return -rc;
	sqlite3_step(stmt);
	rc = sqlite3_finalize(stmt); // which returns step's error
	return rc ? -rc : sqlite3_changes64(db);
}

// Every connection gets the function rowmill_handle, which returns SQLite's pointer to the
// connection. The driver offers no other way to get this pointer.
static void rowmill_handle(void *ctx, int values, void **v) { sqlite3_result_int64(ctx, (intptr_t)sqlite3_context_db_handle(ctx)); }

static int rowmill_connected(void *db, char **error, const void *api) {
	enum { UTF8 = 1 };
	return sqlite3_create_function(db, "rowmill_handle", 0, UTF8, 0, rowmill_handle, 0, 0);
}

static int rowmill_begin(void) { return sqlite3_auto_extension((void (*)(void))rowmill_connected); }

// rowmill_prepare_first also returns the number of bytes that follow the first statement.
static void *rowmill_prepare_first(void *db, const char *sql, int bytes, int *rest, int *rc) {
	void *stmt = 0;
	const char *tail = sql + bytes;
	*rc = sqlite3_prepare_v2(db, sql, bytes, &stmt, &tail);
	*rest = (int)(sql + bytes - tail);
	return stmt;
}

// rowmill_texts writes rows to buf: for each value its length, or -1 for NULL, and its text. It
// returns the number of bytes written. If not even the first row fits in buf, it returns the row's
// size, negated. *state is the statement's state before and after the call: whether a row is
// pending, because it didn't fit, or a result code, such as DONE.
enum { TEXTS_READY = 0, TEXTS_PENDING = ROW };
static long long rowmill_texts(void *stmt, unsigned char *buf, long long size, int *state) {
	long long used = 0;
	int columns = sqlite3_column_count(stmt);
	for (;;) {
		if (*state != TEXTS_PENDING) {
			int rc = sqlite3_step(stmt);
			if (rc != ROW) { *state = rc; return used; }
			*state = TEXTS_PENDING;
		}
		long long need = 0;
		for (int i = 0; i < columns; i++) {
			int type = sqlite3_column_type(stmt, i);
			need += 4;
			if (type == 5) continue;
			if (type == 4) sqlite3_column_blob(stmt, i); else sqlite3_column_text(stmt, i);
			need += sqlite3_column_bytes(stmt, i);
		}
		if (need > size - used) return used ? used : -need;
		for (int i = 0; i < columns; i++) {
			int type = sqlite3_column_type(stmt, i);
			int32_t n = -1;
			const void *p = 0;
			if (type != 5) {
				p = type == 4 ? sqlite3_column_blob(stmt, i) : (const void *)sqlite3_column_text(stmt, i);
				n = sqlite3_column_bytes(stmt, i);
			}
			memcpy(buf + used, &n, 4);
			used += 4;
			if (n > 0) { memcpy(buf + used, p, n); used += n; }
		}
		*state = TEXTS_READY;
	}
}

static void *rowmill_pointer(long long p) { return (void *)(intptr_t)p; }

*/
import "C"

// shareHeap makes all threads of the process allocate SQLite's memory from the heaps that exist.
// Otherwise each thread would have its own heap, where the memory that a connection leaves is free
// only for connections of that thread. trimHeap returns free memory to the system. The two
// functions have an effect only with glibc.
func shareHeap() { C.rowmill_share() }
func trimHeap()  { C.rowmill_trim() }

// A handle is SQLite's own pointer to a connection.
type handle struct{ p unsafe.Pointer }

// handleOf returns the handle in a driver's connection.
func handleOf(conn *connection) (handle, error) {
	p, err := queryInt(conn, "SELECT rowmill_handle()")
	return handle{C.rowmill_pointer(C.longlong(p))}, err
}

// giveHandles gives connections that are opened from now on the function that handleOf calls.
var giveHandles = sync.OnceValue(func() error {
	if rc := C.rowmill_begin(); rc != 0 {
		return fmt.Errorf("SQLite refuses functions for every connection: code %d", rc)
	}
	return nil
})

// A pointer is an address that SQLite has returned.
type pointer = unsafe.Pointer

func (s stmt) run(bound []byte, values, times int) (int64, error) {
	return s.db.counted(C.rowmill_run(s.db.p, s.p, (*C.uchar)(unsafe.SliceData(bound)), C.int(values), C.int(times)))
}

func (s stmt) close() { C.sqlite3_finalize(s.p) }

// prepareFirst prepares the first statement of a text. rest is the number of bytes after it.
func (h handle) prepareFirst(sql string) (s stmt, rest int, err error) {
	var rc, left C.int
	p := C.rowmill_prepare_first(h.p, (*C.char)(unsafe.Pointer(unsafe.StringData(sql))), C.int(len(sql)), &left, &rc)
	if rc != 0 {
		return stmt{}, 0, h.failure(rc)
	}
	return stmt{h, p}, int(left), nil
}

// empty reports a text without a statement: blanks, or a comment.
func (s stmt) empty() bool { return s.p == nil }

// columns returns the names and the declared types, "" for an expression, of a statement's result.
func (s stmt) columns() (names, types []string) {
	for i := range int(C.sqlite3_column_count(s.p)) {
		names = append(names, C.GoString(C.sqlite3_column_name(s.p, C.int(i))))
		types = append(types, C.GoString(C.sqlite3_column_decltype(s.p, C.int(i))))
	}
	return names, types
}

// texts writes the next rows to buf: see rowmill_texts.
func (s stmt) texts(buf []byte, state *int32) int {
	return int(C.rowmill_texts(s.p, (*C.uchar)(unsafe.SliceData(buf)), C.longlong(len(buf)), (*C.int)(state)))
}

// failed returns the error of a statement's last step.
func (s stmt) failed(code int32) error { return s.db.failure(C.int(code)) }

// changed returns the number of rows that the connection's last statement has changed.
func (h handle) changed() int64 { return int64(C.sqlite3_changes64(h.p)) }

func (h handle) execute(sql []byte) (int64, error) {
	return h.counted(C.rowmill_exec(h.p, (*C.char)(unsafe.Pointer(unsafe.SliceData(sql))), C.int(len(sql))))
}

// counted converts a number of rows or a negated error code.
func (h handle) counted(n C.longlong) (int64, error) {
	if n < 0 {
		return 0, h.failure(C.int(-n))
	}
	return int64(n), nil
}

// newStopper allocates the flag in C's memory, because SQLite keeps the pointer.
func newStopper() *stopper { return &stopper{(*int32)(C.calloc(1, C.sizeof_int))} }

func (s *stopper) attach(h handle) { C.rowmill_attach(h.p, (*C.int)(s.flag)) }

func detach(h handle) { C.rowmill_attach(h.p, nil) }

func (s *stopper) free() { C.free(unsafe.Pointer(s.flag)) }

// failure returns the error of the connection's last call, which returned rc.
func (h handle) failure(rc C.int) error {
	ext := C.sqlite3_extended_errcode(h.p)
	if ext&0xff != rc&0xff {
		ext = rc
	}
	return &failure{codes{int(ext), syscall.Errno(C.sqlite3_system_errno(h.p))}, C.GoString(C.sqlite3_errmsg(h.p))}
}

func (h handle) status(op int) float64 {
	var current, highest C.int
	if rc := C.sqlite3_db_status(h.p, C.int(op), &current, &highest, 0); rc != 0 {
		return math.NaN()
	}
	return float64(current)
}
