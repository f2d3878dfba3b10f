package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestLead: a lock, identified by its name and database, has one holder at a time,
// and is lost when the holder's connection ends.
func TestLead(t *testing.T) { onEach(t, testLead) }

func testLead(t *testing.T, db *mysql.DB) {
	name := "keeper of a table with a name that is longer than a lock's may be, by far"
	l, err := db.Lead(within(t), name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Lead(within(t), name); !errors.Is(err, engine.ErrLockTimeout) {
		t.Errorf("second leader: %v", err)
	}
	other, err := db.Lead(within(t), "other")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := testdb.Open(t, db.Info().Engine).(*mysql.DB)
	same, err := elsewhere.Lead(within(t), name)
	if err != nil {
		t.Errorf("the lock of another database: %v", err)
	} else if err := same.Release(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(l.Release(), l.Release()); err != nil {
		t.Error(err)
	}
	select {
	case <-l.Lost():
	default:
		t.Error("a lease that was given back is not lost")
	}
	again, err := db.Lead(within(t), name)
	if err != nil {
		t.Fatal(err)
	}
	db.Kill(within(t), db.LeaseConnectionID(within(t), name))
	select {
	case <-again.Lost():
	case <-time.After(10 * time.Second):
		t.Error("a lease whose connection was killed is not lost")
	}
	if err := errors.Join(again.Release(), other.Release()); err != nil {
		t.Error(err)
	}
}

// TestLeadIsExclusive: of many concurrent attempts, one gets the lock.
func TestLeadIsExclusive(t *testing.T) { onEach(t, testLeadIsExclusive) }

func testLeadIsExclusive(t *testing.T, db *mysql.DB) {
	type result struct {
		lease engine.Lease
		err   error
	}
	results := make(chan result)
	for range 8 {
		go func() {
			l, err := db.Lead(context.WithoutCancel(t.Context()), "x")
			results <- result{l, err}
		}()
	}
	held := 0
	for range 8 {
		r := <-results
		if r.err == nil {
			held++
			defer r.lease.Release()
		} else if !errors.Is(r.err, engine.ErrLockTimeout) {
			t.Error(r.err)
		}
	}
	if held != 1 {
		t.Errorf("%d have the lock", held)
	}
}

// TestSQL: the pool's connections have the settings of maintenance.
func TestSQL(t *testing.T) { onEach(t, testSQL) }

func testSQL(t *testing.T, db *mysql.DB) {
	isolation := "transaction_isolation"
	if db.Info().Engine == "mariadb" {
		isolation = "tx_isolation"
	}
	var level, zone, mode string
	var wait, rowWait int
	err := db.SQL().QueryRowContext(within(t), db.Bind(fmt.Sprintf("SELECT @@%s, @@time_zone, @@sql_mode, @@lock_wait_timeout, @@innodb_lock_wait_timeout + ?", isolation)), 1).
		Scan(&level, &zone, &mode, &wait, &rowWait)
	if err != nil {
		t.Fatal(err)
	}
	if level != "READ-COMMITTED" || zone != "+00:00" || !sameModes(mode, mysql.KeepMode) || wait != 1 || rowWait != 6 {
		t.Errorf("isolation %s, zone %s, mode %s, waits %d and %d", level, zone, mode, wait, rowWait)
	}
	if err := db.Classify(nil); err != nil {
		t.Error(err)
	}
	_, err = db.SQL().ExecContext(within(t), "SELECT * FROM nix")
	if err := db.Classify(err); !errors.Is(err, engine.ErrNoTable) {
		t.Errorf("got %v", err)
	}
}

// sameModes compares SQL modes, regardless of their order.
func sameModes(got, quoted string) bool {
	a, b := strings.Split(got, ","), strings.Split(strings.Trim(quoted, "'"), ",")
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
