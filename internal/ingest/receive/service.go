package receive

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/ingest"
)

// Limits of a connection, beyond which slow senders are cut off.
const (
	headerTimeout = 5 * time.Second
	// requestTimeout is how long a request may take to arrive: the largest body needs 0.5 MiB/s.
	requestTimeout = time.Minute
	answerTimeout  = requestTimeout + 30*time.Second
	idleTimeout    = 2 * time.Minute
	headerBytes    = 16 << 10
	// finishTimeout is how long requests may continue after Ctrl-C. drainTimeout is how long rows in
	// the spool are loaded after that, unless the database can't be reached.
	finishTimeout = 5 * time.Second
	drainTimeout  = 10 * time.Second
)

// ServiceOptions configure a Service.
type ServiceOptions struct {
	// Options are the Server's options. Its Tables come from Into.
	Options
	// Into are the tables. Their spools and files of bad rows are in the directory Spool.
	Into  []ingest.Options
	Spool string
	// Listen returns the listener; TLS, unless nil, is the configuration of HTTPS.
	Listen func() (net.Listener, error)
	TLS    *tls.Config
}

// A Service takes rows over HTTP and loads them. It is created by Open.
type Service struct {
	*Server
	listener net.Listener
}

// Open opens the inboxes of the tables, and listens. The caller closes the Service.
func Open(ctx context.Context, o ServiceOptions) (_ *Service, err error) {
	o.Tables = map[string]*ingest.Inbox{}
	s := &Service{Server: New(o.Options)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, into := range o.Into {
		name := into.Table.Name
		if o.Tables[name] != nil {
			return nil, engine.Hinted(fmt.Errorf("two declarations are for a table %s", name), "one rowmill run for each, with a spool and a port of its own")
		}
		into.Spool, into.Bad = filepath.Join(o.Spool, name), filepath.Join(o.Spool, name+".bad.jsonl")
		inbox, err := ingest.OpenInbox(ctx, into)
		if err != nil {
			return nil, err
		}
		o.Tables[name] = inbox
	}
	if s.listener, err = o.Listen(); err != nil {
		return nil, err
	}
	if o.TLS != nil {
		s.listener = tls.NewListener(s.listener, o.TLS)
	}
	return s, nil
}

// Serve takes and loads rows until ctx ends, and empties the spools for at most drainTimeout.
func (s *Service) Serve(ctx context.Context) error {
	server := &http.Server{
		Handler: s.Server, ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, WriteTimeout: answerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: headerBytes, ErrorLog: log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) }, ConnState: s.Connection,
	}
	loading, give := context.WithCancel(context.WithoutCancel(ctx))
	defer give()
	var all sync.WaitGroup
	for _, in := range s.o.Tables {
		all.Go(func() { _ = in.Run(loading) }) // it reports errors itself, and ends with loading
	}
	failed := make(chan error, 1)
	all.Go(func() { failed <- server.Serve(s.listener) })
	s.say("takes rows at %s", s.listener.Addr())
	var err error
	select {
	case err = <-failed:
		err = fmt.Errorf("take rows at %s: %w", s.listener.Addr(), err)
	case <-ctx.Done():
	}
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	if server.Shutdown(finish) != nil {
		_ = server.Close() // cuts off requests that are still arriving
	}
	s.stopping.Store(true)
	for _, in := range s.o.Tables {
		in.Finish()
	}
	defer time.AfterFunc(drainTimeout, give).Stop()
	all.Wait()
	for _, name := range slices.Sorted(maps.Keys(s.o.Tables)) {
		if st := s.o.Tables[name].Status(); st.Records > 0 {
			s.say("%s: %s in the spool, of %s: the next rowmill run loads them", name, figure.Bytes(st.Bytes), figure.Plural(st.Records, "request", "requests"))
		}
	}
	return err
}

func (s *Service) say(format string, args ...any) {
	if s.o.Say != nil {
		s.o.Say(fmt.Sprintf(format, args...))
	}
}

// Close closes the spools and the listener. A nil Service has none.
func (s *Service) Close() error {
	if s == nil {
		return nil
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.o.Tables)) {
		errs = append(errs, s.o.Tables[name].Close())
	}
	if s.listener != nil {
		_ = s.listener.Close() // the server may have closed it
	}
	return errors.Join(errs...)
}

// leastToken is the least length of a token, and mostTokens the size of a file of tokens.
const (
	leastToken = 16
	mostTokens = 1 << 20
)

// ParseTokens returns the tokens in a text: one per line. A # begins a comment.
func ParseTokens(text []byte) (out []string, err error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, mostTokens)
	for n := 1; lines.Scan(); n++ {
		token := strings.TrimSpace(lines.Text())
		switch {
		case token == "" || token[0] == '#':
		case len(token) < leastToken || strings.ContainsAny(token, " \t"):
			return nil, fmt.Errorf("line %d: want a token of %d characters or more, without blanks", n, leastToken)
		default:
			out = append(out, token)
		}
	}
	return out, lines.Err()
}
