package spool

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

const (
	segmentHead = 32
	recordHead  = 16
	magic       = "rmspool"
	version     = 1
	// marker begins a record. No UTF-8 has its first byte, so that text is searched quickly.
	marker = "\xf5rec"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func formatID(id uint64) string { return fmt.Sprintf("%016x", id) }

func parseID(s string) (uint64, bool) {
	s = strings.TrimSuffix(s, "\n")
	id, err := strconv.ParseUint(s, 16, 64)
	return id, err == nil && formatID(id) == s
}

func segmentName(base int64) string { return fmt.Sprintf("%020d.seg", base) }

func parseName(name string) (int64, bool) {
	base, err := strconv.ParseInt(strings.TrimSuffix(name, ".seg"), 10, 64)
	return base, err == nil && base >= 0 && segmentName(base) == name
}

func putSegmentHead(id uint64, base int64) []byte {
	p := make([]byte, segmentHead)
	copy(p, magic)
	p[7] = version
	binary.LittleEndian.PutUint64(p[8:], id)
	binary.LittleEndian.PutUint64(p[16:], uint64(base))
	binary.LittleEndian.PutUint32(p[28:], crc32.Checksum(p[:28], castagnoli))
	return p
}

type head struct {
	version byte
	id      uint64
	base    int64
}

// getSegmentHead returns false if the head is damaged.
func getSegmentHead(p []byte) (head, bool) {
	if len(p) < segmentHead || string(p[:7]) != magic ||
		binary.LittleEndian.Uint32(p[28:]) != crc32.Checksum(p[:28], castagnoli) {
		return head{}, false
	}
	return head{p[7], binary.LittleEndian.Uint64(p[8:]), int64(binary.LittleEndian.Uint64(p[16:]))}, true
}

// placeSum is the CRC of the ID and the offset, from which the CRC of a record's head continues.
func placeSum(id uint64, offset int64) uint32 {
	var p [16]byte
	binary.LittleEndian.PutUint64(p[:], id)
	binary.LittleEndian.PutUint64(p[8:], uint64(offset))
	return crc32.Checksum(p[:], castagnoli)
}

func putRecordHead(p *[recordHead]byte, id uint64, offset int64, data []byte) {
	copy(p[:], marker)
	binary.LittleEndian.PutUint32(p[4:], uint32(len(data)))
	binary.LittleEndian.PutUint32(p[8:], crc32.Update(placeSum(id, offset), castagnoli, p[:8]))
	binary.LittleEndian.PutUint32(p[12:], crc32.Checksum(data, castagnoli))
}

// getRecordHead returns length and CRC of the data, if p begins with a head of that ID and offset.
func getRecordHead(p []byte, id uint64, offset int64) (length int64, sum uint32, ok bool) {
	if len(p) < recordHead || string(p[:4]) != marker {
		return 0, 0, false
	}
	length = int64(binary.LittleEndian.Uint32(p[4:]))
	ok = length <= MaxRecord && binary.LittleEndian.Uint32(p[8:]) == crc32.Update(placeSum(id, offset), castagnoli, p[:8])
	return length, binary.LittleEndian.Uint32(p[12:]), ok
}
