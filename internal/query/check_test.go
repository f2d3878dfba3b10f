package query

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/plan"
	"github.com/rowmill/rowmill/internal/sqltext"
)

// TestCompared compares answers that differ in every way.
func TestCompared(t *testing.T) {
	const whole = "1 a 2.50\n2 b NULL\n3 c 1.00\n3 c 1.00\n"
	ints := []engine.ResultColumn{{Name: "id", Class: engine.ClassInt}, {Name: "name", Class: engine.ClassText}, {Name: "v", Class: engine.ClassDecimal, Scale: 2}}
	for name, c := range map[string]struct {
		split string
		cols  []engine.ResultColumn
		order []int
		want  []string
		other bool // rows in another order
	}{
		"the same":               {split: whole},
		"another order":          {split: "3 c 1.00\n2 b NULL\n1 a 2.50\n3 c 1.00\n", other: true},
		"an order that is asked": {split: "1 a 2.50\n3 c 1.00\n2 b NULL\n3 c 1.00\n", order: []int{0}, other: true, want: []string{`row 2, column id, in the order: whole "2", split "3"`, `row 3, column id, in the order: whole "3", split "2"`}},
		"one value":              {split: "1 a 2.5\n2 b NULL\n3 c 1.00\n3 c 1.00\n", want: []string{`row 1, column v: whole "2.50", split "2.5"`}},
		"NULL and empty":         {split: "1 a 2.50\n2 b \n3 c 1.00\n3 c 1.00\n", want: []string{`row 2, column v: whole NULL, split ""`}},
		"a value in any order":   {split: "3 c 1.00\n2 B NULL\n1 a 2.50\n3 c 1.00\n", order: []int{0}, other: true, want: []string{`row 2, column name: whole "b", split "B"`}},
		"a missing row":          {split: "1 a 2.50\n2 b NULL\n3 c 1.00\n", want: []string{`row 4: only in the whole answer: "3, c, 1.00"`}},
		"a row too much":         {split: whole + "4 d NULL\n", want: []string{`row 5: only in the split answer: "4, d, NULL"`}},
		"a row twice":            {split: "1 a 2.50\n1 a 2.50\n2 b NULL\n3 c 1.00\n", other: true, want: []string{`row 4, column id: whole "3", split "1"`, `row 4, column name: whole "c", split "a"`, `row 4, column v: whole "1.00", split "2.50"`}},
		"no row":                 {split: "", want: []string{`row 1: only in the whole answer: "1, a, 2.50"`, `row 2: only in the whole answer: "2, b, NULL"`, `row 3: only in the whole answer: "3, c, 1.00"`, `row 4: only in the whole answer: "3, c, 1.00"`}},
		"a type": {split: whole, cols: []engine.ResultColumn{ints[0], {Name: "Name", Class: engine.ClassText}, {Name: "v", Class: engine.ClassDecimal, Scale: 3}}, want: []string{
			`column 2: whole "name  scale 0 unsigned false", split "Name  scale 0 unsigned false"`, `column 3: whole "v  scale 2 unsigned false", split "v  scale 3 unsigned false"`}},
		"fewer columns": {cols: ints[:2], want: []string{`column 3: whole "v  scale 2 unsigned false", split NULL`}},
	} {
		t.Run(name, func(t *testing.T) {
			k := &kept{most: 1 << 20}
			feed(t, k, ints, whole)
			checked := &Checked{Plan: &plan.Plan{Statement: plan.Statement{Columns: ints}}, Report: &Report{}}
			got := &compared{whole: k, checked: checked, order: c.order, left: map[uint64][]int{}}
			cols := c.cols
			if cols == nil {
				cols = ints
			}
			checked.Stopped = feed(t, got, cols, c.split)
			got.finish()
			var texts []string
			for _, d := range checked.Differences {
				texts = append(texts, d.text())
			}
			if d := cmp.Diff(c.want, texts); d != "" {
				t.Errorf("the differences differ (-want +got):\n%s", d)
			}
			if checked.Reordered != c.other {
				t.Errorf("reordered: %v, want %v", checked.Reordered, c.other)
			}
			var out strings.Builder
			if err := checked.Text(&out); err != nil || strings.HasPrefix(out.String(), "the same: ") != (c.want == nil) {
				t.Errorf("%v: %s", err, out.String())
			}
		})
	}
}

// feed passes rows to a sink, values with blanks between them, and reports whether it has stopped
// the comparison.
func feed(t *testing.T, s Sink, cols []engine.ResultColumn, rows string) (stopped bool) {
	t.Helper()
	err := s.Columns(cols)
	for line := range strings.Lines(rows) {
		if err != nil {
			break
		}
		var values [][]byte
		for _, v := range strings.Split(strings.TrimSuffix(line, "\n"), " ") {
			if v == "NULL" {
				values = append(values, nil)
			} else {
				values = append(values, []byte(v))
			}
		}
		err = s.Row(values)
	}
	if err != nil && !errors.Is(err, errStopComparing) {
		t.Fatal(err)
	}
	return err != nil
}

