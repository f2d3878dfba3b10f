package query

import "slices"

// A class of values, by which the generator chooses functions.
type randomClass int

const (
	intClass randomClass = iota
	decimalClass
	floatClass
	textClass
	timeClass
	otherClass
	classes
)

// A randomTable is a table that the generator reads.
type randomTable struct {
	name, alias string
	columns     [classes][]string
	loose       []string // with values that are equal for the server and have several texts
	key         string   // unique in the table
	// filter leaves out the extremes of values, at which arithmetic fails; without it the columns in
	// wild are loose, too.
	filter string
	wild   []string
	// literals are texts of each class to compare with.
	literals [classes][]string
	// joins are those with other tables.
	joins []randomJoin
	// parts are conditions on the partitioning columns.
	parts []string
	// chosen names some partitions, where FROM can.
	chosen string
}

type randomJoin struct {
	name  string // the table with its alias
	on    string // the condition; or USING with columns; "" for NATURAL
	table *randomTable
}

var (
	someNumbers  = []string{"0", "1", "2", "3", "5", "7", "10", "-1", "-20", "50", "99", "1000"}
	someDecimals = []string{"0", "0.5", "-0.25", "10.00", "123.456", "-999.99", "1e3", "0.000001"}
	someTexts    = []string{"'abc'", "'a'", "''", "'0123'", "'123'", "'beta'", "'x'", "'ü'", "'a '", "'t1'", "'E'"}
	someTimes    = []string{"'2024-01-01'", "'2024-02-29'", "'2024-06-01 00:00:00'", "'2023-12-05 10:30:00'", "'2024-10-15'", "'2025-05-05'"}
)

func literals() [classes][]string {
	return [classes][]string{intClass: someNumbers, decimalClass: someDecimals, floatClass: someDecimals, textClass: someTexts, timeClass: someTimes}
}

