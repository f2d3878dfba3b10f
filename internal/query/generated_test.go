package query

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/testdb"
)

const (
	// seedVariable sets the seed of random queries and, after a colon, their number.
	seedVariable = "ROWMILL_TEST_SEED"
	// generatedQueries is how many random queries of fixedSeed each server gets, nightlyQueries how
	// many of a random one in the nightly run.
	generatedQueries = 100
	fixedSeed        = 14
	nightlyQueries   = 20_000
	// mostFailures is how many random queries with another answer are made shorter and reported.
	mostFailures = 12
	// mostUndefined is the largest part of random queries that may have two answers of the server.
	mostUndefined = 0.04
)

// isServers reports whether a difference is the server's own: two of these are true: the generator
// knows that SQL permits several answers, such as which of equal texts a group shows; the server
// itself has given two, as the last digits of a deviation depend on the order of the rows; and the
// query was run whole, so that both answers are the server's.
func (h how) isServers(err error, q *random) bool {
	unstable, whole := errors.Is(err, errUnstable), h.whole != ""
	return q.undefined && (unstable || whole) || unstable && whole
}

// generated runs random queries.
func (d *differential) generated(t *testing.T) {
	seed, queries := uint64(fixedSeed), generatedQueries
	if testdb.Nightly() {
		seed, queries = rand.Uint64(), nightlyQueries
	}
	if v := os.Getenv(seedVariable); v != "" {
		first, number, some := strings.Cut(v, ":")
		var err, err2 error
		seed, err = strconv.ParseUint(first, 10, 64)
		if some {
			queries, err2 = strconv.Atoi(number)
		}
		if err := errors.Join(err, err2); err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
	}
	begin := time.Now()
	var (
		tally tally
		next  atomic.Int64
		wg    sync.WaitGroup
		fails atomic.Int64
		// undefined are queries whose second answer is the server's own, at most mostUndefined of all.
		undefined atomic.Int64
	)
	ctx := context.Background()
	for range comparers {
		wg.Go(func() {
			for n := int(next.Add(1)); n <= queries && fails.Load() < mostFailures; n = int(next.Add(1)) {
				q := generate(d.kind, seed, n)
				how, err := d.compare(ctx, q.String(), nil, q.sortedBy())
				if err == nil {
					tally.add(how)
					continue
				}
				if how.isServers(err, q) {
					undefined.Add(1)
					continue
				}
				fails.Add(1)
				q, err = d.shrink(ctx, q, err)
				t.Errorf("query %d of %s=%d: %v\n%s", n, seedVariable, seed, err, q)
			}
		})
	}
	wg.Wait()
	if n := undefined.Load(); float64(n) > mostUndefined*float64(queries) {
		t.Errorf("%d of %d queries have two answers of the server, want at most %.0f%%", n, queries, mostUndefined*100)
	}
	t.Logf("%s, generated with %s=%d:%d in %v, %d with two answers of the server: %s", d.kind, seedVariable, seed, queries, time.Since(begin).Round(time.Millisecond), undefined.Load(), &tally)
}

// shrink makes a query whose answers differ as short as it can.
func (d *differential) shrink(ctx context.Context, q *random, err error) (*random, error) {
	for again := true; again; {
		again = false
		for _, c := range q.shorter() {
			if how, e := d.compare(ctx, c.String(), nil, c.sortedBy()); e != nil && (how.whole == "" || !q.undefined) && errors.Is(e, errUnstable) == errors.Is(err, errUnstable) {
				q, err, again = c, e, true
				break
			}
		}
	}
	return q, err
}
