package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// Sizes implements engine.Catalog. SQLite keeps no sizes, and not every build has the table dbstat.
// So Sizes counts the pages of each b-tree in the file, reading only interior pages ("Database File
// Format", section 1.6, at sqlite.org).
func (db catalog) Sizes(ctx context.Context, t *engine.Table) (s engine.Sizes, err error) {
	if err := db.lock(ctx); err != nil {
		return s, err
	}
	defer db.unlock()
	_, err = db.sizer().trees(db.write, t, func(f *treeFile, r root) error {
		pages, err := f.pages(r.page, maxDepth)
		if r.table {
			s.Data += pages * f.size
		} else {
			s.Index += pages * f.size
		}
		return err
	})
	return s, engine.About(ctx, err, "measure table "+t.Name)
}

// A root is the root page of a b-tree: the rows of a table, or an index. of is the table's name.
type root struct {
	page     int64
	table    bool
	name, of string
}

// A sizer measures tables.
type sizer struct{ *database }

func (db *database) sizer() sizer { return sizer{db} }

// trees copies the write-ahead log to the file, and calls fn for the b-trees of a
// table. whole reports whether the file then contains all writes.
func (db sizer) trees(conn *connection, t *engine.Table, fn func(*treeFile, root) error) (whole bool, err error) {
	statements, err := dialect{}.Render(engine.Measure{Table: t})
	if err != nil {
		return false, err
	}
	err = each(conn, statements[0], nil, func(row []driver.Value) error {
		whole = row[0] == int64(0) && row[1] == row[2]
		return nil
	})
	if err != nil {
		return false, err
	}
	f, err := openTree(db.path)
	if err != nil {
		return false, err
	}
	defer f.file.Close()
	return whole, each(conn, statements[1], nil, func(row []driver.Value) error {
		page, ok := row[3].(int64)
		if !ok {
			return fmt.Errorf("root page %v", row[3])
		}
		return fn(f, root{page, text(row[0]) == "table", text(row[1]), text(row[2])})
	})
}

// maxDepth limits the depth of a b-tree, so that a damaged file can't cause a
// loop: 20 levels are SQLite's own limit (BTCURSOR_MAX_DEPTH).
const maxDepth = 20

// A treeFile counts pages of b-trees in a database file.
type treeFile struct {
	file *os.File
	size int64 // of a page
	buf  []byte
}

func openTree(path string) (*treeFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	var head [100]byte
	if _, err := f.ReadAt(head[:], 0); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	size := int64(binary.BigEndian.Uint16(head[16:]))
	if size == 1 {
		size = 65536
	}
	if size < 512 {
		f.Close()
		return nil, fmt.Errorf("%s: page size %d", path, size)
	}
	return &treeFile{file: f, size: size, buf: make([]byte, size)}, nil
}

// pages counts the pages of the b-tree with the given root page, including the
// root. Overflow pages of long values are not counted; generated rows have none.
func (t *treeFile) pages(page int64, depth int) (int64, error) {
	n := int64(0)
	err := t.walk(page, depth, func(children []int64, leaves bool) {
		if n++; leaves {
			n += int64(len(children))
		}
	})
	return max(n, 1), err
}

// walk calls fn for each interior page of the b-tree, with its children and
// whether they are leaves. A tree of one page has no interior page.
func (t *treeFile) walk(page int64, depth int, fn func(children []int64, leaves bool)) error {
	children, err := t.children(page)
	if err != nil || len(children) == 0 {
		return err
	}
	if depth == 0 {
		return fmt.Errorf("page %d: b-tree too deep", page)
	}
	// All leaves of a b-tree have the same depth, so one child is sufficient.
	below, err := t.children(children[0])
	if err != nil {
		return err
	}
	fn(children, len(below) == 0)
	if len(below) == 0 {
		return nil
	}
	for _, c := range children {
		if err := t.walk(c, depth-1, fn); err != nil {
			return err
		}
	}
	return nil
}

// children returns the child pages of an interior page, or none for a leaf. A page beyond the
// file's end counts as a leaf: another connection has just added it, and it is only in the
// write-ahead log.
func (t *treeFile) children(page int64) ([]int64, error) {
	_, err := t.file.ReadAt(t.buf, (page-1)*t.size)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("page %d: %w", page, err)
	}
	head := t.buf
	if page == 1 {
		head = head[100:]
	}
	const interiorIndex, interiorTable = 2, 5
	if head[0] != interiorIndex && head[0] != interiorTable {
		return nil, nil
	}
	cells := int(binary.BigEndian.Uint16(head[3:]))
	if 12+2*cells > len(head) {
		return nil, fmt.Errorf("page %d: %d cells don't fit", page, cells)
	}
	out := make([]int64, 0, cells+1)
	for i := range cells {
		at := int64(binary.BigEndian.Uint16(head[12+2*i:]))
		if at+4 > t.size {
			return nil, fmt.Errorf("page %d: cell %d lies outside it", page, i)
		}
		out = append(out, int64(binary.BigEndian.Uint32(t.buf[at:])))
	}
	return append(out, int64(binary.BigEndian.Uint32(head[8:]))), nil
}

