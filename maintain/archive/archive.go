// Package archive writes periods of rolling tables to Parquet files, reads the
// files back, and fills tables from them.
//
// A file holds one period: its rows in the order of the primary key, in row
// groups of at most 100,000 rows or some 64 MB, compressed by zstd, with native
// Parquet types, so that DuckDB, Spark and pandas read it as it is. Its metadata says
// what it is of, how many rows there are and their checksum, and a SHA-256 of
// the file itself.
//
// What a server gives as text is turned into a Parquet value only if the same
// text can be had back; a column with a value for which that isn't so, such as
// MySQL's 0000-00-00 or PostgreSQL's infinity, is written as text, one that
// isn't valid UTF-8 as bytes. So nothing is bent on the way, and a file restores to
// the very rows it was written from. Generated columns are left out: the
// server computes them again.
//
//	f, err := archive.Write(ctx, db, table, schema, period, "archive", nil)
//	back, err := archive.Verify(ctx, f.Path, nil)
//	// f.Rows == back.Rows && f.Sum == back.Sum, and both as sealed: now it may go.
package archive
