package adopt

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
	"golang.org/x/sys/unix"
)

// maxPeriods limits the number of periods that an adoption creates: each is a
// file, and takes memory in every connection that opens the table.
const maxPeriods = 4000

// A checker finds what prevents an adoption.
type checker struct{ *job }

func (j *job) checker() checker { return checker{j} }

// check determines, before anything is changed, whether the table can be adopted, and collects the
// data that the steps need. If the table's definition has several obstacles, the error names all.
func (j checker) check(ctx context.Context) (*data, error) {
	s, t := j.Schema, j.Table
	fail := func(err error) error { return fmt.Errorf("adopt %s: %w", t.Name, err) }
	if s == nil {
		return nil, fail(engine.Classed(engine.ErrNoTable, errors.New("no such table")))
	}
	if s.View || s.Partitioned {
		return nil, fail(engine.Hinted(errors.New("it is not a plain table"), "a table without partitions"))
	}
	_, _, err := j.forward().lacking(ctx, false)
	if err := errors.Join(append(j.checkSchema(), err)...); err != nil {
		return nil, fail(err)
	}
	d := &data{Columns: s.Columns, Key: pick(s, s.PrimaryKey), NewKey: pick(s, t.PrimaryKey)}
	if err := j.checkKeys(ctx, j.DB.SQL(), d.Key, t.Name); err != nil {
		return nil, fail(err)
	}
	rows, outside, n, err := j.checkRows(ctx, d.Key, t.Grid.Bounds())
	if err != nil {
		return nil, fail(err)
	}
	if n > 0 {
		return nil, fail(engine.Hinted(fmt.Errorf("%s a %s that no period can hold", figure.Plural(n, "row has", "rows have"), t.By), "SELECT * FROM %s WHERE %s", j.quote(t.Name), outside))
	}
	d.extent = rows
	if _, err := j.periods(ctx, rows); err != nil {
		return nil, fail(j.strays(ctx, d.Key, rows, err))
	}
	if err := j.checkRoom(ctx, "the rolling table", "the plain one"); err != nil {
		return nil, fail(err)
	}
	return d, nil
}

func pick(s *engine.Schema, names []string) []engine.SchemaColumn {
	var out []engine.SchemaColumn
	for _, n := range names {
		if c := s.Find(n); c != nil {
			out = append(out, *c)
		}
	}
	return out
}

func (j checker) checkSchema() (errs []error) {
	s, t, d := j.Schema, j.Table, j.Declared.Definition
	add := func(hint, format string, args ...any) {
		errs = append(errs, engine.Hinted(fmt.Errorf(format, args...), "%s", hint))
	}
	if n := len(newName(t.Name)) + len("_p20061231_235959"); n > 63 {
		add("a table with a shorter name", "the names of its auxiliary tables would have %d characters, and servers allow 63", n)
	}
	if len(s.PrimaryKey) == 0 {
		add("ALTER TABLE ... ADD PRIMARY KEY", "it has no primary key, and rows are copied in the order of its values")
	}
	if added, err := AddedColumns(s, d); err != nil {
		errs = append(errs, err)
	} else if len(added) > 0 {
		add("adopt it with the columns that it has; rowmill apply adds others afterwards", "column %s is in the declaration only", added[0].Name)
	}
	for i := range d.Columns {
		c, have := &d.Columns[i], s.Find(d.Columns[i].Name)
		switch {
		case have == nil:
		case have.Null && c.NotNull && !within([]string{c.Name}, t.PrimaryKey):
			add("declare it as it is", "column %s may be NULL in the table and not in the declaration", c.Name)
		case c.Generated != have.Generated:
			add("the same columns in both", "column %s is generated in only one of the two", c.Name)
		case have.Auto && !c.Auto && !strings.Contains(strings.ToLower(c.Text), "nextval") && !j.DB.Capabilities().AutoWholeKey:
			add(c.Text+" AUTO_INCREMENT, or what the server calls it", "column %s gets its values from the server in the table, and not in the declaration", c.Name)
		}
	}
	if !slices.ContainsFunc(t.PrimaryKey, func(c string) bool { return strings.EqualFold(c, t.By) }) {
		add("add it to the primary key", "the primary key of the declaration lacks %s, by which the table rolls", t.By)
	}
	// Rows that are distinct in the plain table must be so in the rolling one.
	unique := append(slices.Clone(s.Unique), s.PrimaryKey)
	for _, key := range append(slices.Clone(d.Unique), t.PrimaryKey) {
		if !slices.ContainsFunc(unique, func(u []string) bool { return len(u) > 0 && within(u, key) }) {
			add("add the columns of the present primary key to it", "key (%s) of the declaration: rows of the table may share it", strings.Join(key, ", "))
		}
	}
	return errs
}

