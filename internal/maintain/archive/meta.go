package archive

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/rolling"
)

// Format is the version of the files' metadata.
const Format = "rowmill.period/1"

const (
	keyFormat = "rowmill.format"
	keySeal   = "rowmill.seal"
)

// An Info is the metadata of a file.
type Info struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	// Problem is the reason why the file can't be used; the other fields may then be missing.
	Problem string `json:"problem,omitempty"`

	Table string `json:"table"`
	// Name, From and To describe the period: From and To are positions as in package
	// rolling, Bounds is their readable form.
	Name   string `json:"period"`
	From   int64  `json:"from_pos"`
	To     int64  `json:"to_pos"`
	Bounds string `json:"bounds"`
	Rows   int64  `json:"rows"`
	// Sum is a checksum of the rows' values, whatever their order and the layout of the file.
	Sum string `json:"sum"`
	// Create is the table's declared CREATE TABLE statement.
	Create string `json:"-"`
	// Engine and Version identify the server, Target the database, without a password.
	Engine  string    `json:"engine"`
	Version string    `json:"engine_version"`
	Target  string    `json:"target"`
	Written time.Time `json:"written"`
	// Kept is the path to which Write has renamed an older file with other rows; "" if there was none.
	Kept string `json:"-"`

	columns []column
	key     []string
}

// Partition returns the period that the file contains.
func (i *Info) Partition() rolling.Partition {
	return rolling.Partition{Name: i.Name, Period: rolling.Period{From: i.From, To: i.To}}
}

// Columns returns the names of the file's columns, in order.
func (i *Info) Columns() []string {
	out := make([]string, len(i.columns))
	for n, c := range i.columns {
		out[n] = c.Name
	}
	return out
}

// An entry is one key of a file's metadata, and where its value belongs.
type entry struct {
	key   string
	value any
}

// entries returns the metadata except format and seal, in the order in which it is written.
func (i *Info) entries() []entry {
	return []entry{
		{"rowmill.table", &i.Table}, {"rowmill.period", &i.Name}, {"rowmill.from", &i.From}, {"rowmill.to", &i.To},
		{"rowmill.bounds", &i.Bounds}, {"rowmill.create", &i.Create}, {"rowmill.columns", &i.columns}, {"rowmill.key", &i.key},
		{"rowmill.rows", &i.Rows}, {"rowmill.sum", &i.Sum}, {"rowmill.engine", &i.Engine}, {"rowmill.engine_version", &i.Version},
		{"rowmill.target", &i.Target}, {"rowmill.written", &i.Written},
	}
}

// metadata returns the file's metadata except the seal.
func (i *Info) metadata() ([][2]string, error) {
	out := [][2]string{{keyFormat, Format}}
	for _, e := range i.entries() {
		var text string
		switch v := e.value.(type) {
		case *string:
			text = *v
		case *time.Time:
			text = v.UTC().Format(time.RFC3339)
		default:
			data, err := json.Marshal(v)
			if err != nil {
				return nil, err
			}
			text = string(data)
		}
		out = append(out, [2]string{e.key, text})
	}
	return out, nil
}

// readMetadata fills i from a file's metadata.
func (i *Info) readMetadata(lookup func(string) (string, bool)) error {
	if f, ok := lookup(keyFormat); !ok {
		return fmt.Errorf("it is a Parquet file, but rowmill did not write it: it has no %s", keyFormat)
	} else if f != Format {
		return fmt.Errorf("its format is %q, and this rowmill reads %s", f, Format)
	}
	for _, e := range i.entries() {
		text, ok := lookup(e.key)
		if !ok {
			return fmt.Errorf("its metadata has no %s", e.key)
		}
		var err error
		switch v := e.value.(type) {
		case *string:
			*v = text
		case *time.Time:
			*v, err = time.Parse(time.RFC3339, text)
		default:
			err = json.Unmarshal([]byte(text), v)
		}
		if err != nil {
			return fmt.Errorf("its metadata has %.100q as %s: %w", text, e.key, err)
		}
	}
	if len(i.columns) == 0 || i.To <= i.From || i.Rows < 0 {
		return fmt.Errorf("its metadata is invalid: %d columns, bounds %d and %d, %d rows", len(i.columns), i.From, i.To, i.Rows)
	}
	for n := range i.columns {
		if err := i.columns[n].check(); err != nil {
			return err
		}
	}
	return nil
}
