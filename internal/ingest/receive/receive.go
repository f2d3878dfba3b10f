// Package receive takes rows over HTTP into inboxes, one per table:
//
//	POST /write/TABLE      CSV, TSV, JSON lines, JSON or line protocol; 202
//	POST /api/v2/write     line protocol, as InfluxDB 2 takes it; 204
//	POST /write            the same, as InfluxDB 1 takes it
//	GET  /health, /ping, /api/v2/ping, /metrics
//
// A request is acknowledged once its rows are on disk. It is refused with a 4xx status if nothing
// of it can be loaded, and with 429 or 503 and Retry-After if it may succeed later. Bodies may be
// compressed with gzip or zstd. Their size is limited, both as sent and decompressed. Requests that
// write, and requests for metrics, need one of the tokens, if there are any.
package receive

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/semaphore"

	"github.com/rowmill/rowmill/internal/ingest"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/spool"
	"github.com/rowmill/rowmill/internal/value"
)

// Options configure a Server. Tables is required.
type Options struct {
	// Tables are the inboxes by the names of their tables.
	Tables map[string]*ingest.Inbox
	// Tokens are the valid tokens. If there are any, a request needs one of them.
	Tokens []string
	// Body limits a request's body in bytes, as sent and decompressed; 0 is DefaultBody.
	Body int64
	// Requests limits the requests that are read at a time; 0 is DefaultRequests.
	Requests int64
	// TruncateTimes truncates timestamps of line protocol to the precision of the column.
	TruncateTimes bool
	// Connections limits the connections that Connection counts; 0 is DefaultConnections.
	Connections int64
	// Version is the version of rowmill.
	Version string
	// Say, unless nil, receives messages for the log.
	Say func(text string)
}

const (
	DefaultBody        = 32 << 20
	DefaultRequests    = 64
	DefaultConnections = 4096
	// copies is how many copies of a body's rows are in memory before they are on disk: as sent,
	// decompressed or converted, parsed, and as a record of the spool.
	copies = 4
	// memory limits the memory of all requests in progress, in multiples of Options.Body.
	memory = 2 * copies
	// retryAfter is the number of seconds after which a sender should try again.
	retryAfter = 5
)

// A Server is an http.Handler. It is created by New.
type Server struct {
	o        Options
	tokens   [][sha256.Size]byte
	requests *semaphore.Weighted
	memory   int64 // the size of the semaphore bytes
	bytes    *semaphore.Weighted
	open     atomic.Int64 // the number of open connections
	origin   *http.CrossOriginProtection
	counted  *counted
	stopping atomic.Bool
	metrics  http.Handler
}

// New returns a Server.
func New(o Options) *Server {
	o.Body, o.Requests, o.Connections = cmp.Or(o.Body, DefaultBody), cmp.Or(o.Requests, DefaultRequests), cmp.Or(o.Connections, DefaultConnections)
	s := &Server{o: o, requests: semaphore.NewWeighted(o.Requests), memory: max(memory*o.Body, o.Requests*copies*readBlock) + copies*zstdWindow, counted: newCounted()}
	s.bytes, s.origin = semaphore.NewWeighted(s.memory), http.NewCrossOriginProtection()
	for _, t := range o.Tokens {
		s.tokens = append(s.tokens, sha256.Sum256([]byte(t)))
	}
	own := prometheus.NewRegistry()
	own.MustRegister(s)
	s.metrics = promhttp.HandlerFor(own, promhttp.HandlerOpts{})
	return s
}

// A refusal is the answer to a request that isn't taken.
type refusal struct {
	status int
	err    error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Errorf(format, args...)}
}

