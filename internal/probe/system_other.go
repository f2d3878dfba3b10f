//go:build !linux

package probe

import (
	"errors"
	"math"
	"runtime"
	"time"

	"github.com/rowmill/rowmill/result"
)

// system has no sources on this operating system.
type system struct{}

func hostSystem() system { return system{} }

func (system) open(warn func(string)) []*watched {
	warn("operating system figures left out: they are read on Linux only, not on " + runtime.GOOS)
	return nil
}

func (system) openDisk(string, func(string)) []*watched { return nil }

// A processSource does not exist here.
type processSource struct{ source }

func (processSource) startedAfter(time.Time) {}

func (system) openProcess(int, *cpuTime, func(string)) (*processSource, error) {
	return nil, errors.New("they are read on Linux only, not on " + runtime.GOOS)
}

func (system) describeMachine(string, *result.Machine) {}

func (system) openSteal() (source, error) { return nil, errors.New("read on Linux only") }

func threadCPU() float64 { return math.NaN() }
