package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// apartVariable names the test that a process is for.
const apartVariable = "ROWMILL_TEST_APART"

// apart reports whether a test that changes the working directory or the environment has run in a
// process of its own, beside other tests; it then has no more to do. In that process, it goes on.
func apart(t *testing.T) bool {
	t.Helper()
	if os.Getenv(apartVariable) == t.Name() {
		return false
	}
	t.Parallel()
	run := "^" + t.Name() + "$"
	args := []string{"-test.v"}
	flag.Visit(func(f *flag.Flag) {
		switch name, value := f.Name, f.Value.String(); {
		case name == "test.run":
			if _, part, ok := strings.Cut(value, "/"); ok {
				run += "/" + part
			}
		case name == "test.parallel" || !strings.HasPrefix(name, "test."):
			args = append(args, "-"+name+"="+value)
		}
	})
	if end, ok := t.Deadline(); ok { // its stack shows where it hangs
		args = append(args, fmt.Sprintf("-test.timeout=%v", time.Until(end)-10*time.Second))
	}
	c := exec.Command(os.Args[0], append(args, "-test.run="+run)...)
	c.Env = append(os.Environ(), apartVariable+"="+t.Name())
	out, err := c.CombinedOutput()
	switch {
	case err != nil:
		t.Fatalf("%v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP: "+t.Name()+" "):
		t.Skipf("%s", out)
	case !strings.Contains(string(out), "--- PASS: "+t.Name()+" "):
		t.Fatalf("it didn't run:\n%s", out)
	}
	t.Logf("%s", out)
	return true
}
