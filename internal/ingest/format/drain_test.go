package format

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"
)

// TestPipeBrokenOff breaks off reading a pipe after 50 batches: the reader ends, although
// data arrives, what it has read is returned, and the rest is still in the pipe.
func TestPipeBrokenOff(t *testing.T) {
	in, out, err := os.Pipe()
	must(t, err)
	defer in.Close()
	var text []byte
	for n := range 1_000_000 {
		text = fmt.Appendf(text, "%d\n", n)
	}
	go func() {
		defer out.Close()
		if _, err := out.Write(text); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	c := NewCutter(reading, in, &Format{Kind: CSV, NoHeader: true}, 5000, 4<<20, time.Second)
	batches, lines := 0, int64(0)
	err = c.Each(ctx, stop, func(b *Batch) error {
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
	rest, err := io.ReadAll(in)
	must(t, err)
	// The torn line continues in the pipe.
	if all := lines + int64(bytes.Count(rest, []byte("\n"))); all != 1_000_000 || len(rest) == 0 {
		t.Errorf("%d lines are there; %d bytes of a line, %d in the pipe", all, c.Unfinished(), len(rest))
	}
}

// TestQuietPipeBrokenOff ends a reader that waits for data.
func TestQuietPipeBrokenOff(t *testing.T) {
	in, out, err := os.Pipe()
	must(t, err)
	defer in.Close()
	defer out.Close()
	ctx, cancel := context.WithCancel(t.Context())
	c := NewCutter(ctx, in, &Format{Kind: CSV, NoHeader: true}, 5000, 4<<20, time.Hour)
	if _, err := out.WriteString("1\n2\n3"); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, cancel)
	var got string
	if err := c.Each(ctx, cancel, func(b *Batch) error { got += string(b.Data); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("broken off: %v", err)
	}
	if got != "1\n2\n" || c.Unfinished() != 1 {
		t.Errorf("%q and %d bytes", got, c.Unfinished())
	}
	<-c.ended
}