// Lost returns the keys of a plain table that would not be unique in the rolling table t of
// definition d, e.g. "PRIMARY KEY (id)", because each period checks only its own rows. A key that
// contains all columns of a unique key of the definition remains unique.
func Lost(s *engine.Schema, t *engine.Table, d *rolling.Definition) []string {
	kept := append(slices.Clone(d.Unique), t.PrimaryKey)
	stays := func(key []string) bool {
		return slices.ContainsFunc(kept, func(k []string) bool { return len(k) > 0 && within(k, key) })
	}
	var out []string
	if len(s.PrimaryKey) > 0 && !stays(s.PrimaryKey) {
		out = append(out, "PRIMARY KEY ("+strings.Join(s.PrimaryKey, ", ")+")")
	}
	for _, key := range s.Unique {
		if !stays(key) {
			out = append(out, "UNIQUE ("+strings.Join(key, ", ")+")")
		}
	}
	for _, name := range s.UniqueOther {
		out = append(out, "unique index "+name)
	}
	return out
}

// MayDuplicate refuses an adoption that loses unique keys, unless o permits it.
func MayDuplicate(o Options) error {
	if o.AllowDuplicates || o.Schema == nil {
		return nil
	}
	lost := Lost(o.Schema, o.Table, o.Declared.Definition)
	if len(lost) == 0 {
		return nil
	}
	return engine.Hinted(fmt.Errorf("adopt %s: no longer unique afterwards: %s; each period checks its own rows only", o.Table.Name, strings.Join(lost, ", ")),
		"--allow-duplicates, if the programs that write keep these values distinct")
}

// within reports whether all elements of a are in b.
func within(a, b []string) bool {
	for _, x := range a {
		if !slices.ContainsFunc(b, func(y string) bool { return strings.EqualFold(x, y) }) {
			return false
		}
	}
	return true
}

// checkKeys reports rows with NULL in a column of the primary key, which SQLite permits. No chunk
// would contain these rows, and their changes could not be applied.
func (j checker) checkKeys(ctx context.Context, x state.Exec, key []engine.SchemaColumn, table string) error {
	var parts []string
	for _, c := range key {
		if c.Null {
			parts = append(parts, j.quote(c.Name)+" IS NULL")
		}
	}
	if len(parts) == 0 {
		return nil
	}
	where := strings.Join(parts, " OR ")
	var n int64
	if err := x.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+j.quote(table)+" WHERE "+where).Scan(&n); err != nil {
		return fmt.Errorf("look for rows without a key: %w", j.DB.Classify(err))
	}
	if n > 0 {
		return engine.Hinted(fmt.Errorf("%s NULL in a column of the primary key, which identifies rows", figure.Plural(n, "row has", "rows have")), "SELECT rowid, * FROM %s WHERE %s", j.quote(table), where)
	}
	return nil
}

// An extent describes the existing rows along the axis.
type extent struct {
	Of          int64 // the approximate number of rows
	First, Last int64 // positions, if there are rows
}