// sampleLeaves is about how many leaves of a b-tree are read to estimate its rows. The error is a
// few percent if the rows have similar lengths.
const sampleLeaves = 32

// PeriodSizes implements engine.Keeper. It reads a few leaves of each table, and estimates the rows
// from them. If a reader keeps the latest writes from being copied into the database file,
// PeriodSizes counts all rows instead.
func (db sizer) PeriodSizes(ctx context.Context, t *engine.Table) (map[string]engine.PeriodSize, error) {
	parts, err := db.Catalog().Partitions(ctx, t)
	if err != nil {
		return nil, err
	}
	out := make(map[string]engine.PeriodSize, len(parts))
	if len(parts) == 0 {
		return out, nil
	}
	conn, err := db.openReader(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	fail := func(err error) (map[string]engine.PeriodSize, error) {
		return nil, fmt.Errorf("measure the periods of %s: %w", t.Name, err)
	}
	sizes, failed := map[string]engine.PeriodSize{}, map[string]bool{} // by store
	whole, err := db.trees(conn, t, func(f *treeFile, r root) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		size := sizes[r.of]
		if f.add(&size, r) != nil {
			failed[r.of] = true
		}
		sizes[r.of] = size
		return nil
	})
	if err != nil {
		return fail(err)
	}
	for _, p := range parts {
		name := store(t, p)
		size := sizes[name]
		if failed[name] || !whole {
			if size.Rows, err = queryInt(conn, "SELECT count(*) FROM "+dialect{}.Quote(name)); err != nil {
				return fail(err)
			}
		}
		out[p.Name] = size
	}
	return out, nil
}

// add adds the size of a b-tree to size. If the tree has rows, it sets their estimated number.
func (t *treeFile) add(size *engine.PeriodSize, r root) error {
	if !r.table {
		pages, err := t.pages(r.page, maxDepth)
		size.Index += pages * t.size
		return err
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
		return err
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
			return err
		}
		sampled, cells, keyed = sampled+1, cells+n, index
	}
	size.Rows = cells * int64(len(leaves)) / sampled
	if keyed {
		size.Rows += inner // WITHOUT ROWID: interior pages contain rows, too
	}
	return nil
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

var _ engine.Sizer = (*DB)(nil)

func (db sizer) Named(ctx context.Context, prefix string) ([]string, error) {
	conn, err := db.openReader(ctx)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	defer conn.Close()
	out, err := texts(conn, "SELECT name FROM sqlite_schema WHERE type = 'table' AND substr(name, 1, length(?1)) = ?1 ORDER BY name", prefix)
	return out, engine.About(ctx, err, "list tables")
}

// Footprint implements engine.Sizer. A table WITHOUT ROWID has its rows in its primary key.
func (db sizer) Footprint(ctx context.Context, table string) (*engine.Footprint, error) {
	schema, err := db.catalog().Describe(ctx, table)
	if err != nil {
		return nil, err
	}
	if err := db.lock(ctx); err != nil {
		return nil, err
	}
	defer db.unlock()
	f := &engine.Footprint{}
	_, err = db.trees(db.write, &engine.Table{Name: schema.Name}, func(t *treeFile, r root) error {
		pages, err := t.pages(r.page, maxDepth)
		if err != nil {
			return err
		}
		if r.table {
			f.Heap = pages * t.size
			f.Clustered = schema.Options["without rowid"] != "" || rowidKey(schema)
			return nil
		}
		ix := engine.IndexFootprint{Name: r.name, Bytes: pages * t.size}
		for _, s := range schema.Indexes {
			if s.Name == ix.Name {
				ix.Columns = s.Columns
			}
		}
		if ix.Columns == nil && strings.HasPrefix(ix.Name, "sqlite_autoindex_") {
			ix.Columns = schema.PrimaryKey
		}
		f.Indexes = append(f.Indexes, ix)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("measure table %s: %w", table, err)
	}
	slices.SortFunc(f.Indexes, func(a, b engine.IndexFootprint) int { return strings.Compare(a.Name, b.Name) })
	return f, nil
}

// rowidKey reports whether the primary key is the rowid itself.
func rowidKey(s *engine.Schema) bool {
	if len(s.PrimaryKey) != 1 {
		return false
	}
	c := s.Column(s.PrimaryKey[0])
	return c != nil && strings.EqualFold(c.Native, "INTEGER")
}
