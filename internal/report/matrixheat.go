package report

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// A heatMap shows the rates of all cells as a table, coloured by their logarithm.
type heatMap struct {
	// Groups are the levels of the first column factor, each spanning Span columns;
	// empty if the columns have a single factor.
	Groups []string
	Span   int
	// RowNames are the row factors, Columns the levels of the last column factor.
	RowNames []string
	Columns  []string
	// ColumnNames are the column factors.
	ColumnNames []string
	Rows        []heatRow
}

type heatRow struct {
	Names []string
	Cells []heatCell
}

// heatCell is one cell of the table; Heat is 0 (the slowest) to heats-1, -1 without
// a rate.
type heatCell struct {
	Text, Name string
	Heat       int
}

func (*heatMap) Kind() string { return "heat" }

// heats is the number of shades: more can't be distinguished.
const heats = 10

// maxColumns is the maximum number of columns of a heat map.
const maxColumns = 12

// heat arranges the cells: the one or two choices with the strongest effect along
// the columns, so that the colours follow them, the others along the rows.
func (m *Matrix) heat() *heatMap {
	if len(m.varied) == 0 {
		return nil
	}
	share := func(f int) float64 {
		for _, s := range m.Shares {
			if len(s.Of) == 1 && s.Of[0] == m.Factors[f].Name {
				return s.Share
			}
		}
		return 0
	}
	strong := slices.Clone(m.varied)
	slices.SortStableFunc(strong, func(a, b int) int { return cmp.Compare(share(b), share(a)) })
	across := strong[:1]
	if len(strong) > 2 && len(m.Factors[strong[0]].Levels)*len(m.Factors[strong[1]].Levels) <= maxColumns {
		across = []int{strong[1], strong[0]}
	}
	var down []int
	for _, f := range m.varied {
		if !slices.Contains(across, f) {
			down = append(down, f)
		}
	}
	h := &heatMap{}
	for _, f := range down {
		h.RowNames = append(h.RowNames, m.Factors[f].Name)
	}
	for _, f := range across {
		h.ColumnNames = append(h.ColumnNames, m.Factors[f].Name)
	}
	last := m.Factors[across[len(across)-1]].Levels
	h.Columns, h.Span = last, len(last)
	if len(across) == 2 {
		h.Groups, h.Columns = m.Factors[across[0]].Levels, nil
		for range h.Groups {
			h.Columns = append(h.Columns, last...)
		}
	}
	low, high := m.extremes()
	for _, row := range m.combinations(down) {
		r := heatRow{}
		for _, f := range down {
			r.Names = append(r.Names, row[f])
		}
		any := false
		for _, col := range m.combinations(across) {
			c := m.heatCell(row, col, low, high)
			any = any || c.Text != none
			r.Cells = append(r.Cells, c)
		}
		if any {
			h.Rows = append(h.Rows, r)
		}
	}
	return h
}

// heatCell finds the cell with the given levels; factors that aren't varied match
// any level.
func (m *Matrix) heatCell(row, col map[int]string, low, high float64) heatCell {
	i := slices.IndexFunc(m.Cells, func(c MatrixCell) bool {
		for _, f := range m.varied {
			want, ok := row[f]
			if !ok {
				want = col[f]
			}
			if c.Levels[f] != want {
				return false
			}
		}
		return true
	})
	if i < 0 {
		return heatCell{none, "not measured", -1}
	}
	c := &m.Cells[i]
	if c.Rate == nil {
		return heatCell{strings.Split(c.notes()[0], ":")[0], c.Name + ": " + strings.Join(c.notes(), "; "), -1}
	}
	heat := heats - 1
	if high > low {
		heat = min(heats-1, int(heats*(math.Log(*c.Rate)-low)/(high-low)))
	}
	return heatCell{short(*c.Rate), c.Name + ": " + rowsRate(*c.Rate), heat}
}

// extremes returns the logarithms of the lowest and the highest rate.
func (m *Matrix) extremes() (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, rate := range m.rate {
		low, high = min(low, math.Log(rate)), max(high, math.Log(rate))
	}
	return low, high
}

// combinations returns all combinations of the levels of some factors, the last
// factor varying fastest.
func (m *Matrix) combinations(factors []int) []map[int]string {
	out := []map[int]string{{}}
	for _, f := range factors {
		var next []map[int]string
		for _, c := range out {
			for _, level := range m.Factors[f].Levels {
				d := map[int]string{f: level}
				for k, v := range c {
					d[k] = v
				}
				next = append(next, d)
			}
		}
		out = next
	}
	return out
}
