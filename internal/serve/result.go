package serve

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/mysqlwire"
	"github.com/rowmill/rowmill/internal/query"
	"github.com/rowmill/rowmill/internal/serve/session"
)

// An execution is how the client asked for a query, which decides about the form of the answer.
type execution struct {
	seq   byte // of the next packet behind what has been passed on
	begun bool // something has been passed on
	// prepared is nil for a query as text.
	prepared *session.Statement
	values   []byte // the part of COM_STMT_EXECUTE with the parameters
	text     string // the query of the client, with parameters
	literal  string // the same with values in place of parameters
	offset   int64  // by which FOUND_ROWS() is more than the number of its rows; -1 is unknown
}

// sampled is what the server says around the rows of a query: payloads, in order.
type sampled struct {
	head  [][]byte // the number of columns, their definitions, EOF
	types []columnType
	last  []byte // EOF or OK
	err   error
}

// A columnType is what decides about the form of a value.
type columnType struct {
	kind      byte
	flags     uint16
	collation uint16
}

// plainText reports a column whose bytes are the same in UTF-8: one of UTF-8, ASCII, bytes or numbers.
func (t columnType) plainText() bool {
	switch c := t.collation; {
	case c == 63, c == 11, c == 65, c == 33, c == 45, c == 46, c == 83: // bytes, ASCII, the usual ones of UTF-8
		return true
	default:
		// By the order of weights of UCA 4 and 5, UCA 9, and UCA 14.
		return c >= 192 && c <= 215 || c >= 224 && c <= 247 || c >= 255 && c <= 323 || c >= 2048 && c <= 2559
	}
}

// sample runs text, the query over one partition, on the client's own connection, without passing its rows on.
func (c *client) sample(run *execution, text string) (*sampled, error) {
	s := &sampled{}
	var command []byte
	if run.prepared == nil {
		command = c.asQuery(text)
	} else {
		p, _ := mysqlwire.End(append(append(mysqlwire.Begin(nil, 0), mysqlwire.ComStmtPrepare), text...), 0)
		if err := c.converse(p, mostOwn, func(expectation, []byte) error { return nil }); err != nil {
			return nil, c.refusal(err)
		}
		id := c.reply.statement
		defer func() {
			drop, _ := mysqlwire.End(append(mysqlwire.Begin(nil, 0), mysqlwire.ComStmtClose, byte(id), byte(id>>8), byte(id>>16), byte(id>>24)), 0)
			if _, err := c.server.Write(drop); err != nil {
				c.broken = true
			}
		}()
		command = append(mysqlwire.Begin(nil, 0), mysqlwire.ComStmtExecute)
		command = binary.LittleEndian.AppendUint32(command, id)
		command, _ = mysqlwire.End(append(command, run.values...), 0)
	}
	err := c.converse(command, math.MaxInt, func(expect expectation, payload []byte) error {
		if expect == expectRows {
			return nil
		}
		if expect == expectSkip {
			t, err := typeOf(payload)
			if err != nil {
				return err
			}
			s.types = append(s.types, t)
		}
		s.head = append(s.head, append([]byte(nil), payload...))
		return nil
	})
	if err != nil {
		return nil, c.refusal(err)
	}
	if c.reply.warnings > 0 {
		return nil, &whole{whyWarnings, "the query has warnings"}
	}
	if s.last = c.last; len(s.types) == 0 || len(s.last) == 0 {
		return nil, &whole{whyForm, "the result of a partition has no columns"}
	}
	return s, nil
}

// typeOf reads a column's type from its definition.
func typeOf(definition []byte) (columnType, error) {
	c, ok := mysqlwire.ReadColumn(definition)
	if !ok {
		return columnType{}, errPacket
	}
	return columnType{c.Type, c.Flags, c.Charset}, nil
}

// A sink passes the answer of pieces on to the client.
type sink struct {
	c      *client
	run    *execution
	sample chan *sampled
	got    *sampled
	notes  bool
	// unconverted is that of a sessionState.
	unconverted bool

	buf []byte // not passed on yet
	seq byte   // of the next packet
}

// flushAt is how much of an answer is collected before it is written.
const flushAt = 64 << 10

// Columns implements query.Sink.
func (s *sink) Columns(cols []engine.ResultColumn) error {
	s.got = <-s.sample
	if s.got.err != nil {
		return s.got.err
	}
	if len(cols) != len(s.got.types) {
		return &whole{whyForm, fmt.Sprintf("the server returns %d columns, and not %d", len(s.got.types), len(cols))}
	}
	for _, t := range s.got.types {
		switch {
		case s.run.prepared != nil && !encodable(t):
			return &whole{whyForm, "values of a column have no exact binary form"}
		case s.unconverted && !t.plainText():
			return &whole{whyState, "texts aren't converted, and a column isn't in UTF-8"}
		}
	}
	for _, p := range s.got.head {
		s.packet(p)
	}
	return nil
}

