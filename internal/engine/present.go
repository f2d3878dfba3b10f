package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/rolling"
)

// A Presenter is a Keeper whose server, the head, can present tables of other servers, the nodes,
// as one table. The nodes have the rows, in tables of the same name; the head has none.
type Presenter interface {
	Keeper
	// NodeOf computes, as the server does, the index of the node that has the rows with a key. The key
	// is the row's position if h has slices, otherwise the value of By.
	NodeOf(h *Head, key int64) int
	// Present returns the steps, if any are needed, that make the head present its nodes. It refuses
	// to replace a table that has rows of its own, or that lists its nodes in another order than h.
	// It may return ErrUnsupported.
	Present(ctx context.Context, h *Head) ([]HeadStep, error)
	// Place returns which server and database this is. The address used doesn't matter.
	Place(ctx context.Context) (Place, error)
}

// A Place is a database of a server.
type Place struct {
	// Server is equal for two targets only if they are the same server, and Database only if they are
	// the same database of it.
	Server, Database string
	// Order says how texts are compared by default; "" if each column's description says it.
	Order string
	// Foreign reports that the server, as a head, can't present tables of its own.
	Foreign bool
}

// A Head is a table on the head, which presents the tables of the nodes.
type Head struct {
	Table *Table // with its Definition
	// Schema describes the nodes' tables; nil while they don't exist.
	Schema *Schema
	// By is the column whose value determines a row's node. If Slice is 0, the value is an integer,
	// and its hash determines the node. Otherwise the value is a position. Positions are divided into
	// numbered slices of the length Slice, one of which begins at Origin, and the hash of the slice's
	// number determines the node.
	By            string
	Slice, Origin int64
	Nodes         []HeadNode
}

// NewHead returns the head of a declared table.
func NewHead(t *Table, s *rolling.Shards) (*Head, error) {
	h := &Head{Table: t, By: s.By}
	if s.Every.Valid() {
		b := s.Every.Bucketing()
		h.Slice, h.Origin = b.Step, b.Origin
	}
	for _, n := range s.Nodes {
		to, err := ParseTarget(n.Target)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", n.Name, err)
		}
		h.Nodes = append(h.Nodes, HeadNode{Name: n.Name, Target: to})
	}
	return h, nil
}

// Units returns the length and the offset of slices of an integer column that counts units. The
// slice of a value v has the number (v - offset) / length, rounded towards 0.
func (h *Head) Units(unit int64) (length, offset int64) { return h.Slice / unit, h.Origin / unit }

// YearZero is the number of seconds from the year 0 of the Gregorian calendar until 1970.
const YearZero = 62167219200

// Seconds returns, for a time column, the length and the offset of slices in seconds. The slice of
// a time has the number (v - offset) / length, where v is the time in seconds since the moment that
// lies base seconds before 1970.
func (h *Head) Seconds(base int64) (length, offset int64) {
	const second = 1e6
	length = h.Slice / second
	offset = (base + h.Origin/second) % length
	if offset < 0 {
		offset += length
	}
	return length, offset
}

// SliceOf returns the number of the slice in which a position lies. For an integer column, base is
// -1. For a column of times, base is the base of Seconds.
func (h *Head) SliceOf(position, base int64) int64 {
	if base < 0 {
		return (position - h.Origin) / h.Slice
	}
	length, offset := h.Seconds(base)
	return (FloorDiv(position, 1e6) + base - offset) / length
}

// A HeadNode is one server with a part of the rows.
type HeadNode struct {
	// Name has at most 16 small letters, digits and underscores.
	Name string
	// Target is its database. The head connects to it as rowmill does, with the same account.
	Target Target
}

// ServerName is the name under which the head knows a node's server. The name contains a hash of
// how, the server's address and account. So a new address gives a new name; the server with the old
// name, which other tables may use, stays as it is.
func (n HeadNode) ServerName(how ...any) string {
	sum := sha256.Sum256(fmt.Append(nil, how...))
	return "rowmill_" + n.Name + "_" + hex.EncodeToString(sum[:4])
}

// Links returns what the head needs to connect to each node.
func Links[L any](h *Head, of func(HeadNode) (L, error)) ([]L, error) {
	links := make([]L, len(h.Nodes))
	for i, n := range h.Nodes {
		var err error
		if links[i], err = of(n); err != nil {
			return nil, fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	return links, nil
}

// A HeadStep is a step of Present.
type HeadStep struct {
	// What describes the step in a sentence. SQL has its statements, without passwords.
	What string
	SQL  []string
	Run  func(ctx context.Context) error
}

// HiddenPassword replaces passwords in the printed statements of a HeadStep.
const HiddenPassword = "********"

// HidePassword returns an error whose text has no password, not even within a literal of SQL.
func HidePassword(err error, password string) error {
	if err == nil || password == "" {
		return err
	}
	text := err.Error()
	forms := []string{password, strings.ReplaceAll(password, "'", "''"),
		strings.NewReplacer(`\`, `\\`, "'", "''").Replace(password), strings.NewReplacer(`\`, `\\`, "'", `\'`, "\x00", `\0`).Replace(password)}
	for _, form := range forms {
		text = strings.ReplaceAll(text, form, HiddenPassword)
	}
	const shown = 4 // another word may have fewer characters of a password by chance
	for _, form := range forms {
		for i := shown; i <= len(form); i++ {
			if strings.Contains(text, form[i-shown:i]) {
				return errors.New("the server's message has a part of the password, and is not shown")
			}
		}
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}
