package result

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
)

// A Writer writes runs to a record and flushes each line.
type Writer struct {
	w      io.Writer
	buf    bytes.Buffer
	failed bool
}

// Failed reports whether a line could not be written.
func (w *Writer) Failed() bool { return w.failed }

// NewWriter returns a Writer to w. Each line is a single Write. If a full disk truncates a line,
// the Writer removes it: a file has an incomplete line only after a crash of the machine.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Run writes a header. It fills in Type and Format.
func (w *Writer) Run(r Run) error {
	r.Type, r.Format = "run", Format
	return w.line(r)
}

// Interval writes an interval. It fills in Type. Counters that are NaN or infinite are
// omitted: JSON can't represent them, and they must not end the run.
func (w *Writer) Interval(iv Interval) error {
	iv.Type = "interval"
	for name, v := range iv.Counters {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			iv.Counters = maps.Clone(iv.Counters)
			delete(iv.Counters, name)
		}
	}
	return w.line(iv)
}

// End writes the last line of a run. It fills in Type.
func (w *Writer) End(e End) error {
	e.Type = "summary"
	return w.line(e)
}

func (w *Writer) line(v any) error {
	w.buf.Reset()
	if err := json.NewEncoder(&w.buf).Encode(v); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	n, err := w.w.Write(w.buf.Bytes())
	if err == nil {
		return nil
	}
	w.failed = true
	if n > 0 {
		w.takeBack(n)
	}
	return fmt.Errorf("write record: %w", err)
}

// takeBack removes the n bytes of a line that were written before the disk was full.
func (w *Writer) takeBack(n int) {
	f, ok := w.w.(interface {
		io.Seeker
		Truncate(size int64) error
	})
	if !ok {
		return
	}
	// Seeking fails for pipes and devices, where nothing can be removed.
	if at, err := f.Seek(int64(-n), io.SeekCurrent); err == nil {
		_ = f.Truncate(at)
	}
}

// withoutEnd is the warning for a record without a last line, left by a kill.
const withoutEnd = "the run was cut off: its record has no end, the figures cover what was written"

// maxLine is the maximum length of a record's line, a thousand times the largest seen.
const maxLine = 64 << 20

// ReadFile reads the runs of a file.
func ReadFile(path string) ([]Record, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Read(f, path)
}

// Read reads the runs of r; source names it in errors. A last line truncated by a
// kill becomes a warning of the record, a damaged line elsewhere is an error.
func Read(r io.Reader, source string) ([]Record, error) {
	var recs []Record
	in := bufio.NewReaderSize(r, 1<<16)
	for n := 1; ; n++ {
		line, torn, err := readLine(in)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", source, n, err)
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := addLine(&recs, line, source); err != nil {
			if torn && len(recs) > 0 {
				last := &recs[len(recs)-1]
				last.Warnings = append(last.Warnings, fmt.Sprintf("line %d is cut off and was left out", n))
				break
			}
			return nil, fmt.Errorf("%s:%d: %w", source, n, err)
		}
	}
	if len(recs) == 0 {
		return nil, fmt.Errorf("%s: no run in it", source)
	}
	for i := range recs {
		if recs[i].End == nil {
			recs[i].Warnings = append(recs[i].Warnings, withoutEnd)
		}
	}
	return recs, nil
}

// readLine returns a line without its newline; torn means that there was none.
func readLine(in *bufio.Reader) (line []byte, torn bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], false, nil
		case errors.Is(err, bufio.ErrBufferFull):
			if len(line) > maxLine {
				return nil, false, errors.New("line too long for a run record")
			}
		case errors.Is(err, io.EOF) && len(line) > 0:
			return line, true, nil
		default:
			return nil, false, err
		}
	}
}

func addLine(recs *[]Record, line []byte, source string) error {
	var kind struct {
		Type   string `json:"type"`
		Format string `json:"format"`
	}
	if err := json.Unmarshal(line, &kind); err != nil {
		return fmt.Errorf("not a line of a run record: %w", err)
	}
	if kind.Type == "run" {
		if kind.Format != Format {
			return fmt.Errorf("format %q, this rowmill reads %q", kind.Format, Format)
		}
		rec := Record{Source: source}
		if err := json.Unmarshal(line, &rec.Run); err != nil {
			return fmt.Errorf("header: %w", err)
		}
		if n := len(*recs); n > 0 && rec.Run.Resumes != nil {
			(*recs)[n-1].Resume(rec.Run)
			return nil
		}
		*recs = append(*recs, rec)
		return nil
	}
	if len(*recs) == 0 {
		return fmt.Errorf("a run record begins with a line of type \"run\", not %q", kind.Type)
	}
	rec := &(*recs)[len(*recs)-1]
	switch kind.Type {
	case "interval":
		var iv Interval
		if err := json.Unmarshal(line, &iv); err != nil {
			return fmt.Errorf("interval: %w", err)
		}
		rec.Add(iv)
	case "summary":
		var end End
		if err := json.Unmarshal(line, &end); err != nil {
			return fmt.Errorf("summary: %w", err)
		}
		rec.End = &end
	}
	// Lines of other types were written by a later version; ignore them.
	return nil
}
