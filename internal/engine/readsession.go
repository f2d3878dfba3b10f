package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// TextEnd is what the server reports at the end of a statement that Session.Text has run.
type TextEnd struct {
	// Affected is the number of rows that the statement has changed, if it has no result.
	Affected int64
	// Warnings is the number of the server's warnings; -1 is unknown.
	Warnings int
	// Status has the status flags of the server's protocol; 0 if the protocol has none.
	Status uint16
}

// Text runs a statement and passes on its result as the server's own texts. Head, which may be nil,
// gets the columns before the first row, unless the statement has no result. Row gets each row; a
// value is nil for NULL, and valid only during the call. Text never has the whole result in memory,
// and allocates nothing for a row.
//
// The first error of head or row ends the statement on the server, and Text returns it. After such
// an error, and also if ctx ends, the connection is lost, unless the engine is embedded.
//
// Only a session of Reader.ReadSession has texts; other sessions return ErrUnsupported.
func (s *Session) Text(ctx context.Context, query string, head func([]ResultColumn) error, row func(values [][]byte) error) error {
	s.ended = TextEnd{Warnings: -1}
	if first, _, _ := strings.Cut(query, " "); !slices.Contains(readsOnly, strings.ToUpper(first)) {
		s.forget()
	}
	if s.words.Text == nil {
		return Classed(ErrUnsupported, fmt.Errorf("%s: this session has no texts", FirstWords(query)))
	}
	var own error
	err := s.do(ctx, FirstWords(query), func() error {
		return s.raw(func(c any) (err error) {
			s.ended, err = s.words.Text(ctx, c, query,
				func(cols []ResultColumn) error {
					if head != nil {
						own = head(cols)
					}
					return own
				},
				func(values [][]byte) error { own = row(values); return own })
			if own != nil {
				return nil
			}
			return err
		})
	})
	if own == nil {
		return err
	}
	if s.id != 0 {
		s.kill(ctx)
		err = errors.Join(err, s.discard())
	}
	if err == nil {
		return own
	}
	return errors.Join(own, err)
}

// TextEnd returns what the server said at the end of the last Text.
func (s *Session) TextEnd() TextEnd { return s.ended }

// Describe returns the columns of a query's result as the server describes them. It doesn't run the
// query. Only Reader.DescribeQuery adds collations.
func (s *Session) Describe(ctx context.Context, query string) (cols []ResultColumn, err error) {
	if s.words.Describe == nil {
		return nil, Classed(ErrUnsupported, fmt.Errorf("%s: this session describes no queries", FirstWords(query)))
	}
	err = s.do(ctx, FirstWords(query), func() error {
		return s.raw(func(c any) (err error) {
			cols, err = s.words.Describe(ctx, c, query)
			return err
		})
	})
	return cols, err
}

// SetStates sets the settings of a State in order, except those that the session surely has.
func (s *Session) SetStates(ctx context.Context, st State) error {
	if s.words.SetAll == nil {
		for _, x := range st {
			if err := s.SetState(ctx, x.Name, x.Value); err != nil {
				return err
			}
		}
		return nil
	}
	known := s.known
	st, err := s.settable(st)
	if err != nil {
		return err
	}
	statements, err := s.words.SetAll(st, known)
	if err != nil {
		return err
	}
	for _, q := range statements {
		if _, err := s.Exec(ctx, q); err != nil { // which forgets what is known
			return err
		}
	}
	s.known = known.With(st)
	return nil
}

// settable returns st without the settings that are fixed for the session. It returns an error if
// st has another value for such a setting than the session is known to have.
func (s *Session) settable(st State) (State, error) {
	for _, name := range s.words.Fixed {
		if want, has := st.Get(name), s.known.Get(name); want != "" && has != "" && want != has {
			return nil, fmt.Errorf("%s is %s for the session, and %s for those that run pieces", name, want, has)
		}
	}
	return slices.DeleteFunc(slices.Clone(st), s.fixed), nil
}

// fixed reports whether the session keeps a setting from its beginning to its end.
func (s *Session) fixed(x Setting) bool { return slices.Contains(s.words.Fixed, x.Name) }

// forget removes what is known of the settings, because a statement may change any of them.
func (s *Session) forget() {
	s.known = slices.DeleteFunc(slices.Clone(s.known), func(x Setting) bool { return !s.fixed(x) })
}

// Knows tells the session which settings it has, so that SetStates need not set them again.
func (s *Session) Knows(st State) { s.known = slices.Clone(st) }

// With returns the State with the settings of other: they replace settings of the same name, and
// new ones are added at the end.
func (st State) With(other State) State {
	out := slices.Clone(st)
	for _, x := range other {
		if i := slices.IndexFunc(out, func(y Setting) bool { return y.Name == x.Name }); i >= 0 {
			out[i] = x
		} else {
			out = append(out, x)
		}
	}
	return out
}

// Changed returns the settings of st that from lacks, or has with another value.
func (st State) Changed(from State) State {
	return slices.DeleteFunc(slices.Clone(st), func(x Setting) bool { return slices.Contains(from, x) })
}

// readsOnly are the first words of statements that change no setting.
var readsOnly = []string{"SELECT", "WITH", "SHOW", "EXPLAIN"}

// Consistent makes the open transaction see, from now on, all that is committed now. It returns
// ErrUnsupported on a server without a statement for that.
func (s *Session) Consistent(ctx context.Context) error {
	if s.words.Consistent == "" {
		return Classed(ErrUnsupported, errors.New("take a snapshot: this server can't"))
	}
	known := s.known
	_, err := s.Exec(ctx, s.words.Consistent)
	if err == nil {
		s.known = known // it changes no setting
	}
	return err
}
