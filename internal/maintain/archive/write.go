package archive

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/tabular"
	"github.com/rowmill/rowmill/rolling"
)

// Write writes the rows of a period of t to DIR/TABLE/PERIOD.parquet. The period must not receive
// inserts during the call. Before the caller drops the period, it must compare the number of rows
// with the number recorded by the seal, and both number and checksum with the result of Verify.
//
// The file is complete and on disk before it gets its name. If a file of that name exists with the
// same rows, it stays unchanged. If it has other rows of the same period, it is renamed: see
// Info.Kept. A file of another table or period is an error.
func Write(ctx context.Context, db engine.Keeper, t *engine.Table, s *engine.Schema, p rolling.Partition, dir string) (Info, error) {
	return (&writing{}).write(ctx, db, t, s, p, dir)
}

type writing struct {
	wrap   func(io.Writer) io.Writer // wraps the file
	at     func(step string) error   // called between the steps
	chunk  int
	groups int64 // rows per group; 0 means tabular.GroupRows
	bytes  int64 // bytes per group; 0 means tabular.GroupBytes
}

func (w *writing) write(ctx context.Context, db engine.Keeper, t *engine.Table, s *engine.Schema, p rolling.Partition, dir string) (_ Info, err error) {
	fail := func(err error) (Info, error) {
		return Info{}, fmt.Errorf("archive period %s of %s: %w", p.Name, t.Name, err)
	}
	path := Path(dir, t.Name, p.Name)
	folder := filepath.Dir(path)
	if err := makeFolder(folder); err != nil {
		return fail(err)
	}
	if err := removeLeft(path); err != nil {
		return fail(err)
	}
	names := s.Names()
	if len(names) == 0 {
		return fail(errors.New("the table has no columns that can be written to"))
	}
	from, err := columnsOf(s, names)
	if err != nil {
		return fail(err)
	}
	key, err := columnsOf(s, s.PrimaryKey)
	if err != nil {
		return fail(err)
	}
	dbInfo := db.Info()
	info := Info{
		Path: path, Table: t.Name, Name: p.Name, From: p.From, To: p.To, key: s.PrimaryKey,
		Bounds: t.Grid.Format(p.From) + " to " + t.Grid.Format(p.To),
		Engine: dbInfo.Engine, Version: dbInfo.Version, Target: dbInfo.Target, Written: time.Now(),
	}
	if t.Definition != nil {
		info.Create = t.Definition.Text
	}
	for _, c := range from {
		info.columns = append(info.columns, columnOf(c))
	}
	r := &reader{db: db, from: db.Words().From(t, p), columns: from, key: key, chunk: w.chunk}
	if err := r.restorable(ctx); err != nil {
		return fail(err)
	}
	f, err := os.CreateTemp(folder, tempPattern(path))
	if err != nil {
		return fail(err)
	}
	temp := f.Name()
	if err := f.Chmod(0o640); err != nil {
		return fail(errors.Join(err, f.Close(), os.Remove(temp)))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreMissing(os.Remove(temp)))
		}
	}()
	// Each round either completes the file or finds a column that needs a wider form. There are few
	// forms, so there are few rounds.
	var wide *unfitError
	for {
		err = w.fill(ctx, f, r, &info)
		if !errors.As(err, &wide) {
			break
		}
		if err = info.columns[wide.column].widen(wide.null); err != nil {
			break
		}
		if _, err = f.Seek(0, io.SeekStart); err != nil {
			break
		}
		if err = f.Truncate(0); err != nil {
			break
		}
	}
	if err == nil {
		err = w.step("filled")
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fail(err)
	}
	if err = w.step("synced"); err != nil {
		return fail(err)
	}
	if err := w.publish(ctx, temp, &info); err != nil {
		return fail(err)
	}
	return info, nil
}

func (w *writing) step(name string) error {
	if w.at == nil {
		return nil
	}
	return w.at(name)
}

type unfitError struct {
	column int
	null   bool
}

func (e *unfitError) Error() string { return "a value doesn't fit its column's form" }

