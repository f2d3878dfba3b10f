package query

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/merge"
	"github.com/rowmill/rowmill/internal/query/parse"
	"github.com/rowmill/rowmill/internal/query/plan"
	"github.com/rowmill/rowmill/internal/state"
)

// CacheBytes limits the bytes of all cached partial results, mostPartial the bytes of one period.
const (
	CacheBytes  = 64 << 20
	mostPartial = CacheBytes / 16
)

// CacheStats are the figures of the cache of partial results since the Runner was made.
type CacheStats struct {
	// Hits is the number of periods that were found in the cache. Misses is the number of periods
	// that can be cached, but were not found.
	Hits, Misses int64
	// Periods and Bytes are the size of the cache.
	Periods int
	Bytes   int64
}

// CacheStats returns the figures of the cache.
func (r *Runner) CacheStats() CacheStats { return r.cache.figures() }

// A cache keeps the partial rows of sealed periods. When it is full, it drops the partial rows that
// were used least recently.
type cache struct {
	mu      sync.Mutex
	entries map[cacheKey]*list.Element
	order   list.List // of *cacheEntry, the last used first
	stats   CacheStats
}

// A cacheKey identifies a partial result: the query of a piece, with all settings that it depends
// on, and a partition.
type cacheKey struct {
	query [sha256.Size]byte
	part  string
}

// A cacheEntry has the partial rows of a partition. version identifies the state of the partition
// from which these rows were computed.
type cacheEntry struct {
	key     cacheKey
	version string
	rows    []byte // see merge.AppendRow
}

// entryBytes is the memory of an entry besides its rows.
const entryBytes = 300

func (e *cacheEntry) bytes() int64 {
	return int64(len(e.rows)+len(e.version)+len(e.key.part)) + entryBytes
}

// get returns the rows of an entry, if it has this version.
func (c *cache) get(key cacheKey, version string) (rows []byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[key]
	if e == nil || e.Value.(*cacheEntry).version != version {
		c.stats.Misses++
		return nil, false
	}
	c.stats.Hits++
	c.order.MoveToFront(e)
	return e.Value.(*cacheEntry).rows, true
}

// has reports whether there is an entry of any version.
func (c *cache) has(key cacheKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entries[key] != nil
}

// put adds an entry. It replaces the entry with the same key, which is of another version.
func (c *cache) put(e *cacheEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.entries[e.key]; old != nil {
		c.drop(old)
	}
	if c.entries == nil {
		c.entries = map[cacheKey]*list.Element{}
	}
	c.entries[e.key] = c.order.PushFront(e)
	c.stats.Bytes += e.bytes()
	for c.stats.Bytes > CacheBytes {
		c.drop(c.order.Back())
	}
}

func (c *cache) drop(e *list.Element) {
	entry := c.order.Remove(e).(*cacheEntry)
	delete(c.entries, entry.key)
	c.stats.Bytes -= entry.bytes()
}

func (c *cache) figures() CacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Periods = len(c.entries)
	return s
}

// uncached returns the query of a plan's pieces in normal form (parse.Normal). If the pieces'
// results can't be cached in any state of the table, uncached returns why.
func (r *Runner) uncached(p *plan.Plan) (normal, why string) {
	versioner, ok := r.nodes[0].Reader.(engine.PartVersioner)
	switch {
	case r.o.NoCache:
		return "", "it is turned off"
	case len(p.Branches) > 0:
		return "", "it has a set operation"
	case len(p.Rollups) > 0:
		return "", "roll-ups are read"
	case len(r.nodes) > 1:
		return "", "the table lies on several servers"
	case !ok:
		return "", "this server doesn't tell whether rows that rowmill hasn't written have changed"
	case !p.Alone:
		return "", "the query reads another table, too, or this one twice"
	case !p.Table.Period || !p.Table.Versioned || len(p.Table.Parts) == 0:
		return "", "it is no rolling table"
	}
	for _, piece := range p.Pieces {
		if piece.Where != "" || piece.Query != "" || piece.Node != 0 || piece.Table != nil {
			return "", "its pieces are no partitions of the table"
		}
	}
	normal, err := parse.Normal(p.Partial[0]+"?"+p.Partial[1], r.nodes[0].Syntax(p.State))
	if err != nil {
		return "", "the query has no normal form: " + err.Error()
	}
	for _, word := range strings.FieldsFunc(strings.ToLower(normal), func(c rune) bool { return (c < 'a' || c > 'z') && c != '_' }) {
		if slices.Contains(versioner.TimeWords(), word) {
			return "", "the query depends on the time: " + word
		}
	}
	return normal, ""
}

