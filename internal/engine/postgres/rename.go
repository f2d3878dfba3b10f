package postgres

import "github.com/rowmill/rowmill/internal/engine"

func (d dialect) rename(s engine.Rename) ([]string, error) {
	to := *s.Table
	to.Name = s.To
	out := []string{"ALTER TABLE " + d.Quote(s.Table.Name) + " RENAME TO " + d.Quote(s.To)}
	for _, p := range s.Have {
		if err := fits(&to, p); err != nil {
			return nil, err
		}
		if from := childName(s.Table, p); from != childName(&to, p) {
			out = append(out, "ALTER TABLE "+d.Quote(from)+" RENAME TO "+d.Quote(childName(&to, p)))
		}
	}
	return out, nil
}