// codes are InfluxDB's names of status codes.
var codes = map[int]string{
	http.StatusBadRequest: "invalid", http.StatusUnauthorized: "unauthorized", http.StatusForbidden: "forbidden", http.StatusNotFound: "not found",
	http.StatusMethodNotAllowed: "method not allowed", http.StatusRequestEntityTooLarge: "request too large",
	http.StatusUnsupportedMediaType: "unsupported media type", http.StatusUnprocessableEntity: "unprocessable entity",
	http.StatusTooManyRequests: "too many requests", http.StatusServiceUnavailable: "unavailable", http.StatusRequestTimeout: "timeout",
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	counting := &statusWriter{ResponseWriter: w, status: http.StatusOK}
	route, err := s.routeSafely(counting, r)
	if err != nil {
		s.refuse(counting, err)
	}
	s.counted.requests.WithLabelValues(route, strconv.Itoa(counting.status)).Inc()
	s.counted.seconds.WithLabelValues(route).Observe(time.Since(began).Seconds())
}

// routeSafely is route, but a panic is logged and becomes an error.
func (s *Server) routeSafely(w *statusWriter, r *http.Request) (route string, err error) {
	route = "other"
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if s.o.Say != nil {
			s.o.Say(fmt.Sprintf("%s %q: panic: %v; this is an error of rowmill, please report it\n%s", r.Method, r.URL.Path, p, debug.Stack()))
		}
		if w.begun {
			panic(http.ErrAbortHandler) // closes the connection
		}
		err = refuse(http.StatusInternalServerError, "an error of rowmill, which its log describes")
	}()
	return s.route(w, r)
}

type statusWriter struct {
	http.ResponseWriter
	status int
	begun  bool // whether the answer is begun
}

func (w *statusWriter) Write(p []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(p)
}

func (w *statusWriter) WriteHeader(status int) {
	w.status, w.begun = status, true
	w.ResponseWriter.WriteHeader(status)
}

// Connection is for http.Server.ConnState: it closes connections beyond Options.Connections.
func (s *Server) Connection(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if s.open.Add(1) > s.o.Connections {
			s.counted.refused.Inc()
			_ = c.Close() // the sender has an error in any case
		}
	case http.StateClosed, http.StateHijacked:
		s.open.Add(-1)
	}
}

func (s *Server) refuse(w http.ResponseWriter, err error) {
	var status int
	var known *refusal
	var post *ingest.PostError
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &known):
		status = known.status
	case errors.As(err, &post):
		status = http.StatusBadRequest
	case errors.As(err, &long), errors.Is(err, ingest.ErrManyRows), errors.Is(err, spool.ErrTooLarge):
		status = http.StatusRequestEntityTooLarge
	case errors.Is(err, ingest.ErrKeyReused):
		status = http.StatusUnprocessableEntity
	case errors.Is(err, spool.ErrFull):
		status = http.StatusTooManyRequests
	default: // an error of the disk
		status = http.StatusServiceUnavailable
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	answer(w, status, map[string]any{"code": cmp.Or(codes[status], "internal error"), "message": err.Error()})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	_ = out.Encode(v) // an error means that the client has gone
}

const writePrefix = "/write/"

// route answers a request, or returns an error to be answered. It also returns the name of the
// route, for metrics. Paths are compared as they are: nothing is cleaned or redirected.
func (s *Server) route(w http.ResponseWriter, r *http.Request) (string, error) {
	path := r.URL.Path
	table, isTable := strings.CutPrefix(path, writePrefix)
	switch {
	case isTable:
		return "write", s.taken(w, r, func() error { return s.write(w, r, table) })
	case path == "/api/v2/write":
		return "influxdb2", s.taken(w, r, func() error { return s.points(w, r) })
	case path == "/write":
		return "influxdb1", s.taken(w, r, func() error { return s.points(w, r) })
	case path == "/ping" || path == "/api/v2/ping":
		return "ping", read(w, r, func() {
			w.Header().Set("X-Influxdb-Version", "rowmill "+s.o.Version)
			w.WriteHeader(http.StatusNoContent)
		})
	case path == "/health":
		return "health", read(w, r, func() { s.health(w, r) })
	case path == "/metrics":
		if err := s.authorize(w, r); err != nil {
			return "metrics", err
		}
		return "metrics", read(w, r, func() { s.metrics.ServeHTTP(w, r) })
	}
	return "other", refuse(http.StatusNotFound, "there is no %s: POST to /write/TABLE or /api/v2/write", path)
}