func (s *sink) packet(payload []byte) {
	start := len(s.buf)
	s.buf = append(mysqlwire.Begin(s.buf, s.seq), payload...)
	s.buf, s.seq = mysqlwire.End(s.buf, start)
}

// Row implements query.Sink.
func (s *sink) Row(values [][]byte) error {
	start := len(s.buf)
	s.buf = mysqlwire.Begin(s.buf, s.seq)
	if s.run.prepared != nil {
		var err error
		if s.buf, err = appendBinaryRow(s.buf, values, s.got.types); err != nil {
			return err
		}
	} else {
		for _, v := range values {
			if v == nil {
				s.buf = append(s.buf, 0xFB)
				continue
			}
			s.buf = append(mysqlwire.AppendInt(s.buf, uint64(len(v))), v...)
		}
	}
	s.buf, s.seq = mysqlwire.End(s.buf, start)
	if len(s.buf) < flushAt {
		return nil
	}
	return s.flush()
}

func (s *sink) flush() error {
	s.run.begun, s.run.seq = true, s.seq
	s.c.enter(phaseUser) // a client that doesn't read keeps its sessions for a limited time only
	_, err := s.c.user.Write(s.buf)
	s.c.enter(phasePieces)
	s.c.out.Add(int64(len(s.buf)))
	s.buf = s.buf[:0]
	if err != nil {
		s.c.interrupt(errGone)
	}
	return err
}

// end passes the rest on. Notes of SHOW WARNINGS aren't counted: drivers raise errors for warnings by their number.
func (s *sink) end(report *query.Report) error {
	var notes []note
	if s.notes {
		notes = notesOf(report)
	}
	count := 0
	if report.Warned > 0 {
		// The whole query has the same warnings, as far as that is known.
		if !s.run.begun {
			return &whole{whyWarnings, "the query has warnings"}
		}
		notes, count = nil, int(min(report.Warned, math.MaxUint16))
	}
	last := append([]byte(nil), s.got.last...)
	at := 1 // of the warnings
	if len(last) > 5 {
		at = 5
	}
	if len(last) < at+2 {
		return errors.New("the end of the result has another form")
	}
	binary.LittleEndian.PutUint16(last[at:], uint16(count))
	s.packet(last)
	s.c.answered = &answered{text: s.run.literal, notes: notes, warned: report.Warned > 0, found: -1}
	if offset := s.run.offset; offset == 0 || offset > 0 && report.Rows > 0 {
		s.c.answered.found = offset + report.Rows
	}
	return s.flush()
}

// notesOf tells how a query was answered.
func notesOf(r *query.Report) []note {
	text := fmt.Sprintf("rowmill: answered in %d pieces of %s", len(r.Plan.Pieces), r.Plan.Table.Name)
	if r.Cached > 0 {
		text += fmt.Sprintf(", %d periods from the cache", r.Cached)
	}
	if r.Proof != "" {
		text += "; one snapshot: " + r.Proof
	}
	out := []note{{"Note", fmt.Sprint(codeUnknown), text}}
	for _, w := range r.Warnings {
		out = append(out, note{"Warning", fmt.Sprint(codeUnknown), "rowmill: " + w})
	}
	return out
}

// warnings answers SHOW WARNINGS in the server's form: about a query that was split, with the notes as rows; about one that was passed on,
// with the notes if the server has none.
func (c *client) warnings(text string, notes []note) error {
	s, rows := &sampled{}, [][]byte{}
	err := c.converse(c.asQuery(text), mostOwn, func(expect expectation, payload []byte) error {
		if expect != expectRows {
			s.head = append(s.head, append([]byte(nil), payload...))
		} else if c.answered == nil { // the server's own warnings of a query that was passed on
			rows, notes = append(rows, append([]byte(nil), payload...)), nil
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, n := range notes {
		var row []byte
		for _, v := range []string{n.level, n.code, n.text} {
			row = append(mysqlwire.AppendInt(row, uint64(len(v))), v...)
		}
		rows = append(rows, row)
	}
	out, seq := []byte(nil), byte(1)
	for _, payload := range append(append(s.head, rows...), c.last) {
		start := len(out)
		out = append(mysqlwire.Begin(out, seq), payload...)
		out, seq = mysqlwire.End(out, start)
	}
	_, err = c.user.Write(out)
	return err
}

// insert puts the values of a prepared statement in the places of its parameters.
func (run *execution) insert(syntax engine.Syntax, st engine.State) error {
	literals, values, err := parameters(run.prepared, run.values, strings.Contains(st.Get("sql_mode"), "NO_BACKSLASH_ESCAPES"))
	if err != nil {
		return err
	}
	run.values = values
	run.literal, err = insertLiterals(run.text, literals, syntax)
	return err
}