// checkRows returns the extent of the rows within a part of the axis, a condition for the rows
// outside of that part, and how many such rows there are. It reads the table along its primary key,
// chunk by chunk: during one long statement, the server would keep the old versions of all changed
// rows.
func (j checker) checkRows(ctx context.Context, key []engine.SchemaColumn, in rolling.Period) (e extent, outside string, n int64, err error) {
	t, by, from := j.Table, j.quote(j.Table.By), j.quote(j.Table.Name)
	outside = by + " < " + j.DB.Words().Literal(t, in.From)
	if in.To < t.Grid.Bounds().To {
		outside += " OR " + by + " >= " + j.DB.Words().Literal(t, in.To)
	}
	if no := j.forward().sql.NoPosition(); no != "" && t.Grid.Axis() == rolling.Time {
		outside += " OR " + no
	}
	inside := "CASE WHEN " + outside + " THEN NULL ELSE " + by + " END"
	look := fmt.Sprintf("SELECT COUNT(*), COALESCE(SUM(CASE WHEN %s IS NULL THEN 1 ELSE 0 END), 0), COALESCE(SUM(CASE WHEN %s THEN 1 ELSE 0 END), 0), %s, %s FROM %s WHERE ",
		by, outside, j.DB.Words().Position(t, "MIN("+inside+")"), j.DB.Words().Position(t, "MAX("+inside+")"), from)
	keys, err := engine.NewKeys(j.DB, key)
	if err != nil {
		return e, outside, n, err
	}
	until, err := keys.Last(ctx, j.DB.SQL(), from, "")
	if err != nil {
		return e, outside, n, err
	}
	var nulls int64
	var lo, hi sql.NullInt64
	var last []string
	for size := firstCheck; ; {
		began, after := time.Now(), last
		if last, err = keys.Nth(ctx, j.DB.SQL(), from, "", after, until, size); err != nil {
			return e, outside, n, err
		}
		if last == nil {
			break
		}
		where, args, err := keys.Range(after, last)
		if err != nil {
			return e, outside, n, err
		}
		var rows, noTime, beyond int64
		var first, end sql.NullInt64
		if err := j.DB.SQL().QueryRowContext(ctx, j.DB.Bind(look+where), args...).Scan(&rows, &noTime, &beyond, &first, &end); err != nil {
			return e, outside, n, fmt.Errorf("count rows, and those outside of every period: %w", j.DB.Classify(err))
		}
		e.Of, nulls, n = e.Of+rows-beyond, nulls+noTime, n+beyond
		if first.Valid && (!lo.Valid || first.Int64 < lo.Int64) {
			lo = first
		}
		if end.Valid && (!hi.Valid || end.Int64 > hi.Int64) {
			hi = end
		}
		size = checkSize(size, time.Since(began))
		if j.Progress != nil {
			j.Progress(Progress{Step: stepCheck, Rows: e.Of + n})
		}
	}
	if nulls > 0 {
		return e, outside, n, engine.Hinted(fmt.Errorf("%s no %s, by which the table rolls", figure.Plural(nulls, "row has", "rows have"), t.By), "UPDATE %s SET %s = ... WHERE %s IS NULL", t.Name, t.By, t.By)
	}
	if e.Of == 0 {
		return e, outside, n, nil
	}
	if !lo.Valid || !hi.Valid {
		return e, outside, n, fmt.Errorf("column %s holds values that are not positions of a period", t.By)
	}
	e.First, e.Last = lo.Int64, hi.Int64
	return e, outside, n, nil
}

// strays adds to the error tooMany which rows lie outside of the newest mostPeriods periods. A few
// rows, e.g. with wrong years, may be the cause of too many periods.
func (j checker) strays(ctx context.Context, key []engine.SchemaColumn, all extent, tooMany error) error {
	now, err := j.now(ctx, all)
	if err != nil {
		return err
	}
	end, err := j.end(now)
	if err != nil {
		return err
	}
	newest := rolling.Period{From: end, To: end}
	for range j.mostPeriods() {
		p, err := j.Table.Grid.At(newest.From - 1)
		if err != nil {
			break
		}
		newest.From = p.From
	}
	others, outside, n, err := j.checkRows(ctx, key, newest)
	if err != nil || n == 0 {
		return errors.Join(tooMany, err)
	}
	format := j.Table.Grid.Format
	text := fmt.Sprintf("rows before %s or from %s on: %s of %s", format(newest.From), format(newest.To), figure.Count(n), figure.Count(all.Of))
	if others.Of > 0 {
		text += fmt.Sprintf("; the others are from %s to %s", format(others.First), format(others.Last))
	}
	return engine.Hinted(fmt.Errorf("%w; %s", tooMany, text), "SELECT * FROM %s WHERE %s", j.quote(j.Table.Name), outside)
}