func (w *writing) fill(ctx context.Context, f *os.File, r *reader, info *Info) error {
	var sink io.Writer = f
	if w.wrap != nil {
		sink = w.wrap(f)
	}
	rows, bytes := cmp.Or(w.groups, tabular.GroupRows), cmp.Or(w.bytes, tabular.GroupBytes)
	out := parquet.NewGenericWriter[any](sink, options(info)...)
	width := len(info.columns)
	batch := make([]parquet.Row, 0, tabular.BatchRows)
	values := make([]parquet.Value, 0, tabular.BatchRows*width)
	var text []byte // buffer to which the values of the batch refer
	var inGroup, groupBegan int64
	var total sum
	flush := func() error {
		n, err := out.WriteRows(batch)
		if err == nil && n != len(batch) {
			err = io.ErrShortWrite
		}
		batch, values, text = batch[:0], values[:0], text[:0]
		return err
	}
	err := r.each(ctx, func(row []sql.RawBytes) error {
		begin := len(values)
		for i := range info.columns {
			v, err := info.columns[i].value(row[i], i, &text)
			if err != nil {
				return err
			}
			values = append(values, v)
			inGroup += int64(len(row[i])) + 8
		}
		added := values[begin:len(values):len(values)]
		total.add(added)
		full := inGroup >= bytes || total.rows-groupBegan >= rows
		if batch = append(batch, added); len(batch) < tabular.BatchRows && len(text) < tabular.BatchBytes && !full {
			return nil
		}
		if err := flush(); err != nil {
			return err
		}
		if full {
			inGroup, groupBegan = 0, total.rows
			if err := out.Flush(); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	if err == nil {
		err = flush()
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		return err
	}
	info.Rows, info.Sum = total.rows, total.String()
	metadata, err := info.metadata()
	if err != nil {
		return err
	}
	return sealFile(f, metadata, info.columns)
}

// value converts the server's text to a value of c, the file's column i. Texts are copied to text.
func (c *column) value(row sql.RawBytes, i int, text *[]byte) (parquet.Value, error) {
	if row == nil {
		if !c.Null {
			return parquet.Value{}, &unfitError{i, true}
		}
		return parquet.NullValue().Level(0, 0, i), nil
	}
	level := 0
	if c.Null {
		level = 1
	}
	if c.Form == formText || c.Form == formBytes {
		// When the buffer grows it moves; earlier values still refer to the old buffer.
		at := len(*text)
		*text = append(*text, row...)
		row = sql.RawBytes((*text)[at:len(*text):len(*text)])
	}
	v, err := c.encode(row)
	if err != nil {
		return parquet.Value{}, &unfitError{column: i}
	}
	return v.Level(0, level, i), nil
}

func options(info *Info) []parquet.WriterOption {
	opts := []parquet.WriterOption{
		tabular.NewSchema("period", info.fields()),
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedDefault}),
		parquet.CreatedBy("rowmill", "1", "period"),
		parquet.DictionaryMaxBytes(tabular.DictionaryBytes),
	}
	var sorted []parquet.SortingColumn
	for _, k := range info.key {
		i := info.find(k)
		if i < 0 || !info.columns[i].sortsAlike() {
			break
		}
		sorted = append(sorted, parquet.Ascending(k))
	}
	if len(sorted) > 0 {
		opts = append(opts, parquet.SortingWriterConfig(parquet.SortingColumns(sorted...)))
	}
	for i := range info.columns {
		// Minima and maxima of texts and bytes may be as long as the values, and help
		// readers little if rows aren't sorted by them.
		if c := &info.columns[i]; !c.hasBounds() {
			opts = append(opts, parquet.SkipPageBounds(c.Name))
		}
	}
	return opts
}

func (i *Info) fields() []tabular.Field {
	out := make([]tabular.Field, len(i.columns))
	for n := range i.columns {
		out[n] = tabular.Field{Name: i.columns[n].Name, Node: i.columns[n].node()}
	}
	return out
}

func (i *Info) find(name string) int {
	for n, c := range i.columns {
		if c.Name == name {
			return n
		}
	}
	return -1
}

// hasBounds reports whether the writer's minima and maxima are correct and useful. For decimals of
// more than 18 digits they are wrong, because the writer compares those as unsigned bytes.
func (c *column) hasBounds() bool {
	switch c.Form {
	case formText, formBytes:
		return false
	case formDecimal:
		return c.Precision <= 18
	}
	return true
}

// sortsAlike reports whether the server sorts the column as Parquet readers do.
func (c *column) sortsAlike() bool {
	switch c.Form {
	case formInt, formTimestamp, formDate, formDecimal:
		return true
	}
	return false
}

// publish gives a complete file its name, unless a file with the same rows has it already.
func (w *writing) publish(ctx context.Context, temp string, info *Info) error {
	there, err := os.Lstat(info.Path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return err
	case !there.Mode().IsRegular():
		return fmt.Errorf("%s exists and is not a file", info.Path)
	default:
		same, err := w.compare(ctx, info)
		if err != nil {
			return err
		}
		if same {
			info.Bytes = there.Size()
			return os.Remove(temp)
		}
		// Link the old file to a second name before the first name is replaced, so
		// that a good file exists at any moment.
		info.Kept = asideName(info.Path)
		err = os.Link(info.Path, info.Kept)
		if err != nil && !errors.Is(err, os.ErrExist) { // the file system has no links
			err = os.Rename(info.Path, info.Kept)
		}
		if err != nil {
			return err
		}
	}
	if err := w.step("kept"); err != nil {
		return err
	}
	st, err := os.Stat(temp)
	if err != nil {
		return err
	}
	info.Bytes = st.Size()
	if err := os.Rename(temp, info.Path); err != nil {
		return err
	}
	if err := w.step("renamed"); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(info.Path))
}

// compare reports whether the existing file has the same rows as the new one. It reports false if
// the existing file is damaged, or has only a part of the period. It returns an error if the file
// is one of another table, or has more than the period.
func (w *writing) compare(ctx context.Context, info *Info) (bool, error) {
	old, err := Verify(ctx, info.Path)
	if errors.Is(err, errDamaged) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if old.Table != info.Table || old.From < info.From || old.To > info.To || old.Target != info.Target {
		return false, engine.Hinted(
			fmt.Errorf("%s holds %s of table %s of %s already", info.Path, old.Bounds, old.Table, old.Target),
			"give each table of that name a directory of its own in [seal] archive, or move that file away")
	}
	return old.From == info.From && old.To == info.To && old.Rows == info.Rows && old.Sum == info.Sum && len(old.columns) == len(info.columns), nil
}
