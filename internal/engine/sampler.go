package engine

import (
	"context"
	"errors"
	"math"
)

// A Source is a figure: the sum, times Scale, of values that a server reports by name. The sum
// omits values that the server doesn't report.
type Source struct {
	Counter
	Of    []string
	Scale float64 // 0 is 1
}

// A Sampler implements Counters for a server, on one connection. If the connection is lost, Sample
// opens another. Read adds the server's values to a map.
type Sampler[C any] struct {
	Sources []Source
	Conn    C
	Dial    func(ctx context.Context) (C, error)
	Read    func(ctx context.Context, conn C, values map[string]float64) error
	Discard func(C) error

	values map[string]float64
}

// Open opens the connection. It omits the figures that the server lacks or doesn't show to this
// user.
func (s *Sampler[C]) Open(ctx context.Context) (Counters, error) {
	var err error
	if s.Conn, err = s.Dial(ctx); err != nil {
		return nil, err
	}
	s.values = map[string]float64{}
	first := make([]float64, len(s.Sources))
	if err := s.Sample(ctx, first); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	var kept []Source
	for i, v := range first {
		if !math.IsNaN(v) {
			kept = append(kept, s.Sources[i])
		}
	}
	s.Sources = kept
	return s, nil
}

func (s *Sampler[C]) Describe() []Counter {
	out := make([]Counter, len(s.Sources))
	for i, source := range s.Sources {
		out[i] = source.Counter
	}
	return out
}

func (s *Sampler[C]) Sample(ctx context.Context, dst []float64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	clear(s.values)
	err := s.Read(ctx, s.Conn, s.values)
	if errors.Is(err, ErrConnectionLost) {
		if conn, failed := s.Dial(ctx); failed == nil {
			_ = s.Discard(s.Conn) // already lost
			s.Conn = conn
			clear(s.values)
			err = s.Read(ctx, conn, s.values)
		}
	}
	if err != nil {
		return err
	}
	for i, source := range s.Sources {
		dst[i] = math.NaN()
		for _, name := range source.Of {
			if v, ok := s.values[name]; ok && math.IsNaN(dst[i]) {
				dst[i] = v
			} else if ok {
				dst[i] += v
			}
		}
		if source.Scale != 0 {
			dst[i] *= source.Scale
		}
	}
	return nil
}

func (s *Sampler[C]) Close() error { return s.Discard(s.Conn) }
