package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/rowmill/rowmill/internal/engine"
)

// A querier reads and deletes on one connection through a wire. Each call writes once and reads one
// reply, in place and without an allocation.
type querier struct {
	engine.Link[*wire]
	db  *server
	buf []byte
	// stmts are the prepared statements by their *engine.Find or *engine.Delete.
	stmts map[any]*statement
}

// A statement is a prepared statement of the connection.
type statement struct {
	name  string
	types []engine.Type // of its parameters
}

func (db *server) Querier(ctx context.Context) (engine.Querier, error) {
	q := &querier{db: db}
	q.Dial = func(ctx context.Context) (*wire, error) {
		q.stmts = map[any]*statement{}
		return db.dialWire(ctx)
	}
	return q, q.Connect(ctx)
}

func (q *querier) Find(ctx context.Context, f *engine.Find, values []engine.Value) (int, error) {
	if q.stmts[f] == nil {
		if err := f.Validate(); err != nil {
			return 0, err
		}
	}
	if err := f.Check(values); err != nil {
		return 0, err
	}
	r, err := q.run(ctx, f, values)
	if err != nil {
		return 0, engine.About(ctx, err, "find in "+f.Table.Name)
	}
	return r.came, nil
}

// Delete implements engine.Querier. Each statement is a transaction.
func (q *querier) Delete(ctx context.Context, d *engine.Delete, from, to int64) (int64, error) {
	if q.stmts[d] == nil {
		if err := d.Validate(); err != nil {
			return 0, err
		}
	}
	values := [2]engine.Value{{Int: from}, {Int: to}}
	r, err := q.run(ctx, d, values[:])
	if err != nil {
		return 0, engine.About(ctx, err, "delete from "+d.Table.Name)
	}
	return r.rows, nil
}

// run executes a Find or a Delete.
func (q *querier) run(ctx context.Context, of any, values []engine.Value) (r reply, err error) {
	s, ok := q.stmts[of]
	q.buf = q.buf[:0]
	if !ok {
		if s, err = q.parse(of); err != nil {
			return r, err
		}
	}
	if q.buf, err = s.appendBind(q.buf, values); err != nil {
		return r, err
	}
	err = q.Do(ctx, func() error { return classify(q.Conn.exchange(q.buf, &r)) })
	if err == nil {
		q.stmts[of] = s
	}
	return r, err
}

// parse appends the messages that prepare the statement. A failed call may have
// left a statement of the same name, so it is closed first; to close a statement
// that does not exist is no error. The parameters have the types of the columns:
// a REAL column compared with a double would not find its own values.
func (q *querier) parse(of any) (*statement, error) {
	s := &statement{name: "q" + strconv.Itoa(len(q.stmts))}
	var text string
	var err error
	switch of := of.(type) {
	case *engine.Find:
		if text, err = q.db.dialect.find(*of); err == nil {
			for i := range of.Values() {
				s.types = append(s.types, of.Type(i))
			}
		}
	case *engine.Delete:
		if text, err = q.db.dialect.delete(*of); err == nil {
			by := of.Table.Columns[of.Table.Column(of.By)].Type
			s.types = []engine.Type{by, by}
		}
	}
	if err != nil {
		return nil, err
	}
	dst, start := beginMessage(q.buf, 'C')
	dst = append(append(append(dst, 'S'), s.name...), 0)
	endMessage(dst, start)
	dst, start = beginMessage(dst, 'P')
	dst = append(append(append(append(dst, s.name...), 0), text...), 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(s.types)))
	for _, t := range s.types {
		dst = binary.BigEndian.AppendUint32(dst, oids[t])
	}
	endMessage(dst, start)
	q.buf = dst
	return s, nil
}

// appendBind binds values in the binary format, requests binary results,
// executes the statement and ends the transaction.
func (s *statement) appendBind(dst []byte, values []engine.Value) ([]byte, error) {
	dst, start := beginMessage(dst, 'B')
	dst = append(dst, 0) // the unnamed portal
	dst = append(append(dst, s.name...), 0)
	dst = append(dst, 0, 1, 0, 1) // one format for all values: binary
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(values)))
	for i, v := range values {
		switch s.types[i] {
		case engine.Int32:
			if v.Int != int64(int32(v.Int)) {
				return dst, fmt.Errorf("value %d is out of the range of its column", v.Int)
			}
			dst = binary.BigEndian.AppendUint32(append(dst, 0, 0, 0, 4), uint32(v.Int))
		case engine.Float32:
			dst = binary.BigEndian.AppendUint32(append(dst, 0, 0, 0, 4), math.Float32bits(float32(v.Float)))
		case engine.Float64:
			dst = binary.BigEndian.AppendUint64(append(dst, 0, 0, 0, 8), math.Float64bits(v.Float))
		case engine.Time:
			dst = binary.BigEndian.AppendUint64(append(dst, 0, 0, 0, 8), uint64(v.Int-epoch))
		default:
			dst = binary.BigEndian.AppendUint64(append(dst, 0, 0, 0, 8), uint64(v.Int))
		}
	}
	dst = append(dst, 0, 1, 0, 1) // one format for all results: binary
	endMessage(dst, start)
	// Execute the unnamed portal, for all of its rows; Sync.
	return append(dst, 'E', 0, 0, 0, 9, 0, 0, 0, 0, 0, 'S', 0, 0, 0, 4), nil
}

func (d dialect) find(f engine.Find) (string, error) {
	if err := f.Validate(); err != nil {
		return "", err
	}
	return f.Select(d.Quote(f.Table.Name), engine.Wording{
		Quote: d.Quote, Value: func(i int) string { return "$" + strconv.Itoa(i+1) }, Leading: true,
	}), nil
}

func (d dialect) delete(s engine.Delete) (string, error) {
	if err := s.Validate(); err != nil {
		return "", err
	}
	by := d.Quote(s.By)
	return fmt.Sprintf("DELETE FROM %s WHERE %s >= $1 AND %s < $2", d.Quote(s.Table.Name), by, by), nil
}
