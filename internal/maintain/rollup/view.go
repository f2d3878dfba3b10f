package rollup

import (
	"fmt"
	"strings"
)

// view returns the name of the level's live view.
func (l *level) view() string { return l.Name + "_live" }

// quoteText returns a string literal of a table's name. New has rejected names with
// characters that servers interpret differently.
func quoteText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// viewQuery renders the query of the level's live view.
//
// It reads roll-up rows of buckets below the watermark that are neither stale nor
// noted as changed, and raw rows for everything else. The state that decides this
// changes in one transaction each time, and a statement sees one state. The bounds
// of the raw rows are scalar subqueries, which servers evaluate before they choose
// the partitions to read.
func (s *Set) viewQuery(l *level) string {
	w := s.db.Words()
	table, name := quoteText(s.table.Name), quoteText(l.Name)
	of := func(level, expr string) string {
		return fmt.Sprintf("(SELECT %s FROM rowmill_rollups WHERE table_name = %s AND name = %s)", expr, table, level)
	}
	at := func(column string) string { return of(name, w.FromPosition(s.table, column)) }
	// The level that is computed from raw rows records which of those are gone.
	root := l
	for root.from != nil {
		root = root.from
	}
	rootName := quoteText(root.Name)
	noted := func(pos string) string {
		return fmt.Sprintf("EXISTS (SELECT 1 FROM rowmill_touched n WHERE n.table_name = %s AND n.lower_pos < %s AND n.upper_pos >= %s)",
			table, s.endOf(l, pos), pos)
	}
	stale := func(pos string) string {
		return fmt.Sprintf("EXISTS (SELECT 1 FROM rowmill_stale s WHERE s.rollup_name = %s AND s.bucket = %s)", name, pos)
	}
	names := append(l.key(), RawRows)
	for _, a := range l.aggs {
		names = append(names, a.Name)
	}
	bucket := "r." + s.quote(Bucket)
	pos := w.Position(s.table, bucket)
	sealed := fmt.Sprintf("%s < %s", bucket, at("sealed_to"))
	if root != l {
		sealed += fmt.Sprintf(" OR %s < %s", bucket, of(rootName, w.FromPosition(s.table, "sealed_to")))
	}
	rolled := fmt.Sprintf("SELECT %s FROM %s r WHERE %s < %s AND (%s OR NOT (%s OR %s))",
		s.quote(names...), s.quote(l.Name), bucket, at("watermark"), sealed, stale(pos), noted(pos))

	raw := *l
	raw.from = nil
	column := s.quote(s.declared.Time)
	rawPos := s.bucketOf(&raw, w.Position(s.table, column))
	// All parts that read raw rows begin above the sealed buckets: raw rows below
	// may have been removed.
	newer := s.selectRows(&raw, column+" >= "+at("watermark"), true)
	below := fmt.Sprintf("%s < %s AND %s >= %s", column, at("watermark"), column, at("sealed_to"))
	if root != l {
		below += fmt.Sprintf(" AND %s >= %s AND %s >= %s", column, of(rootName, w.FromPosition(s.table, "sealed_to")), rawPos, of(rootName, "sealed_to"))
	}
	edge := func(fn, table, col, where string, map_ func(string) string) string {
		return fmt.Sprintf("(SELECT %s FROM %s WHERE %s)", w.FromPosition(s.table, map_(fn+"("+col+")")), table, where)
	}
	same := func(x string) string { return x }
	ofStale := "rollup_name = " + name
	again := s.selectRows(&raw, fmt.Sprintf("%s >= %s AND %s < %s AND %s AND %s",
		column, edge("MIN", "rowmill_stale", "bucket", ofStale, same),
		column, edge("MAX", "rowmill_stale", "bucket", ofStale, func(x string) string { return s.endOf(l, x) }),
		below, stale(rawPos)), true)
	late := s.selectRows(&raw, fmt.Sprintf("%s >= %s AND %s AND NOT %s AND %s",
		column, edge("MIN", "rowmill_touched", "lower_pos", "table_name = "+table, func(x string) string { return s.bucketOf(l, x) }),
		below, stale(rawPos), noted(rawPos)), true)
	return strings.Join([]string{rolled, newer, again, late}, "\nUNION ALL\n")
}
