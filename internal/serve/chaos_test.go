package serve

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

// namesWhatDied are parts of the errors that clients may see while connections and servers die: the
// server's own, the front's, and those of the driver about its connection.
var namesWhatDied = []string{"interrupted", "Connection was killed", "no answer from the server", "closed the connection", "invalid connection", "bad connection",
	"connection reset", "broken pipe", "EOF", "context canceled", "shutdown in progress"}

// TestChaos has clients ask through a front while connections of clients and of pieces are killed,
// clients leave in the middle of answers, and the server dies: no answer is wrong, errors name what
// died, and nothing is left. Nightly with 64 clients for a minute.
func TestChaos(t *testing.T) {
	clients, length, deaths := 12, 3*time.Second, 1
	if testdb.Nightly() {
		clients, length, deaths = 64, time.Minute, 4
	}
	seed := uint64(1)
	if testdb.Nightly() {
		seed = uint64(time.Now().UnixNano())
	}
	ctx := context.Background()
	db, server := testdb.OpenOwn(t, "mariadb")
	x, a := frontOf(t, db)
	direct := connect(t, x.config(true))
	parts := make([]string, 20)
	for i := range parts {
		parts[i] = fmt.Sprintf("PARTITION p%d VALUES LESS THAN (%d)", i, 500*(i+1))
	}
	execute(t, direct, "CREATE TABLE t (id INT PRIMARY KEY, g VARCHAR(10), v DECIMAL(10,2), s VARCHAR(30)) PARTITION BY RANGE (id) ("+strings.Join(parts, ", ")+")",
		"INSERT INTO t SELECT seq, CONCAT('g', seq % 50), seq / 4, REPEAT('x', seq % 30) FROM seq_0_to_9999", "ANALYZE TABLE t")
	queries := []struct {
		text string
		args []any
		want string
	}{
		{text: "SELECT COUNT(*), SUM(v), MIN(s), MAX(id) FROM t"},
		{text: "SELECT g, COUNT(*), SUM(v) FROM t GROUP BY g ORDER BY g"},
		{text: "SELECT g, AVG(id) FROM t WHERE id > ? GROUP BY g HAVING COUNT(*) > 10 ORDER BY g", args: []any{1234}},
		{text: "SELECT id, s FROM t WHERE id % 7 = 3 ORDER BY id"},
		{text: "SELECT v FROM t WHERE id = ?", args: []any{77}},
	}
	for i := range queries {
		var err error
		if queries[i].want, err = answer(direct, queries[i].text, queries[i].args...); err != nil {
			t.Fatal(err)
		}
	}
	end := time.Now().Add(length)
	var right, failed atomic.Int64
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(n)))
			db := x.client(t)
			for time.Now().Before(end) {
				q := queries[r.IntN(len(queries))]
				if r.IntN(20) == 0 {
					// A client that leaves.
					brief, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(10_000))*time.Microsecond)
					if rows, err := db.QueryContext(brief, q.text, q.args...); err == nil {
						rows.Close()
					}
					cancel()
					continue
				}
				switch got, err := answer(db, q.text, q.args...); {
				case err == nil && got == q.want:
					right.Add(1)
				case err == nil:
					t.Errorf("%s: a wrong answer: %.300s", q.text, got)
					return
				default:
					failed.Add(1)
					known := false
					for _, part := range namesWhatDied {
						known = known || strings.Contains(err.Error(), part)
					}
					if !known {
						t.Errorf("%s: %v", q.text, err)
					}
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	all.Go(func() {
		r := rand.New(rand.NewPCG(seed, 1000))
		killer := connect(t, x.config(true))
		next := time.Now().Add(length / time.Duration(deaths+1))
		for time.Now().Before(end) {
			if time.Now().After(next) {
				next = time.Now().Add(length / time.Duration(deaths+1))
				server.Kill()
				<-server.Done()
				if err := server.Restart(ctx); err != nil {
					t.Errorf("restart the server: %v", err)
					return
				}
			}
			var id int64
			if err := killer.QueryRow("SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND COMMAND NOT IN ('Daemon') ORDER BY COMMAND <> 'Query', RAND() LIMIT 1").Scan(&id); err == nil {
				_, _ = killer.Exec([]string{"KILL ", "KILL QUERY ", "KILL QUERY "}[r.IntN(3)] + fmt.Sprint(id)) // it may be gone
			}
			time.Sleep(time.Duration(5+r.IntN(30)) * time.Millisecond)
		}
	})
	all.Wait()
	t.Logf("seed %d: %d right answers, %d errors, %d in pieces", seed, right.Load(), failed.Load(), a.ran.Load())
	if right.Load() == 0 || a.ran.Load() == 0 || failed.Load() == 0 {
		t.Errorf("%d right answers, %d errors, %d in pieces: the test tests nothing", right.Load(), failed.Load(), a.ran.Load())
	}
	x.stop()
	if n := len(x.connected()); n > 0 {
		t.Errorf("%d sessions are left", n)
	}
	if used, waiting := x.queue.used.Load(), x.queue.waiting.Load(); used != 0 || waiting != 0 {
		t.Errorf("%d sessions for pieces are still counted, %d queries wait", used, waiting)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	testdb.Until(t, "no statement is left on the server", func() bool {
		got, err := answer(direct, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND = 'Query' AND ID <> CONNECTION_ID()")
		return err == nil && strings.HasSuffix(got, "\n0|")
	})
	var number *mysql.MySQLError
	if _, err := answer(direct, "SELECT nothing"); !errors.As(err, &number) {
		t.Errorf("the server: %v", err)
	}
}

// frontOf starts a front of a server that splits all queries that can be split.
func frontOf(t *testing.T, db engine.DB) (*fixture, *counting) {
	t.Helper()
	a := &counting{}
	return startOn(t, db, a.options), a
}