// A caching is the use of the cache by one query.
type caching struct {
	cache *cache
	query [sha256.Size]byte
	// before has the versions of all partitions, as they were before the snapshot. versions has the
	// versions of sealed periods' partitions, as they were in the snapshot. The keys of both are
	// partitions.
	before, versions map[string]string
	// The next two maps are by piece. rows has the cached rows of each piece that is cached. store has
	// the partitions whose rows are to be cached.
	rows  map[int][]byte
	store map[int]string
}

// caching returns nil if the plan's partial results can't be cached: the report then says why.
func (r *Runner) caching(p *plan.Plan, report *Report) *caching {
	text, why := r.uncached(p)
	if report.Uncached = why; why != "" {
		return nil
	}
	c := &caching{cache: &r.cache, rows: map[int][]byte{}, store: map[int]string{}}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %q %q\n", text, p.Table.Database, p.Table.Name, p.Table.Created)
	for _, x := range p.State {
		fmt.Fprintf(sum, "%q\n", x)
	}
	for _, col := range p.PartialColumns {
		fmt.Fprintf(sum, "%q %v %v %v\n", col.Native, col.Class, col.Scale, col.Unsigned)
	}
	sum.Sum(c.query[:0])
	return c
}

// missing returns the partitions of which the cache has no version.
func (c *caching) missing(parts []string) (list []string) {
	for _, part := range parts {
		if !c.cache.has(cacheKey{c.query, part}) {
			list = append(list, part)
		}
	}
	return list
}

// look reads the partitions' versions before the snapshot, and settle reads them in the snapshot.
// If the two versions of a partition differ, DDL has replaced the partition in between.
func (c *caching) look(ctx context.Context, n *node, s *engine.Session, p *plan.Plan, report *Report) (err error) {
	c.before, report.Uncached, err = n.Reader.(engine.PartVersioner).PartVersions(ctx, s, p.Table, state.NotesInto)
	return err
}

