package serve

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"os/user"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/mysqlwire"
	"github.com/rowmill/rowmill/internal/testdb"
)

// certificate returns one for the tests, signed by itself.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"serve"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestTLS encrypts the client's connection, on which a method of authentication may send the
// password itself.
func TestTLS(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x, a := startCounting(t, kind, func(o *Options) { o.TLS = &tls.Config{Certificates: []tls.Certificate{certificate(t)}} })
		table(t, x)
		user := "s" + x.name[:min(20, len(x.name))]
		execute(t, x.client(t), "CREATE USER "+user+" IDENTIFIED BY 'secret'", "GRANT SELECT ON "+x.name+".* TO "+user)
		t.Cleanup(func() { execute(t, connect(t, x.config(true)), "DROP USER "+user) })
		c := x.config(false)
		c.User, c.Passwd, c.TLSConfig = user, "secret", "skip-verify"
		for range 2 { // in full, then from the server's cache
			db := connect(t, c)
			if got, err := answer(db, "SELECT COUNT(*), MAX(id) FROM t"); err != nil || !strings.Contains(got, "5|5|") {
				t.Fatalf("%s, %v", got, err)
			}
			if got, err := answer(db, "SELECT vc, id FROM t WHERE id < ?", 3); err != nil || !strings.Contains(got, "é|1|") {
				t.Errorf("%s, %v", got, err)
			}
			db.Close()
		}
		if a.ran.Load() == 0 {
			t.Error("no query was split")
		}
		c.Passwd = "wrong"
		var e *mysql.MySQLError
		if err := connect(t, c).Ping(); !errors.As(err, &e) || e.Number != 1045 {
			t.Errorf("a wrong password: %v", err)
		}
	})
}

// TestTLSToServer relays a client with TLS to a server with TLS, where a method of authentication
// sends the password in full, and splits.
func TestTLSToServer(t *testing.T) {
	testdb.OnKinds(t, []string{"mysql"}, func(t *testing.T, kind string) { // MariaDB has certificates of its own since 11.4
		x, a := startCounting(t, kind, func(o *Options) {
			// Over a socket, with a method for the keys that the oldest server has.
			o.Wire.TLS, o.Wire.Encrypted = &tls.Config{InsecureSkipVerify: true, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_256_GCM_SHA384}}, true
			o.TLS = &tls.Config{Certificates: []tls.Certificate{certificate(t)}}
		})
		direct := connect(t, x.config(true)) // over the socket
		user := "t" + x.name[:min(20, len(x.name))]
		execute(t, direct, "CREATE TABLE p (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 4", "INSERT INTO p VALUES (1, 1), (2, 2), (3, 4), (4, 8)", "ANALYZE TABLE p",
			"CREATE USER "+user+" IDENTIFIED WITH caching_sha2_password BY 'secret' REQUIRE SSL", "GRANT SELECT ON "+x.name+".* TO "+user)
		t.Cleanup(func() { execute(t, direct, "DROP USER "+user) })
		c := x.config(false)
		c.User, c.Passwd = user, "secret"
		for _, encrypted := range []string{"skip-verify", "skip-verify", "false"} { // in full, from the server's cache, and in the clear to serve alone
			c.TLSConfig = encrypted
			db := connect(t, c)
			if got, err := answer(db, "SELECT SUM(v), MAX(id) FROM p"); err != nil || !strings.Contains(got, "15|4|") {
				t.Fatalf("TLS %s: %s, %v", encrypted, got, err)
			}
			if got, err := answer(db, "SHOW SESSION STATUS LIKE 'Ssl_version'"); err != nil || !strings.Contains(got, "TLSv1") {
				t.Errorf("TLS %s: %s, %v", encrypted, got, err)
			}
			db.Close()
		}
		if a.ran.Load() != 3 {
			t.Errorf("%d of 3 queries in pieces", a.ran.Load())
		}
		c.TLSConfig, c.Passwd = "skip-verify", "wrong"
		var e *mysql.MySQLError
		if err := connect(t, c).Ping(); !errors.As(err, &e) || e.Number != 1045 {
			t.Errorf("a wrong password: %v", err)
		}
	})
}

