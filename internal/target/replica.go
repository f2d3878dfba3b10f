package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rowmill/rowmill/internal/engine"
)

// ErrNoReplica is the class of errors about a server that can't repeat the changes of its source.
var ErrNoReplica = errors.New("it can't be a replica")

// CheckReplica refuses a target that isn't a server which may repeat the changes of another.
func CheckReplica(text string) error {
	if err := Check(text); err != nil {
		return err
	}
	if Place(text) != "" || Private(text) {
		return engine.Hinted(fmt.Errorf("%s: want the URL of a server that repeats the changes of the target", text), "--target %s", ExampleReplicas)
	}
	return nil
}

// ReplicaName returns a short name for a target that CheckReplica accepts: its socket, the
// directory of its socket, or its host and port.
func ReplicaName(text string) string {
	p, err := parse(text)
	if err != nil {
		return text
	}
	return cmp.Or(p.Query.Get("socket"), p.Query.Get("host"), p.Host, text)
}

// A Replica is a server that is opened once it can be reached.
type Replica struct {
	// Text is its target, which CheckReplica accepts. Source is the server whose changes it repeats.
	Text   string
	Source engine.DB
	// Note, unless nil, receives a warning.
	Note func(string)

	mu sync.Mutex
	db engine.Keeper // nil until it is open
}

// Open connects to the replica, unless an earlier call did, and returns its database. After an
// error, Open may be called again. The error wraps ErrNoReplica if the replica has another engine
// than the source: MySQL and MariaDB are two engines.
func (r *Replica) Open(ctx context.Context) (engine.Keeper, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.db != nil {
		return r.db, nil
	}
	p, err := parse(r.Text)
	if err != nil {
		return nil, err
	}
	if warning := readableByOthers(p.Query.Get("password-file")); warning != "" && r.Note != nil {
		r.Note(warning)
		r.Note = nil // once is enough
	}
	db, err := Connect(ctx, p.Target)
	if err != nil {
		return nil, fmt.Errorf("open replica %s: %w", ReplicaName(r.Text), err)
	}
	keeper, ok := db.(engine.Keeper)
	if is, want := db.Info().Engine, r.Source.Info().Engine; !ok || is != want {
		return nil, errors.Join(engine.Classed(ErrNoReplica, fmt.Errorf("%s: it is %s, and can't be a replica of %s", r.Text, is, want)), db.Close())
	}
	r.db = keeper
	return keeper, nil
}

// Close closes the database if it is open.
func (r *Replica) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.db == nil {
		return nil
	}
	return r.db.Close()
}

// Replicas are the replicas of one source.
type Replicas []*Replica

// OpenReplicas opens replicas of a source. The caller closes the result, also after an error. If a
// replica can't be reached and later is set, OpenReplicas passes the error to later, and goes on.
func OpenReplicas(ctx context.Context, source engine.DB, texts []string, note func(string), later func(error)) (all Replicas, err error) {
	for _, text := range texts {
		r := &Replica{Text: text, Source: source, Note: note}
		all = append(all, r)
		if _, err := r.Open(ctx); later != nil && errors.Is(err, engine.ErrUnreachable) {
			later(err)
		} else if err != nil {
			return all, err
		}
	}
	return all, nil
}

// Close closes the replicas that are open.
func (all Replicas) Close() error {
	var errs []error
	for _, r := range all {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}
