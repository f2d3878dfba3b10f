package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"testing"
	"time"
)

// A stream that is ended by Ctrl-C has been read further than it was sent: what
// was read is nowhere else.
func TestTrapStreamReadAhead(t *testing.T) {
	onKeepers(t, func(l *loading) {
		for i, spool := range []string{"", l.dir + "/spool"} {
			f := loadRows(1_000_000*i, 200_000, false)
			path := l.write("stream", f.text)
			in, err := os.Open(path)
			if err != nil {
				l.Fatal(err)
			}
			args := []string{"load", l.file, "-", "--bad", l.dir + "/bad.jsonl", "--format", "csv", "--json", "--batch", "500"}
			if spool != "" {
				args = append(args, "--spool", spool)
			}
			before := len(l.rows())
			ctx, cancel := context.WithCancel(l.Context())
			var stdout, stderr bytes.Buffer
			code := make(chan int, 1)
			go func() { code <- run(ctx, args, in, &stdout, &stderr) }()
			for deadline := time.Now().Add(20 * time.Second); len(l.rows()) == before; {
				if time.Now().After(deadline) {
					cancel()
					<-code
					l.Fatalf("nothing is loaded: %s", stderr.String())
				}
				time.Sleep(5 * time.Millisecond)
			}
			cancel()
			if got := <-code; got != exitInterrupted && got != exitDone {
				l.Errorf("spool %q: exit %d", spool, got)
			}
			at, err := in.Seek(0, io.SeekCurrent)
			if err != nil {
				l.Fatal(err)
			}
			in.Close()
			if spool != "" {
				l.loadAny("--spool", spool) // what lies there
			}
			// The last row may have been read in part; those before are whole.
			want := 0
			for _, line := range bytes.Split([]byte(f.text)[:at], []byte("\n")) {
				if n := bytes.Count(line, []byte(",")); n == 3 && line[0] != 's' {
					want++
				}
			}
			if got := len(l.rows()) - before; got < want-1 || got > want || at == 0 {
				l.Errorf("spool %q: %d rows, and %d were read\n%s%s", spool, got, want, stdout.String(), stderr.String())
			}
			if at == int64(len(f.text)) {
				l.Logf("spool %q: it was read to its end", spool)
			}
		}
	})
}
