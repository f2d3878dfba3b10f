// Package ingest loads rows of files and streams into a rolling table, so that
// none is lost and none is there twice, whatever is killed when.
//
// A source is cut into batches at the ends of records. A batch is known by its
// source, its range of bytes and the hash of what lies there. Where a file was
// cut is noted in the database before a batch is sent, and the batch's line of
// the ledger commits in one transaction with its rows: a load that was broken
// off goes on with the very same batches, and the ledger refuses one that is in
// the table already. A stream, which can't be read again, is first written to a
// spool, whose records are the batches.
//
// Values are checked before they are sent, and rows are compared with the
// table's periods. What the server refuses all the same is bisected within the
// batch's transaction down to the rows themselves. Rows that can't be loaded go
// to a file, each with its line, the reason and the row, before the batch is
// committed; the others are loaded.
//
// The way of a row: a reader cuts (cut.go), a parser fills an engine.Batch
// (parse.go, column.go), a sender commits it (send.go); load.go has the whole.
package ingest
