package engine

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Keys are the columns of a key, such as the primary key, in order. They serve to read rows in the
// key's order, and to find rows by the key, whose values are passed as text.
type Keys struct {
	db   Keeper
	cols []SchemaColumn
}

// NewKeys returns the keys of the columns. It refuses columns whose sort order on the
// server differs from the order of their values: enumerations, sets, bits.
func NewKeys(db Keeper, cols []SchemaColumn) (*Keys, error) {
	if len(cols) == 0 {
		return nil, errors.New("the table has no primary key in whose order rows can be read")
	}
	for _, c := range cols {
		native := strings.ToLower(c.Native)
		for _, bad := range []string{"enum", "set(", "bit", "json", "geometry"} {
			if strings.HasPrefix(native, bad) {
				return nil, Hinted(fmt.Errorf("key column %s is %s: rows can't be read in the order of its values", c.Name, c.Native),
					"a primary key of numbers, times or text")
			}
		}
	}
	return &Keys{db, cols}, nil
}

func (k *Keys) quote(name string) string { return k.db.Dialect().Quote(name) }

// Texts returns the select list for a key: one expression per column, with aliases that no column
// has. Without these aliases, a server may give the result of "id"::text the name id, and ORDER BY
// "id" would sort by that text.
func (k *Keys) Texts() string {
	out := make([]string, len(k.cols))
	for i, c := range k.cols {
		out[i] = fmt.Sprintf("%s AS rowmill_key%d", k.db.Words().KeyText(c), i+1)
	}
	return strings.Join(out, ", ")
}

func (k *Keys) values(key []string) (places []string, values []any, err error) {
	if len(key) != len(k.cols) {
		return nil, nil, fmt.Errorf("a key of %d values for %d columns", len(key), len(k.cols))
	}
	places, values = make([]string, len(key)), make([]any, len(key))
	for i, text := range key {
		if places[i], values[i], err = k.db.Words().KeyValue(k.cols[i], text); err != nil {
			return nil, nil, err
		}
	}
	return places, values, nil
}

// compare returns a condition that compares the key with a value; op is <, <=, > or >=. Some
// servers use an index for (a, b) > (?, ?), others only for the expanded condition.
func (k *Keys) compare(op string, key []string) (string, []any, error) {
	places, values, err := k.values(key)
	if err != nil {
		return "", nil, err
	}
	n := len(k.cols)
	list := Quoted(k.db.Dialect(), k.cols, "")
	switch {
	case n == 1:
		return list + " " + op + " " + places[0], values, nil
	case k.db.Capabilities().RowValues:
		return "(" + list + ") " + op + " (" + strings.Join(places, ", ") + ")", values, nil
	}
	// (a = ? AND b = ? AND c > ?) OR (a = ? AND b > ?) OR a > ?
	var terms []string
	var args []any
	for i := n - 1; i >= 0; i-- {
		var parts []string
		for j := range i {
			parts = append(parts, k.quote(k.cols[j].Name)+" = "+places[j])
		}
		beyond := op
		if i < n-1 {
			beyond = op[:1]
		}
		parts = append(parts, k.quote(k.cols[i].Name)+" "+beyond+" "+places[i])
		terms = append(terms, "("+strings.Join(parts, " AND ")+")")
		args = append(args, values[:i+1]...)
	}
	return "(" + strings.Join(terms, " OR ") + ")", args, nil
}

// Range returns a condition for the keys that are greater than after and at most last. Nil means
// unbounded; if both are nil, the condition is always true.
func (k *Keys) Range(after, last []string) (string, []any, error) {
	var terms []string
	var args []any
	for _, side := range []struct {
		op  string
		key []string
	}{{">", after}, {"<=", last}} {
		if side.key == nil {
			continue
		}
		term, values, err := k.compare(side.op, side.key)
		if err != nil {
			return "", nil, err
		}
		terms, args = append(terms, term), append(args, values...)
	}
	if len(terms) == 0 {
		return "1 = 1", nil, nil
	}
	return strings.Join(terms, " AND "), args, nil
}

