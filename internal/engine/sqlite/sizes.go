package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"os"

	"github.com/rowmill/rowmill/internal/engine"
)

// Sizes implements engine.Catalog. SQLite keeps no sizes, and its dbstat table is
// not available in every build. So it counts the pages of each b-tree in the
// file. Only interior pages are read, which takes about a hundredth of the time of
// reading the table. The layout is described in "Database File Format", section
// 1.6, at sqlite.org.
func (c catalog) Sizes(ctx context.Context, t *engine.Table) (engine.Sizes, error) {
	var s engine.Sizes
	if err := c.db.lock(ctx); err != nil {
		return s, err
	}
	defer c.db.unlock()
	statements, err := dialect{}.Render(engine.Measure{Table: t})
	if err != nil {
		return s, err
	}
	// First copy the write-ahead log to the file.
	if err := each(c.db.write, statements[0], nil, func([]driver.Value) error { return nil }); err != nil {
		return s, fmt.Errorf("measure table %s: %w", t.Name, err)
	}
	tree, err := openTree(c.db.path)
	if err != nil {
		return s, fmt.Errorf("measure table %s: %w", t.Name, err)
	}
	defer tree.file.Close()
	err = each(c.db.write, statements[1], nil, func(row []driver.Value) error {
		root, ok := row[3].(int64)
		if !ok {
			return fmt.Errorf("root page %v", row[3])
		}
		pages, err := tree.pages(root, maxDepth)
		if err != nil {
			return err
		}
		if row[0] == "table" {
			s.Data += pages * tree.size
		} else {
			s.Index += pages * tree.size
		}
		return nil
	})
	if err != nil {
		return s, fmt.Errorf("measure table %s: %w", t.Name, err)
	}
	return s, nil
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

// children returns the child pages of an interior page, or none for a leaf.
func (t *treeFile) children(page int64) ([]int64, error) {
	if _, err := t.file.ReadAt(t.buf, (page-1)*t.size); err != nil {
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
