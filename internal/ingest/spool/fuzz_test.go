package spool

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
)

// withSum sets the checksum in the head of a segment.
func withSum(h []byte) []byte {
	binary.LittleEndian.PutUint32(h[28:], crc32.Checksum(h[:28], castagnoli))
	return h
}

const fuzzID = 0x0123456789abcdef

// segmentOf returns a segment with records at an offset.
func segmentOf(base int64, data ...string) []byte {
	p := putSegmentHead(fuzzID, base)
	for _, d := range data {
		var h [recordHead]byte
		putRecordHead(&h, fuzzID, base+int64(len(p)), []byte(d))
		p = append(append(p, h[:]...), d...)
	}
	return p
}

// FuzzSegment: for any content of a segment, all bytes are accounted for, each
// record equals its encoding, and a spool with it opens twice with the same
// records.
func FuzzSegment(f *testing.F) {
	whole := segmentOf(0, "one", "", "the third record")
	f.Add([]byte{})
	f.Add(whole)
	f.Add(whole[:len(whole)-3])
	f.Add(append(append([]byte{}, whole...), make([]byte, 50)...))
	f.Add(append(append([]byte{}, whole...), segmentOf(0, "x")...))
	for _, at := range []int{3, 33, 37, 41, 45, 49, 53} {
		p := append([]byte{}, whole...)
		p[at] ^= 4
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		got, err := scan(bytes.NewReader(p), int64(len(p)), fuzzID, 0)
		must(t, err)
		pos, i, k := min(segmentHead, int64(len(p))), 0, 0
		for pos < got.tail.from {
			switch {
			case i < len(got.records) && got.records[i].from == pos:
				to := got.records[i].to()
				var h [recordHead]byte
				putRecordHead(&h, fuzzID, pos, p[pos+recordHead:to])
				if !bytes.HasPrefix(p[pos:], h[:]) {
					t.Fatalf("the record at %d isn't one", pos)
				}
				pos, i = to, i+1
			case k < len(got.bad) && got.bad[k].from == pos && got.bad[k].to > pos:
				pos, k = got.bad[k].to, k+1
			default:
				t.Fatalf("nothing is known of %d: %+v", pos, got)
			}
		}
		if i < len(got.records) || k < len(got.bad) || pos != got.tail.from || got.tail.to != int64(len(p)) {
			t.Fatalf("%d of %d bytes are known: %+v", pos, len(p), got)
		}

		dir := t.TempDir()
		for name, text := range map[string][]byte{first: p, "id": []byte(formatID(fuzzID))} {
			must(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		}
		s, _, err := Open(quick(dir))
		if err != nil {
			return // a later format
		}
		records := rest(t, s)
		if s.ID() == formatID(fuzzID) && len(records) != len(got.records) {
			t.Fatalf("read %d records of %d", len(records), len(got.records))
		}
		closeSpool(t, s)
		goesOn(t, dir, records)
	})
}
