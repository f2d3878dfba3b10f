package advise

import (
	"context"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// obstacles returns the reasons why an adoption of a plain table would be refused, each with what
// to do.
func obstacles(ctx context.Context, db engine.Definer, s *engine.Schema) (out []string, err error) {
	k, ok := db.(engine.Keeper)
	if !ok || s.Partitioned {
		return nil, nil
	}
	all, err := engine.ReadAttributes(ctx, k, k.Mirroring(&engine.Mirror{DB: k, Table: &engine.Table{Name: s.Name}}), s.Name)
	for _, a := range all {
		if a.Kind == engine.Stays || a.Kind == engine.Refused {
			out = append(out, fmt.Sprintf("rowmill apply refuses the table because of this: %s. Try: %s", a.What, strings.ReplaceAll(a.Do, "{}", db.Dialect().Quote(s.Name))))
		}
	}
	return out, err
}
