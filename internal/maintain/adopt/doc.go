// Package adopt converts a plain table into a rolling table, and back, while the
// table is in use.
//
// The rolling table is created beside the plain one. Triggers on the plain table
// write the key of each changed row into a log: one short insert, which can't fail
// because of the row's values. Rows are copied in chunks along the primary key,
// without locking any of them. Rows whose keys are in the log are copied again, in
// their current state. Then each chunk of both tables is compared, in one snapshot
// and without the rows whose keys are in the log. In the final cut-over, under a lock
// with a limited wait, the rest of the log is applied and the tables are renamed.
//
// The invariant behind all of this: a row that differs between the two tables either
// has its key in the log or lies beyond the position of the copy.
//
// The plain table is kept as NAME__rowmill_old until Finish drops it. Undo reverts
// the adoption. Before the cut-over it removes the objects that were created. After
// it, the same method is used in the opposite direction, and only chunks that differ
// are copied.
//
// Every step is recorded in the journal before it begins, and first checks whether it
// is already done. A crash at any point therefore costs nothing but time.
package adopt
