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
// The path of a row: a reader cuts the source (cut.go), a parser fills an
// engine.Batch (parse.go, column.go), a sender commits it (send.go). load.go connects
// the parts.
package ingest
