package serve

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rowmill/rowmill/internal/mysqlwire"
	"github.com/rowmill/rowmill/internal/query/parse"
	"github.com/rowmill/rowmill/internal/serve/session"
	"github.com/rowmill/rowmill/internal/sqltext"
)

// Types of columns and parameters.
const (
	typeDecimal    = 0
	typeTiny       = 1
	typeShort      = 2
	typeLong       = 3
	typeFloat      = 4
	typeDouble     = 5
	typeNull       = 6
	typeTimestamp  = 7
	typeLonglong   = 8
	typeInt24      = 9
	typeDate       = 10
	typeTime       = 11
	typeDatetime   = 12
	typeYear       = 13
	typeVarchar    = 15
	typeNewDecimal = 246
	typeTinyBlob   = 249
	typeBlob       = 252
	typeVarString  = 253
	typeString     = 254

	flagUnsigned = 32
)

// encodable reports whether values of a type can be converted from the server's texts to the binary
// form. A text of a FLOAT or DOUBLE may have lost digits; the conversion of TIME isn't implemented.
func encodable(t columnType) bool {
	return t.kind != typeFloat && t.kind != typeDouble && t.kind != typeTime
}

// appendBinaryRow appends the payload of a row of a prepared statement's result.
func appendBinaryRow(to []byte, values [][]byte, types []columnType) ([]byte, error) {
	to = append(to, 0)
	nulls := len(to)
	to = append(to, make([]byte, (len(values)+7+2)/8)...)
	for i, v := range values {
		if v == nil {
			to[nulls+(i+2)/8] |= 1 << ((i + 2) % 8)
			continue
		}
		var err error
		if to, err = appendBinary(to, string(v), types[i]); err != nil {
			return to, fmt.Errorf("column %d: %w", i+1, err)
		}
	}
	return to, nil
}

var errValue = errors.New("the text has another form than values of its type")

func appendBinary(to []byte, v string, t columnType) ([]byte, error) {
	size := 0
	switch t.kind {
	case typeTiny:
		size = 1
	case typeShort, typeYear:
		size = 2
	case typeLong, typeInt24:
		size = 4
	case typeLonglong:
		size = 8
	case typeDate, typeDatetime, typeTimestamp:
		return appendDatetime(to, v)
	case typeTime, typeFloat, typeDouble, typeNull:
		return to, errValue
	default:
		return append(mysqlwire.AppendInt(to, uint64(len(v))), v...), nil
	}
	var n uint64
	var err error
	if t.flags&flagUnsigned != 0 {
		n, err = strconv.ParseUint(v, 10, 8*size)
	} else {
		var signed int64
		signed, err = strconv.ParseInt(v, 10, 8*size)
		n = uint64(signed)
	}
	if err != nil {
		return to, errValue
	}
	for range size {
		to = append(to, byte(n))
		n >>= 8
	}
	return to, nil
}

// datetimeText matches a date, which may have a time with up to six digits of a second's fraction.
var datetimeText = regexp.MustCompile(`^(\d{4})-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?$`)

func appendDatetime(to []byte, v string) ([]byte, error) {
	parts := datetimeText.FindStringSubmatch(v)
	if parts == nil {
		return to, errValue
	}
	parts[7] = (parts[7] + "000000")[:6]
	var n [8]int
	for i, digits := range parts[1:] {
		n[i], _ = strconv.Atoi("0" + digits) // a part that is missing is 0
	}
	year, micro := n[0], n[6]
	p := []byte{0, byte(year), byte(year >> 8), byte(n[1]), byte(n[2]), byte(n[3]), byte(n[4]), byte(n[5]), byte(micro), byte(micro >> 8), byte(micro >> 16), byte(micro >> 24)}
	switch {
	case micro != 0:
		p[0] = 11
	case n[3]|n[4]|n[5] != 0:
		p[0] = 7
	case year|n[1]|n[2] != 0:
		p[0] = 4
	}
	return append(to, p[:1+p[0]]...), nil
}

