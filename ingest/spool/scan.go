package spool

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io"
)

// windowSize is how much of a segment is read at once.
const windowSize = 256 << 10

// window reads a segment, and holds one piece of it.
type window struct {
	r    io.ReaderAt
	size int64
	buf  []byte
	at   int64 // of the first byte of buf
}

// bytes returns up to n bytes at pos, fewer at the end of the segment only. They
// hold until the next call.
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

// damage is a part of a segment that is no record.
type damage struct {
	from, to int64 // positions in the segment
	reason   string
}

const (
	reasonData = "the data's checksum is wrong"
	reasonHead = "no record's head, or a damaged one"
	reasonEnd  = "the record is longer than what is left of the segment"
)

// scanned is what a segment holds. All positions are within the segment.
type scanned struct {
	head     head
	headGood bool
	records  []place
	bad      []damage
	// tail is what is at the end and may be of a record that was being written:
	// nothing whole follows it. It is empty where tail.from is the size.
	tail damage
	// prefix tells that the tail is the beginning of a record, or zeros.
	prefix bool
}

// scan reads a segment of size bytes, which begins at the offset base, and finds
// its records. It returns the errors of r only.
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
			// A file may have grown before its data were on disk.
			if last, err := w.zeros(end); err != nil {
				return out, err
			} else if last {
				break // perhaps it was being written
			}
		} else {
			if ok {
				reason = reasonEnd
			}
			// A record is begun when the one before it is on disk: whatever
			// comes before a record's head wasn't being written.
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
		out.prefix = pos+recordHead+length > size // all of it is the record's
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

// checksum returns the CRC of the bytes from one position to another.
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

// nextRecord returns the position of the first head of a record at or behind
// pos, or the segment's size.
func (w *window) nextRecord(pos int64, id uint64, base int64) (int64, error) {
	for w.size-pos >= recordHead {
		p, err := w.bytes(pos, windowSize)
		if err != nil {
			return 0, err
		}
		i := bytes.Index(p, []byte(marker))
		if i < 0 {
			// Its first bytes may be the last ones here.
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

// zeros tells whether all from pos to the end is zero, if there is anything.
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