// read answers a request that changes nothing.
func read(w http.ResponseWriter, r *http.Request, fn func()) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		return refuse(http.StatusMethodNotAllowed, "%s %s: want GET", r.Method, r.URL.Path)
	}
	fn()
	return nil
}

// taken calls fn for a request that may write.
func (s *Server) taken(w http.ResponseWriter, r *http.Request, fn func() error) error {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return refuse(http.StatusMethodNotAllowed, "%s %s: want POST", r.Method, r.URL.Path)
	}
	if err := s.authorize(w, r); err != nil {
		return err
	}
	if s.stopping.Load() {
		w.Header().Set("Connection", "close")
		return refuse(http.StatusServiceUnavailable, "rowmill is ending")
	}
	if !s.requests.TryAcquire(1) {
		return refuse(http.StatusTooManyRequests, "%d requests are being read: try again later", s.o.Requests)
	}
	defer s.requests.Release(1)
	return fn()
}

// authorize compares the request's token with all tokens, each in constant time. Without tokens, it
// refuses requests that a browser on this host sends for a page of another site.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) error {
	switch {
	case len(s.tokens) == 0 && s.origin.Check(r) != nil:
		return refuse(http.StatusForbidden, "a page of another site sent it: want a token for that")
	case !s.hasToken(r):
		w.Header().Set("WWW-Authenticate", `Bearer realm="rowmill"`)
		return refuse(http.StatusUnauthorized, "unauthorized access: send Authorization: Bearer TOKEN, or Token TOKEN")
	}
	return nil
}

// hasToken reports whether a request has one of the tokens, or needs none.
func (s *Server) hasToken(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	is := sha256.Sum256([]byte(strings.TrimSpace(token)))
	found := 0
	for _, t := range s.tokens {
		found |= subtle.ConstantTimeCompare(is[:], t[:])
	}
	return len(s.tokens) == 0 || found > 0 && (strings.EqualFold(scheme, "Bearer") || strings.EqualFold(scheme, "Token"))
}

// health answers whether rows are taken and loaded. It names tables only to requests with a token.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	status, message, code := "pass", "rows are taken", http.StatusOK
	checks := []map[string]any{}
	for name, in := range s.o.Tables {
		st := in.Status()
		check := map[string]any{"name": name, "status": "pass", "spool_bytes": st.Bytes, "lag_seconds": st.Lag.Seconds()}
		bad := ""
		switch {
		case st.Refusal != "":
			bad = "rows are refused"
		case st.Failure != "":
			bad = "rows are kept and not loaded"
		}
		if bad != "" {
			check["status"], check["output"] = "fail", cmp.Or(st.Refusal, st.Failure)
			status, message, code = "fail", bad, http.StatusServiceUnavailable
		}
		if s.hasToken(r) {
			checks = append(checks, check)
		}
	}
	if s.stopping.Load() {
		status, message, code = "fail", "rowmill is ending", http.StatusServiceUnavailable
	}
	slices.SortFunc(checks, func(a, b map[string]any) int { return strings.Compare(a["name"].(string), b["name"].(string)) })
	answer(w, code, map[string]any{"name": "rowmill", "status": status, "message": message, "version": s.o.Version, "checks": checks})
}

