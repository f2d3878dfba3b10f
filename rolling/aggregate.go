package rolling

// A Bucketing is how a grid divides its axis, in the form that SQL needs. A bucket
// of months begins where the number of its first month, counted from January of year
// 0, is a multiple of Months. Any other bucket begins where its distance from Origin
// is a multiple of Step. The unused one of Months and Step is 0.
type Bucketing struct{ Step, Origin, Months int64 }

// Bucketing returns how the grid divides its axis.
func (g Grid) Bucketing() Bucketing { return Bucketing{g.step, g.origin, g.months} }

// Floor returns the start of the period that contains pos, limited to the axis.
func (g Grid) Floor(pos int64) int64 {
	b := g.Bounds()
	p, err := g.At(min(max(pos, b.From), b.To-1))
	if err != nil {
		return b.From
	}
	if pos >= b.To {
		return b.To
	}
	return p.From
}

// Ceil returns the end of the period that contains the position before pos. If a
// period begins at pos, that is pos itself.
func (g Grid) Ceil(pos int64) int64 {
	b := g.Bounds()
	if pos <= b.From {
		return b.From
	}
	p, err := g.At(min(pos, b.To) - 1)
	if err != nil {
		return b.To
	}
	return p.To
}