// parameters returns the values of a COM_STMT_EXECUTE as literals. values is the part of the
// command after the statement's number, with the types of the parameters added if the command lacks
// them.
func parameters(s *session.Statement, p []byte, noBackslash bool) (literals []string, values []byte, err error) {
	if len(p) < 10 || p[5] != 0 {
		return nil, nil, &notSplit{whyForm, "the client asks for a cursor"}
	}
	values = append(values, p[5:10]...)
	if s.Params == 0 {
		return nil, values, nil
	}
	size := (s.Params + 7) / 8
	if len(p) < 10+size+1 || len(s.Types) != 2*s.Params {
		return nil, nil, &notSplit{whyForm, "the types of the parameters aren't known"}
	}
	nulls := p[10 : 10+size]
	rest := p[10+size+1:]
	if p[10+size] == 1 {
		rest = rest[min(len(rest), 2*s.Params):]
	}
	values = append(append(append(append(values, nulls...), 1), s.Types...), rest...)
	for i := range s.Params {
		if nulls[i/8]&(1<<(i%8)) != 0 {
			literals = append(literals, "NULL")
			continue
		}
		literal, after, err := literalOf(rest, s.Types[2*i], s.Types[2*i+1]&0x80 != 0, noBackslash)
		if err != nil {
			return nil, nil, err
		}
		literals, rest = append(literals, literal), after
	}
	if len(rest) != 0 {
		return nil, nil, &notSplit{whyForm, "values of parameters have another form"}
	}
	return literals, values, nil
}

// literalOf reads one parameter's value at the beginning of p. It returns a literal of the same
// type, and the rest of p.
func literalOf(p []byte, kind byte, unsigned, noBackslash bool) (literal string, rest []byte, err error) {
	unknown := &notSplit{whyForm, fmt.Sprintf("a parameter of type %d has no literal", kind)}
	size := map[byte]int{typeTiny: 1, typeShort: 2, typeYear: 2, typeLong: 4, typeInt24: 4, typeLonglong: 8, typeFloat: 4, typeDouble: 8}[kind]
	if size > 0 {
		if len(p) < size {
			return "", nil, unknown
		}
		var n uint64
		for i := size - 1; i >= 0; i-- {
			n = n<<8 | uint64(p[i])
		}
		switch {
		case kind == typeFloat:
			literal = strconv.FormatFloat(float64(math.Float32frombits(uint32(n))), 'e', -1, 64)
		case kind == typeDouble:
			literal = strconv.FormatFloat(math.Float64frombits(n), 'e', -1, 64)
		case unsigned || kind == typeYear: // an integer literal is signed
			return "", nil, unknown
		default:
			shift := 64 - 8*size
			literal = strconv.FormatInt(int64(n<<shift)>>shift, 10)
		}
		if strings.ContainsAny(literal, "NI") { // not a number, infinite
			return "", nil, unknown
		}
		if literal[0] == '-' {
			literal = "(" + literal + ")"
		}
		return literal, p[size:], nil
	}
	text, rest, ok := mysqlwire.Bytes(p)
	dated := kind == typeDate || kind == typeDatetime || kind == typeTimestamp
	if !ok || !dated && !utf8.Valid(text) {
		return "", nil, unknown
	}
	switch kind {
	case typeDecimal, typeNewDecimal:
		digits := strings.TrimPrefix(string(text), "-")
		if whole, fraction, _ := strings.Cut(digits, "."); strings.Trim(whole+fraction, "0123456789") != "" || whole == "" || fraction == "" {
			return "", nil, unknown
		}
		return "(" + string(text) + ")", rest, nil
	case typeVarchar, typeVarString, typeString:
		return quoteText(string(text), noBackslash), rest, nil
	case typeTinyBlob, typeTinyBlob + 1, typeTinyBlob + 2, typeBlob:
		if strings.IndexByte(string(text), 0) >= 0 {
			return "", nil, unknown
		}
		return "_binary" + quoteText(string(text), noBackslash), rest, nil
	case typeDate, typeDatetime, typeTimestamp:
		if literal, ok = datetimeLiteral(text, kind == typeDate); ok {
			return literal, rest, nil
		}
	}
	return "", nil, unknown
}

