//go:build !linux

package probe

import (
	"errors"
	"runtime"

	"github.com/rowmill/rowmill/result"
)

// system has no sources on this operating system.
type system struct{}

func hostSystem() system { return system{} }

func (system) open(_ string, warn func(string)) []namedSource {
	warn("operating system figures left out: they are read on Linux only, not on " + runtime.GOOS)
	return nil
}

func (system) openProcess(int, func(string)) (serverProcess, error) {
	return nil, errors.New("they are read on Linux only, not on " + runtime.GOOS)
}

func (system) describeMachine(string, *result.Machine) {}
