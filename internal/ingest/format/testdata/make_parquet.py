# Writes pyarrow.parquet and pyarrow-int96.parquet, with pyarrow 26.0.1: python3 make_parquet.py (see TestParquetOfAnotherWriter).
import datetime as d
import decimal
import pyarrow as pa
import pyarrow.parquet as pq

n = None
T = lambda *a: d.datetime(*a)
table = pa.table({
    "sensor": pa.array([1, 2, -3], pa.int16()),
    "ts": pa.array([T(2026, 3, 29, 1), T(2026, 3, 29, 1, 0, 0, 250000), T(2026, 3, 29, 2)], pa.timestamp("us")),
    "ms": pa.array([T(1969, 12, 31, 23, 59, 59, 999000), n, T(2026, 1, 2)], pa.timestamp("ms")),
    "ns": pa.array([T(2026, 1, 2, 3, 4, 5, 678901), n, T(2026, 1, 2)], pa.timestamp("ns")),
    "utc": pa.array([T(2026, 1, 2, 3, 4, 5, 678901), n, T(2026, 1, 2)], pa.timestamp("us", tz="Europe/Berlin")),
    "day": pa.array([d.date(2026, 1, 2), n, d.date(1969, 12, 31)], pa.date32()),
    "clock_ms": pa.array([d.time(1, 2, 3), n, d.time(23, 59, 59, 999000)], pa.time32("ms")),
    "clock_us": pa.array([d.time(1, 2, 3), n, d.time(23, 59, 59, 999999)], pa.time64("us")),
    "dec9": pa.array([decimal.Decimal("1234567.89"), n, decimal.Decimal("-0.05")], pa.decimal128(9, 2)),
    "dec38": pa.array([decimal.Decimal("123456789012345678901234567890.12345678"), n, decimal.Decimal("-0.00000001")], pa.decimal128(38, 8)),
    "text": pa.array(["a\tb\\c\nd\re", n, ""], pa.string()),
    "dict": pa.array(["NULL", n, "\\N"], pa.string()).dictionary_encode(),
    "bin": pa.array([b"\x00\xff", n, b""], pa.binary()),
    "fixed": pa.array([b"abcd", n, b"efgh"], pa.binary(4)),
    "yes": pa.array([True, n, False], pa.bool_()),
    "u8": pa.array([255, n, 0], pa.uint8()),
    "u32": pa.array([4294967295, n, 0], pa.uint32()),
    "u64": pa.array([18446744073709551615, n, 0], pa.uint64()),
    "i64": pa.array([-9223372036854775808, n, 9223372036854775807], pa.int64()),
    "f32": pa.array([0.1, n, 1e38], pa.float32()),
    "f64": pa.array([0.1, n, 5e-324], pa.float64()),
    "list": pa.array([[1, 2], n, []], pa.list_(pa.int32())),
    "struct": pa.array([{"a": 1}, n, {"a": 2}], pa.struct([("a", pa.int32())])),
})
pq.write_table(table, "pyarrow.parquet", row_group_size=2, compression="zstd", store_decimal_as_integer=True)
plain = table.select(["sensor", "ts", "ms"])
pq.write_table(plain, "pyarrow-int96.parquet", use_deprecated_int96_timestamps=True, compression="brotli", use_dictionary=False, data_page_version="2.0")