// TestChangeUser changes the account of a connection, by which shapes of queries are known.
func TestChangeUser(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x := start(t, kind, nil)
		user := "c" + x.name[:min(20, len(x.name))]
		direct := connect(t, x.config(true))
		execute(t, direct, "CREATE USER "+user, "GRANT SELECT ON "+x.name+".* TO "+user)
		t.Cleanup(func() { execute(t, direct, "DROP USER "+user) })
		r := dialRaw(t, "tcp", x.address, x.name, 0, 0)
		c := x.connected()[0]
		for _, test := range []struct{ user, want string }{{user, user}, {"nobody", user}, {"root", "root"}} {
			answer := r.changeUser(test.user, x.name)[mysqlwire.HeaderSize]
			if (answer == mysqlwire.Error) != (test.user == "nobody") {
				t.Errorf("%s: answer %x", test.user, answer)
			}
			if answer == mysqlwire.Error && kind == "mysql" {
				break // the server has closed the connection
			}
			got := fmt.Sprintf("%q", r.command(mysqlwire.ComQuery, "SELECT CURRENT_USER()"))
			testdb.Until(t, "the session waits for a command", func() bool { return c.phase.Load() == phaseLoop })
			c.turn.mu.Lock()
			if account := c.session.Account; !strings.Contains(got, test.want+"@") || account != test.want {
				t.Errorf("%s: %s, and the account is %s", test.user, got, account)
			}
			c.turn.mu.Unlock()
		}
	})
}

// TestAccountsOfTheSocket refuses accounts that the server knows by the process at the other end of
// its socket, which is this one. It alters the account of the tests' own user, and so has a server
// of its own.
func TestAccountsOfTheSocket(t *testing.T) {
	t.Parallel()
	testdb.Kinds(t, "mariadb") // or it is skipped: the MySQL of the tests has no auth_socket
	db, _ := testdb.OpenOwn(t, "mariadb")
	x := startOn(t, db, nil)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	as := func(name, password string, direct bool) *sql.DB {
		c := x.config(direct)
		c.User, c.Passwd, c.DBName = name, password, ""
		return connect(t, c)
	}
	admin, r := connect(t, x.config(true)), dialRaw(t, "tcp", x.address, "mysql", 0, 0)
	execute(t, admin, "CREATE USER IF NOT EXISTS '"+me.Username+"'@localhost", "CREATE USER alice@localhost IDENTIFIED BY 'secret'")
	for _, method := range []string{"unix_socket OR mysql_native_password USING PASSWORD('pass')", "mysql_native_password USING 'invalid' OR unix_socket", "unix_socket"} {
		execute(t, admin, "ALTER USER '"+me.Username+"'@localhost IDENTIFIED VIA "+method)
		if err := as(me.Username, "guess", true).Ping(); err != nil {
			t.Errorf("%s, directly: %v", method, err)
		}
		var refused *mysql.MySQLError
		if err := as(me.Username, "guess", false).Ping(); !errors.As(err, &refused) || refused.Number != codeAccessDenied || !strings.Contains(refused.Message, "Try: ") {
			t.Errorf("%s: %v", method, err)
		}
	}
	for _, first := range []string{"SELECT ROW_COUNT(), FOUND_ROWS()", "SELECT CURRENT_USER()"} {
		got, err := answer(as("alice", "secret", false), first)
		if want, directly := answer(as("alice", "secret", true), first); got != want || err != nil || directly != nil {
			t.Errorf("%s: got %q, %v; want %q, %v", first, got, err, want, directly)
		}
	}
	if p := r.changeUser(me.Username, ""); p[mysqlwire.HeaderSize] != mysqlwire.Error || mysqlwire.ReadError(p[mysqlwire.HeaderSize:]).Code != codeAccessDenied {
		t.Errorf("changed to: %q", p)
	}
	if _, err := r.packet(1 << 16); err == nil {
		t.Error("the connection is open")
	}
}

// TestHandshakeIsLimited refuses a packet of a client that isn't known before the memory for it is
// there.
func TestHandshakeIsLimited(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x := start(t, kind, nil)
		conn, err := net.Dial("tcp", x.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		s := side{Conn: conn}
		if _, err := s.packet(1 << 16); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte{0, 0, 2, 1, 0}); err != nil { // the beginning of 128 KiB
			t.Fatal(err)
		}
		if _, err := s.packet(1 << 16); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the server waits for the rest: %v", err)
		}
		testdb.Until(t, "the session has ended", func() bool { return len(x.connected()) == 0 })
	})
}

