// Package adopt holds the place until the real one lands.
package adopt

import (
	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/rolling"
)

func AddedColumns(schema *engine.Schema, d *rolling.Definition) ([]engine.AddColumn, error) {
	return nil, nil
}