// write takes a request for one table.
func (s *Server) write(w http.ResponseWriter, r *http.Request, table string) error {
	in := s.o.Tables[table]
	if in == nil {
		return refuse(http.StatusNotFound, "table %q isn't one of those that are kept here", table)
	}
	post, form, err := postOf(r)
	if err != nil {
		return err
	}
	body, release, err := s.body(w, r)
	defer release()
	if err != nil {
		return err
	}
	if form == jsonForm {
		if form, body = jsonLines(body, in.Has, in.TimeColumn()); form == telegrafForm && post.Values.Unix == "" {
			post.Values.Unix = "s"
		}
	}
	if post.Body = body; post.Format.Kind == format.LineProtocol {
		post.Values.TruncateTimes = post.Values.TruncateTimes || s.o.TruncateTimes
	}
	receipt, err := in.Put(r.Context(), post)
	if err != nil {
		return err
	}
	s.counted.rows(table, receipt, len(body))
	out := map[string]any{"rows": receipt.Rows, "bad": receipt.Bad}
	if receipt.Repeated {
		out["repeated"] = true
	}
	if receipt.Bad > 0 {
		out["first"] = badOf(receipt.First)
	}
	answer(w, http.StatusAccepted, out)
	return nil
}

func badOf(rows []format.Rejected) (out []map[string]any) {
	for _, r := range rows {
		row := map[string]any{"line": r.Line, "reason": r.Reason}
		if r.Column != "" {
			row["column"] = r.Column
		}
		out = append(out, row)
	}
	return out
}

// precisions are the units of timestamps by their names in InfluxDB 1 and 2. Version 1 also has
// minutes and hours, for which rowmill has no unit.
var precisions = map[string]string{"": "ns", "n": "ns", "ns": "ns", "u": "us", "us": "us", "ms": "ms", "s": "s"}