func TestMaxConnections(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x := start(t, kind, func(o *Options) { o.MaxConnections = 2 })
		one, two := x.client(t), x.client(t)
		execute(t, one, "DO 1")
		execute(t, two, "DO 1")
		var e *mysql.MySQLError
		if err := x.client(t).Ping(); !errors.As(err, &e) || e.Number != codeTooManyConnections {
			t.Errorf("a third client: %v", err)
		}
		one.Close()
		testdb.Until(t, "a place for a client", func() bool { return x.client(t).Ping() == nil })
		w := httptest.NewRecorder()
		x.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		for _, want := range []string{"rowmill_serve_connections 2\n", "rowmill_serve_commands_total", `rowmill_serve_bytes_total{direction="in"}`, `rowmill_serve_whole_total{reason="small"} 0`, "rowmill_serve_cache_periods 0\n", "rowmill_serve_cache_bytes 0\n"} {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("%q is missing in the metrics", want)
			}
		}
	})
}

// TestShutdown ends a front while clients are connected: idle ones at once, others after their
// statement or transaction.
func TestShutdown(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x := start(t, kind, nil)
		idle, busy, transaction := x.client(t), x.client(t), x.client(t)
		greeted(t, x.address)
		execute(t, idle, "CREATE TABLE s (id INT PRIMARY KEY) ENGINE=InnoDB")
		execute(t, transaction, "BEGIN", "INSERT INTO s VALUES (1)")
		slept := make(chan error, 1)
		go func() {
			_, err := busy.Exec("DO SLEEP(1)")
			slept <- err
		}()
		testdb.Until(t, "a statement runs", func() bool {
			got, _ := answer(idle, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'DO SLEEP%' AND DB = '"+x.name+"'")
			return strings.HasSuffix(got, "\n1|")
		})
		var stopped sync.WaitGroup
		stopped.Go(x.stop)
		testdb.Until(t, "no client is accepted", func() bool { return x.client(t).Ping() != nil })
		if err := <-slept; err != nil {
			t.Errorf("a statement that was running: %v", err)
		}
		execute(t, transaction, "INSERT INTO s VALUES (2)", "COMMIT")
		begin := time.Now()
		if stopped.Wait(); time.Since(begin) > drainTime/2 {
			t.Errorf("the end took %v after the last transaction", time.Since(begin))
		}
		if got, err := answer(connect(t, x.config(true)), "SELECT COUNT(*) FROM s"); err != nil || !strings.HasSuffix(got, "\n2|") {
			t.Errorf("%s, %v", got, err)
		}
	})
}

// greeted connects as a client that doesn't answer the greeting, and returns its connection id.
func greeted(t *testing.T, address string) uint32 {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	p, err := (&side{Conn: conn}).packet(maxHandshake)
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := bytes.Cut(p[mysqlwire.HeaderSize:], []byte{0})
	return binary.LittleEndian.Uint32(body)
}

// TestServerClosesIdleConnection ends the connections of two clients on the server, one of them in
// the handshake, which the clients notice without asking.
func TestServerClosesIdleConnection(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x := start(t, kind, nil)
		c := dialRaw(t, "tcp", x.address, x.name, 0, 0)
		execute(t, connect(t, x.config(true)), fmt.Sprintf("KILL %d", c.id), fmt.Sprintf("KILL %d", greeted(t, x.address)))
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		for {
			if _, err := c.packet(1 << 16); err != nil {
				if strings.Contains(err.Error(), "timeout") {
					t.Error("the client's connection is still open")
				}
				break // an error packet may come before
			}
		}
		begin := time.Now()
		testdb.Until(t, "the sessions have ended", func() bool { return len(x.connected()) == 0 })
		if time.Since(begin) > handshakeTimeout/2 {
			t.Errorf("the sessions ended after %v", time.Since(begin))
		}
	})
}

