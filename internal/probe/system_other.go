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

var errOther = errors.New("they are read on Linux only, not on " + runtime.GOOS)

func hostSystem() system { return system{} }

func (system) open(take taker) { take("operating system figures", nil, errOther) }

func (system) openDisk(string, taker, func(string)) {}

// A processSource does not exist here.
type processSource struct{ counters []result.Counter }

func (processSource) startedAfter(time.Time) {}

func (processSource) sample(time.Time, figures) error { return errOther }

func (system) openProcess(int, *cpuTime, func(string)) (*processSource, error) {
	return nil, errOther
}

func (system) describeMachine(string, *result.Machine) {}

func (system) cpu() *source { return nil }

// ProcessCPU exists on Linux only.
func ProcessCPU(int) (float64, error) { return 0, errOther }

func threadCPU() float64 { return math.NaN() }

// A Footprint is the memory and the files of a server's processes.
type Footprint struct {
	PSSBytes             int64
	OpenFiles, Processes int
}

// ReadFootprint exists on Linux only.
func ReadFootprint(int) (Footprint, error) { return Footprint{}, errOther }

// Sectors exists on Linux only.
func Sectors(string) (logical, physical int64, cache string) { return 0, 0, "" }
