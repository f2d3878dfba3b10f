package probe

import (
	"os"
	"os/exec"
	"testing"
)

// TestReadFootprint counts this process and one that it starts.
func TestReadFootprint(t *testing.T) {
	before, err := ReadFootprint(os.Getpid())
	if err != nil || before.PSSBytes < 1<<20 || before.OpenFiles < 3 || before.Processes != 1 {
		t.Fatalf("%+v, %v", before, err)
	}
	child := exec.Command("sleep", "100")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	after, err := ReadFootprint(os.Getpid())
	if err := child.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = child.Wait() // it was killed
	if err != nil || after.Processes != 2 || after.OpenFiles <= before.OpenFiles {
		t.Errorf("%+v, then %+v: %v", before, after, err)
	}
	if _, err := ReadFootprint(1 << 30); err == nil {
		t.Error("a process that doesn't exist has memory")
	}
}