func TestQueue(t *testing.T) {
	ctx := context.Background()
	q := newQueue(4)
	all, ok := q.take(ctx, 9, time.Second) // as many as there are
	if used := q.used.Load(); !ok || used != 4 {
		t.Fatalf("%d sessions used", used)
	}
	if _, ok := q.take(ctx, 1, time.Millisecond); ok {
		t.Error("there are more sessions than four")
	}
	if used, waiting := q.used.Load(), q.waiting.Load(); used != 4 || waiting != 0 {
		t.Errorf("after a wait that was too long: %d used, %d waiting", used, waiting)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		give, ok := q.take(ctx, 4, time.Minute)
		if !ok {
			t.Error("no sessions")
			return
		}
		give()
	})
	testdb.Until(t, "the query waits", func() bool { return q.waiting.Load() == 1 })
	all()
	wg.Wait()
	if used, waiting := q.used.Load(), q.waiting.Load(); used != 0 || waiting != 0 {
		t.Errorf("at the end: %d used, %d waiting", used, waiting)
	}
}

// TestGrafana sends what Grafana's data source does: its macros expanded, and the queries of its
// editor.
func TestGrafana(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x, a := startCounting(t, kind, nil)
		execute(t, x.client(t), "CREATE TABLE readings (sensor INT NOT NULL, ts DATETIME NOT NULL, value DECIMAL(10,2), PRIMARY KEY (sensor, ts)) PARTITION BY RANGE COLUMNS (ts) "+
			"(PARTITION p1 VALUES LESS THAN ('2024-01-02'), PARTITION p2 VALUES LESS THAN ('2024-01-03'), PARTITION p3 VALUES LESS THAN (MAXVALUE))",
			"INSERT INTO readings VALUES (1, '2024-01-01 10:00:00', 1.5), (2, '2024-01-01 10:03:00', 2.5), (1, '2024-01-02 10:00:00', 3.5), (2, '2024-01-03 11:00:00', NULL)", "ANALYZE TABLE readings")
		clients := func(direct bool) *mysql.Config {
			c := x.config(direct)
			c.ParseTime, c.Collation = true, "utf8mb4_general_ci"
			return c
		}
		through, direct := connect(t, clients(false)), connect(t, clients(true))
		for _, test := range []struct {
			query string
			split bool
		}{
			{"SELECT 1", false},
			{"SELECT DISTINCT TABLE_SCHEMA from information_schema.TABLES where TABLE_TYPE != 'SYSTEM VIEW' AND TABLE_SCHEMA = DATABASE() ORDER BY TABLE_SCHEMA", false},
			{"SELECT DISTINCT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '" + x.name + "' ORDER BY TABLE_NAME", false},
			{"SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.columns WHERE TABLE_SCHEMA = '" + x.name + "' AND TABLE_NAME = 'readings' ORDER BY COLUMN_NAME", false},
			// $__timeGroupAlias, $__timeFilter
			{"SELECT UNIX_TIMESTAMP(ts) DIV 300 * 300 AS \"time\", sum(value) AS \"value\" FROM readings WHERE ts BETWEEN FROM_UNIXTIME(1704000000) AND FROM_UNIXTIME(1704400000) GROUP BY 1 ORDER BY UNIX_TIMESTAMP(ts) DIV 300 * 300", false},
			{"SELECT UNIX_TIMESTAMP(ts) DIV 300 * 300 AS time, sensor AS metric, avg(value) AS value FROM readings WHERE ts BETWEEN FROM_UNIXTIME(1704000000) AND FROM_UNIXTIME(1704400000) GROUP BY time, sensor ORDER BY time, sensor", true},
			// a table, a variable of a dashboard, an annotation
			{"SELECT sensor, MIN(value), MAX(value), COUNT(*) FROM readings WHERE ts >= FROM_UNIXTIME(1704000000) AND ts <= FROM_UNIXTIME(1704400000) GROUP BY sensor ORDER BY sensor LIMIT 50", true},
			{"SELECT DISTINCT sensor FROM readings ORDER BY sensor", false},
			{"SELECT UNIX_TIMESTAMP(ts) AS time, CONCAT('sensor ', sensor) AS text FROM readings WHERE ts BETWEEN FROM_UNIXTIME(1704000000) AND FROM_UNIXTIME(1704400000) ORDER BY time, text", false},
		} {
			before := a.ran.Load()
			got, err := answer(through, test.query)
			want, wantErr := answer(direct, test.query)
			if got != want || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Errorf("%s: got %s, %v; want %s, %v", test.query, got, err, want, wantErr)
			}
			if split := a.ran.Load() > before; test.split && !split {
				t.Errorf("%s: not in pieces", test.query)
			}
		}
	})
}
