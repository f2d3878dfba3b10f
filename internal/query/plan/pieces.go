package plan

import (
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// MostNamed is how many partitions a message names.
const MostNamed = 3

// PieceText is the query of a piece.
func (p *Plan) PieceText(reader engine.Reader, piece int) string {
	p, piece = p.BranchOf(piece)
	if at := p.Pieces[piece]; at.Query+at.Text != "" {
		return at.Query + at.Text
	}
	return p.Partial[0] + p.operand(reader, p.Pieces[piece]) + p.Partial[1]
}

// HeadText is the query of a piece that the first server can describe: a piece that reads the first
// server's own table, not a roll-up or the table of another server.
func (p *Plan) HeadText(reader engine.Reader) string {
	piece := p.Pieces[0]
	switch {
	case len(p.Parts) > 0 && (piece.Table != nil || piece.Query != ""):
		piece = Piece{Parts: p.Parts[:1]}
	case piece.Query != "" && len(p.Table.Parts) > 0: // all rows come from roll-ups
		piece = Piece{Parts: []string{p.Table.Parts[0].Name}}
	}
	return p.Partial[0] + p.operand(reader, piece) + p.Partial[1]
}

// operand is the text that the query of a piece has in place of the table.
func (p *Plan) operand(reader engine.Reader, piece Piece) string {
	if piece.Where == "" {
		if piece.Table != nil {
			return reader.PartFrom(piece.Table, piece.Parts)
		}
		return reader.PartFrom(p.Table, piece.Parts)
	}
	// All columns are named, because * omits invisible ones.
	d := reader.Dialect()
	names := make([]string, len(p.Table.Columns))
	for i, c := range p.Table.Columns {
		names[i] = d.Quote(c.Name)
	}
	from := QuotedName(d, p.Table.Database, p.Table.Name)
	if len(piece.Parts) > 0 {
		from = reader.PartFrom(p.Table, piece.Parts) + " AS rowmill_part" // a derived table must have an alias
	}
	return "(SELECT " + strings.Join(names, ", ") + " FROM " + from + " WHERE " + piece.Where + ")"
}

// PieceName is what a message calls a piece.
func (p *Plan) PieceName(piece int) string {
	at := p.Pieces[piece]
	where := ""
	if at.Server != "" {
		where = " on node " + at.Server
	}
	switch n := len(at.Parts); {
	case at.Rollup != "":
		return "roll-up " + at.Rollup
	case at.Query != "":
		return "a branch of the set operation"
	case at.Where != "":
		return "the rows of " + p.Table.Name + " with " + at.Where + where
	case n == 0:
		return p.Table.Name + where
	case n == 1:
		return "partition " + at.Parts[0] + " of " + p.Table.Name + where
	case n <= MostNamed:
		return "partitions " + strings.Join(at.Parts, ", ") + " of " + p.Table.Name + where
	default:
		return fmt.Sprintf("partitions %s to %s (%d) of %s%s", at.Parts[0], at.Parts[n-1], n, p.Table.Name, where)
	}
}

// BranchOf returns the branch that a piece belongs to, and the piece's index in that branch.
func (p *Plan) BranchOf(piece int) (*Plan, int) {
	for i := range p.Branches {
		n := len(p.Branches[i].Pieces)
		if piece < n {
			return p.Branches[i].Plan, piece
		}
		piece -= n
	}
	return p, piece
}

// RunWhole makes a branch run as one piece, with the branch's own text.
func (p *Plan) RunWhole() {
	p.Pieces = []Piece{{Query: p.Certain, Rows: p.EstimatedRows}}
	p.PartialColumns, p.Keys, p.Table, p.Parts, p.Rollups = p.Columns, len(p.Columns), nil, nil, nil
	p.Merge = Merge{Kind: Concatenate, Limit: -1}
	p.Whole = ""
}

// Cutting returns the plans that cut a table: this plan, or the plans of its branches.
func (p *Plan) Cutting() (list []*Plan) {
	if p.Table != nil {
		list = append(list, p)
	}
	for _, b := range p.Branches {
		list = append(list, b.Cutting()...)
	}
	return list
}

// CutTables returns the tables that are cut.
func (p *Plan) CutTables() (list []*engine.TableParts) {
	for _, b := range p.Cutting() {
		list = append(list, b.Table)
	}
	return list
}

// QuotedName is the quoted name of a table, after the name of its database if that is known.
func QuotedName(d engine.Dialect, database, name string) string {
	if database == "" {
		return d.Quote(name)
	}
	return d.Quote(database) + "." + d.Quote(name)
}
