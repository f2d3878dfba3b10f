package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/sqlite"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/internal/value"
)

// readings is the table of the tests of files.
const readings = "CREATE TABLE readings (sensor INT NOT NULL, ts DATETIME NOT NULL, value REAL, note TEXT, PRIMARY KEY (sensor, ts))"

// plain returns a world with n rows in SQLite.
func plain(t testing.TB, n int) *world {
	w := newWorld(t, open(t, "sqlite"), readings)
	w.fill(0, n)
	return w
}

func (w *world) fill(from, to int) {
	w.Helper()
	var rows []string
	for i := from; i < to; i++ {
		rows = append(rows, fmt.Sprintf("(%d, '2026-11-20 %02d:%02d:%02d', %d.5, 'note %d')", i, i/3600%24, i/60%60, i%60, i, i%7))
		if len(rows) == 500 || i == to-1 {
			w.exec("INSERT INTO readings VALUES " + strings.Join(rows, ", "))
			rows = rows[:0]
		}
	}
}

// TestEveryByteIsChecked: a file with any byte changed, truncated anywhere, or
// extended, is detected before anything is restored from it.
func TestEveryByteIsChecked(t *testing.T) {
	t.Parallel()
	w := plain(t, 300)
	f := w.write()
	whole, err := os.ReadFile(f.Path)
	must(t, err)
	w.template("back")
	bad := filepath.Join(t.TempDir(), "bad.parquet")
	check := func(what string, data []byte, restore bool) {
		t.Helper()
		must(t, os.WriteFile(bad, data, 0o600))
		if _, err := Verify(t.Context(), bad); !errors.Is(err, errDamaged) {
			t.Errorf("%s: verified with %v", what, err)
		}
		if !restore {
			return
		}
		if _, err := Restore(t.Context(), w.db, w.table, w.s, bad, "back", nil); err == nil {
			t.Errorf("%s: restored", what)
		}
		if got := w.hash(w.quote("back")); !strings.HasPrefix(got, "0 rows") {
			t.Fatalf("%s: restored %s", what, got)
		}
	}
	for i := range whole {
		data := bytes.Clone(whole)
		data[i] ^= 1 << rand.N(8)
		check(fmt.Sprintf("byte %d of %d", i, len(whole)), data, i%16 == 0)
	}
	for i := 0; i < len(whole); i += 1 + i/20 {
		check(fmt.Sprintf("cut off after %d of %d bytes", i, len(whole)), whole[:i], true)
	}
	check("longer", append(bytes.Clone(whole), 0), true)
	check("twice", append(bytes.Clone(whole), whole...), true)
}

// FuzzVerify: no file makes the reader panic, and none with other rows is taken for whole. The
// seed of each fuzzing process is another file with the same rows.
func FuzzVerify(f *testing.F) {
	dir := f.TempDir()
	w := plain(f, 20)
	file := w.write()
	whole, err := os.ReadFile(file.Path)
	must(f, err)
	f.Add(whole)
	f.Add([]byte("PAR1PAR1"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(dir, "x.parquet")
		must(t, os.WriteFile(path, data, 0o600))
		if read, err := Verify(t.Context(), path); err == nil && (read.Rows != file.Rows || read.Sum != file.Sum) {
			t.Errorf("%q is taken for whole", data)
		}
		_, _ = Look(path) // must not panic
	})
}

// TestOtherTable: a file of another table, a foreign Parquet file and a table
// without the file's columns are refused.
func TestOtherTable(t *testing.T) {
	t.Parallel()
	w := plain(t, 10)
	f := w.write()
	w.template("back")
	other := *w.table
	other.Name = "orders"
	_, err := Restore(t.Context(), w.db, &other, w.s, f.Path, "back", nil)
	if err == nil || !strings.Contains(err.Error(), "is of table readings, not of orders") {
		t.Errorf("file of another table: %v", err)
	}
	less := *w.s
	less.Columns = less.Columns[:3]
	if _, err := Restore(t.Context(), w.db, w.table, &less, f.Path, "back", nil); err == nil || !strings.Contains(err.Error(), "has column note, which table readings no longer has") {
		t.Errorf("table without a column: %v", err)
	}
	more := *w.s
	more.Columns = append(more.Columns[:4:4], engine.SchemaColumn{Name: "extra", Native: "INT", Type: value.Type{Kind: value.Int}})
	if _, err := Restore(t.Context(), w.db, w.table, &more, f.Path, "back", nil); err == nil || !strings.Contains(err.Error(), "has since gained column extra") {
		t.Errorf("table with a column that needs a value: %v", err)
	}
	if _, err := Restore(t.Context(), w.db, w.table, w.s, f.Path, "back", nil); err != nil {
		t.Error(err)
	}
	if _, err := Restore(t.Context(), w.db, w.table, w.s, f.Path, "back", nil); err == nil || !strings.Contains(err.Error(), "has rows already") {
		t.Errorf("table with rows: %v", err)
	}
	// The target of the existing file shows that two tables with the same name share
	// a directory.
	elsewhere := plain(t, 3)
	_, err = Write(t.Context(), elsewhere.db, elsewhere.table, elsewhere.s, elsewhere.part(), w.dir)
	if err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("file of another database in the way: %v", err)
	}
	if _, err := Verify(t.Context(), f.Path); err != nil {
		t.Error(err)
	}
}

