package textfile

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fifo creates a FIFO and returns its path.
func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, size int) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file("file", 3), link); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name, path string
		says       string // part of the error; "" is no error
		size       int
	}{
		{"file", filepath.Join(dir, "file"), "", 3},
		{"link", link, "", 3},
		{"empty", file("empty", 0), "", 0},
		{"largest", file("largest", Limit), "", Limit},
		{"too large", file("huge", Limit+1), "has more than 1 MiB", 0},
		{"missing", filepath.Join(dir, "missing"), "no such file", 0},
		{"directory", dir, "is a directory", 0},
		{"device", "/dev/zero", "/dev/zero is a device, not a regular file", 0},
		{"FIFO", fifo(t), "is a FIFO, not a regular file", 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			text, err := Read(t.Context(), c.path)
			if c.says == "" && (err != nil || len(text) != c.size) {
				t.Errorf("%d bytes, %v", len(text), err)
			}
			if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

// TestReadAny: a FIFO is read to its end, and an endless device is refused.
func TestReadAny(t *testing.T) {
	path := fifo(t)
	go func() {
		if err := os.WriteFile(path, []byte("secret\n"), 0); err != nil {
			t.Error(err)
		}
	}()
	if text, err := ReadAny(t.Context(), path); err != nil || string(text) != "secret\n" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := ReadAny(t.Context(), "/dev/zero"); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Error(err)
	}
}

// TestEnds: the end of the context ends blocked calls.
func TestEnds(t *testing.T) {
	t.Run("opening", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		path, done := fifo(t), make(chan error)
		go func() {
			_, err := Open(ctx, path)
			done <- err
		}()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		w, err := os.OpenFile(path, os.O_WRONLY, 0) // meets the opening, which nobody waits for, and so ends it
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
	})
	t.Run("reading", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		path := fifo(t)
		w, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if _, err := w.WriteString("one"); err != nil {
			t.Fatal(err)
		}
		f, err := Open(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := io.ReadFull(f, make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			_, err := f.Read(make([]byte, 1))
			done <- err
		}()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("without end", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f, err := Open(ctx, "/dev/zero")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		done := make(chan error)
		go func() {
			_, err := io.Copy(io.Discard, f)
			done <- err
		}()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
