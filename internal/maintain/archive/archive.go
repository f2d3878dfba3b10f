// Package archive writes periods of rolling tables to Parquet files, reads them back, and fills
// tables from them.
//
// A file contains one period: its rows in the order of the primary key, in row groups of at
// most 100,000 rows or some 64 MB, compressed with zstd, in native types that DuckDB, Spark and
// pandas read. Its metadata identifies the table and the period, and has the row count, a
// checksum of the rows, and a SHA-256 of the file itself.
//
// A value becomes a Parquet value only if the server's exact text can be restored from it. A
// column with another value, such as MySQL's 0000-00-00 or PostgreSQL's infinity, is written as
// text, or as bytes if it isn't valid UTF-8. Generated columns are omitted.
//
//	f, err := archive.Write(ctx, db, table, schema, period, "archive")
//	back, err := archive.Verify(ctx, f.Path)
//	// f.Rows == back.Rows && f.Sum == back.Sum, and both as sealed: the period may be dropped.
package archive