// TestColumnAddedSince: a column added after the file was written gets its default.
func TestColumnAddedSince(t *testing.T) {
	t.Parallel()
	w := plain(t, 10)
	f := w.write()
	w.template("back")
	w.exec("ALTER TABLE back ADD COLUMN extra INT NOT NULL DEFAULT 7")
	s, err := w.db.Describe(t.Context(), "back")
	must(t, err)
	if _, err := Restore(t.Context(), w.db, w.table, s, f.Path, "back", nil); err != nil {
		t.Fatal(err)
	}
	var n int64
	if err := w.db.SQL().QueryRowContext(t.Context(), "SELECT SUM(extra) FROM back").Scan(&n); err != nil || n != 70 {
		t.Errorf("sum of the new column %d, %v", n, err)
	}
}

// TestKeptAside: a file with other rows is kept under a name that *.parquet doesn't
// match, and so is a damaged file.
func TestKeptAside(t *testing.T) {
	t.Parallel()
	w := plain(t, 10)
	first := w.write()
	w.fill(10, 20)
	second := w.write()
	if second.Rows != 20 || second.Kept == "" || filepath.Ext(second.Kept) != ".old" {
		t.Fatalf("wrote %+v after %+v", second, first)
	}
	if old, err := Verify(t.Context(), second.Kept); err != nil || old.Sum != first.Sum {
		t.Errorf("the file that was there: %+v, %v", old, err)
	}
	must(t, os.WriteFile(second.Path, []byte("scribble"), 0o600))
	third := w.write()
	if third.Sum != second.Sum || third.Kept == "" {
		t.Errorf("wrote %+v over a damaged file", third)
	}
	list, err := List(w.dir, "readings")
	if err != nil || len(list) != 1 || list[0].Sum != third.Sum || list[0].Problem != "" {
		t.Errorf("listed %+v, %v", list, err)
	}
}

// TestList: files are listed by position, and an unreadable file with the reason.
func TestList(t *testing.T) {
	t.Parallel()
	w := plain(t, 10)
	for i := range w.parts {
		if _, err := Write(t.Context(), w.db, w.table, w.s, w.parts[i], w.dir); err != nil {
			t.Fatal(err)
		}
	}
	must(t, os.WriteFile(Path(w.dir, "readings", "torn"), []byte("PAR1"), 0o600))
	list, err := List(w.dir, "readings")
	must(t, err)
	var got []string
	for _, i := range list {
		got = append(got, fmt.Sprintf("%s %d %v", i.Name, i.Rows, i.Problem != ""))
	}
	if want := " 0 true; p20261119 0 false; p20261120 10 false; p20261121 0 false"; strings.Join(got, "; ") != want {
		t.Errorf("listed %q, want %q", got, want)
	}
	if none, err := List(w.dir, "orders"); err != nil || none != nil {
		t.Errorf("of a table without any: %v, %v", none, err)
	}
}

// TestPaths: names are converted to file names, different names to different ones.
func TestPaths(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"a", "A", "a/b", "a%2Fb", "..", ".", "", ".a", "-a", "a b", "ä", "a\x00", strings.Repeat("ä", 64), strings.Repeat("ä", 63) + "o", "CON:"} {
		p := Path("dir", name, name)
		rel, err := filepath.Rel("dir", p)
		if err != nil || strings.HasPrefix(rel, "..") || strings.Count(rel, "/") != 1 || len(filepath.Base(p)) > 220 {
			t.Errorf("%q: %s", name, p)
		}
		if was, ok := seen[p]; ok {
			t.Errorf("%q and %q are both %s", was, name, p)
		}
		seen[p] = name
	}
}

// A fullDisk accepts a limited number of bytes.
type fullDisk struct {
	to   io.Writer
	left int
}

func (d *fullDisk) Write(p []byte) (int, error) {
	n := min(len(p), d.left)
	m, err := d.to.Write(p[:n])
	if d.left -= m; err == nil && m < len(p) {
		err = syscall.ENOSPC
	}
	return m, err
}

// TestFullDisk: if the disk fills up during a write, no file remains, neither under
// the period's name nor elsewhere.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	w := plain(t, 2000)
	size := int(w.write().Bytes)
	for left := 0; left < size-1000; left += 1 + size/25 {
		dir := t.TempDir()
		wr := &writing{wrap: func(f io.Writer) io.Writer { return &fullDisk{f, left} }, groups: 300}
		if _, err := wr.write(t.Context(), w.db, w.table, w.s, w.part(), dir); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("disk of %d bytes: %v", left, err)
		}
		if left := leftIn(t, dir); left != "" {
			t.Errorf("left behind: %s", left)
		}
	}
}

