package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"sync"
)

// ownLock is what the name of a lock begins with that says of a connection,
// whose number ends it, that it is one of maintenance. Any process can ask for it,
// with any account and on any server; who is in the way is otherwise known by an
// account, which applications may share, or by attributes, which are kept only
// where the performance schema is on.
const ownLock = "rowmill.connection."

// A signature holds those locks for all connections of a DB, on a connection of
// its own that does nothing else: on the connections themselves they would be in
// the way of LOCK TABLES.
type signature struct {
	mu   sync.Mutex
	conn *sql.Conn // nil before the first
}

// signIdle is after how many seconds without a new connection the server ends the
// one of the locks: the most that it takes.
const signIdle = 31536000

// sign says of a connection that it is one of maintenance. Where that can't be
// said it is taken for one like any other.
func (s *signature) sign(ctx context.Context, db *DB, id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		conn, err := db.pool.Conn(ctx)
		if err != nil {
			return
		}
		s.conn = conn
		if _, err := conn.ExecContext(ctx, fmt.Sprintf("SET SESSION wait_timeout = %d", signIdle)); err != nil {
			s.discard()
			return
		}
	}
	if _, err := s.conn.ExecContext(ctx, "DO GET_LOCK("+quoteText(ownLock+strconv.FormatInt(id, 10))+", 0)"); err != nil {
		s.discard()
	}
}

func (s *signature) discard() {
	if s.conn != nil {
		_ = discardConn(s.conn) // nothing depends on it
		s.conn = nil
	}
}

// end gives the locks back.
func (s *signature) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.discard()
}
