package workload

import (
	"database/sql"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// What a table was filled with is learned from a sample of its rows.
func TestLearn(t *testing.T) {
	kinds := stores
	if testdb.Nightly() {
		kinds = []string{"sqlite", "mariadb", "mysql", "postgres"}
	}
	const columns = `id BIGINT NOT NULL PRIMARY KEY, at BIGINT NOT NULL, customer INT NOT NULL, session VARCHAR(30) NOT NULL, state VARCHAR(10) NOT NULL, line BIGINT NOT NULL, gone INT`
	const values = `
[values.customer]
distinct = 2000
[values.session]
order = "recent"
new = 0.02
window = 4000
length = [20, 30]
[values.state]
words = ["canary-new", "canary-out"]
heavy = [0.8]
[values.line]
order = "ascending"
[values.gone]
null = 0.4
distinct = 50
`
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			db, scheme := openOwn(t, kind)
			rolls := strings.NewReplacer("id BIGINT NOT NULL PRIMARY KEY, at BIGINT NOT NULL", "id INTEGER NOT NULL, at BIGINT NOT NULL PRIMARY KEY")
			if scheme == "sqlite" {
				rolls = strings.NewReplacer("id BIGINT NOT NULL PRIMARY KEY, at BIGINT NOT NULL", "id INTEGER NOT NULL, at INTEGER NOT NULL PRIMARY KEY")
			}
			o := own(t, scheme, rolls.Replace(columns), "rows = 1000000", values)
			ok(t, o.Describe(t.Context(), db, false, false))
			const rows = 150_000
			w := newTestInsert(t, db, InsertOptions{Own: o, Layout: Plain, Rows: rows, Batch: 5000})
			setUp(t, w)
			run(t, w, config(w))
			if _, err := db.Settle(t.Context(), engine.Settle{Tables: w.Tables(), Private: true}); err != nil {
				t.Fatal(err)
			}
			got := own(t, scheme, rolls.Replace(columns), "rows = 1000000", "")
			learned, err := got.Learn(t.Context(), db.(engine.Profiler), "mine")
			ok(t, err)
			text := got.Values.TOML()
			t.Logf("%+v\n%s", learned, text)
			if share := float64(learned.Sampled) / rows; share > 1.5*sampleLimit || math.Abs(float64(learned.Rows)/rows-1) > 0.25 {
				t.Errorf("%+v of %d rows", learned, rows)
			}
			of := func(name string) rolling.ColumnValues {
				if v := got.described(name); v != nil {
					return *v
				}
				t.Errorf("nothing of column %s", name)
				return rolling.ColumnValues{}
			}
			near := func(what string, is, want, by float64) {
				if !(is >= want/by && is <= want*by) {
					t.Errorf("%s is %v, want %v", what, is, want)
				}
			}
			if c := of("customer"); c.Order != rolling.OrderRandom {
				t.Errorf("%+v", c)
			} else {
				near("the customers", float64(c.Distinct), 2000, 2)
			}
			if c := of("session"); c.Order != rolling.OrderRecent {
				t.Errorf("%+v", c)
			} else {
				near("the keys of a window", c.New*float64(c.Window), 80, 3)
				near("the window", float64(c.Window), 4000, 6)
				near("the length", float64(c.Length[0]+c.Length[1]), 50, 1.1)
			}
			if c := of("state"); c.Distinct != 2 || len(c.Heavy) == 0 {
				t.Errorf("%+v", c)
			} else {
				near("the more frequent state", c.Heavy[0], 0.8, 1.1)
			}
			if c := of("line"); c.Order != rolling.OrderAscending {
				t.Errorf("%+v", c)
			}
			near("NULLs", of("gone").Null, 0.4, 1.2)
			near("values beside NULL", float64(of("gone").Distinct), 50, 1.5)
			if strings.Contains(text, "canary") {
				t.Errorf("a value of the source:\n%s", text)
			}
		})
	}
}

// Statistics of the distances tell orders apart, also without a server.
func TestLearnOrders(t *testing.T) {
	const rows = 100_000
	s := newStream(1, 0)
	for name, x := range map[string]struct {
		from source
		want rolling.ValueOrder
	}{
		"counter":  {sequenced{share: 1}, rolling.OrderAscending},
		"late":     {sequenced{share: 1, last: 500}, rolling.OrderAscending},
		"sessions": {mixed{sequenced{share: 0.05, last: 100}}, rolling.OrderRecent},
		"even":     {must(newRanked(5000, nil, 0, 1)), rolling.OrderRandom},
		"skewed":   {mixed{must(newRanked(5000, nil, 1, 1))}, rolling.OrderRandom},
		"unique":   {mixed{sequenced{share: 1}}, rolling.OrderRandom},
	} {
		t.Run(name, func(t *testing.T) {
			o := own(t, "sqlite", "at INTEGER NOT NULL PRIMARY KEY, x BIGINT NOT NULL", "rows = 1000", "")
			by := &learner{column: &engine.SchemaColumn{Name: "at"}}
			c := &learner{column: &engine.SchemaColumn{Name: "x"}}
			by.column.Kind, c.column.Kind = 1, 1
			d, seen := draws(7), map[int64]bool{}
			for range 30 { // pages of 100 rows
				first := d.below(rows - 100)
				for seq := first; seq < first+100; seq++ {
					if seen[seq] {
						continue
					}
					seen[seq] = true
					by.add(text(seq))
					c.add(text(int64(x.from.number(seq, mix(uint64(s.row(seq))+golden)) & math.MaxInt64)))
				}
			}
			l := &learning{own: o, profile: &engine.Profile{Rows: rows}, order: make([]int, len(by.hashes)), axis: rolling.Sequence}
			l.place(by)
			if v := l.learn(c); v.Order != x.want {
				t.Errorf("%+v", v)
			} else {
				t.Logf("%+v", v)
			}
		})
	}
}

func text(n int64) sql.NullString {
	return sql.NullString{String: strconv.FormatInt(n, 10), Valid: true}
}

// mixed spreads numbers over all.
type mixed struct{ source }

func (m mixed) number(seq int64, u uint64) uint64 { return mix(m.source.number(seq, u)) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Sprint(err))
	}
	return v
}
