package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"sync"
)

// ownLock is the prefix of the name of a lock that marks a connection as one of
// maintenance; the connection's number follows. Any process can query the lock,
// with any account and on any server. The alternatives are the account, which
// applications may share, and connection attributes, which exist only if the
// performance schema is enabled.
const ownLock = "rowmill.connection."

// A signature holds these locks for all connections of a DB, on a connection of its
// own without other statements: on the maintenance connections themselves, the locks
// would interfere with LOCK TABLES.
type signature struct {
	mu   sync.Mutex
	conn *sql.Conn // nil before the first lock
}

// signIdle is after how many seconds without a new lock the server closes the
// connection of the locks: the largest value that it accepts.
const signIdle = 31536000

// sign marks a connection as one of maintenance. If that fails, it is treated like
// any other.
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
		_ = discardConn(s.conn) // an error has no effect
		s.conn = nil
	}
}

// end releases the locks.
func (s *signature) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.discard()
}
