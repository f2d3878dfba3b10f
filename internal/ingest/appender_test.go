package ingest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/ingest/spool"
)

// TestAppender appends records from several goroutines: each call returns the end of its
// own record, and records share syncs.
func TestAppender(t *testing.T) {
	sp, _, err := spool.Open(spool.Options{Dir: t.TempDir(), Budget: 1 << 20, NoWait: true})
	must(t, err)
	t.Cleanup(func() { sp.Close() })
	var a appender
	var all sync.WaitGroup
	var mu sync.Mutex
	ends, full := map[int64]string{}, 0
	for i := range 16 {
		all.Go(func() {
			for n := range 60 {
				text := fmt.Sprintf("%d-%d-%s", i, n, strings.Repeat("x", 1500))
				to, err := a.append(sp, []byte(text))
				mu.Lock()
				switch {
				case errors.Is(err, spool.ErrFull):
					full++
				case err != nil:
					t.Error(err)
				case ends[to] != "":
					t.Errorf("two records end at %d", to)
				default:
					ends[to] = text
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if full == 0 {
		t.Error("the spool was never full")
	}
	sp.Finish()
	for range len(ends) {
		rec, err := sp.Next(t.Context())
		must(t, err)
		if ends[rec.To] != string(rec.Data) {
			t.Fatalf("the record that ends at %d is another", rec.To)
		}
	}
	if sp.Waiting() {
		t.Error("a refused record is in the spool")
	}
}

// TestPostKeys checks that a key is taken once: copies that arrive meanwhile wait, and one
// whose first copy fails is taken again.
func TestPostKeys(t *testing.T) {
	k := newKeys()
	fail := errors.New("disk")
	if _, err := k.once("a", "1", func() (Receipt, error) { return Receipt{}, fail }); !errors.Is(err, fail) {
		t.Errorf("%v", err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	puts, repeated := 0, 0
	for range 10 {
		all.Go(func() {
			r, err := k.once("a", "1", func() (Receipt, error) {
				time.Sleep(10 * time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				puts++
				return Receipt{Rows: 7}, nil
			})
			mu.Lock()
			defer mu.Unlock()
			if r.Repeated {
				repeated++
			}
			if err != nil || r.Rows != 7 {
				t.Errorf("%+v %v", r, err)
			}
		})
	}
	all.Wait()
	if puts != 1 || repeated != 9 {
		t.Errorf("put %d times, repeated %d times", puts, repeated)
	}
	if _, err := k.once("a", "2", nil); !errors.Is(err, ErrKeyReused) {
		t.Errorf("other rows: %v", err)
	}
	k.keep("b", keyed{sum: "3"})
	if r, err := k.once("b", "3", nil); err != nil || !r.Repeated {
		t.Errorf("recalled: %+v %v", r, err)
	}
	for i := range mostKeys {
		_, _ = k.once(fmt.Sprint("refused ", i), "1", func() (Receipt, error) { return Receipt{}, fail })
	}
	if len(k.known) != 2 || k.known["a"].sum == "" {
		t.Errorf("refused posts displaced others: %d keys are known", len(k.known))
	}
	for i := range mostKeys {
		k.keep(fmt.Sprint(i), keyed{sum: "x"})
	}
	if len(k.known) != mostKeys || len(k.order) != mostKeys || k.known["b"].sum != "" {
		t.Errorf("%d keys are known", len(k.known))
	}
}
