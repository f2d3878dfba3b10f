package receive

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/tidwall/gjson"

	"github.com/rowmill/rowmill/internal/value"
)

// zstdWindow is the memory of a decompressor beside the body: RFC 9659 allows no larger window.
const zstdWindow = 8 << 20

// decompress returns the reader of a body with an encoding.
func decompress(body io.Reader, encoding string) (io.Reader, func(), error) {
	switch encoding {
	case "", "identity":
		return body, func() {}, nil
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(body)
		if err != nil {
			return nil, nil, bodyError(err)
		}
		return z, func() {}, nil
	case "zstd":
		z, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			return nil, nil, bodyError(err)
		}
		return z, z.Close, nil
	}
	return nil, nil, refuse(http.StatusUnsupportedMediaType, "content encoding %q: want gzip, zstd or none", encoding)
}

// bodyError is the answer to a body that can't be read.
func bodyError(err error) error {
	var slow net.Error
	if errors.As(err, &slow) && slow.Timeout() {
		return refuse(http.StatusRequestTimeout, "the body didn't arrive in time")
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("it is empty, and a compressed body never is")
	}
	return refuse(http.StatusBadRequest, "read the body: %w", err)
}

// jsonLines converts a body of JSON to one object per line. The body is an array, an object, lines,
// or Telegraf's metrics. The tags, fields and timestamp of a metric become keys of its object; by
// is the timestamp's key. has reports whether the table has a column.
func jsonLines(body []byte, has func(column string) bool, by string) (form, []byte) {
	if !value.ValidJSON(body) {
		return plainForm, body // JSON lines, or each line is refused with its reason
	}
	all := gjson.ParseBytes(body)
	if metrics := all.Get("metrics"); all.IsObject() && metrics.IsArray() && !has("metrics") {
		all = metrics
	}
	as := plainForm
	var out bytes.Buffer
	line := func(o gjson.Result) bool {
		if fields := o.Get("fields"); fields.IsObject() && o.Get("timestamp").Exists() && !has("fields") {
			as = telegrafForm
			flatten(&out, o, fields, by)
		} else {
			oneLine(&out, o.Raw)
		}
		out.WriteByte('\n')
		return true
	}
	if all.IsArray() {
		all.ForEach(func(_, o gjson.Result) bool { return line(o) })
	} else {
		line(all)
	}
	return as, out.Bytes()
}

// flatten writes a metric of Telegraf as one object.
func flatten(out *bytes.Buffer, metric, fields gjson.Result, by string) {
	sep := byte('{')
	add := func(key, raw string) {
		out.WriteByte(sep)
		sep = ','
		out.WriteString(key)
		out.WriteByte(':')
		oneLine(out, raw)
	}
	for _, group := range []gjson.Result{metric.Get("tags"), fields} {
		if !group.IsObject() {
			continue
		}
		group.ForEach(func(key, v gjson.Result) bool { add(key.Raw, v.Raw); return true })
	}
	add(string(gjson.AppendJSONString(nil, by)), metric.Get("timestamp").Raw)
	out.WriteByte('}')
}

// oneLine writes valid JSON without its line breaks. They can only be between tokens.
func oneLine(out *bytes.Buffer, raw string) {
	if strings.IndexByte(raw, '\n') < 0 {
		out.WriteString(raw)
		return
	}
	for i := range len(raw) {
		if c := raw[i]; c != '\n' {
			out.WriteByte(c)
		}
	}
}
