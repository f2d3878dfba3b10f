package rolling

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/tomlfile"
)

// table reads [table], once [period] is read.
func (r *declarationReader) table(table *tomlfile.Value) {
	d := r.d
	d.Name, r.name = r.must(table, "[table]", "name", "readings")
	d.Exact, _ = r.truth(table, "exact")
	if text, v := r.text(table, "epoch", "s"); v != nil {
		switch d.Epoch = epochs[text]; {
		case d.Epoch == 0:
			r.fail(v, `"s", "ms" or "us"`, "epoch = %q is not a unit", text)
		case d.Period.Axis() == Sequence:
			r.fail(v, "leave it out", "epoch is for an integer on an axis of time, and the table rolls by rows")
		}
	}
	d.Time, r.timeKey = r.must(table, "[table]", "time", "ts")
	text, create := r.must(table, "[table]", "create", "CREATE TABLE ...")
	if create == nil {
		return
	}
	r.create = create
	try := dialects
	if r.servers != "" {
		try = []*dialect{&r.dialect}
	}
	def, err := readDefinition(text, try...)
	if err != nil {
		r.errs = append(r.errs, r.inDefinition(definitionError(text, err)))
		return
	}
	d.Definition = def
	for _, c := range def.Columns {
		r.columns = append(r.columns, c.Name)
	}
	r.definition(def)
	r.timeColumn(def)
}

func (r *declarationReader) definition(def *Definition) {
	if r.name != nil {
		if !r.sameName(def.Name, r.d.Name) {
			r.failDefinition(def.nameLine, def.nameColumn, fmt.Sprintf("name = %q", def.Name), "create makes a table %s, and name is %q", def.Name, r.d.Name)
		}
		r.d.Name = def.Name
	}
	if def.Schema != "" {
		r.failDefinition(def.nameLine, def.nameColumn, "CREATE TABLE "+def.Name+"; the target says where", "the name of the table has a schema, %s", def.Schema)
	}
	if def.Partitioned {
		r.failDefinition(def.partitionLine, 0, "leave PARTITION BY out: rowmill makes the partitions", "create cuts the table itself")
	}
	if def.ForeignKey > 0 {
		r.failDefinition(def.ForeignKey, 0, "leave it out, and have the application or a report check it", "a table that rolls can't have a foreign key: its periods come and go as tables")
	}
	if r.tableKeys {
		for _, k := range def.Indexes {
			r.failDefinition(k.Line, 0, fmt.Sprintf("KEY %s (%s) within CREATE TABLE", k.Name, strings.Join(k.Columns, ", ")), "%s take indexes within CREATE TABLE, so that each period has them from the start", r.servers)
		}
		for _, k := range def.Keys {
			if word := strings.ToUpper(k.Text[:min(len(k.Text), 8)]); word == "FULLTEXT" || strings.HasPrefix(word, "SPATIAL") {
				r.failDefinition(k.Line, 0, "leave it out, or keep a table of its own for it", "a partitioned table of %s can't have a %s index", r.servers, strings.TrimSpace(word))
			}
		}
	}
}

// timeColumn checks the column by which the table rolls, and that each key contains it.
func (r *declarationReader) timeColumn(def *Definition) {
	if r.timeKey == nil {
		return
	}
	c := def.Column(r.d.Time)
	if c == nil || c.Name != r.d.Time && r.exactNames {
		r.fail(r.timeKey, tomlfile.DidYouMean(r.d.Time, r.columns), "time = %q is not a column of %s", r.d.Time, def.Name)
		return
	}
	r.d.Time = c.Name
	if !c.NotNull || r.keysMayBeNull && !c.saysNotNull && !strings.EqualFold(c.Type, "INTEGER") {
		// SQLite permits NULL in a primary key, unless it is the rowid.
		r.failDefinition(c.Line, 0, c.Text+" NOT NULL", "column %s can be NULL, and such a row has no period", c.Name)
	}
	if c.Generated {
		r.failDefinition(c.Line, 0, "a column that is written with each row", "column %s is computed by the server; partitions need a column that rows bring", c.Name)
	}
	r.timeType(c)
	r.keysHave(def, c.Name)
}

