package probe

import (
	"runtime"

	"github.com/rowmill/rowmill/result"
)

// Machine describes this machine for a run's header, as far as it can be read:
// what can't is left empty. dataDir is where the server's data lies, or "" when
// that is elsewhere.
//
// Disk reads "vda: MODEL, rotational, write back cache": the device, and what
// it says of itself. Virtual disks often claim to be rotational.
func Machine(dataDir string) result.Machine {
	return hostSystem().machine(dataDir)
}

func (sys system) machine(dataDir string) result.Machine {
	m := result.Machine{Cores: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	sys.describeMachine(dataDir, &m)
	return m
}

// namedSource is a source and what warnings call it.
type namedSource struct {
	what   string
	source source
}
