package probe

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// TestIdleWatch checks that a server that works while another is measured is named,
// and that an idle one is not.
func TestIdleWatch(t *testing.T) {
	for name, c := range map[string]struct {
		command string
		warned  bool
	}{
		"busy": {"while :; do :; done", true},
		"idle": {"exec sleep 60", false},
	} {
		t.Run(name, func(t *testing.T) {
			server := exec.Command("sh", "-c", c.command)
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = server.Process.Kill()
				_ = server.Wait() // killed by the test
			}()
			w := WatchIdle(t.Context(), []engine.Info{{Engine: "null", PID: server.Process.Pid}, {Engine: "embedded"}})
			defer func() {
				if err := w.Close(); err != nil {
					t.Error(err)
				}
			}()
			if len(w.probes) != 1 {
				t.Fatalf("%d servers are watched, want the other one", len(w.probes))
			}
			got := ""
			for n := 0; n < 6 && (n == 0 || c.warned && got == ""); n++ { // the other server gets little of a busy machine
				w.Start(t.Context())
				time.Sleep(500 * time.Millisecond)
				got = strings.Join(w.Stop(t.Context()), "; ")
			}
			if c.warned != strings.Contains(got, "null, which was not measured, used ") {
				t.Errorf("says %q", got)
			}
		})
	}
}