// datetimeLiteral returns the literal of a date, or a date with a time. Zero dates have none.
func datetimeLiteral(p []byte, date bool) (string, bool) {
	if len(p) != 4 && len(p) != 7 && len(p) != 11 || date && len(p) != 4 {
		return "", false
	}
	p = append(append([]byte(nil), p...), make([]byte, 11-len(p))...)
	day := fmt.Sprintf("%04d-%02d-%02d", binary.LittleEndian.Uint16(p), p[2], p[3])
	if p[2] == 0 || p[3] == 0 {
		return "", false
	}
	if date {
		return "DATE'" + day + "'", true
	}
	at := fmt.Sprintf("TIMESTAMP'%s %02d:%02d:%02d", day, p[4], p[5], p[6])
	if micro := binary.LittleEndian.Uint32(p[7:]); micro != 0 {
		at += fmt.Sprintf(".%06d", micro)
	}
	return at + "'", true
}

func quoteText(s string, noBackslash bool) string {
	s = strings.ReplaceAll(s, "'", "''")
	if !noBackslash {
		s = strings.ReplaceAll(s, `\`, `\\`)
	}
	return "'" + s + "'"
}

// comparisons are the operators with which a parameter and a column are compared.
var comparisons = map[string]bool{"=": true, "<=>": true, "<>": true, "!=": true, "<": true, "<=": true, ">": true, ">=": true, "LIKE": true}

// compared returns the parameters that an expression compares with a column. The server converts
// such a parameter to the column's type, as it converts a literal.
func compared(e *parse.Expr) (params []*parse.Expr) {
	switch {
	case e.Kind != parse.Between && e.Kind != parse.In && (e.Kind != parse.Binary || !comparisons[e.Name]):
	case e.Args[0].Kind == parse.Column:
		for _, a := range e.Args[1:] {
			if isParam(a) {
				params = append(params, a)
			}
		}
	case e.Kind == parse.Binary && isParam(e.Args[0]) && e.Args[1].Kind == parse.Column:
		params = e.Args[:1]
	}
	return params
}

func isParam(e *parse.Expr) bool { return e != nil && e.Kind == parse.Param }

// insertLiterals replaces parameters by literals, if each parameter is compared with a column or is
// a limit. In other places a literal may mean something else, such as a position in ORDER BY, or
// have another type than the parameter.
func insertLiterals(text string, literals []string, syntax sqltext.Syntax) (string, error) {
	if len(literals) == 0 {
		return text, nil
	}
	q, err := parse.Parse(text, syntax)
	if err != nil {
		return "", &notSplit{whyForm, err.Error()}
	}
	all, permitted, limits := map[sqltext.Span]bool{}, map[sqltext.Span]bool{}, map[sqltext.Span]bool{}
	q.Walk(func(q *parse.Query) bool {
		if q.Body != nil {
			conditions := []*parse.Expr{q.Body.Where, q.Body.Having}
			for _, j := range q.Body.Joins() {
				conditions = append(conditions, j.On)
			}
			for _, c := range conditions {
				parse.Walk(c, func(e *parse.Expr) bool {
					for _, p := range compared(e) {
						permitted[p.Span] = true
					}
					return true
				})
			}
		}
		for _, e := range []*parse.Expr{q.Limit, q.Offset} {
			if isParam(e) {
				permitted[e.Span], limits[e.Span] = true, true
			}
		}
		return true
	}, func(e *parse.Expr) bool {
		if e.Kind == parse.Param {
			all[e.Span] = true
		}
		return true
	})
	if len(all) != len(literals) || len(permitted) != len(all) {
		return "", &notSplit{whyForm, "a parameter is compared with something else than a column, or stands elsewhere"}
	}
	spans := slices.SortedFunc(maps.Keys(all), func(a, b sqltext.Span) int { return a.From - b.From })
	edits := make([]parse.Edit, len(spans))
	for i, s := range spans {
		literal := literals[i]
		if limits[s] { // in a limit, the text '10' is the number 10
			literal = strings.Trim(literal, "'")
		}
		if s.Of(text) != "?" || limits[s] && (strings.Trim(literal, "0123456789") != "" || literal == "" || len(literal) > 18) {
			return "", &notSplit{whyForm, "a parameter has another form"}
		}
		edits[i] = parse.Edit{Span: s, Text: literal}
	}
	return parse.Replace(text, edits), nil
}