// points takes a request with line protocol for the tables that its measurements name. If some rows
// can't be loaded, the answer is 400, as InfluxDB's is, but the other rows are taken.
func (s *Server) points(w http.ResponseWriter, r *http.Request) error {
	unit, known := precisions[r.URL.Query().Get("precision")]
	if !known {
		return refuse(http.StatusBadRequest, "precision %q: want ns, us, ms or s", r.URL.Query().Get("precision"))
	}
	media, err := mediaOf(r)
	if err != nil {
		return err
	}
	if media == "" || media == "application/json" || media == "text/csv" {
		return refuse(http.StatusUnsupportedMediaType, "content type %q: want text/plain with line protocol", r.Header.Get("Content-Type"))
	}
	key, err := keyOf(r)
	if err != nil {
		return err
	}
	body, release, err := s.body(w, r)
	defer release()
	if err != nil {
		return err
	}
	if bytes.Count(body, []byte("\n")) > ingest.MaxPostLines {
		return ingest.ErrManyRows
	}
	format := format.Format{Kind: format.LineProtocol}
	parts, unknown, err := byMeasurement(&format, body)
	if err != nil {
		return err
	}
	var bad []string
	rows, rejected := int64(0), int64(0)
	reject := func(n int64, text string) {
		rows, rejected = rows+n, rejected+n
		bad = append(bad, text)
	}
	if unknown != "" {
		reject(1, unknown)
	}
	taken := false
	for _, part := range parts {
		in := s.o.Tables[part.measurement]
		if in == nil {
			reject(part.rows, fmt.Sprintf("line %d: measurement %q isn't a table that is kept here", part.line, part.measurement))
			continue
		}
		post := ingest.Post{Format: format, Body: part.text, Values: value.Notation{Unix: unit, TruncateTimes: s.o.TruncateTimes}}
		if key != "" {
			post.Key = part.measurement + " " + key
		}
		receipt, err := in.Put(r.Context(), post)
		var refused *ingest.PostError
		if errors.As(err, &refused) {
			reject(part.rows, fmt.Sprintf("measurement %s: %v", part.measurement, err))
			continue
		}
		if err != nil {
			return err // the sender repeats all of it: rows that were taken are there already
		}
		taken = true
		s.counted.rows(part.measurement, receipt, len(part.text))
		rows, rejected = rows+receipt.Rows, rejected+receipt.Bad
		if receipt.Bad > 0 {
			first := receipt.First[0]
			reason := &ingest.PostError{Line: first.Line, Column: first.Column, Err: errors.New(first.Reason)}
			bad = append(bad, fmt.Sprintf("measurement %s, its %v", part.measurement, reason))
		}
	}
	switch {
	case rejected == 0 && !taken:
		return refuse(http.StatusBadRequest, "writing requires points")
	case rejected > 0 && taken:
		return refuse(http.StatusBadRequest, "partial write: %d of %d rows can't be loaded, the others were taken: %s", rejected, rows, strings.Join(bad[:min(len(bad), 5)], "; "))
	case rejected > 0:
		return refuse(http.StatusBadRequest, "no row can be loaded: %s", strings.Join(bad[:min(len(bad), 5)], "; "))
	}
	w.Header().Set("X-Influxdb-Version", "rowmill "+s.o.Version)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// A part is the lines of a request with one measurement.
type part struct {
	measurement string
	line, rows  int64 // the first line, and the number of lines
	text        []byte
}

// mostMeasurements limits the measurements of a request.
const mostMeasurements = 1000

// byMeasurement splits line protocol by measurement. bad describes the first line without one.
func byMeasurement(f *format.Format, body []byte) (parts []*part, bad string, err error) {
	known := map[string]*part{}
	err = f.Records(body, func(line int64, record []byte) error {
		name := format.Measurement(record)
		if name == "" {
			if trimmed := bytes.TrimSpace(record); bad == "" && len(trimmed) > 0 && trimmed[0] != '#' {
				bad = fmt.Sprintf("line %d: it is not a point", line)
			}
			return nil
		}
		p := known[name]
		if p == nil {
			if len(known) == mostMeasurements {
				return refuse(http.StatusBadRequest, "more than %d measurements", mostMeasurements)
			}
			p = &part{measurement: name, line: line}
			known[name], parts = p, append(parts, p)
		}
		p.rows++
		p.text = append(p.text, record...)
		if record[len(record)-1] != '\n' {
			p.text = append(p.text, '\n')
		}
		return nil
	})
	return parts, bad, err
}

// form is how a body of JSON is written.
type form int

const (
	plainForm    form = iota
	jsonForm          // JSON that jsonLines has to inspect
	telegrafForm      // objects with name, tags, fields and timestamp
)

var kindsByType = map[string]string{
	"text/csv": "csv", "application/csv": "csv", "text/tab-separated-values": "tsv",
	"application/x-ndjson": "jsonl", "application/ndjson": "jsonl", "application/jsonl": "jsonl", "application/x-jsonlines": "jsonl",
	"application/json": "json", "application/vnd.influxdata.lineprotocol": "lineprotocol",
}

func keyOf(r *http.Request) (string, error) {
	key := r.Header.Get("Idempotency-Key")
	if len(key) > 255 {
		return "", refuse(http.StatusBadRequest, "Idempotency-Key: it has more than 255 characters")
	}
	return key, nil
}

// mediaOf returns the media type of a body, "" for none, and an error for text that isn't UTF-8.
func mediaOf(r *http.Request) (string, error) {
	media, parameters, err := mime.ParseMediaType(cmp.Or(r.Header.Get("Content-Type"), "text/plain"))
	if charset := parameters["charset"]; err == nil && !slices.Contains([]string{"", "utf-8", "utf8", "us-ascii"}, strings.ToLower(charset)) {
		return "", refuse(http.StatusUnsupportedMediaType, "charset %q: want utf-8", charset)
	}
	return media, nil
}

// postOf returns how a request for a table describes its body.
func postOf(r *http.Request) (post ingest.Post, as form, err error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return post, 0, refuse(http.StatusBadRequest, "query: %w", err)
	}
	if post.Key, err = keyOf(r); err != nil {
		return post, 0, err
	}
	f, kind := &post.Format, ""
	for name, values := range query {
		v, bad := values[len(values)-1], error(nil)
		switch name {
		case "format":
			kind = v
		case "columns":
			f.Columns = strings.Split(v, ",")
		case "delimiter":
			if v == `\t` {
				v = "\t"
			}
			if len(v) != 1 {
				bad = errors.New("want one character of ASCII")
			} else {
				f.Delimiter = v[0]
			}
		case "header":
			f.Header, bad = strconv.ParseBool(v)
			f.NoHeader = !f.Header
		case "null":
			f.Nulls = values
		case "measurement":
			f.Measurement = v
		case "unix-times":
			if post.Values.Unix = v; !slices.Contains(value.Units(), v) {
				bad = fmt.Errorf("want %s", strings.Join(value.Units(), ", "))
			}
		case "truncate-times":
			post.Values.TruncateTimes, bad = strconv.ParseBool(v)
		default:
			bad = errors.New("it is unknown")
		}
		if bad == nil && len(values) > 1 && name != "null" {
			bad = errors.New("it is given twice")
		}
		if bad != nil {
			return post, 0, refuse(http.StatusBadRequest, "parameter %s=%q: %w", name, v, bad)
		}
	}
	media, err := mediaOf(r)
	if err != nil {
		return post, 0, err
	}
	if kind == "" {
		if kind = kindsByType[media]; kind == "" {
			return post, 0, refuse(http.StatusUnsupportedMediaType, "the format isn't known from content type %q: add ?format=csv, tsv, json, jsonl or lineprotocol", r.Header.Get("Content-Type"))
		}
	}
	if kind == "json" {
		kind, as = "jsonl", jsonForm
	}
	f.Kind = format.Kind(kind)
	err = f.Validate()
	if err == nil && (f.Kind == format.Parquet || f.Kind == format.Dump) {
		err = fmt.Errorf("format %s can't be sent: it is for files", kind)
	}
	if err != nil {
		return post, 0, refuse(http.StatusUnsupportedMediaType, "%w", err)
	}
	return post, as, nil
}

