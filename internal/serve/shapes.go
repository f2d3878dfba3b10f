package serve

import "sync/atomic"

// shapes say for each shape of statement (see session.Shape) until when statements of this shape
// are passed on whole, unexamined. Two shapes may share a place in the array. If one takes the
// place of the other, statements of the other shape are examined again.
type shapes [1 << 12]struct {
	shape, until atomic.Uint64
	why          atomic.Pointer[string]
}

// due reports that a statement is to be examined. now is in milliseconds.
func (s *shapes) due(shape, now uint64) bool {
	at := &s[shape%uint64(len(s))]
	return at.shape.Load() != shape || at.until.Load() <= now
}

// rest says that statements of a shape needn't be examined until a time, and why.
func (s *shapes) rest(shape, until uint64, why *string) {
	at := &s[shape%uint64(len(s))]
	at.until.Store(until)
	at.why.Store(why)
	at.shape.Store(shape)
}

// why returns why statements of a shape are passed on whole.
func (s *shapes) why(shape uint64) *string { return s[shape%uint64(len(s))].why.Load() }
