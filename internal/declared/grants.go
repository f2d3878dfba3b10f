package declared

import (
	"context"
	"errors"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// loading has, for each list of privileges, the tables of rowmill for which a load needs these
// privileges. The names of the tables lack the prefix rowmill_: touched is rowmill_touched.
var loading = map[string]string{
	"SELECT":                         "tables rollups states journal",
	"SELECT, INSERT, UPDATE, DELETE": "sources cuts publications ledger",
	"SELECT, INSERT, DELETE":         "loaded",
	"INSERT":                         "touched",
}

// Grants returns the statements that give the target's account all privileges that a verb needs. It
// returns none for a server without privileges.
func (f *File) Grants(ctx context.Context, verb string) (_ []string, err error) {
	t, db, err := f.connect(ctx, f.Target)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	granter, ok := db.(engine.Granter)
	if !ok {
		return nil, nil
	}
	tables := []string{f.Name}
	for _, r := range f.Rollups {
		tables = append(tables, r.Name, r.Name+"_live")
	}
	return granter.Grants(ctx, tables, Rights(verb, f.Name))
}

// Rights returns the privileges that a verb needs for a table.
func Rights(verb, table string) []engine.Right {
	rights := []engine.Right{{Privileges: engine.KeepRights}}
	switch verb {
	case "status", "init":
		rights[0].Privileges = "SELECT"
	case "plan":
		rights[0].Privileges = "SELECT, INSERT, DELETE, CREATE, ALTER, DROP, INDEX"
	case "load":
		rights[0] = engine.Right{Table: table, Privileges: "SELECT, INSERT"}
		for privileges, tables := range loading {
			for _, name := range strings.Fields(tables) {
				rights = append(rights, engine.Right{Table: "rowmill_" + name, Privileges: privileges})
			}
		}
	}
	return rights
}