// readBlock is the number of bytes of a body for which memory is reserved at a time.
const readBlock = 256 << 10

// body reads a request's body. release frees the memory that is reserved for it.
func (s *Server) body(w http.ResponseWriter, r *http.Request) (out []byte, release func(), err error) {
	reserved := int64(0)
	release = func() { s.bytes.Release(reserved) }
	if r.ContentLength > s.o.Body {
		return nil, release, refuse(http.StatusRequestEntityTooLarge, "%d bytes: a request may have at most %d", r.ContentLength, s.o.Body)
	}
	encoding, window := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding"))), int64(0)
	if encoding == "zstd" {
		window = zstdWindow
	}
	full := func() error {
		return refuse(http.StatusTooManyRequests, "the requests that are being read take all of %d bytes: try again later", s.memory)
	}
	if !s.bytes.TryAcquire(window) {
		return nil, release, full()
	}
	defer s.bytes.Release(window)
	packed := http.MaxBytesReader(w, r.Body, s.o.Body)
	in, closer, err := decompress(packed, encoding)
	if err != nil {
		return nil, release, err
	}
	defer closer()
	var buf bytes.Buffer
	for {
		if !s.bytes.TryAcquire(copies * readBlock) {
			return nil, release, full()
		}
		reserved += copies * readBlock
		n, err := io.CopyN(&buf, in, readBlock)
		if int64(buf.Len()) > s.o.Body {
			return nil, release, refuse(http.StatusRequestEntityTooLarge, "a request may have at most %d bytes, decompressed", s.o.Body)
		}
		var long *http.MaxBytesError
		switch {
		case errors.Is(err, io.EOF) && n < readBlock:
			return buf.Bytes(), release, nil
		case errors.As(err, &long):
			return nil, release, refuse(http.StatusRequestEntityTooLarge, "a request may have at most %d bytes", s.o.Body)
		case err != nil:
			return nil, release, bodyError(err)
		}
	}
}
