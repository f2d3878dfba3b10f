// Package adopt makes a plain table a rolling one while it is written to, and
// the other way round.
//
// The rolling table is made beside the plain one, and triggers on the plain one
// write the key of each row that changes into a log: one short insert, which
// can't fail for what the row holds. Rows are copied in chunks along the
// primary key, without a lock on any of them; rows whose keys are in the log
// are copied again, as they are by then. Then each chunk of both tables is
// compared, as of one moment and without the rows whose keys are in the log.
// Last, under a lock that is waited for a bounded time, what is left in the log
// is copied and the tables change names.
//
// The invariant that all of it rests on: a row that is not the same in both
// tables has its key in the log, or lies beyond where the copy is.
//
// The plain table stays, as NAME__rowmill_old, until Finish drops it. Undo takes
// the adoption back: before the change of names by removing what was made, after
// it by the same way in the other direction, in which only chunks that differ
// are copied.
//
// Every step is written down in the journal before it is begun, and looks first
// whether it was done: a crash at any point costs nothing but time.
package adopt