// randomTables returns the partitioned tables of a kind of server, some of them several times.
func randomTables(kind string) []*randomTable {
	hosts := &randomTable{alias: "h", key: "id", literals: literals(), columns: [classes][]string{intClass: {"id"}, decimalClass: {"weight"}, textClass: {"name", "rack"}, timeClass: {"since"}}}
	customers := &randomTable{alias: "c", key: "id", literals: literals(), columns: [classes][]string{intClass: {"id"}, decimalClass: {"credit"}, textClass: {"name", "segment"}}}
	plain := &randomTable{alias: "p", key: "id", literals: literals(), columns: [classes][]string{intClass: {"id", "k", "host_id"}, decimalClass: {"d"}, textClass: {"v"}, timeClass: {"day"}}}
	orders := &randomTable{
		name: "orders", alias: "o", key: "id", literals: literals(),
		columns: [classes][]string{intClass: {"id", "customer_id", "qty"}, decimalClass: {"amount", "tax"}, textClass: {"status"}, timeClass: {"placed"}},
		joins: []randomJoin{
			{"customers c", "c.id = o.customer_id", customers}, {"plain p", "p.id = o.id", plain}, {"hosts h", "h.id = o.qty", hosts}, {"customers c", "c.id = o.customer_id", customers}, {"plain p", "USING (id)", plain}, {"plain p", "", plain},
		},
		parts: []string{"o.id < 100", "o.id IN (1, 7, 13, 300)", "o.id = 77", "o.id BETWEEN 50 AND 250"},
	}
	inner := *orders
	inner.joins = nil
	// Some of them have values of events, so that texts are joined by their collations.
	words := &randomTable{
		name: "words", alias: "w", key: "id", literals: literals(),
		columns: [classes][]string{intClass: {"id", "x"}, textClass: {"ci", "pad"}},
		parts:   []string{"w.id < 45", "w.id IN (3, 33, 63)"},
		loose:   []string{"ci"},
		joins:   []randomJoin{{"plain p", "USING (id)", plain}, {"hosts h", "h.id = w.x", hosts}},
	}
	events := &randomTable{
		name: "events", alias: "e", key: "id", filter: "e" + extremes, literals: literals(),
		columns: [classes][]string{
			intClass: {"id", "host_id", "i", "si", "b", "host_id", "i"}, decimalClass: {"d", "d0", "d65", "d"}, floatClass: {"f", "g"},
			textClass: {"v", "vb", "c", "tx"}, timeClass: {"at", "day", "ts"}, otherClass: {"en", "bl"},
		},
		joins: []randomJoin{
			{"hosts h", "h.id = e.host_id", hosts}, {"plain p", "p.id = e.id", plain}, {"orders o", "o.id = e.id", &inner}, {"plain p", "p.host_id = e.host_id AND p.k = 1", plain},
			{"hosts h", "h.id = e.host_id", hosts}, {"plain p", "USING (id, host_id)", plain}, {"hosts h", "USING (id)", hosts},
		},
		parts: []string{
			"e.at >= '2024-04-10' AND e.at < '2024-08-05'", "e.at < '2024-02-01'", "e.at BETWEEN '2024-02-29 23:59:59' AND '2024-06-01'", "e.at >= '2024-12-01'",
			"(e.at < '2023-12-01' OR e.at > '2024-11-15')", "e.at >= '2024-09-01' AND e.at < '2024-10-01'", "e.at = '2024-06-01'",
		},
		wild: []string{"v", "vb", "c", "tx", "l", "vi", "f", "g", "en", "bl", "st", "vbin", "bin4", "dur", "js", "n", "bt", "bo"},
	}
	visits := &randomTable{
		name: "visits", alias: "v", key: "id", literals: literals(),
		columns: [classes][]string{intClass: {"id", "region", "ms"}, decimalClass: {"price"}, textClass: {"page"}, timeClass: {"at"}},
		joins:   []randomJoin{{"hosts h", "h.id = v.region", hosts}, {"plain p", "p.id = v.id", plain}, {"plain p", "", plain}},
		parts:   []string{"v.region IN (1, 4, 7)", "v.region IS NULL", "v.region > 2", "(v.region = 5 OR v.region IS NULL)", "v.region NOT IN (1, 2)", "v.region = 99"},
	}
	metrics := &randomTable{
		name: "metrics", alias: "m", key: "seq", literals: literals(),
		columns: [classes][]string{intClass: {"seq", "cnt"}, decimalClass: {"value"}, textClass: {"host", "metric", "note"}, timeClass: {"day"}},
		joins:   []randomJoin{{"hosts h", "h.id = m.cnt % 11", hosts}, {"plain p", "USING (day)", plain}},
		parts:   []string{"m.day BETWEEN '2024-01-05' AND '2024-01-20'", "m.day = '2024-01-20' AND m.host < 'h5'", "m.host IN ('h1', 'h7')", "m.day > '2024-02-05'"},
	}
	logs := &randomTable{
		name: "logs", alias: "l", key: "id", literals: literals(),
		columns: [classes][]string{intClass: {"id", "level", "bytes"}, textClass: {"msg"}, timeClass: {"at"}},
		joins:   []randomJoin{{"hosts h", "h.id = l.level", hosts}, {"hosts h", "", hosts}},
		parts:   []string{"l.at >= '2023-01-01' AND l.at < '2024-01-01'", "l.at < '2022-06-01'", "l.id = 77"},
	}
	near := &randomTable{
		name: "near", alias: "n", key: "id", literals: literals(),
		columns: [classes][]string{intClass: {"id", "k", "i"}, decimalClass: {"d"}, floatClass: {"g"}},
		joins:   []randomJoin{{"plain p", "USING (id, k)", plain}},
		parts:   []string{"n.id = 7", "n.id IN (1, 2, 3)"},
	}
	nulls := &randomTable{
		name: "nulls", alias: "u", key: "id", literals: literals(),
		columns: [classes][]string{intClass: {"id", "i"}, decimalClass: {"d"}, floatClass: {"g"}, textClass: {"v"}, timeClass: {"day"}},
		parts:   []string{"u.id < 15"},
	}
	empties := *nulls
	empties.name = "empties"
	users := &randomTable{
		name: "users", alias: "s", key: "login", literals: literals(),
		columns: [classes][]string{intClass: {"score"}, textClass: {"login"}, timeClass: {"born"}},
		parts:   []string{"s.login = 'user7'", "s.login > 'user5'"},
	}
	sales := &randomTable{
		name: "sales", alias: "a", key: "id", literals: literals(),
		columns: [classes][]string{intClass: {"id", "units"}, decimalClass: {"revenue"}, textClass: {"country"}},
		joins:   []randomJoin{{"hosts h", "USING (id)", hosts}, {"plain p", "p.k = a.units", plain}},
		parts:   []string{"a.country IN ('de', 'IN')", "a.country = 'us'", "a.country <> 'fr'"},
	}
	if kind == "postgres" {
		events.columns[otherClass] = append(events.columns[otherClass], "u", "bt", "ip", "bo", "dur", "js", "ar")
		events.columns[textClass] = append(events.columns[textClass], "vi")
		events.columns[decimalClass] = append(events.columns[decimalClass], "n")
		events.loose = []string{"vi", "n"}
		words.columns[textClass] = append(words.columns[textClass], "vb", "icu")
		events.joins = append(events.joins, randomJoin{"words w", "w.ci = e.vi AND w.id < 30", words})
	} else {
		events.columns[otherClass] = append(events.columns[otherClass], "st", "bt", "vbin", "bin4", "dur", "y", "bo")
		events.columns[intClass] = append(events.columns[intClass], "ti", "tu", "mi", "iu", "bu")
		events.columns[textClass] = append(events.columns[textClass], "l")
		events.chosen = "PARTITION (p01, p05, p12)"
		visits.loose = []string{"page"}
		metrics.loose = []string{"note"} // sorted by the beginning only
		visits.chosen = "PARTITION (south)"
		orders.chosen = "PARTITION (p1, p4)"
		words.columns[textClass] = append(words.columns[textClass], "uni", "nopad", "l1", "asc_")
		words.loose = append(words.loose, "pad", "uni", "nopad", "l1", "asc_")
		words.columns[otherClass] = []string{"bytes"}
		events.joins = append(events.joins, randomJoin{"words w", "w.ci = e.v AND w.id < 30", words})
	}
	visits.joins = append(visits.joins, randomJoin{"words w", "w.ci = v.page AND w.id < 30", words})
	return []*randomTable{events, events, events, events, orders, orders, visits, visits, metrics, logs, words, near, nulls, &empties, users, sales}
}

// isLoose reports whether a column has values that are equal and have several texts.
func (t *randomTable) isLoose(column string, filtered bool) bool {
	return slices.Contains(t.loose, column) || !filtered && slices.Contains(t.wild, column)
}
