package report

import (
	"io"

	"github.com/rowmill/rowmill/result"
)

// A whole is a combined report of several runs: the cells of an insert-method
// matrix, or those of a speed test.
type whole interface {
	Text(w io.Writer) error
	Markdown(w io.Writer) error
	JSON(w io.Writer) error
	HTML(w io.Writer) error
	PNG(w io.Writer, opts PNGOptions) error
}

// wholeOf returns the combined report of the runs; nil if each is reported by
// itself.
func wholeOf(recs []result.Record) (whole, error) {
	if IsMatrix(recs) {
		m, err := NewMatrix(recs)
		if err != nil {
			return nil, err
		}
		return m, nil
	}
	t, err := speedTest(recs)
	if t == nil {
		return nil, err
	}
	return t, nil
}
