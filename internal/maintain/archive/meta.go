package archive

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/rowmill/rowmill/rolling"
)

// Format is the version of the files' metadata.
const Format = "rowmill.period/1"

const (
	keyFormat  = "rowmill.format"
	keyTable   = "rowmill.table"
	keyPeriod  = "rowmill.period"
	keyFrom    = "rowmill.from"
	keyTo      = "rowmill.to"
	keyBounds  = "rowmill.bounds" // informational
	keyCreate  = "rowmill.create"
	keyColumns = "rowmill.columns"
	keyKey     = "rowmill.key"
	keyRows    = "rowmill.rows"
	keySum     = "rowmill.sum"
	keyEngine  = "rowmill.engine"
	keyVersion = "rowmill.engine_version"
	keyTarget  = "rowmill.target"
	keyWritten = "rowmill.written"
	keySeal    = "rowmill.seal"
)

// An Info is the metadata of a file.
type Info struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	// Problem is the reason why the file can't be used; the other fields may then be
	// missing.
	Problem string `json:"problem,omitempty"`

	Table string `json:"table"`
	// Name, From and To describe the period: From and To are positions as in package
	// rolling, Bounds is their readable form.
	Name   string `json:"period"`
	From   int64  `json:"from_pos"`
	To     int64  `json:"to_pos"`
	Bounds string `json:"bounds"`
	Rows   int64  `json:"rows"`
	Sum    string `json:"sum"`
	// Create is the table's declared CREATE TABLE statement.
	Create string `json:"-"`
	// Engine and Version identify the server, Target the database, without a
	// password.
	Engine  string    `json:"engine"`
	Version string    `json:"engine_version"`
	Target  string    `json:"target"`
	Written time.Time `json:"written"`

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

// metadata returns the file's metadata, in the order in which it is written.
func (i *Info) metadata() ([][2]string, error) {
	columns, err := json.Marshal(i.columns)
	if err != nil {
		return nil, err
	}
	key, err := json.Marshal(i.key)
	if err != nil {
		return nil, err
	}
	return [][2]string{
		{keyFormat, Format}, {keyTable, i.Table}, {keyPeriod, i.Name},
		{keyFrom, strconv.FormatInt(i.From, 10)}, {keyTo, strconv.FormatInt(i.To, 10)}, {keyBounds, i.Bounds},
		{keyCreate, i.Create}, {keyColumns, string(columns)}, {keyKey, string(key)},
		{keyRows, strconv.FormatInt(i.Rows, 10)}, {keySum, i.Sum},
		{keyEngine, i.Engine}, {keyVersion, i.Version}, {keyTarget, i.Target},
		{keyWritten, i.Written.UTC().Format(time.RFC3339)},
	}, nil
}

// readMetadata fills i from a file's metadata.
func (i *Info) readMetadata(lookup func(string) (string, bool)) error {
	if f, ok := lookup(keyFormat); !ok {
		return fmt.Errorf("it is a Parquet file, but rowmill did not write it: it has no %s", keyFormat)
	} else if f != Format {
		return fmt.Errorf("its format is %q, and this rowmill reads %s", f, Format)
	}
	var err error
	text := func(key string) string {
		v, ok := lookup(key)
		if !ok && err == nil {
			err = fmt.Errorf("its metadata has no %s", key)
		}
		return v
	}
	number := func(key string) int64 {
		v := text(key)
		n, e := strconv.ParseInt(v, 10, 64)
		if e != nil && err == nil {
			err = fmt.Errorf("its metadata has %q as %s", v, key)
		}
		return n
	}
	i.Table, i.Name, i.Bounds = text(keyTable), text(keyPeriod), text(keyBounds)
	i.From, i.To, i.Rows, i.Sum = number(keyFrom), number(keyTo), number(keyRows), text(keySum)
	i.Create, i.Engine, i.Version, i.Target = text(keyCreate), text(keyEngine), text(keyVersion), text(keyTarget)
	written, columns, key := text(keyWritten), text(keyColumns), text(keyKey)
	if err != nil {
		return err
	}
	if i.Written, err = time.Parse(time.RFC3339, written); err != nil {
		return fmt.Errorf("its metadata has %q as %s", written, keyWritten)
	}
	if err = json.Unmarshal([]byte(columns), &i.columns); err != nil {
		return fmt.Errorf("its %s: %w", keyColumns, err)
	}
	if err = json.Unmarshal([]byte(key), &i.key); err != nil {
		return fmt.Errorf("its %s: %w", keyKey, err)
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
