package sizing

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// TestLeftover checks that a plan drops the scratch tables of processes that are gone,
// and no others: of another host, those that are old.
func TestLeftover(t *testing.T) {
	t.Parallel()
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Skip(err)
	}
	now := time.Now()
	name := func(host string, pid int, age time.Duration) string {
		return fmt.Sprintf("%s%s_%d_%s", scratchName, host, pid, strconv.FormatInt(now.Add(-age).Unix(), 36))
	}
	const elsewhere = "00000000"
	for _, c := range []struct {
		name string
		want bool
	}{
		{name(hostMark(), dead.Process.Pid, 0), true},
		{name(hostMark(), dead.Process.Pid, 0) + "_c", true},
		{name(elsewhere, os.Getpid(), 48*time.Hour), true},
		{name(hostMark(), os.Getppid(), 0), false},
		{name(elsewhere, dead.Process.Pid, 0), false},
		{scratch(now), false},
		{scratchName + "mine", false},
	} {
		if got := leftover(c.name, now); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
