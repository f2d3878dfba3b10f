package workload

import (
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/internal/workload/sample"
	"github.com/rowmill/rowmill/rolling"
)

// learnt are the descriptions by which the tables of TestLearn are filled.
const learnt = `
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

// What a table was filled with is learned from a sample of its rows, whether they are stored in the
// order of time or not.
func TestLearn(t *testing.T) {
	kinds := []string{"sqlite"}
	if testdb.Nightly() {
		kinds = []string{"sqlite", "mariadb", "mysql", "postgres"}
	}
	const columns = `customer INT NOT NULL, session VARCHAR(30) NOT NULL, state VARCHAR(10) NOT NULL, line BIGINT NOT NULL, gone INT, `
	for _, kind := range kinds {
		for name, x := range map[string]struct{ columns, period string }{
			"in time":     {columns + "at BIGINT NOT NULL PRIMARY KEY", "rows = 1000000"},
			"by customer": {columns + "at DATETIME NOT NULL, PRIMARY KEY (customer, at)", `every = "auto"`},
		} {
			if kind == "sqlite" && name != "in time" { // its rows are in the order of insertion in any case
				continue
			}
			t.Run(kind+", "+name, func(t *testing.T) {
				db, scheme := openOwn(t, kind)
				switch scheme {
				case "sqlite":
					x.columns = strings.Replace(x.columns, "at BIGINT", "at INTEGER", 1)
				case "postgres":
					x.columns = strings.Replace(x.columns, "DATETIME", "TIMESTAMP", 1)
				}
				o := own(t, scheme, x.columns, x.period, learnt)
				ok(t, o.Describe(t.Context(), db, false, false))
				const rows = 150_000
				w := newTestInsert(t, db, InsertOptions{Own: o, Layout: Plain, Rows: rows, Batch: 5000})
				setUp(t, w)
				run(t, w, config(w))
				if _, err := db.Settle(t.Context(), engine.Settle{Tables: w.Tables(), Private: true}); err != nil {
					t.Fatal(err)
				}
				got := own(t, scheme, x.columns, x.period, "")
				learned, err := sample.Learn(t.Context(), got.Declaration, db.(engine.TableSampler), "mine")
				ok(t, err)
				text := got.Values.TOML()
				t.Logf("%d rows of %d on %d pages\n%s", learned.Sampled, learned.Rows, learned.Pages, text)
				near := func(what string, is, want, by float64) {
					if !(is >= want/by && is <= want*by) {
						t.Errorf("%s: %v, want %v", what, is, want)
					}
				}
				near("rows", float64(learned.Rows), rows, 1.3)
				if share := float64(learned.Sampled) / rows; share > 1.2*0.01 {
					t.Errorf("%d rows sampled", learned.Sampled)
				}
				of := func(name string, order rolling.ValueOrder) rolling.ColumnValues {
					if v := got.Values.Of(name); v.Order == order {
						return v
					}
					t.Errorf("column %s isn't %s", name, order)
					return rolling.ColumnValues{Heavy: []float64{0}}
				}
				if name == "by customer" {
					near("rows of a second", got.Values.RowsPerSecond, 1000, 1.3)
				}
				near("customers", float64(of("customer", rolling.OrderRandom).Distinct), 2000, 1.5)
				c := rolling.ColumnValues{New: 0.02, Window: 4000, Length: [2]int{20, 30}}
				if name == "in time" || kind == "postgres" { // by customer, 1% of the pages have too few rows for this
					c = of("session", rolling.OrderRecent)
				}
				near("keys of a window", c.New*float64(c.Window), 80, 1.5)
				near("the window", float64(c.Window), 4000, 4)
				near("the length", float64(c.Length[0]+c.Length[1]), 50, 1.1)
				c = of("state", rolling.OrderRandom)
				near("states", float64(c.Distinct), 2, 1)
				near("the more frequent state", c.Heavy[0], 0.8, 1.1)
				of("line", rolling.OrderAscending)
				c = of("gone", rolling.OrderRandom)
				near("NULLs", c.Null, 0.4, 1.2)
				near("values beside NULL", float64(c.Distinct), 50, 1.5)
				if strings.Contains(text, "canary") {
					t.Errorf("a value of the source:\n%s", text)
				}
			})
		}
	}
}
