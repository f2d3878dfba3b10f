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
	"github.com/rowmill/rowmill/internal/sqltext"
)

// A sampled has the payloads that the server sends before and after the rows of a query.
type sampled struct {
	head  [][]byte // the number of columns, their definitions, EOF
	types []columnType
	last  []byte // EOF or OK
	err   error
}

// A columnType is the part of a column's definition that decides about the form of its values.
type columnType struct {
	kind      byte
	flags     uint16
	collation uint16
}

// plainText reports whether the values of a column have the same bytes in UTF-8 as in the column's
// character set: UTF-8, ASCII, bytes, numbers.
func (t columnType) plainText() bool {
	switch c := t.collation; {
	case c == 63, c == 11, c == 65, c == 33, c == 45, c == 46, c == 83:
		// Bytes, ASCII, and the usual collations of UTF-8.
		return true
	default:
		// Collations of UTF-8 by UCA 4 and 5, UCA 9, and UCA 14.
		return c >= 192 && c <= 215 || c >= 224 && c <= 247 || c >= 255 && c <= 323 || c >= 2048 && c <= 2559
	}
}

// sample runs text, the query over one partition, on the client's own connection, without passing
// its rows on.
func (a *attempt) sample(text string) (*sampled, error) {
	s := &sampled{}
	var command []byte
	if a.prepared == nil {
		command = a.c.server.asQuery(text)
	} else {
		p, _ := mysqlwire.End(append(append(mysqlwire.Begin(nil, 0), mysqlwire.ComStmtPrepare), text...), 0)
		if err := a.c.server.converse(p, maxOwnAnswer, func(expectation, []byte) error { return nil }); err != nil {
			return nil, a.c.server.refusal(err)
		}
		id := a.c.server.reply.statement
		defer func() {
			drop, _ := mysqlwire.End(append(mysqlwire.Begin(nil, 0), mysqlwire.ComStmtClose, byte(id), byte(id>>8), byte(id>>16), byte(id>>24)), 0)
			if _, err := a.c.server.Write(drop); err != nil {
				a.c.server.broken = true
			}
		}()
		command = append(mysqlwire.Begin(nil, 0), mysqlwire.ComStmtExecute)
		command = binary.LittleEndian.AppendUint32(command, id)
		command, _ = mysqlwire.End(append(command, a.values...), 0)
	}
	err := a.c.server.converse(command, math.MaxInt, func(expect expectation, payload []byte) error {
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
		return nil, a.c.server.refusal(err)
	}
	if a.c.server.reply.warnings > 0 {
		return nil, &notSplit{whyWarnings, "the query has warnings"}
	}
	if s.last = a.c.server.last; len(s.types) == 0 || len(s.last) == 0 {
		return nil, &notSplit{whyForm, "the result of a partition has no columns"}
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

// outgoing are packets that are not sent yet; seq is the number of the next one.
type outgoing struct {
	buf []byte
	seq byte
}

func (p *outgoing) add(payload []byte) {
	start := len(p.buf)
	p.buf = append(mysqlwire.Begin(p.buf, p.seq), payload...)
	p.buf, p.seq = mysqlwire.End(p.buf, start)
}

// flushAt is how much of an answer is collected before it is written.
const flushAt = 64 << 10

// Columns implements query.Sink.
func (a *attempt) Columns(cols []engine.ResultColumn) error {
	a.got = <-a.samples
	if a.got.err != nil {
		return a.got.err
	}
	if len(cols) != len(a.got.types) {
		return &notSplit{whyForm, fmt.Sprintf("the server returns %d columns, and not %d", len(a.got.types), len(cols))}
	}
	for _, t := range a.got.types {
		switch {
		case a.prepared != nil && !encodable(t):
			return &notSplit{whyForm, "values of a column have no exact binary form"}
		case a.state.unconverted && !t.plainText():
			return &notSplit{whyState, "texts aren't converted, and a column isn't in UTF-8"}
		}
	}
	for _, p := range a.got.head {
		a.out.add(p)
	}
	return nil
}

// Row implements query.Sink.
func (a *attempt) Row(values [][]byte) error {
	out := &a.out
	start := len(out.buf)
	out.buf = mysqlwire.Begin(out.buf, out.seq)
	if a.prepared != nil {
		var err error
		if out.buf, err = appendBinaryRow(out.buf, values, a.got.types); err != nil {
			return err
		}
	} else {
		for _, v := range values {
			if v == nil {
				out.buf = append(out.buf, 0xFB)
				continue
			}
			out.buf = append(mysqlwire.AppendInt(out.buf, uint64(len(v))), v...)
		}
	}
	out.buf, out.seq = mysqlwire.End(out.buf, start)
	if len(out.buf) < flushAt {
		return nil
	}
	return a.flush()
}

func (a *attempt) flush() error {
	out := &a.out
	a.begun, a.passed = true, out.seq
	a.c.enter(phaseUser) // a client that doesn't read keeps its sessions for a limited time only
	_, err := a.c.user.Write(out.buf)
	a.c.enter(phasePieces)
	a.c.traffic.out.Add(int64(len(out.buf)))
	out.buf = out.buf[:0]
	if err != nil {
		a.c.endPieces(errGone)
	}
	return err
}

// end passes the rest of the answer on. The answer's number of warnings doesn't count the notes
// that rowmill serve adds, because drivers raise errors if this number isn't 0.
func (a *attempt) end(report *query.Report) error {
	var notes []note
	if a.state.notes {
		notes = notesOf(report)
	}
	count := 0
	if report.Warned > 0 {
		// The pieces had warnings, so the query as a whole presumably has them, too.
		if !a.begun {
			return &notSplit{whyWarnings, "the query has warnings"}
		}
		notes, count = nil, int(min(report.Warned, math.MaxUint16))
	}
	last := append([]byte(nil), a.got.last...)
	at := 1 // the offset of the number of warnings
	if len(last) > 5 {
		at = 5
	}
	if len(last) < at+2 {
		return errors.New("the end of the result has another form")
	}
	binary.LittleEndian.PutUint16(last[at:], uint16(count))
	a.out.add(last)
	a.c.answered = &answered{text: a.literal, notes: notes, warned: report.Warned > 0, found: -1}
	if offset := a.offset; offset == 0 || offset > 0 && report.Rows > 0 {
		a.c.answered.found = offset + report.Rows
	}
	return a.flush()
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

// warnings answers SHOW WARNINGS in the server's form. After a query in pieces, the answer has
// notes. After a query that was passed on, it has the server's warnings, or notes if the server has
// none.
func (c *client) warnings(text string, notes []note) error {
	s, rows := &sampled{}, [][]byte{}
	err := c.server.converse(c.server.asQuery(text), maxOwnAnswer, func(expect expectation, payload []byte) error {
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
	out := outgoing{seq: 1}
	for _, payload := range append(append(s.head, rows...), c.server.last) {
		out.add(payload)
	}
	_, err = c.user.Write(out.buf)
	return err
}

// insert puts the values of a prepared statement in the places of its parameters.
func (a *attempt) insert(syntax sqltext.Syntax, st engine.State) error {
	literals, values, err := parameters(a.prepared, a.values, strings.Contains(st.Get("sql_mode"), "NO_BACKSLASH_ESCAPES"))
	if err != nil {
		return err
	}
	a.values = values
	a.literal, err = insertLiterals(a.text, literals, syntax)
	return err
}
