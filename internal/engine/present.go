package engine

import "context"

// A Presenter is a Keeper whose server can present tables of other servers as one: its nodes have
// the rows, in tables of one name, and the server, their head, has none.
type Presenter interface {
	Keeper
	// NodeOf returns the index of the node, of so many, that has the rows with a key: what
	// the server itself computes.
	NodeOf(key int64, nodes int) int
	// Present returns the steps after which the head presents its nodes; none if it does. It refuses to
	// replace a table with rows of its own, and one whose nodes have another order. It is ErrUnsupported if the
	// server lacks what it takes.
	Present(ctx context.Context, h *Head) ([]HeadStep, error)
}

// A Head is a table that presents those of other servers.
type Head struct {
	Table *Table // with its Definition
	// Schema is that of the nodes' tables; nil while they don't exist.
	Schema *Schema
	// By is the integer column whose hash decides about a row's node.
	By    string
	Nodes []HeadNode
}

// A HeadNode is one server with a part of the rows.
type HeadNode struct {
	// Name has at most 16 small letters, digits and underscores.
	Name string
	// Target is its database. The head connects to it as rowmill does, with the same account.
	Target Target
}

// A HeadStep is a step of Present.
type HeadStep struct {
	// What describes it in a sentence. SQL are its statements, without passwords.
	What string
	SQL  []string
	Run  func(ctx context.Context) error
}

// HiddenPassword stands in the statements of a HeadStep that are printed.
const HiddenPassword = "********"