func (r *declarationReader) keysHave(def *Definition, by string) {
	if def.PrimaryKey == nil {
		r.fail(r.create, fmt.Sprintf("PRIMARY KEY (..., %s)", by), "the table has no primary key: late and repeated rows could not be told apart")
	}
	r.keysContain(def, by, "each period checks its own rows only, so that a key is unique only together with the column that tells the period")
	if !r.countedKeys || r.d.Period.Axis() == Sequence {
		return
	}
	for _, name := range def.PrimaryKey {
		if c := def.Column(name); c != nil && c.Auto {
			r.warnDefinition(c.Line, "column %s counts up on the server: a row that is sent twice is stored twice, with another key; a natural key (such as sensor, %s) makes loads repeatable", c.Name, by)
		}
	}
}

// keysContain refuses unique keys that lack column by. why is the reason, for the error.
func (r *declarationReader) keysContain(def *Definition, by, why string) {
	has := func(columns []string) bool {
		return slices.ContainsFunc(columns, func(c string) bool { return r.sameName(c, by) })
	}
	if def.PrimaryKey != nil && !has(def.PrimaryKey) {
		r.failDefinition(def.primaryLine, 0, fmt.Sprintf("PRIMARY KEY (%s, %s)", strings.Join(def.PrimaryKey, ", "), by), "the primary key doesn't contain %s; %s", by, why)
	}
	for _, k := range append(slices.Clone(def.Keys), def.Indexes...) {
		if k.Unique && !has(k.Columns) {
			r.failDefinition(k.Line, 0, fmt.Sprintf("UNIQUE (%s, %s), or no unique key", strings.Join(k.Columns, ", "), by), "the unique key on %s doesn't contain %s; %s", strings.Join(k.Columns, ", "), by, why)
		}
	}
}

func (r *declarationReader) warnDefinition(line int, format string, args ...any) {
	at := r.inDefinition(&Error{Line: line})
	r.warn(&tomlfile.Value{Place: tomlfile.Place{Line: at.Line}}, format, args...)
}

// A timeClass is how a type represents the values by which a table rolls.
type timeClass int

const (
	noTime timeClass = iota
	timeOfDate
	timeOfSeconds32
	timeOfInteger
	timeOfTime
)

func (r *declarationReader) classOf(native string) timeClass {
	if r.anyInt && strings.Contains(strings.ToUpper(native), "INT") {
		return timeOfInteger
	}
	return r.times[firstWord(native)]
}

func (r *declarationReader) timeType(c *DefinedColumn) {
	class := r.classOf(c.Type)
	small := class == timeOfSeconds32 && !slices.Contains([]string{"int", "integer", "int4", "serial", "serial4"}, firstWord(c.Type))
	bad := func(hint, format string, args ...any) { r.failDefinition(c.Line, 0, hint, format, args...) }
	switch d := r.d; {
	case r.servers == "": // the target is unreadable
	case d.Period.Axis() == Sequence:
		if class != timeOfInteger && class != timeOfSeconds32 {
			bad(c.Name+" BIGINT NOT NULL", "column %s of type %q is not an integer, and the table rolls by rows", c.Name, c.Type)
		}
	case d.Epoch > 0:
		switch {
		case class != timeOfInteger && class != timeOfSeconds32:
			bad("leave epoch out, or "+c.Name+" BIGINT NOT NULL", "column %s of type %q is not an integer, and epoch says that it counts", c.Name, c.Type)
		case small || class == timeOfSeconds32 && d.Epoch < 1e9:
			bad(c.Name+" BIGINT NOT NULL", "column %s of type %q is too small for the present time", c.Name, c.Type)
		case class == timeOfSeconds32:
			r.warnDefinition(c.Line, "column %s of type %q can't hold times after 2038-01-19: take BIGINT", c.Name, c.Type)
		}
	case class == timeOfInteger || class == timeOfSeconds32:
		bad(`epoch = "s", "ms" or "us" under [table]; or rows = 500000 under [period] for a key that counts up`, "column %s of type %q is an integer: what does it count?", c.Name, c.Type)
	case class == noTime:
		bad(r.bestTime, "a table can't roll by column %s of type %q", c.Name, c.Type)
	case class == timeOfDate && d.Period.Valid() && !dayGrid.Divides(d.Period):
		r.fail(r.every, `every = "1d", or a column with the time of day`, "column %s holds whole days, and a period is %s", c.Name, d.Period)
	}
}

var dayGrid = Grid{step: day}
