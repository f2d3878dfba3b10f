// Package sizing computes the size of a rolling table, the period that fits into
// memory, and the rates to expect from a plain table with the same rows.
//
// Its input is the measured bytes per row, the insert rate, the server's memory and the
// declaration; its output is figures, each with its source. A Sample measures bytes per row in a
// scratch table of an open database; everything else is arithmetic. Sizes are in bytes, rates in
// rows per second, times in seconds.
//
//	out, err := sizing.Plan(sizing.Input{Pieces: measured, Memory: 8 << 30, Rate: 5000, Keep: month})
//	fmt.Println(out.Period.Every) // 2h
package sizing

import (
	"errors"
	"fmt"
	"math"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/result"
	"github.com/rowmill/rowmill/rolling"
)

// Format is the version of Output's JSON form.
const Format = "rowmill.plan/1"

// A Piece is one part of a table: the rows, or one index.
type Piece struct {
	Name        string  `json:"name"`
	BytesPerRow float64 `json:"bytes_per_row"`
	// Ascending is true if inserts append to the end of the piece; other pieces take
	// inserts at random positions.
	Ascending bool `json:"ascending"`
}

// A Figure is a number and its source.
type Figure struct {
	Value float64 `json:"value"`
	From  string  `json:"from"`
}

// Input is the input of a plan.
type Input struct {
	Table string
	// Pieces are measured, or a single piece made by Estimate; PiecesFrom names their source.
	Pieces     []Piece
	PiecesFrom string
	// Compressed is the bytes per row of a sealed period after it was rebuilt and compressed; 0 means
	// unknown.
	Compressed Figure
	// Spare is how many bytes on disk a period takes beyond its rows and indexes: the unused rest of
	// extents. SpareSealed is the same number for a period that was rebuilt and compressed.
	Spare, SpareSealed float64
	// Memory is the server's memory for table and index pages.
	Memory Figure
	// Rate is the insert rate; 0 means unknown.
	Rate Figure
	Declared

	// MaxPeriods is the engine's limit; 0 means no limit.
	MaxPeriods int
	// Open has the costs in memory of partitions that are open, and OpenFrom their source. Connections
	// is the number of connections on which the partitions are open.
	Open        engine.OpenCost
	OpenFrom    string
	Connections int
	// AddOne returns for a number of partitions how many seconds it takes to add one; nil is unknown.
	AddOne func(partitions float64) float64
	// Plain and Rolling are runs of bench insert; nil if there is none.
	Plain, Rolling *result.Summary
	// RunsFrom names the record that contains these runs.
	RunsFrom string
	// Sample is the insert rate of the sample, on one connection.
	Sample Figure
	// Reads is the disk's random page reads per second, used to estimate a plain table's rate.
	Reads Figure
}

// Declared holds values of the table's declaration.
type Declared struct {
	// Axis is what the table is partitioned by: time or a sequence. Period is the declared grid; if it
	// is the zero Grid, Plan chooses one.
	Axis   rolling.Axis
	Period rolling.Grid
	// Keep and Ahead are the declaration's; After and Merge are the After and Merge of its Seal.
	Keep, Ahead, After rolling.Span
	Merge              rolling.Grid
	// WholeDays is true if the column contains dates.
	WholeDays bool
}

// How many periods must fit into memory, and into how much of it, as in bench insert.
const (
	// CacheShare is the share of memory that the newest periods may fill. The rest
	// is for undo, the dictionary and dirty pages being written.
	CacheShare = 0.8
	// Resident is the number of periods that must fit into memory: the open period, and the period
	// before it, which takes late rows and is still being written back.
	Resident = 2
)

// Declare fills in the values of a declaration.
func (in *Input) Declare(d *rolling.Declaration) {
	in.Table, in.Keep, in.Ahead, in.After = d.Name, d.Keep, d.Ahead, d.Seal.After
	in.Merge, in.Axis, in.WholeDays = d.Seal.Merge, d.Period.Axis(), d.WholeDays()
	if !d.Auto {
		in.Period = d.Period
	}
}

// Recorded takes the rates from a record: for each layout, those of its last run. It returns false
// if no run of bench insert has inserted rows.
func (in *Input) Recorded(recs []result.Record, file string) bool {
	in.RunsFrom = file
	for i := range recs {
		s := recs[i].Summary()
		if recs[i].Run.Workload != "insert" || s.Rows == 0 || s.RowsPerSecond == 0 {
			continue
		}
		if s.Layout == "rolling" {
			in.Rolling = &s
		} else {
			in.Plain = &s
		}
	}
	run := in.Rolling
	if run == nil {
		run = in.Plain
	}
	if run != nil {
		in.Rate = Figure{Value: run.RowsPerSecond, From: fmt.Sprintf("%s: the mean of %s", file, run.Name)}
	}
	return run != nil
}

// Estimate returns the estimated size of a row and its indexes if nothing can be measured: twice
// the bytes of the values, plus 10% for what InnoDB adds: B-trees, row headers and page headers.
func Estimate(rowBytes float64) []Piece {
	return []Piece{{Name: "row and indexes, estimated", BytesPerRow: rowBytes * 2 * 1.1}}
}

// PerRow returns the bytes per row of all pieces.
func PerRow(pieces []Piece) (n float64) {
	for _, p := range pieces {
		n += p.BytesPerRow
	}
	return n
}

