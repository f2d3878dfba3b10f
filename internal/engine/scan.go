package engine

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/rowmill/rowmill/internal/value"
)

// Reading calls read with a function that passes each batch on to fn until ctx ends. It returns the
// error of fn unchanged. If ctx has ended, it returns ctx's error in place of read's.
func Reading(ctx context.Context, t *Table, fn func(*Batch) error, classify func(error) error, read func(fn func(*Batch) error) error) error {
	var own error
	err := read(func(b *Batch) error {
		if own = ctx.Err(); own == nil {
			own = fn(b)
		}
		return own
	})
	switch {
	case own != nil:
		return own
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("read table %s: %w", t.Name, classify(err))
	}
	return nil
}

// scanBatch is the number of rows that ScanDriverRows passes at a time.
const scanBatch = 1000

// ScanDriverRows reads rows from a driver and passes them to fn in batches that it reuses. Times
// may be text or time.Time.
func ScanDriverRows(rows driver.Rows, cols []Column, fn func(*Batch) error) error {
	b := NewBatch(cols)
	values := make([]driver.Value, len(cols))
	if n := len(rows.Columns()); n != len(cols) {
		return fmt.Errorf("got %d columns, want %d", n, len(cols))
	}
	for {
		err := rows.Next(values)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err == nil {
			for i, v := range values {
				if err := b.Columns[i].appendValue(v); err != nil {
					return fmt.Errorf("column %s: %w", cols[i].Name, err)
				}
			}
			b.EndRow()
		}
		if b.Rows() == scanBatch || err != nil && b.Rows() > 0 {
			if err := fn(b); err != nil {
				return err
			}
			b.Reset()
		}
		if err != nil {
			return nil
		}
	}
}

// appendValue appends a value as a driver returned it.
func (v *Vector) appendValue(val driver.Value) error {
	switch x := val.(type) {
	case nil:
		v.AppendNull()
		return nil
	case []byte:
		return appendText(v, x)
	case string:
		return appendText(v, x)
	case int64:
		switch v.Type {
		case Int32, Int64, Time:
			v.Ints = append(v.Ints, x)
			return nil
		case Float32, Float64:
			v.Floats = append(v.Floats, float64(x))
			return nil
		}
	case bool: // of a column declared BOOLEAN
		if x {
			return v.appendValue(int64(1))
		}
		return v.appendValue(int64(0))
	case float32:
		return v.appendValue(float64(x))
	case float64:
		if v.Type == Float32 {
			x = float64(float32(x))
		}
		if v.Type == Float32 || v.Type == Float64 {
			v.Floats = append(v.Floats, x)
			return nil
		}
	case time.Time:
		if v.Type == Time {
			v.Ints = append(v.Ints, x.UnixMicro())
			return nil
		}
	}
	return fmt.Errorf("a value of Go type %T came back", val)
}

func appendText[T string | []byte](v *Vector, s T) error {
	switch v.Type {
	case Varchar, Char, Decimal, Binary:
		v.Bytes = append(v.Bytes, s...)
		v.EndBytes()
	case Time:
		us, _, err := value.ParseTime([]byte(s), nil)
		if err != nil {
			return fmt.Errorf("time %q came back", s)
		}
		v.Ints = append(v.Ints, us)
	case Float32, Float64:
		f, err := strconv.ParseFloat(string(s), 64)
		if err != nil {
			return fmt.Errorf("number %q came back", s)
		}
		if v.Type == Float32 {
			f = float64(float32(f))
		}
		v.Floats = append(v.Floats, f)
	default:
		n, err := strconv.ParseInt(string(s), 10, 64)
		if err != nil {
			return fmt.Errorf("integer %q came back", s)
		}
		v.Ints = append(v.Ints, n)
	}
	return nil
}
