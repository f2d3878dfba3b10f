package testdb

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowmill/rowmill/internal/sandbox"
)

// ServersVariable is the environment variable that names the directory in which Serve describes the
// servers that it has started.
const ServersVariable = "ROWMILL_TEST_SERVERS"

// A Shared server is used by several tests.
type Shared struct {
	sandbox.Info
	// Params are the parameters of sandbox.Server.
	Params map[string]string
	// own is the server if this process has started it, else nil.
	own *sandbox.Server

	adminLock sync.Mutex
	admin     *pgconn.PgConn // see execute; nil before the first statement
}

// execute executes one statement, on a new connection. PostgreSQL takes several milliseconds of CPU
// time for a new connection, so execute keeps one connection to a PostgreSQL server.
func (s *Shared) execute(ctx context.Context, statement string) error {
	if s.Kind != "postgres" {
		return s.Execute(ctx, statement)
	}
	s.adminLock.Lock()
	defer s.adminLock.Unlock()
	if s.admin == nil || s.admin.IsClosed() {
		c, err := pgconn.ParseConfig("sslmode=disable target_session_attrs=any")
		if err != nil {
			return err
		}
		c.Host, c.Port, c.User, c.Password, c.Database, c.Fallbacks = filepath.Dir(s.Socket), 5432, sandbox.User, "", sandbox.Database, nil
		// Whatever the server's defaults are.
		c.RuntimeParams = map[string]string{"default_transaction_read_only": "off", "statement_timeout": "0", "idle_session_timeout": "0"}
		if s.admin, err = pgconn.ConnectConfig(ctx, c); err != nil {
			return err
		}
	}
	_, err := s.admin.Exec(ctx, statement).ReadAll()
	return err
}

// Err returns an error with the end of the server's log if the server has ended.
func (s *Shared) Err() error {
	if s.own != nil {
		return s.own.Err()
	}
	if err := syscall.Kill(s.PID, 0); errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("%s server of the whole run, process %d, is gone:\n%s", s.Kind, s.PID, s.LogTail())
	}
	return nil
}

func (s *Shared) stop(ctx context.Context) error {
	if s.admin != nil {
		_ = s.admin.Close(ctx) // it has nothing to lose
	}
	if s.own == nil {
		return nil
	}
	s.own.Kill()
	return s.own.Stop(ctx)
}

// start starts a server owned by this process.
func start(ctx context.Context, o sandbox.Options) (*Shared, error) {
	s, err := sandbox.Start(ctx, o, nil)
	if err != nil {
		return nil, err
	}
	return &Shared{Info: s.Info, Params: s.Params(), own: s}, nil
}

// find returns the server of a kind that Serve has started, or nil if there is none.
func find(kind string) (*Shared, error) {
	dir := os.Getenv(ServersVariable)
	if dir == "" {
		return nil, nil
	}
	text, err := os.ReadFile(description(dir, kind))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var s Shared
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return nil, fmt.Errorf("find the %s server of %s: %w", kind, ServersVariable, err)
	}
	return &s, nil
}

// description returns the name of the file that describes a server. The name's length does not
// depend on the settings in the kind.
func description(dir, kind string) string {
	name, _, _ := strings.Cut(kind, "?")
	return filepath.Join(dir, fmt.Sprintf("%s-%x.json", name, sha256.Sum256([]byte(kind))))
}

// Serve starts one server of each kind that is installed and writes their descriptions to dir. Test
// processes find them if ServersVariable names dir. stop stops the servers; they also end with this
// process. A server that is not installed is left out, and its tests report that.
func Serve(ctx context.Context, dir string, kinds []string) (stop func() error, err error) {
	var (
		mu      sync.Mutex
		started []*Shared
		errs    []error
		wg      sync.WaitGroup
	)
	for _, kind := range kinds {
		wg.Go(func() {
			s, err := serve(ctx, dir, kind)
			mu.Lock()
			defer mu.Unlock()
			if s != nil {
				started = append(started, s)
			}
			if err != nil && !errors.Is(err, sandbox.ErrNotInstalled) {
				errs = append(errs, fmt.Errorf("serve %s: %w", kind, err))
			}
		})
	}
	wg.Wait()
	stop = func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
		defer cancel()
		var errs []error
		for _, s := range started {
			errs = append(errs, s.stop(ctx))
		}
		return errors.Join(errs...)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

func serve(ctx context.Context, dir, kind string) (*Shared, error) {
	o, err := options(kind)
	if err != nil {
		return nil, err
	}
	s, err := start(ctx, o)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return s, err
	}
	return s, os.WriteFile(description(dir, kind), text, 0o600)
}

// TempDir creates a directory for the temporary files of a whole run: in memory,
// if there is room. Like the system's own, it is writable for all users, because
// some tests run a program as another user. The caller removes it.
func TempDir() (string, error) {
	dir, err := os.MkdirTemp(memoryDir(), "rowmill-run-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o777|os.ModeSticky)
}
