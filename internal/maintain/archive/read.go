package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/tabular"
)

// VerifyAll verifies the files of a list that have no problem yet, and sets the problems that
// it finds. It returns an error only if ctx ends.
func VerifyAll(ctx context.Context, all []Info) error {
	for i := range all {
		if all[i].Problem != "" {
			continue
		}
		if _, err := Verify(ctx, all[i].Path); err != nil {
			if ctx.Err() != nil {
				return err
			}
			all[i].Problem = err.Error()
		}
	}
	return nil
}

// Verify reads a whole file back: first it checks the bytes against the seal, then it
// reads every value and compares the row count and checksum with those recorded.
func Verify(ctx context.Context, path string) (Info, error) {
	var total sum
	i, err := read(ctx, path, func(_ *Info, row parquet.Row) error {
		total.add(row)
		return nil
	})
	if err == nil && total.rows != i.Rows {
		err = damaged("it holds %s, and had %s", figure.Plural(total.rows, "row", "rows"), figure.Count(i.Rows))
	} else if err == nil && total.String() != i.Sum {
		err = damaged("the checksum of its values is %s, and was %s", &total, i.Sum)
	}
	if err != nil {
		return Info{}, fmt.Errorf("verify archive %s: %w", path, err)
	}
	return *i, nil
}

// openFile refuses other files than regular ones: opening a FIFO would wait for a writer.
func openFile(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	return os.Open(path)
}

// Look returns the metadata of a file. It reads no rows.
func Look(path string) (Info, error) {
	i := Info{Path: path}
	f, err := openFile(path)
	if err == nil {
		_, err = i.open(f)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return i, fmt.Errorf("read archive %s: %w", path, err)
	}
	return i, nil
}

// List returns the files of a table in a directory, ordered by position. A file that
// can't be read is listed with its Problem.
func List(dir, table string) ([]Info, error) {
	folder := filepath.Join(dir, escape(table))
	entries, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list archives of %s: %w", table, err)
	}
	var out []Info
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || filepath.Ext(e.Name()) != extension {
			continue
		}
		i, err := Look(filepath.Join(folder, e.Name()))
		if err != nil {
			i.Problem = err.Error()
		} else if i.Table != table {
			i.Problem = fmt.Sprintf("it is of table %s", i.Table)
		}
		out = append(out, i)
	}
	slices.SortStableFunc(out, func(a, b Info) int {
		return cmp.Or(cmp.Compare(a.From, b.From), strings.Compare(a.Path, b.Path))
	})
	return out, nil
}

// open reads a file's footer.
func (i *Info) open(f *os.File) (_ *parquet.File, err error) {
	defer recovered(&err)
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	i.Bytes = st.Size()
	if _, _, err := readTail(f); err != nil {
		return nil, err
	}
	p, err := parquet.OpenFile(f, st.Size(), &parquet.FileConfig{SkipPageIndex: true, SkipBloomFilters: true})
	if err != nil {
		return nil, damaged("%v", err)
	}
	if err := i.readMetadata(p.Lookup); err != nil {
		return nil, err
	}
	fields := p.Root().Columns()
	if len(fields) != len(i.columns) {
		return nil, damaged("it has %s, and its metadata %d", figure.Plural(len(fields), "column", "columns"), len(i.columns))
	}
	for n, c := range fields {
		want := i.columns[n].node()
		if c.Name() != i.columns[n].Name || !c.Leaf() || c.Type().Kind() != want.Type().Kind() || c.Optional() != i.columns[n].Null {
			return nil, damaged("its column %d is not the %s that its metadata says", n+1, i.columns[n].Name)
		}
	}
	return p, nil
}

// recovered converts a panic: the Parquet library may panic on forged files with a valid seal.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = errors.Join(damaged("%v", r), *err)
	}
}

// read checks a file's seal and passes its rows to fn, each valid until fn returns.
func read(ctx context.Context, path string, fn func(i *Info, row parquet.Row) error) (_ *Info, err error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := checkSeal(ctx, f); err != nil {
		return nil, err
	}
	i := &Info{Path: path}
	p, err := i.open(f)
	if err != nil {
		return nil, err
	}
	for _, g := range p.RowGroups() {
		if err := readGroup(ctx, i, g, fn); err != nil {
			return nil, err
		}
	}
	return i, nil
}

func readGroup(ctx context.Context, i *Info, g parquet.RowGroup, fn func(*Info, parquet.Row) error) (err error) {
	var inside error // fn's error, which a panic of the library must not hide
	defer func() {
		if inside != nil {
			err = inside
		}
	}()
	defer recovered(&err)
	rows := g.Rows()
	defer func() { err = errors.Join(err, rows.Close()) }()
	buf := make([]parquet.Row, tabular.BatchRows)
	for {
		n, err := rows.ReadRows(buf)
		for _, row := range buf[:n] {
			if len(row) != len(i.columns) {
				return damaged("a row has %d values of %d", len(row), len(i.columns))
			}
			if inside = fn(i, row); inside != nil {
				return inside
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return damaged("%v", err)
		}
		if n == 0 {
			return damaged("reading it returns neither rows nor the end")
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
