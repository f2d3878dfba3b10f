package probe

import (
	"runtime"

	"github.com/rowmill/rowmill/result"
)

// Machine describes this machine for the header of a run record; fields that
// can't be read are left empty. dataDir is the server's data directory, or "" if
// that is on another machine.
//
// Disk has the form "vda: MODEL, rotational, write back cache": the device and
// its own description. Virtual disks often report that they are rotational.
func Machine(dataDir string) result.Machine {
	return hostSystem().machine(dataDir)
}

func (sys system) machine(dataDir string) result.Machine {
	m := result.Machine{Cores: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	sys.describeMachine(dataDir, &m)
	return m
}

// namedSource is a source with its name in warnings.
type namedSource struct {
	what   string
	source source
}