// TestKeptIsBounded checks that an answer that is too large to compare is an error.
func TestKeptIsBounded(t *testing.T) {
	k := &kept{most: 1000}
	var err error
	for n := 0; err == nil && n < 1000; n++ {
		err = k.Row([][]byte{[]byte("0123456789")})
	}
	if err == nil || k.size > 1100 {
		t.Errorf("%d bytes were kept: %v", k.size, err)
	}
}

func TestOrderColumns(t *testing.T) {
	cols := []engine.ResultColumn{{Name: "a", Class: engine.ClassInt}, {Name: "B", Class: engine.ClassDecimal}, {Name: "t", Class: engine.ClassText}, {Name: "a2", Class: engine.ClassInt}, {Name: "A2", Class: engine.ClassInt}}
	for q, want := range map[string][]int{
		"SELECT 1 FROM x":                           nil,
		"SELECT 1 FROM x ORDER BY a, b DESC":        {0, 1},
		"SELECT 1 FROM x ORDER BY 2, 1":             {1, 0},
		"SELECT 1 FROM x ORDER BY b, t, a":          {1},
		"SELECT 1 FROM x ORDER BY a + 1, b":         nil,
		"SELECT 1 FROM x ORDER BY a2":               nil,
		"SELECT 1 FROM x ORDER BY 9":                nil,
		"SELECT 1 FROM x UNION SELECT 2 ORDER BY a": {0},
		"not a query":                               nil,
		"SELECT 1 FROM x ORDER BY x.a LIMIT 3":      nil,
		"SELECT 1 FROM x ORDER BY (b) LIMIT 3":      {1},
	} {
		got, more := orderColumns(q, sqltext.Syntax{}, cols)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: (-want +got)\n%s", q, d)
		}
		if all := len(got) == strings.Count(q[strings.Index(q, "BY")+1:], ",")+1 || !strings.Contains(q, "ORDER"); more == all && q != "not a query" {
			t.Errorf("%s: it has more to sort by: %v", q, more)
		}
	}
}

func TestStatementsThatRead(t *testing.T) {
	for q, want := range map[string]string{
		"SELECT 1": "", "(SELECT 1) UNION SELECT 2": "", "with a as (select 1) select * from a": "", "VALUES (1)": "", "show tables": "", "DESC t": "", "EXPLAIN SELECT 1": "",
		"SELECT 'INTO', (SELECT 1) FROM `into`": "", "WITH a AS (SELECT 1) SELECT * FROM a FOR UPDATE": "",
		"INSERT INTO t VALUES (1)": "not a query", "((UPDATE t SET a = 1))": "not a query", "": "not a query", "1": "not a query", "SET a = 1": "not a query", "CALL p()": "not a query",
		"SELECT 1 INTO OUTFILE 'x'": "INTO stores", "WITH a AS (SELECT 1) SELECT 1 INTO b": "INTO stores", "WITH a AS (SELECT 1), b AS (SELECT 2) UPDATE t SET a = 1": "main statement is UPDATE",
		"/*! DELETE FROM t */": "not a query", "WITH a AS (INSERT INTO t VALUES (1) RETURNING *) SELECT * FROM a": "", // the transaction refuses it
	} {
		err := checkReads(q, sqltext.Syntax{Backquoted: true, ExecutableComments: true})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", q, err, want)
		}
	}
}

// TestSortsAlike compares values of an order: what is equal to the server may have several texts,
// and come in any order.
func TestSortsAlike(t *testing.T) {
	for _, c := range []struct {
		class engine.ResultClass
		a, b  string
		want  bool
	}{
		{engine.ClassDecimal, "-16090.0000000000000000", "-16090.000000000000", true},
		{engine.ClassDecimal, "10.0", "100.0", false},
		{engine.ClassDecimal, "10", "100", false},
		{engine.ClassDecimal, "1.50", "1.5", true},
		{engine.ClassDecimal, "0", "0.000", true},
		{engine.ClassDecimal, "10", "1", false},
		{engine.ClassFloat, "-0", "0", true},
		{engine.ClassFloat, "0.0", "-0.0", true},
		{engine.ClassFloat, "-1.5", "1.5", false},
		{engine.ClassInt, "10", "1", false},
		{engine.ClassTime, "2026-01-01 00:00:00.10", "2026-01-01 00:00:00.1", false},
	} {
		if got := sortsAlike(engine.ResultColumn{Class: c.class}, []byte(c.a), []byte(c.b)); got != c.want {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
	if c := (engine.ResultColumn{Class: engine.ClassDecimal}); sortsAlike(c, nil, []byte("0")) || !sortsAlike(c, nil, nil) {
		t.Error("NULL")
	}
}
