package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"fmt"

	"github.com/rowmill/rowmill/internal/engine"
)

// sampleLeaves is about how many leaves of a b-tree are read to estimate its rows.
// For trees with at most that many leaves the number is exact. For larger ones
// with rows of similar lengths, the error is a few percent.
const sampleLeaves = 32

// PeriodSizes implements engine.Keeper. Rows are estimated from a sample of the
// leaves of each table, which takes a few reads. If a reader has prevented the
// latest writes from reaching the file, the rows are counted instead.
func (db *DB) PeriodSizes(ctx context.Context, t *engine.Table) (map[string]engine.PeriodSize, error) {
	parts, err := db.Catalog().Partitions(ctx, t)
	if err != nil {
		return nil, err
	}
	out := make(map[string]engine.PeriodSize, len(parts))
	if len(parts) == 0 {
		return out, nil
	}
	conn, err := db.reader(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	fail := func(err error) (map[string]engine.PeriodSize, error) {
		return nil, fmt.Errorf("measure the periods of %s: %w", t.Name, err)
	}
	statements, err := dialect{}.Render(engine.Measure{Table: t})
	if err != nil {
		return fail(err)
	}
	whole := false // whether the file contains all writes
	err = each(conn, statements[0], nil, func(row []driver.Value) error {
		whole = row[0] == int64(0) && row[1] == row[2]
		return nil
	})
	if err != nil {
		return fail(err)
	}
	trees := map[string][]root{} // by store
	err = each(conn, statements[1], nil, func(row []driver.Value) error {
		page, ok := row[3].(int64)
		if !ok {
			return fmt.Errorf("root page %v", row[3])
		}
		trees[text(row[2])] = append(trees[text(row[2])], root{page, text(row[0]) == "table"})
		return nil
	})
	if err != nil {
		return fail(err)
	}
	tree, err := openTree(db.path)
	if err != nil {
		return fail(err)
	}
	defer tree.file.Close()
	for _, p := range parts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		name := store(t, p)
		size, err := tree.periodSize(trees[name])
		if err != nil || !whole {
			if size.Rows, err = countOf(conn, name); err != nil {
				return fail(err)
			}
		}
		out[p.Name] = size
	}
	return out, nil
}

// A root is the root page of a b-tree: a table's rows, or an index.
type root struct {
	page  int64
	table bool
}

func countOf(conn *connection, name string) (int64, error) {
	return queryInt(conn, "SELECT count(*) FROM "+dialect{}.Quote(name))
}

// periodSize measures the b-trees of one table.
func (t *treeFile) periodSize(trees []root) (size engine.PeriodSize, err error) {
	for _, r := range trees {
		if !r.table {
			pages, err := t.pages(r.page, maxDepth)
			if err != nil {
				return size, err
			}
			size.Index += pages * t.size
			continue
		}
		interior, inner, leaves := int64(0), int64(0), []int64{}
		err := t.walk(r.page, maxDepth, func(children []int64, last bool) {
			interior++
			inner += int64(len(children)) - 1
			if last {
				leaves = append(leaves, children...)
			}
		})
		if err != nil {
			return size, err
		}
		if interior == 0 {
			leaves = []int64{r.page}
		}
		size.Data += (interior + int64(len(leaves))) * t.size
		step := max(len(leaves)/sampleLeaves, 1)
		sampled, cells, keyed := int64(0), int64(0), false
		for i := 0; i < len(leaves); i += step {
			n, index, err := t.cells(leaves[i])
			if err != nil {
				return size, err
			}
			sampled, cells, keyed = sampled+1, cells+n, index
		}
		size.Rows = cells * int64(len(leaves)) / sampled
		if keyed {
			size.Rows += inner // WITHOUT ROWID: interior pages contain rows, too
		}
	}
	return size, nil
}

// cells returns the number of rows in a leaf, and whether its b-tree is an index
// or a table WITHOUT ROWID.
func (t *treeFile) cells(page int64) (n int64, index bool, err error) {
	if _, err := t.file.ReadAt(t.buf, (page-1)*t.size); err != nil {
		return 0, false, fmt.Errorf("page %d: %w", page, err)
	}
	const leafIndex, leafTable = 10, 13
	if t.buf[0] != leafIndex && t.buf[0] != leafTable {
		return 0, false, fmt.Errorf("page %d is no leaf", page)
	}
	return int64(binary.BigEndian.Uint16(t.buf[3:])), t.buf[0] == leafIndex, nil
}