func (k *Keys) order(way string) string {
	out := make([]string, len(k.cols))
	for i, c := range k.cols {
		out[i] = k.quote(c.Name) + way
	}
	return " ORDER BY " + strings.Join(out, ", ")
}

// scan reads a row: its first values into before, the others as a key, nil if there is no row.
func (k *Keys) scan(row *sql.Row, before ...any) ([]string, error) {
	key := make([]string, len(k.cols))
	into := before
	for i := range key {
		into = append(into, &key[i])
	}
	err := row.Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return key, k.db.Classify(err)
}

// Last returns the highest key of the rows that satisfy a condition; nil if no row does. from is a
// quoted item of a FROM clause.
func (k *Keys) Last(ctx context.Context, x Exec, from, where string) ([]string, error) {
	q := "SELECT " + k.Texts() + " FROM " + from + " WHERE " + cmp.Or(where, "1 = 1") + k.order(" DESC") + " LIMIT 1"
	key, err := k.scan(x.QueryRowContext(ctx, q))
	return key, About(ctx, err, "find the last key of "+from)
}

// Nth returns the key of the n-th row whose key is greater than after, but no key greater than
// until. If fewer rows follow, it returns the key of the last one, or nil if none follows. If the
// result equals after, Nth returns an error: the text of such a key, for example a binary fraction,
// doesn't read back as the same value, and a traversal would never end.
//
// The bound until is checked only after the row is found. Without statistics, PostgreSQL estimates
// that a condition with two bounds selects one row in 200, and therefore sorts all remaining rows
// of the table for each chunk.
func (k *Keys) Nth(ctx context.Context, x Exec, from, where string, after, until []string, n int) ([]string, error) {
	key, err := k.nth(ctx, x, from, where, after, until, n)
	if err == nil && len(after) > 0 && slices.Equal(key, after) {
		return nil, Hinted(fmt.Errorf("key %s of %s doesn't read back as the same value, so that no row after it can be found", strings.Join(key, ", "), from),
			"a primary key of integers, decimals, times or text")
	}
	return key, err
}

func (k *Keys) nth(ctx context.Context, x Exec, from, where string, after, until []string, n int) ([]string, error) {
	where = cmp.Or(where, "1 = 1")
	upTo, bound, err := k.Range(nil, until)
	if err != nil {
		return nil, err
	}
	cond, args, err := k.Range(after, nil)
	if err != nil {
		return nil, err
	}
	var within int
	q := fmt.Sprintf("SELECT CASE WHEN %s THEN 1 ELSE 0 END, %s FROM %s WHERE (%s) AND (%s)%s LIMIT 1 OFFSET %d", upTo, k.Texts(), from, cond, where, k.order(""), max(n, 1)-1)
	key, err := k.scan(x.QueryRowContext(ctx, k.db.Bind(q), slices.Concat(bound, args)...), &within)
	if err != nil || key != nil && within == 1 {
		return key, About(ctx, err, "find the end of a chunk of "+from)
	}
	q = fmt.Sprintf("SELECT %s FROM %s WHERE (%s) AND (%s) AND (%s)%s LIMIT 1", k.Texts(), from, upTo, cond, where, k.order(" DESC"))
	key, err = k.scan(x.QueryRowContext(ctx, k.db.Bind(q), slices.Concat(bound, args)...))
	return key, About(ctx, err, "find the end of a chunk of "+from)
}

// In returns a condition for the rows with the given keys.
func (k *Keys) In(keys [][]string) (string, []any, error) {
	var terms, single []string
	var args []any
	for _, key := range keys {
		places, values, err := k.values(key)
		if err != nil {
			return "", nil, err
		}
		parts := make([]string, len(k.cols))
		for i, c := range k.cols {
			parts[i] = k.quote(c.Name) + " = " + places[i]
		}
		terms, single, args = append(terms, strings.Join(parts, " AND ")), append(single, places[0]), append(args, values...)
	}
	switch {
	case len(terms) == 0:
		return "1 = 0", nil, nil
	case len(k.cols) == 1:
		return k.quote(k.cols[0].Name) + " IN (" + strings.Join(single, ", ") + ")", args, nil
	}
	return "(" + strings.Join(terms, ") OR (") + ")", args, nil
}