// settle finds the versions of sealed periods in the snapshot of a session. A period gets no
// version if DDL has replaced its partition, or if a note says that its rows have changed. When
// maintenance consumes the note, it changes the seal in the same transaction. The seal is a part of
// the version, so the version changes, too.
func (c *caching) settle(ctx context.Context, n *node, s *engine.Session, p *plan.Plan, report *Report) (err error) {
	c.versions = map[string]string{}
	if report.Uncached != "" {
		return nil
	}
	now, why, err := n.Reader.(engine.PartVersioner).PartVersions(ctx, s, p.Table, state.NotesInto)
	if report.Uncached = why; err != nil || why != "" {
		return err
	}
	d := n.Dialect()
	name := func(table string) string { return plan.QuotedName(d, p.Table.Database, table) }
	literal := "'" + strings.ReplaceAll(p.Table.Name, "'", "''") + "'"
	if strings.ContainsAny(p.Table.Name, `\`) {
		report.Uncached = "the table's name has a backslash"
		return nil
	}
	seals := map[string]state.Seal{}
	err = s.Text(ctx, state.SealsQuery(name("rowmill_states"), literal), nil, func(row [][]byte) error {
		seal, err := state.ParseSeal(row)
		seals[seal.Name] = seal
		return err
	})
	var notes [][2]int64
	if err == nil {
		err = s.Text(ctx, "SELECT lower_pos, upper_pos FROM "+name("rowmill_touched")+" WHERE table_name = "+literal, nil, func(row [][]byte) error {
			var note [2]int64
			_, err := fmt.Sscan(string(row[0])+" "+string(row[1]), &note[0], &note[1])
			notes = append(notes, note)
			return err
		})
	}
	if errors.Is(err, engine.ErrNoTable) {
		report.Uncached, err = "rowmill doesn't keep the table", nil
	}
	if err != nil || report.Uncached != "" {
		return err
	}
	for i, part := range p.Table.Parts {
		seal, ok := seals[part.Period]
		switch {
		case !ok || i == 0 || now[part.Name] == "" || now[part.Name] != c.before[part.Name]:
			continue
		case slices.ContainsFunc(notes, func(n [2]int64) bool { return n[0] < seal.To && n[1] >= seal.From }):
			continue
		}
		// A partition takes all rows from the end of the partition before it. If that partition ends
		// before this period begins, this one may have rows from before its period, and isn't cached.
		last := p.Table.Parts[i-1]
		if before, sealed := seals[last.Period]; sealed && before.To != seal.From || !sealed && !last.Outside {
			continue
		}
		c.versions[part.Name] = now[part.Name] + " " + seal.ID
	}
	if len(c.versions) == 0 {
		report.Uncached = "none of its periods is sealed"
	}
	return nil
}

// pieces makes one piece of each cached period, and one of each other sealed period, for at most
// mostFilled of these. It joins all other partitions into larger pieces.
func (c *caching) pieces(p *plan.Plan, sessions int, report *Report) []plan.Piece {
	var cached, single []plan.Piece
	var rest []string
	rowsOf := partRows(p.Table)
	for _, part := range p.Parts {
		key := cacheKey{c.query, part}
		version := c.versions[part]
		switch rows, ok := []byte(nil), false; {
		case version == "":
			rest = append(rest, part)
		default:
			if rows, ok = c.cache.get(key, version); ok {
				c.rows[len(cached)] = rows
				cached = append(cached, plan.Piece{Parts: []string{part}})
			} else if len(single) < mostFilled {
				single = append(single, plan.Piece{Parts: []string{part}, Rows: rowsOf[part]})
			} else {
				rest = append(rest, part)
			}
		}
	}
	report.Cached = len(cached)
	out := append(cached, single...)
	for i := range single {
		c.store[len(cached)+i] = single[i].Parts[0]
	}
	if len(rest) == 0 {
		return out
	}
	if one := joinParts(rowsOf, rest); fewRows([]plan.Piece{one}) {
		return append(out, one)
	}
	return append(out, groupParts(p.Table, rest, sessions)...)
}

// mostFilled is how many periods one query adds to the cache: each is a statement of its own.
const mostFilled = 500

// replay passes the cached rows of a piece to row.
func (c *caching) replay(piece, columns int, row func(values [][]byte) error) error {
	values := make([][]byte, columns)
	for b := c.rows[piece]; len(b) > 0; {
		b = merge.NextRow(b, values)
		if err := row(values); err != nil {
			return err
		}
	}
	return nil
}

// A recording collects the rows of a piece for the cache; nil collects nothing.
type recording struct {
	c    *caching
	part string
	rows []byte
	full bool // the rows are too large for the cache
}

func (c *caching) record(piece int) *recording {
	if c == nil || c.store[piece] == "" {
		return nil
	}
	return &recording{c: c, part: c.store[piece]}
}

func (r *recording) row(values [][]byte) {
	if r == nil || r.full {
		return
	}
	if r.rows = merge.AppendRow(r.rows, values); len(r.rows) > mostPartial {
		r.full, r.rows = true, nil
	}
}

// done adds the rows to the cache.
func (r *recording) done() {
	if r == nil || r.full {
		return
	}
	r.c.cache.put(&cacheEntry{key: cacheKey{r.c.query, r.part}, version: r.c.versions[r.part], rows: slices.Clip(r.rows)})
}
