package spool

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io"
)

const windowSize = 256 << 10

// window reads a segment and buffers one piece of it.
type window struct {
	r    io.ReaderAt
	size int64
	buf  []byte
	at   int64 // position of the first byte of buf
}

// bytes returns n bytes at pos, fewer at the segment's end. They are valid until the next call.
func (w *window) bytes(pos int64, n int) ([]byte, error) {
	n = int(min(int64(n), w.size-pos, windowSize))
	if pos < w.at || pos+int64(n) > w.at+int64(len(w.buf)) {
		if w.buf == nil {
			w.buf = make([]byte, 0, windowSize)
		}
		p := w.buf[:min(windowSize, w.size-pos)]
		w.buf = w.buf[:0]
		if k, err := w.r.ReadAt(p, pos); k < len(p) {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		w.buf, w.at = p, pos
	}
	return w.buf[pos-w.at:][:n], nil
}

// damage is a part of a segment that is not a record.
type damage struct {
	from, to int64 // positions in the segment
	reason   string
}

const (
	reasonData = "the data's checksum is wrong"
	reasonHead = "no record's head, or a damaged one"
	reasonEnd  = "the record is longer than what is left of the segment"
)

// scanned is the content of a segment. All positions are within the segment.
type scanned struct {
	head     head
	headGood bool
	records  []place
	bad      []damage
	// tail is the end of a segment in which no complete record begins: it may belong to a record that
	// was being written. If tail.from is the segment's size, there is no tail.
	tail damage
	// prefix means that the tail is the beginning of a record, or zeros.
	prefix bool
}

// scan finds the records of a segment that begins at the offset base. It returns only errors of r.
func scan(r io.ReaderAt, size int64, id uint64, base int64) (scanned, error) {
	var out scanned
	w := &window{r: r, size: size}
	p, err := w.bytes(0, segmentHead)
	if err != nil {
		return out, err
	}
	out.head, out.headGood = getSegmentHead(p)
	pos := min(segmentHead, size)
	for pos < size {
		p, err := w.bytes(pos, recordHead)
		if err != nil {
			return out, err
		}
		length, sum, ok := getRecordHead(p, id, base+pos)
		end := pos + recordHead + length
		reason := reasonHead
		if ok && end <= size {
			got, err := w.checksum(pos+recordHead, end)
			if err != nil {
				return out, err
			}
			if got == sum {
				out.records = append(out.records, place{pos, int32(end - pos)})
				pos = end
				continue
			}
			reason = reasonData
			// After a crash a file may have its new size but not its data.
			if last, err := w.zeros(end); err != nil {
				return out, err
			} else if last {
				break // the record may have been cut short while it was written
			}
		} else {
			if ok {
				reason = reasonEnd
			}
			// A record is begun once the one before it is on disk, so bytes before a head are damage.
			if end, err = w.nextRecord(pos+1, id, base); err != nil {
				return out, err
			}
			if end == size {
				break
			}
		}
		out.bad = append(out.bad, damage{pos, end, reason})
		pos = end
	}
	out.tail = damage{pos, size, reasonHead}
	if pos == size {
		return out, nil
	}
	p, err = w.bytes(pos, recordHead)
	if err != nil {
		return out, err
	}
	if length, _, ok := getRecordHead(p, id, base+pos); ok {
		out.prefix = pos+recordHead+length > size // the tail contains nothing but this record
		out.tail.reason = reasonEnd
		if !out.prefix {
			out.tail.reason = reasonData
		}
		return out, nil
	}
	if len(p) < recordHead && bytes.HasPrefix(p, []byte(marker)[:min(len(p), len(marker))]) {
		out.prefix = true
		return out, nil
	}
	out.prefix, err = w.zeros(pos)
	return out, err
}

func (w *window) checksum(from, to int64) (uint32, error) {
	var sum uint32
	for from < to {
		p, err := w.bytes(from, int(min(to-from, windowSize)))
		if err != nil {
			return 0, err
		}
		sum = crc32.Update(sum, castagnoli, p)
		from += int64(len(p))
	}
	return sum, nil
}

// nextRecord returns the position of the first record head from pos on, or the segment's size.
func (w *window) nextRecord(pos int64, id uint64, base int64) (int64, error) {
	for w.size-pos >= recordHead {
		p, err := w.bytes(pos, windowSize)
		if err != nil {
			return 0, err
		}
		i := bytes.Index(p, []byte(marker))
		if i < 0 {
			// The window may end within the next marker.
			pos += int64(len(p) - len(marker) + 1)
			continue
		}
		pos += int64(i)
		if p, err = w.bytes(pos, recordHead); err != nil {
			return 0, err
		}
		if _, _, ok := getRecordHead(p, id, base+pos); ok {
			return pos, nil
		}
		pos++
	}
	return w.size, nil
}

// zeros reports whether all bytes from pos to the end are zero, or there are none.
func (w *window) zeros(pos int64) (bool, error) {
	for pos < w.size {
		p, err := w.bytes(pos, windowSize)
		if err != nil {
			return false, err
		}
		for _, b := range p {
			if b != 0 {
				return false, nil
			}
		}
		pos += int64(len(p))
	}
	return true, nil
}
