// Package archive writes periods of rolling tables to Parquet files, reads the
// files back, and fills tables from them.
//
// A file contains one period: its rows in the order of the primary key, in row
// groups of at most 100,000 rows or approximately 64 MB, compressed with zstd.
// It uses native Parquet types, so that DuckDB, Spark and pandas can read it
// directly. Its metadata identifies the table and the period, and contains the
// row count, a checksum of the rows, and a SHA-256 of the file itself.
//
// The server's text of a value is converted to a Parquet value only if the exact
// text can be restored from it. A column with a value for which this isn't
// possible, such as MySQL's 0000-00-00 or PostgreSQL's infinity, is written as
// text, or as bytes if it isn't valid UTF-8. No value is altered, so a file
// restores exactly the rows from which it was written. Generated columns are
// omitted, because the server computes them again.
//
//	f, err := archive.Write(ctx, db, table, schema, period, "archive", nil)
//	back, err := archive.Verify(ctx, f.Path, nil)
//	// f.Rows == back.Rows && f.Sum == back.Sum, and both as sealed: the period may be dropped.
package archive
