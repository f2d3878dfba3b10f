package probe

import (
	"os/exec"
	"testing"
	"time"
)

// TestReadFootprint counts a shell and the process that it starts.
func TestReadFootprint(t *testing.T) {
	shell := exec.Command("sh", "-c", "read line; sleep 100 & read line; kill $!")
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	before, err := ReadFootprint(shell.Process.Pid)
	if err != nil || before.PSSBytes < 4096 || before.OpenFiles < 3 || before.Processes != 1 {
		t.Fatalf("%+v, %v", before, err)
	}
	write := func() {
		if _, err := in.Write([]byte("\n")); err != nil {
			t.Error(err)
		}
	}
	write()
	after := before
	for range 500 {
		if after, err = ReadFootprint(shell.Process.Pid); err != nil || after.Processes == 2 && after.OpenFiles > before.OpenFiles {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil || after.Processes != 2 || after.OpenFiles <= before.OpenFiles {
		t.Errorf("%+v, then %+v: %v", before, after, err)
	}
	write()
	if err := shell.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := ReadFootprint(1 << 30); err == nil {
		t.Error("a process that doesn't exist has memory")
	}
}
