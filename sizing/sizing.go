// Package sizing says how large a rolling table gets, which period fits into
// memory, and what a plain table would do instead.
//
// It is arithmetic: what goes in is bytes per row as they were measured, the
// rate of inserts, the server's memory and what was declared; what comes out is
// figures, each with where it comes from. It asks no server: cmd/rowmill
// measures. Sizes are bytes, rates are rows per second, times are seconds.
//
//	out, err := sizing.Plan(sizing.Input{Pieces: measured, Memory: 8 << 30, Rate: 5000, Keep: month})
//	fmt.Println(out.Period.Every) // 2h
package sizing

import (
	"errors"
	"fmt"
	"math"

	"github.com/rowmill/rowmill/result"
	"github.com/rowmill/rowmill/rolling"
)

// Format names the version of Output as JSON.
const Format = "rowmill.plan/1"

// A Piece is one part of a table: the rows, or one index.
type Piece struct {
	Name        string  `json:"name"`
	BytesPerRow float64 `json:"bytes_per_row"`
	// Ascending pieces are added to at their end only; into the others, inserts
	// go everywhere.
	Ascending bool `json:"ascending"`
}

// A Figure is a number and where it comes from.
type Figure struct {
	Value float64 `json:"value"`
	From  string  `json:"from"`
}

// Input is what a plan is made of.
type Input struct {
	Table string
	// Pieces are measured, or one made by Estimate; PiecesFrom says which.
	Pieces     []Piece
	PiecesFrom string
	// Compressed is bytes per row of a sealed period that was rebuilt and
	// compressed; 0 is unknown.
	Compressed Figure
	// Memory is the server's for table and index pages.
	Memory Figure
	// Rate is of inserts; 0 is unknown.
	Rate Figure
	// Axis is what the table rolls by. Period is how it is declared to be
	// cut; the zero Grid has it found.
	Axis   rolling.Axis
	Period rolling.Grid
	// Keep, Ahead, After, Merge and Compress are the declaration's.
	Keep, Ahead, After rolling.Span
	Merge              rolling.Grid
	Compress           bool
	// WholeDays tells that the column holds dates.
	WholeDays bool
	// MaxPeriods is the engine's limit; 0 is none.
	MaxPeriods int
	// Plain and Rolling are runs of bench insert; nil without one.
	Plain, Rolling *result.Summary
	// RunsFrom names the record they are from.
	RunsFrom string
	// Sample is the rate at which the sample went in, on one connection.
	Sample Figure
	// Reads is how many random pages a second the disk reads, for the estimate
	// of a plain table's rate.
	Reads Figure
}

// Shares of memory, as bench insert has them.
const (
	// CacheShare is how much of the memory the newest periods may fill. The
	// rest is for undo, the dictionary and pages on their way to disk.
	CacheShare = 0.8
	// Resident is how many periods must fit: the one that fills and the one
	// before it, which takes stragglers and is still being written back.
	Resident = 2
)

// Estimate returns what a row of so many bytes takes where nothing can be
// measured: twice its bytes, as B-trees and the headers of rows and pages have it
// in InnoDB, and a tenth more.
func Estimate(rowBytes float64) []Piece {
	return []Piece{{Name: "row and indexes, estimated", BytesPerRow: rowBytes * 2 * 1.1}}
}

// PerRow is what all pieces take.
func PerRow(pieces []Piece) (n float64) {
	for _, p := range pieces {
		n += p.BytesPerRow
	}
	return n
}

// Plan makes the plan.
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
	// Compressed is bytes per row of a sealed period, rebuilt and compressed;
	// null where that could not be measured.
	Compressed *Figure `json:"bytes_per_row_compressed"`
	Memory     Figure  `json:"memory_bytes"`
	Rate       Figure  `json:"rows_per_second"` // 0 is unknown

	Period     PeriodPlan    `json:"period"`
	Partitions PartitionPlan `json:"partitions"`
	Sizes      []SizePlan    `json:"sizes"`
	Plain      PlainPlan     `json:"plain_table"`
	Before     RatePlan      `json:"insert_rate_plain"`
	After      RatePlan      `json:"insert_rate_rolling"`
	Warnings   []string      `json:"warnings"`

	grid rolling.Grid
}

// Grid returns the period in force: the declared one, or the one that fits.
func (o *Output) Grid() rolling.Grid { return o.grid }

// PeriodPlan is the period.
type PeriodPlan struct {
	// Every is the period in force, Fits the longest that fits; "" where the
	// rate isn't known.
	Every    string `json:"every"`
	Declared bool   `json:"declared"`
	Fits     string `json:"fits"`
	// FitRows is how many rows may lie in a period.
	FitRows int64 `json:"fit_rows"`
	// Rows and Bytes are those of a full period, ResidentBytes of the two
	// newest, which inserts touch.
	Rows          float64 `json:"rows"`
	Bytes         float64 `json:"bytes"`
	ResidentBytes float64 `json:"resident_bytes"`
	From          string  `json:"from"`
}

// PartitionPlan counts the partitions.
type PartitionPlan struct {
	PerDay float64 `json:"per_day"`
	// Ahead are those made before they are needed, Open takes inserts; Kept
	// are those within retention, null where all are.
	Ahead int64  `json:"ahead"`
	Open  int64  `json:"open"`
	Kept  *int64 `json:"kept"`
	// Total is all of them, at full retention.
	Total *int64 `json:"total"`
	From  string `json:"from"`
}

// SizePlan is the size after a time.
type SizePlan struct {
	After   string  `json:"after"`
	Seconds float64 `json:"seconds"`
	Rows    float64 `json:"rows"`
	Bytes   float64 `json:"bytes"`
	// Compressed is the size when sealed periods are compressed; null where
	// that could not be measured.
	Compressed *float64 `json:"bytes_compressed"`
}

// PlainPlan is what the same rows would do in one table.
type PlainPlan struct {
	// KneeRows is how many rows it has when what inserts touch has outgrown
	// memory, Seconds how long that takes; null where nothing grows that way.
	KneeRows *float64 `json:"knee_rows"`
	Seconds  *float64 `json:"seconds"`
	From     string   `json:"from"`
}

// RatePlan is a rate of inserts to expect.
type RatePlan struct {
	// First is while everything is in memory, Last at full retention, or where
	// the measured run ended.
	First    *float64 `json:"first"`
	Last     *float64 `json:"last"`
	LastRows float64  `json:"last_rows"`
	Measured bool     `json:"measured"`
	From     string   `json:"from"`
}

func (o *Output) warn(format string, args ...any) {
	o.Warnings = append(o.Warnings, fmt.Sprintf(format, args...))
}
