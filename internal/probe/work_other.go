//go:build !linux

package probe

import (
	"errors"
	"math"
)

func threadCPU() float64 { return math.NaN() }

func (system) openSteal() (source, error) { return nil, errors.New("read on Linux only") }