// TestFullDiskForReal writes to a file system of 16 kB, if it is permitted to create
// one.
func TestFullDiskForReal(t *testing.T) {
	t.Parallel()
	w := plain(t, 20_000)
	small := testdb.SmallDisk(t, 16<<10)
	if _, err := Write(t.Context(), w.db, w.table, w.s, w.part(), small); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("wrote to a full disk: %v", err)
	}
	if left := leftIn(t, small); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

func leftIn(t *testing.T, dir string) string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, filepath.Base(path))
		}
		return err
	})
	must(t, err)
	return strings.Join(out, " ")
}

// killVariable makes the test binary write an archive and kill itself at the named
// step.
const killVariable = "ROWMILL_TEST_ARCHIVE_KILL"

// killedWriter is that process: the variable's value contains DB, directory and step.
func killedWriter() int {
	args := strings.Split(os.Getenv(killVariable), "|")
	t := testing.TB(&dying{})
	db, err := sqlite.Open(t.Context(), engine.Target{Scheme: "sqlite", Path: args[0]})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	w := of(t, db, readings)
	w.describe()
	die := func() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	wr := &writing{groups: 300, at: func(step string) error {
		if step == args[2] {
			die()
		}
		return nil
	}}
	var left int
	if _, err := fmt.Sscan(args[2], &left); err == nil {
		wr.wrap = func(f io.Writer) io.Writer { return &dyingDisk{f, left, die} }
	}
	if _, err := wr.write(t.Context(), db, w.table, w.s, w.part(), args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 1 // the process should have been killed
}

// A dyingDisk ends the process after a number of bytes.
type dyingDisk struct {
	to   io.Writer
	left int
	die  func()
}

func (d *dyingDisk) Write(p []byte) (int, error) {
	if len(p) > d.left {
		_, _ = d.to.Write(p[:d.left])
		d.die()
	}
	d.left -= len(p)
	return d.to.Write(p)
}

// dying is the testing.TB of a process that is about to be killed.
type dying struct{ testing.TB }

func (dying) Context() context.Context { return context.Background() }
func (dying) Helper()                  {}
func (dying) Fatal(args ...any)        { panic(fmt.Sprint(args...)) }

// TestKilled: a process killed at any point leaves no file, the old file, or the
// complete new file under the period's name; the next write removes temporary files.
func TestKilled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	db, err := sqlite.Open(t.Context(), engine.Target{Scheme: "sqlite", Path: path})
	must(t, err)
	defer db.Close()
	w := newWorld(t, db, readings)
	w.fill(0, 2000)
	w.dir = t.TempDir()
	first := w.write()
	w.fill(2000, 2500)
	size := int(first.Bytes)
	for _, step := range []string{"0", "4", fmt.Sprint(size / 2), fmt.Sprint(size), "filled", "synced", "kept", "renamed"} {
		for _, there := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", step, there), func(t *testing.T) {
				dir := t.TempDir()
				to := Path(dir, "readings", w.part().Name)
				if there {
					data, err := os.ReadFile(first.Path)
					must(t, err)
					must(t, errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, data, 0o600)))
				}
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), killVariable+"="+strings.Join([]string{path, dir, step}, "|"))
				out, err := cmd.CombinedOutput()
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Fatalf("the writer ended with %v: %s", err, out)
				}
				switch got, err := Verify(t.Context(), to); {
				case errors.Is(err, os.ErrNotExist) && !there && step != "renamed":
				case err != nil:
					t.Errorf("left a file that is not whole: %v", err)
				case got.Rows == first.Rows && there && step != "renamed":
				case got.Rows == 2500 && step == "renamed":
				default:
					t.Errorf("left %+v", got)
				}
				f, err := Write(t.Context(), db, w.table, w.s, w.part(), dir)
				if err != nil || f.Rows != 2500 {
					t.Fatalf("after the crash: %+v, %v", f, err)
				}
				if left := leftIn(t, dir); strings.Contains(left, ".part") {
					t.Errorf("left behind: %s", left)
				}
				if _, err := Verify(t.Context(), to); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestCancelled: a cancelled write leaves nothing behind.
func TestCancelled(t *testing.T) {
	t.Parallel()
	w := plain(t, 30_000)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := (&writing{wrap: func(w io.Writer) io.Writer { cancel(); return w }}).write(ctx, w.db, w.table, w.s, w.part(), w.dir)
	if err == nil {
		t.Error("it went on")
	}
	if left := leftIn(t, w.dir); left != "" {
		t.Errorf("left behind: %s", left)
	}
}
