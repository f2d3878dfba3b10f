package report

import (
	"fmt"
	"slices"
	"strings"
)

func (p *picture) title() string {
	best := &p.vs[0]
	rows := int64(0)
	for i := range p.vs {
		rows = max(rows, p.vs[i].sum.Rows)
	}
	r := &best.rec.Run
	if s := r.Scenario; s != nil && !slices.ContainsFunc(p.vs, func(v view) bool {
		return v.rec.Run.Scenario == nil || v.rec.Run.Scenario.Name != s.Name
	}) {
		return s.Title + ": " + engineName(r.Engine)
	}
	if r.Step != nil {
		return fmt.Sprintf("Insert rate of %s in the steps of %s, up to %s rows each", engineName(r.Engine), r.Step.Benchmark, short(float64(rows)))
	}
	return fmt.Sprintf("Insert rate of %s as a table grows to %s rows", engineName(r.Engine), short(float64(rows)))
}

// engineName returns the official spelling of an engine's name.
func engineName(name string) string {
	known := map[string]string{"mysql": "MySQL", "mariadb": "MariaDB", "postgres": "PostgreSQL", "sqlite": "SQLite", "null": "the null engine"}
	if s, ok := known[name]; ok {
		return s
	}
	return name
}

// subtitle describes what all runs have in common.
func (p *picture) subtitle() string {
	common := p.vs[0].circumstances()
	for i := range p.vs[1:] {
		other := p.vs[i+1].circumstances()
		common = slices.DeleteFunc(common, func(s string) bool { return !slices.Contains(other, s) })
	}
	return strings.Join(common, " · ")
}

// circumstances returns the conditions of a run, a few words each.
func (v *view) circumstances() []string {
	r := &v.rec.Run
	parts := []string{strings.TrimSpace(engineName(r.Engine) + " " + r.ServerVersion)}
	if r.CacheBytes > 0 {
		parts = append(parts, bytes(float64(r.CacheBytes))+" cache")
	}
	if r.Step != nil {
		parts = append(parts, plural(int64(r.Writers), "client", "clients"), plural(int64(r.Step.Tables), "table", "tables"))
		if r.Durability != "" {
			parts = append(parts, "durability "+r.Durability)
		}
		return parts
	}
	parts = append(parts, plural(int64(r.Indexes), "secondary index", "secondary indexes"))
	if r.Preset != "" {
		parts = append(parts, r.Preset)
	}
	parts = append(parts, plural(int64(r.Writers), "writer", "writers"), "batches of "+count(int64(r.Batch)))
	if r.Durability != "" {
		parts = append(parts, "durability "+r.Durability)
	}
	if r.Machine.Cores > 0 {
		parts = append(parts, plural(int64(r.Machine.Cores), "core", "cores"))
	}
	return parts
}
