package experiment

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/rolling"
)

// A TableSpec is a declared table that inserts measure in place of a preset's.
type TableSpec struct {
	// File is the path of the declaration, for messages; Declaration is its text, with the
	// values that were learned from a sample.
	File        string `json:"file" toml:"file"`
	Declaration string `json:"declaration" toml:"declaration"`
}

// Declared reads the declaration for a target of an experiment.
func (t *TableSpec) Declared(url string) (*rolling.Declaration, error) {
	// An experiment may have a temporary database, which rolling refuses: give it a name.
	if rest, ok := strings.CutPrefix(url, target.Default); ok && (rest == "" || rest[0] == '?') {
		url = target.Default + "bench" + rest
	}
	return rolling.ParseDeclarationFor(t.File, []byte(t.Declaration), url)
}

// WithValues returns the table with another section [values], which begins with a comment.
func (t *TableSpec) WithValues(v *rolling.Values, comment string) *TableSpec {
	return &TableSpec{File: t.File, Declaration: withoutValues(t.Declaration) + "\n# " + comment + "\n" + v.TOML()}
}

// ascending returns the table with values of a column that grow with the time.
func (t *TableSpec) ascending(url, column string) (*TableSpec, error) {
	d, err := t.Declared(url)
	if err != nil {
		return nil, err
	}
	v := rolling.ColumnValues{Column: column, Order: rolling.OrderAscending, Length: d.Values.Of(column).Length}
	d.Values.Columns = append(slices.DeleteFunc(d.Values.Columns, func(v rolling.ColumnValues) bool { return v.Column == column }), v)
	return t.WithValues(&d.Values, "The values of "+column+" ascend."), nil
}

// withoutValues returns the text of a declaration without its section [values].
func withoutValues(text string) string {
	var out strings.Builder
	values := false
	for line := range strings.Lines(text) {
		if head := strings.TrimSpace(line); strings.HasPrefix(head, "[") {
			values = strings.HasPrefix(head, "[values]") || strings.HasPrefix(head, "[values.")
		}
		if !values {
			out.WriteString(line)
		}
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

// own returns the declared table to measure; nil if the Spec has none. It refuses a table that
// doesn't fit the target.
func (s *Spec) own() (*workload.Own, error) {
	if s.Table == nil {
		return nil, nil
	}
	d, err := s.Table.Declared(s.Target())
	if err != nil {
		return nil, refuse("", "%w", err)
	}
	return &workload.Own{Declaration: d}, nil
}

// SetTable lets the Spec measure a declared table. Its periods are as long as declared or, if auto
// is set, so long that two of them fit into the cache.
func (s *Spec) SetTable(t *TableSpec, auto bool) error {
	s.Table = t
	o, err := s.own()
	if err != nil {
		return err
	}
	s.Preset = o.Name
	if !auto && s.PeriodRows == 0 && slices.Contains(s.Layouts, workload.Rolling) {
		s.PeriodRows = o.PeriodRows()
	}
	return nil
}

func (s *Spec) validateTable() error {
	if s.Table == nil {
		return nil
	}
	if !target.Stores(s.Target()) {
		return refuse("--target "+target.Default, "--table: %s stores nothing, and only a server knows the types of the columns", s.Target())
	}
	_, err := s.own()
	return err
}

// describe reads the columns of a declared table from the server.
func (m *measurement) describe(ctx context.Context, own *workload.Own) error {
	if own == nil {
		return nil
	}
	db, ok := m.db.DB.(engine.Keeper)
	if !ok {
		return fmt.Errorf("--table: %s can't describe tables", m.db.Info().Engine)
	}
	return own.Describe(ctx, db, m.trial.Spec.DropExisting || m.trial.Again, m.trial.resumes != nil)
}
