package advise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/sizing"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// A Finding is a result of Examine. A Gain is what its remedy gained in trials on private servers.
type (
	Finding = engine.Finding
	Gain    = engine.Gain
)

// examinedTables is how many tables are examined if none is named: the largest ones.
const examinedTables = 10

// Examine finds what slows down or endangers inserts on a server: in its settings, in its counters
// over an interval, and in tables. If tables is empty, it examines the largest ones.
func Examine(ctx context.Context, db engine.Doctor, target string, tables []string, interval time.Duration) ([]engine.Finding, error) {
	var err error
	if len(tables) == 0 {
		if tables, err = db.Largest(ctx, examinedTables); err != nil {
			return nil, err
		}
		tables = slices.DeleteFunc(tables, own)
	}
	out, err := db.Examine(ctx, tables, interval)
	if err != nil {
		return nil, err
	}
	for _, name := range tables {
		more, err := examineTable(ctx, db, target, name)
		if errors.Is(err, engine.ErrNoTable) && len(tables) > 1 {
			continue // it was dropped meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("examine table %s: %w", name, err)
		}
		out = append(out, more...)
	}
	return out, nil
}

// own reports whether a table is one of rowmill's own.
func own(name string) bool {
	return strings.HasPrefix(name, "rowmill_") || strings.Contains(name, "__rowmill_")
}

// examineTable examines a table's keys, and the size of the indexes that inserts touch at random.
func examineTable(ctx context.Context, db engine.Definer, target, name string) (out []engine.Finding, err error) {
	s, err := db.Describe(ctx, name)
	if err != nil || s.View {
		return nil, err
	}
	text, err := db.Definition(ctx, name)
	if err != nil {
		return nil, err
	}
	add := func(f engine.Finding) {
		f.Table = name
		out = append(out, f)
	}
	if others := slices.DeleteFunc(slices.Clone(s.Triggers), func(t string) bool { return strings.Contains(strings.ToLower(t), "rowmill") }); len(others) > 0 {
		add(engine.Finding{Code: "triggers", What: "each row that is inserted runs triggers", Evidence: strings.Join(others, ", "), Fix: "DROP TRIGGER, and the same for many rows at once, as a roll-up", Cost: "what they do is done later", Source: "docs/rollups.md"})
	}
	columns, of, failed := sample(ctx, db, s)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	found, _ := candidates(s, columns, time.Now())
	by := s.By
	if by == "" && len(found) > 0 {
		by = found[0].Column
	}
	if len(s.PrimaryKey) == 0 {
		add(engine.Finding{Code: "no-key", What: "there is no primary key: replicas read the whole table for each changed row, and rows that are sent twice are stored twice", Evidence: "no PRIMARY KEY", Fix: "ALTER TABLE ... ADD PRIMARY KEY", Cost: "the table is copied", Source: "docs/declaration.md"})
	} else if c := s.Column(s.PrimaryKey[0]); random(columns, c) {
		add(engine.Finding{Code: "random-key", What: "rows are stored, or found, by a key in no order: each insert touches another page of it", Evidence: "the primary key begins with " + c.Name + ", of UUIDs of version 4 in each sampled row", Measured: true,
			Fix: "UUIDs of version 7, which begin with the time; or a key that begins with the time", Cost: "old rows keep their keys", Source: "RFC 9562, UUID Version 7", Trial: &engine.Trial{Ascending: c.Name, Size: engine.Outgrown}})
	}
	if d, err := rolling.ReadDefinitionFor(target, text); err == nil && by != "" && len(d.PrimaryKey) > 0 {
		if d.ForeignKey > 0 {
			add(engine.Finding{Code: "foreign-key", What: "each insert looks up, and locks, a row of another table", Evidence: "FOREIGN KEY", Fix: "leave it out, and have the application or a report check it", Cost: "the server no longer checks it", Source: "docs/declaration.md"})
		}
		for _, key := range append(slices.Clone(s.Unique), s.PrimaryKey) {
			if c := s.Column(key[0]); !s.Partitioned && !slices.Contains(key, by) && c != nil && !c.Auto {
				add(engine.Finding{Code: "key-without-time", What: fmt.Sprintf("a unique key without %s is looked up all over the table by each insert, and can't be kept by partitions", by), Evidence: "(" + strings.Join(key, ", ") + ")",
					Fix: "the key with " + by + " as its last column, as rowmill init proposes", Cost: "the server checks each period by itself", Source: "docs/declaration.md"})
				break
			}
		}
	}
	if c := s.Column(by); c != nil {
		if c.Kind == value.Int && c.Bits == 32 && !c.Unsigned && slices.ContainsFunc(found, func(a Candidate) bool { return a.Column == by && a.Unit == "s" }) {
			add(engine.Finding{Code: "year-2038", What: "no time after 2038-01-19 can be stored", Evidence: by + " " + c.Native, Fix: "BIGINT, or DATETIME", Cost: "the table is copied", Source: "the server's manual, its types"})
		}
	}
	if failed != nil || of == nil || of.Rows == 0 || s.Partitioned {
		return out, nil
	}
	f, err := db.Estimate(ctx, name)
	if err != nil {
		return nil, err
	}
	memory := float64(db.Info().CacheBytes)
	perRow, pieces := sizing.Touched(sizing.Pieces(f, s, by, float64(of.Rows)))
	touched := perRow * float64(of.Rows)
	if memory > 0 && touched > sizing.CacheShare*memory {
		add(engine.Finding{Code: "outgrown", What: "what inserts touch anywhere has outgrown the memory for pages", Evidence: fmt.Sprintf("%s of indexes are touched anywhere, and %s are for pages of all tables", figure.Bytes(touched), figure.Bytes(memory)), Measured: true,
			Fix: "rowmill init --target " + target + " --table " + name, Cost: "a copy of the table while it is written to", Source: "docs/plan.md",
			Estimate: fmt.Sprintf("%.2f pages read an insert now, none once it touches two periods that fit", sizing.Reads(len(pieces), touched, memory)), Trial: &engine.Trial{Rolls: true, Size: engine.Outgrown}})
	}
	return out, nil
}

// random reports whether all sampled values of a column are UUIDs of version 4.
func random(columns []*sampled, key *engine.SchemaColumn) bool {
	for _, c := range columns {
		if c.Name == key.Name {
			return c.fours > 0 && c.fours == len(c.values)-c.nulls
		}
	}
	return false
}

// Limits of the rows of a trial.
const leastTrial, mostTrial = 50_000, 3_000_000

// TrialRows returns a function that says how many rows a Trial needs to show an effect. The number
// depends on how many bytes of the table an inserted row touches.
func TrialRows(ctx context.Context, db engine.Definer, table, by string) (func(*engine.Trial) int64, error) {
	s, err := db.Describe(ctx, table)
	if err != nil {
		return nil, err
	}
	f, err := db.Estimate(ctx, table)
	if err != nil {
		return nil, err
	}
	_, of, err := sample(ctx, db, s)
	if err != nil {
		return nil, err
	}
	perRow, _ := sizing.Touched(sizing.Pieces(f, s, by, float64(of.Rows)))
	return func(t *engine.Trial) int64 {
		return int64(min(max(cmp.Or(t.Size, 0.5)*engine.TrialMemory/max(perRow, 1), leastTrial), mostTrial))
	}, nil
}
