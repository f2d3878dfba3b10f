package postgres_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/rowmill/rowmill/internal/engine/postgres"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestBlockersThatAreNoConnections checks that a prepared transaction is a
// blocker: it holds its locks without a connection, even after a restart.
func TestBlockersThatAreNoConnections(t *testing.T) {
	t.Parallel()
	db := testdb.Open(t, "postgres?set=max_prepared_transactions=4,wal_level=replica,max_wal_senders=4").(*postgres.DB)
	table, _ := rolls(t, db, 2, 2)
	c := session(t, db)
	exec(t, c, "BEGIN", "UPDATE rolls SET n = 1 WHERE id = 1", "PREPARE TRANSACTION 'it''s'")
	got, err := db.Blockers(within(t), table)
	if err != nil || len(got) != 1 || got[0].ID != 0 || got[0].User == "" || got[0].Statement != "PREPARE TRANSACTION 'it''s'" || got[0].Age <= 0 {
		t.Errorf("%+v, %v", got, err)
	}
	exec(t, c, "ROLLBACK PREPARED 'it''s'")
	if got, err := db.Blockers(within(t), table); err != nil || len(got) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A standby imitates a replica; the server trusts the positions that it reports.
type standby struct{ c *pgconn.PgConn }

func newStandby(t testing.TB, db *postgres.DB) standby {
	t.Helper()
	cfg := db.Config()
	cfg.RuntimeParams["replication"] = "true"
	c, err := pgconn.ConnectConfig(within(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	at, err := c.Exec(within(t), "IDENTIFY_SYSTEM").ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	c.Frontend().Send(&pgproto3.Query{String: "START_REPLICATION PHYSICAL " + string(at[0].Rows[0][2])})
	if err := c.Frontend().Flush(); err != nil {
		t.Fatal(err)
	}
	go func() { // discard what the server sends
		for {
			if _, err := c.Frontend().Receive(); err != nil {
				return
			}
		}
	}()
	return standby{c}
}

// says reports a position up to which everything is replayed.
func (s standby) says(t testing.TB, lsn string) {
	t.Helper()
	high, low, _ := strings.Cut(lsn, "/")
	h, err := strconv.ParseUint(high, 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	l, err := strconv.ParseUint(low, 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	data := []byte{'r'}
	for range 3 { // written, flushed, replayed
		data = binary.BigEndian.AppendUint64(data, h<<32|l)
	}
	data = append(binary.BigEndian.AppendUint64(data, 0), 0)
	s.c.Frontend().Send(&pgproto3.CopyData{Data: data})
	if err := s.c.Frontend().Flush(); err != nil {
		t.Fatal(err)
	}
}

// TestReplicaLag checks that the lag is that of the slowest replica, as last
// reported.
func TestReplicaLag(t *testing.T) {
	t.Parallel()
	db := testdb.Open(t, "postgres?set=max_prepared_transactions=4,wal_level=replica,max_wal_senders=4").(*postgres.DB)
	run(t, db, "CREATE TABLE t (n INT)")
	near, far := newStandby(t, db), newStandby(t, db)
	start := value(t, db, "SELECT pg_current_wal_lsn()")
	near.says(t, start)
	far.says(t, start)
	lag := func(low, high time.Duration) {
		t.Helper()
		var got time.Duration
		for range 100 { // until the server has read the report
			l, err := db.Load(within(t))
			if err != nil {
				t.Fatal(err)
			}
			if got = l.ReplicaLag; got >= low && got <= high {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("lag %v, want %v to %v", got, low, high)
	}
	lag(0, time.Second)
	for i := range 3 {
		run(t, db, fmt.Sprintf("INSERT INTO t VALUES (%d)", i))
		near.says(t, value(t, db, "SELECT pg_current_wal_flush_lsn()"))
		time.Sleep(600 * time.Millisecond)
	}
	far.says(t, value(t, db, "SELECT pg_current_wal_flush_lsn()"))
	lag(200*time.Millisecond, 20*time.Second)
	near.c.Close(within(t))
	far.c.Close(within(t))
	lag(-1, -1)
}
