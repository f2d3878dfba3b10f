package mysql

import (
	"database/sql/driver"
	"unsafe"

	"github.com/rowmill/rowmill/internal/engine"
)

// A binder converts rows to the driver's values without an allocation for each. An
// interface that holds an int64 points to memory of its own; the binder provides
// this memory and reuses it for the next batch. So the values are valid until the
// next call of bind or reset, and the driver keeps none of them.
type binder struct {
	values []driver.Value
	ints   []int64
	floats []float64
	bytes  [][]byte
	text   []byte // times
}

// eface is the compiler's layout of an empty interface: see runtime2.go of Go's
// runtime. TestBinder fails if it changes.
type eface struct{ typ, data unsafe.Pointer }

// box returns an interface of sample's type that refers to data.
func box(sample driver.Value, data unsafe.Pointer) driver.Value {
	(*eface)(unsafe.Pointer(&sample)).data = data
	return sample
}

// Samples of the types that the driver accepts.
var (
	intSample   driver.Value = int64(0)
	floatSample driver.Value = float64(0)
	bytesSample driver.Value = []byte{}
)

// bind returns the values of rows [from, to), row by row.
func (n *binder) bind(b *engine.Batch, from, to int) []driver.Value {
	n.reset()
	for row := from; row < to; row++ {
		for c := range b.Columns {
			n.values = append(n.values, n.value(&b.Columns[c], row))
		}
	}
	return n.values
}

func (n *binder) reset() {
	n.values, n.ints, n.floats, n.bytes, n.text = n.values[:0], n.ints[:0], n.floats[:0], n.bytes[:0], n.text[:0]
}

// add binds one value for a column of type t.
func (n *binder) add(t engine.Type, v engine.Value) {
	var bound driver.Value
	switch t {
	case engine.Float32:
		bound = n.float(float64(float32(v.Float)))
	case engine.Float64:
		bound = n.float(v.Float)
	case engine.Time:
		bound = n.time(v.Int)
	default:
		bound = n.int(v.Int)
	}
	n.values = append(n.values, bound)
}

// value binds one value. If a slice grows, values bound earlier still refer to its
// old memory.
func (n *binder) value(v *engine.Vector, row int) driver.Value {
	if v.Null(row) {
		return nil
	}
	switch v.Type {
	case engine.Float32, engine.Float64:
		return n.float(v.Floats[row])
	case engine.Varchar, engine.Char, engine.Decimal:
		return n.textValue(v.Value(row))
	case engine.Time:
		return n.time(v.Ints[row])
	}
	return n.int(v.Ints[row])
}

func (n *binder) int(i int64) driver.Value {
	n.ints = append(n.ints, i)
	return box(intSample, unsafe.Pointer(&n.ints[len(n.ints)-1]))
}

func (n *binder) float(f float64) driver.Value {
	n.floats = append(n.floats, f)
	return box(floatSample, unsafe.Pointer(&n.floats[len(n.floats)-1]))
}

func (n *binder) time(us int64) driver.Value {
	start := len(n.text)
	n.text = engine.AppendTime(n.text, us)
	return n.textValue(n.text[start:])
}

func (n *binder) textValue(p []byte) driver.Value {
	if p == nil {
		p = []byte{} // the driver sends a nil slice as NULL
	}
	n.bytes = append(n.bytes, p)
	return box(bytesSample, unsafe.Pointer(&n.bytes[len(n.bytes)-1]))
}
