package format

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rowmill/rowmill/internal/engine"
)

// byContent detects a format's kind from the first bytes of the text, and sets the delimiter of
// tab-separated CSV. wide means UTF-16, which spreadsheets write.
func (f *Format) byContent(head []byte, wide bool) error {
	if bytes.HasPrefix(head, []byte(parquetMagic)) {
		f.Kind = Parquet
		return nil
	}
	if err := f.setDump(bytes.TrimLeft(head, blanks)); err != nil || f.Kind != "" {
		return err
	}
	if at := bytes.IndexByte(head, 0); at >= 0 {
		return engine.Hinted(fmt.Errorf("it is not text: byte %d is zero", at), "--encoding utf-16le, if it is UTF-16 without a byte order mark; files unpacked from an archive, or a sheet saved as CSV")
	}
	text := f.behindSkipped(head)
	line, _, whole := bytes.Cut(text, LineBreak)
	point := line
	for rest := text; bytes.HasPrefix(rest, []byte("#")); { // line protocol has comments
		_, rest, _ = bytes.Cut(rest, LineBreak)
		point, _, _ = bytes.Cut(rest, LineBreak)
	}
	_, err := parseObject(line)
	switch {
	case len(text) > 0 && text[0] == '[':
		f.Kind = JSON
	case len(text) > 0 && text[0] == '{' && whole && err != nil:
		return notArray(text)
	case len(text) > 0 && text[0] == '{':
		f.Kind = JSONL
	case f.Delimiter == 0 && !f.Escape && isPoint.Match(trimBreak(point)):
		f.Kind = LineProtocol
	default:
		f.Kind = CSV
		tabs := bytes.Count(line, []byte("\t"))
		if f.Delimiter != 0 || f.Escape || tabs == 0 || tabs < bytes.Count(line, []byte(",")) {
			break
		}
		if f.Kind = TSV; wide || bytes.HasPrefix(line, []byte(`"`)) || bytes.Contains(line, []byte("\t\"")) {
			f.Kind, f.Delimiter = CSV, '\t'
		}
	}
	return nil
}

// behindSkipped returns the text after the skipped lines, a byte order mark and blanks.
func (f *Format) behindSkipped(head []byte) []byte {
	lines := Format{SkipLines: f.SkipLines, Comment: f.Comment}
	n, _ := lines.preamble(head, true)
	return bytes.TrimLeft(bytes.TrimPrefix(head[n:], ByteOrderMark), blanks)
}

// notArray returns the error for JSON that is neither an array nor has one object per line.
func notArray(text []byte) error {
	if len(text) == 0 || text[0] != '{' {
		return errors.New("it is not a JSON array")
	}
	return engine.Hinted(errors.New("it begins with a JSON object that is neither in an array nor in one line"),
		"jq -c '.KEY[]' if its rows are in an array under KEY, jq -c . if each object is a row; and what jq prints as the source")
}

// Detect sets a format's kind, if it isn't given, by the source's name or else by its content.
func (f *Format) Detect(in *Input, wait bool) error {
	if f.Kind == "" {
		if f.Kind = KindOf(in.name); f.Kind == TSV && in.wide && f.Delimiter == 0 {
			f.Kind, f.Delimiter = CSV, '\t'
		}
	}
	all := func([]byte) bool { return false }
	if f.Kind == Dump && f.dump == nil {
		head, err := peekHead(in.Reader, all) // the first line of a dump may be empty but for --
		if err == nil {
			err = f.setDump(bytes.TrimLeft(head, blanks))
		}
		return err
	}
	if f.Kind != "" {
		return nil
	}
	enough := all
	if !wait {
		enough = func(head []byte) bool { return bytes.IndexByte(f.behindSkipped(head), '\n') >= 0 }
	}
	head, err := peekHead(in.Reader, enough)
	if err == nil && !wait && len(f.Dumps) > 0 && beginsDump(string(bytes.TrimLeft(head, blanks))) {
		head, err = peekHead(in.Reader, all)
	}
	if err != nil {
		return err
	}
	if err := f.byContent(head, in.wide); err != nil {
		err = fmt.Errorf("its format isn't known: %w", err)
		if engine.HintOf(err) != "" {
			return err
		}
		return engine.Hinted(err, "--format csv, tsv, jsonl or json")
	}
	return nil
}

// peekHead returns the first bytes of a text: HeadBytes bytes, or fewer if they are enough.
func peekHead(r *bufio.Reader, enough func(head []byte) bool) ([]byte, error) {
	for n := 1; ; n++ {
		head, err := r.Peek(n)
		if head, _ = r.Peek(max(min(r.Buffered(), HeadBytes), len(head))); errors.Is(err, io.EOF) || errors.Is(err, ErrGrowing) || err != nil && len(head) > 0 {
			return head, nil
		}
		if err != nil {
			return nil, err
		}
		if n = len(head); n >= HeadBytes || enough(head) {
			return head, nil
		}
	}
}

// OfFile returns a format with the kind of a file.
func OfFile(ctx context.Context, path string, f Format) (Format, error) {
	open := func() (*Input, error) { return OpenFile(path, f.Encoding) }
	err := WithFile(ctx, path, open, func(in *Input, _ io.Reader) error { return f.Detect(in, true) })
	return f, err
}