// Plan computes the plan.
func Plan(in Input) (*Output, error) {
	perRow := PerRow(in.Pieces)
	if !(perRow > 0) || math.IsInf(perRow, 0) {
		return nil, errors.New("plan: bytes per row are not known")
	}
	if !(in.Memory.Value > 0) {
		return nil, errors.New("plan: the server's memory is not known")
	}
	if in.Rate.Value < 0 || math.IsNaN(in.Rate.Value) || math.IsInf(in.Rate.Value, 0) {
		return nil, fmt.Errorf("plan: a rate of %v rows/s", in.Rate.Value)
	}
	out := &Output{Format: Format, Table: in.Table, Pieces: in.Pieces,
		PerRow: Figure{perRow, in.PiecesFrom}, Memory: in.Memory, Rate: in.Rate}
	if in.Compressed.Value > 0 {
		out.Compressed = &in.Compressed
	}
	if err := out.period(in); err != nil {
		return nil, err
	}
	out.partitions(in)
	out.sizes(in)
	out.plain(in)
	out.rates(in)
	return out, nil
}

// Output is a plan.
type Output struct {
	Format string `json:"format"` // rowmill.plan/1
	Table  string `json:"table"`
	Engine string `json:"engine,omitempty"`
	Server string `json:"server_version,omitempty"`
	Target string `json:"target,omitempty"`

	Pieces []Piece `json:"pieces"`
	PerRow Figure  `json:"bytes_per_row"`
	// Compressed is the bytes per row of a sealed period that was rebuilt and compressed; null if it
	// could not be measured.
	Compressed *Figure `json:"bytes_per_row_compressed"`
	Memory     Figure  `json:"memory_bytes"`
	Rate       Figure  `json:"rows_per_second"` // 0 means unknown

	Period     PeriodPlan    `json:"period"`
	Partitions PartitionPlan `json:"partitions"`
	// Open is the server's memory with all partitions open; null if it is not known.
	Open     *OpenPlan  `json:"open_partitions"`
	Sizes    []SizePlan `json:"sizes"`
	Plain    PlainPlan  `json:"plain_table"`
	Before   RatePlan   `json:"insert_rate_plain"`
	After    RatePlan   `json:"insert_rate_rolling"`
	Warnings []string   `json:"warnings"`

	grid rolling.Grid
}

// Grid returns the effective period: the declared period, or the period that fits.
func (o *Output) Grid() rolling.Grid { return o.grid }

// PeriodPlan describes the period.
type PeriodPlan struct {
	// Every is the effective period, Fits the longest that fits; "" if the rate is unknown.
	Every    string `json:"every"`
	Declared bool   `json:"declared"`
	Fits     string `json:"fits"`
	// FitRows is the maximum number of rows of a period of which two fit into memory.
	FitRows int64 `json:"fit_rows"`
	// Rows and Bytes are the size of a full period. ResidentBytes is the size of the two newest
	// periods, in which rows are inserted.
	Rows          float64 `json:"rows"`
	Bytes         float64 `json:"bytes"`
	ResidentBytes float64 `json:"resident_bytes"`
	// SpareBytes is what a period takes on disk beyond Bytes.
	SpareBytes float64 `json:"spare_bytes"`
	From       string  `json:"from"`
}

// PartitionPlan counts the partitions.
type PartitionPlan struct {
	PerDay float64 `json:"per_day"`
	// Ahead counts the partitions created before they are needed, Open the partitions that take
	// inserts, Kept the partitions within retention. Kept is null if all are kept.
	Ahead int64  `json:"ahead"`
	Open  int64  `json:"open"`
	Kept  *int64 `json:"kept"`
	// Total is the number of all partitions at full retention.
	Total *int64 `json:"total"`
	From  string `json:"from"`
}

// OpenPlan is the memory that a server takes (PSS of all its processes) when its cache for pages is
// full, and all partitions of the table are open on a number of connections.
type OpenPlan struct {
	Partitions  int64 `json:"partitions"`
	Connections int   `json:"connections"`
	// Bytes is all of it, PartitionBytes what the partitions take.
	Bytes          float64 `json:"bytes"`
	PartitionBytes float64 `json:"partition_bytes"`
	// AddSeconds is the time for which the table is locked while a period is added; null is not known.
	AddSeconds *float64 `json:"add_period_seconds"`
	From       string   `json:"from"`
}

// SizePlan is the table's size after a given time.
type SizePlan struct {
	After   string  `json:"after"`
	Seconds float64 `json:"seconds"`
	Rows    float64 `json:"rows"`
	Bytes   float64 `json:"bytes"`
	// Compressed is the size if sealed periods are compressed; null if it could not be measured.
	Compressed *float64 `json:"bytes_compressed"`
}

// PlainPlan describes the same rows in a plain table.
type PlainPlan struct {
	// KneeRows is the number of rows from which on the pages that inserts touch don't fit into memory.
	// Seconds is the time until the table has KneeRows. Both are null if inserts append to all pieces.
	KneeRows *float64 `json:"knee_rows"`
	Seconds  *float64 `json:"seconds"`
	From     string   `json:"from"`
}

// RatePlan is an expected insert rate.
type RatePlan struct {
	// First is the rate while everything is in memory, Last the rate at full
	// retention or at the end of the measured run.
	First    *float64 `json:"first"`
	Last     *float64 `json:"last"`
	LastRows float64  `json:"last_rows"`
	Measured bool     `json:"measured"`
	From     string   `json:"from"`
}

func (o *Output) warn(format string, args ...any) {
	o.Warnings = append(o.Warnings, fmt.Sprintf(format, args...))
}
