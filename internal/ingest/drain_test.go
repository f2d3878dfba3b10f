package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// numbered produces an endless sequence of lines, as fast as they are read.
type numbered struct{ n atomic.Int64 }

func (r *numbered) Read(p []byte) (int, error) {
	var b bytes.Buffer
	for b.Len() < len(p)-20 {
		fmt.Fprintf(&b, "%d\n", r.n.Add(1))
	}
	return copy(p, b.Bytes()), nil
}

// brokenOff cuts r until more than 50 batches and more than the capacity of a
// pipe were read. It returns the number of lines returned.
func brokenOff(t *testing.T, r io.Reader) (lines int64, unfinished int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	c := newCutter(reading, r, &Format{Kind: CSV, NoHeader: true}, 5000, 4<<20, time.Second)
	batches := 0
	err := c.each(ctx, stop, func(b *batch) error {
		lines += b.Lines
		if batches++; batches <= 50 {
			time.Sleep(2 * time.Millisecond) // simulates sending
		}
		if batches == 50 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("broken off: %v", err)
	}
	select {
	case <-c.ended:
	default:
		t.Error("somebody still reads")
	}
	return lines, c.unfinished()
}

// TestBrokenOff checks that all bytes read are returned when a stream is broken
// off, including those between the reader and the cutter, and those of a read in
// progress.
func TestBrokenOff(t *testing.T) {
	r := &numbered{}
	if lines, left := brokenOff(t, r); lines != r.n.Load() || left != 0 {
		t.Errorf("%d lines were read, %d handed out, and %d bytes left", r.n.Load(), lines, left)
	}
}

// TestPipeBrokenOff checks that the reader of a pipe ends, whether or not data
// arrives, and that unread data is still in the pipe.
func TestPipeBrokenOff(t *testing.T) {
	in, out, err := os.Pipe()
	must(t, err)
	defer in.Close()
	text := make([]byte, 8<<20)
	n, _ := (&numbered{}).Read(text) // never fails
	text = text[:n]
	go func() {
		defer out.Close()
		if _, err := out.Write(text); err != nil {
			t.Error(err)
		}
	}()
	lines, left := brokenOff(t, in)
	rest, err := io.ReadAll(in)
	must(t, err)
	// The torn line continues in the pipe.
	all := lines + int64(bytes.Count(rest, []byte("\n")))
	if whole := int64(bytes.Count(text, []byte("\n"))); all != whole || len(rest) == 0 {
		t.Errorf("%d lines of %d are there; %d bytes of a line, %d in the pipe", all, whole, left, len(rest))
	}
}

// TestQuietPipeBrokenOff ends a reader that waits for data.
func TestQuietPipeBrokenOff(t *testing.T) {
	in, out, err := os.Pipe()
	must(t, err)
	defer in.Close()
	defer out.Close()
	ctx, cancel := context.WithCancel(t.Context())
	c := newCutter(ctx, in, &Format{Kind: CSV, NoHeader: true}, 5000, 4<<20, time.Hour)
	if _, err := out.WriteString("1\n2\n3"); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, cancel)
	var got string
	if err := c.each(ctx, cancel, func(b *batch) error { got += string(b.data); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("broken off: %v", err)
	}
	if got != "1\n2\n" || c.unfinished() != 1 {
		t.Errorf("%q and %d bytes", got, c.unfinished())
	}
	<-c.ended
}