// checkRoom returns an error if the disk is known to have no room for both tables.
func (j checker) checkRoom(ctx context.Context, made, there string) error {
	size, err := j.DB.Catalog().Sizes(ctx, &engine.Table{Name: j.Table.Name})
	if err != nil {
		return fmt.Errorf("measure the table: %w", err)
	}
	dir, need := j.DB.Info().DataDir, size.Data+size.Index
	var s unix.Statfs_t
	if dir == "" || unix.Statfs(dir, &s) != nil { // the server is on another machine
		return nil
	}
	if free := int64(s.Bavail) * int64(s.Bsize); free < need+need/5 {
		return engine.Hinted(fmt.Errorf("%s needs about %s beside %s, and %s are free in %s", made, figure.Bytes(need), there, figure.Bytes(free), dir),
			"a larger disk, or delete old rows first")
	}
	return nil
}

// checkNew compares the plain table's columns with those of the new rolling table.
func (j checker) checkNew(ctx context.Context) error {
	created, err := j.DB.Describe(ctx, newName(j.Table.Name))
	if err != nil {
		return err
	}
	for _, c := range j.data.Columns {
		have := created.Find(c.Name)
		err := error(nil)
		switch {
		case have == nil:
			return fmt.Errorf("column %s is in the table only", c.Name)
		case !strings.EqualFold(c.Native, have.Native):
			err = fmt.Errorf("column %s is %s in the table and %s in the declaration", c.Name, c.Native, have.Native)
		case c.Null && !have.Null && !within([]string{c.Name}, j.Table.PrimaryKey):
			// The columns of the rolling table's key are NOT NULL. At present no row has NULL there, and
			// rows that get NULL during the adoption become late rows.
			err = fmt.Errorf("column %s may be NULL in the table and not in the declaration", c.Name)
		case c.Collation != have.Collation:
			const unnamed = "the default"
			err = fmt.Errorf("the collation of column %s is %s in the table and %s in the declaration", c.Name, cmp.Or(c.Collation, unnamed), cmp.Or(have.Collation, unnamed))
		}
		if err != nil {
			return engine.Hinted(err, "declare it as it is, with its character set and collation")
		}
	}
	return nil
}

// now returns the current position. On a sequence it is the highest key.
func (j *job) now(ctx context.Context, rows extent) (int64, error) {
	if j.Table.Grid.Axis() == rolling.Sequence {
		return max(rows.Last, 0), nil
	}
	if j.Now != nil {
		return j.Now(ctx)
	}
	return rolling.Position(time.Now()), nil
}

// periods returns the initial periods of the rolling table. They begin at the first row or now,
// whichever is earlier, and end at the declared time ahead or the last row, whichever is later.
func (j *job) periods(ctx context.Context, rows extent) ([]rolling.Partition, error) {
	t := j.Table
	now, err := j.now(ctx, rows)
	if err != nil {
		return nil, err
	}
	span := rolling.Period{From: now, To: now + 1}
	if rows.Of > 0 {
		span = rolling.Period{From: min(now, rows.First), To: max(now, rows.Last) + 1}
	}
	end, err := j.end(now)
	if err != nil {
		return nil, err
	}
	span.To = max(span.To, end)
	cover, err := t.Grid.Cover(span, j.mostPeriods())
	if err != nil {
		return nil, err
	}
	out := make([]rolling.Partition, len(cover))
	for i, p := range cover {
		out[i] = t.Grid.Named(p)
	}
	return out, nil
}

// mostPeriods returns how many periods an adoption creates at most. It leaves room for future ones.
func (j *job) mostPeriods() int {
	if most := j.DB.Capabilities().MaxPeriods; most > 0 {
		return min(maxPeriods, most*9/10)
	}
	return maxPeriods
}

// end returns the end of the last period to create: the end of the period after the present one, or
// the declared time ahead, whichever is later.
func (j *job) end(now int64) (int64, error) {
	present, err := j.Table.Grid.At(now)
	if err != nil {
		return 0, err
	}
	next, err := j.Table.Grid.At(present.To)
	if err != nil {
		return 0, err
	}
	end := next.To
	if a := j.Declared.Ahead; !a.IsZero() {
		end = max(end, min(a.After(now), j.Table.Grid.Bounds().To))
	}
	return end, nil
}
