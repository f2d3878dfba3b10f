package declared

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

const onNodes = `
[table]
name   = "readings"
target = "mariadb://u@head/db"
create = '''
CREATE TABLE readings (sensor BIGINT NOT NULL, ts DATETIME NOT NULL, PRIMARY KEY (sensor, ts))'''
time   = "ts"

[period]
every = "1d"
keep  = "30d"

[shards]
by = "sensor"

[shards.nodes]
n1 = "mariadb://u@first/db"
n2 = "mariadb://u@second/db"
`

func TestRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "readings.toml")
	if err := os.WriteFile(path, []byte(onNodes), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		instead, target, node string
		sharded               bool
		fails                 string
	}{
		"the declaration's target": {"", "mariadb://u@head/db", "", true, ""},
		"another target":           {"mariadb://u@other/db", "mariadb://u@other/db", "", true, ""},
		"a node":                   {"n2", "mariadb://u@second/db", "n2", false, ""},
		"no node":                  {"n3", "", "", false, "no node of that name, but n1, n2"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Read(t.Context(), path, c.instead)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) || !errors.Is(err, ErrUsage) || engine.HintOf(err) != "--target n1" {
					t.Errorf("error %v, want %q", err, c.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if f.Target != c.target || f.Node != c.node || f.Sharded() != c.sharded {
				t.Errorf("target %s, node %q, sharded %t", f.Target, f.Node, f.Sharded())
			}
			nodes := f.OfNodes()
			if len(nodes) != 2 || nodes[1].Node != "n2" || nodes[1].Target != "mariadb://u@second/db" || nodes[1].Sharded() || f.Target != c.target {
				t.Errorf("nodes: %+v", nodes)
			}
		})
	}
}

func TestUnreachedSocket(t *testing.T) {
	t.Parallel()
	d := &rolling.Declaration{Target: "postgres:///db?host=/nowhere", Source: filepath.Join("x", "r.toml")}
	err := unreached(engine.Hinted(engine.Classed(engine.ErrUnreachable, os.ErrClosed), "a sandbox"), d)
	if got := engine.HintOf(err); !strings.Contains(got, "the target's socket") || !strings.Contains(got, "r.toml") {
		t.Error(got)
	}
}
