// Package ingest loads rows from files and streams into a rolling table without loss
// and without duplicates, even if any process is killed at any time.
//
// A source is divided into batches at record boundaries. A batch is identified by its
// source, its byte range and the hash of those bytes. The cuts of a file are recorded
// in the database before a batch is sent, and the batch's line of the ledger commits
// in one transaction with its rows. An interrupted load therefore resumes with
// exactly the same batches, and the ledger refuses a batch that is already in the
// table. A stream can't be read twice, so it is first written to a spool, whose
// records are the batches.
//
// Values are checked before they are sent, and rows are compared with the table's
// periods. If the server still refuses some of a batch, the batch is bisected within
// its transaction until the refused rows are found. Rows that can't be loaded are
// written to a file, each with its line number, the reason and the row, before the
// batch is committed; the other rows are loaded.
//
// From top to bottom: File (file.go) opens an input (input.go), locks it (lock.go) and
// recognises what was loaded of it before (source.go, missing.go); Stream (stream.go)
// writes its source to a spool and reads it from there. Both cut it into batches at
// record boundaries (batch.go, format.go), which senders take (load.go): a parser
// fills an engine.Batch (parse.go, json.go, columns.go) with values that package value
// reads, rows outside of the table's periods are rejected (periods.go), and the rest
// is committed by an engine.Loader (send.go). rejected.go writes the file of bad rows.
// A new format belongs in format.go, a new source beside file.go and stream.go, a new
// way to load in send.go.
package ingest
