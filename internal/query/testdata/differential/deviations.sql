-- Variance and standard deviation: by exact sums for exact types, never by a sum of squares in binary fractions.

-- name: variance of integers near 1e9
SELECT VAR_POP(i), VAR_SAMP(i) FROM near;
-- name: variance of decimals near 1e9
SELECT VAR_POP(d), VAR_SAMP(d) FROM near;
-- name: variance of binary fractions near 1e9
SELECT VAR_POP(g), VAR_SAMP(g) FROM near;
-- name: variance near 1e9 by group
SELECT k, VAR_POP(i), VAR_POP(d), STDDEV_POP(d) FROM near GROUP BY k ORDER BY k;
-- name: standard deviation of integers
SELECT STDDEV_POP(i), STDDEV_SAMP(i) FROM events WHERE id < 5000;
-- name: standard deviation of decimals
SELECT STDDEV_POP(d), STDDEV_SAMP(d) FROM events WHERE id < 5000;
-- name: standard deviation of large integers
SELECT STDDEV_POP(b), STDDEV_SAMP(b) FROM events WHERE id < 5000;
-- name: standard deviation of DECIMAL(65,30)
SELECT STDDEV_POP(d65) FROM events WHERE id < 5000;
-- name: variance of no rows
SELECT VAR_POP(i), VAR_SAMP(i), STDDEV_POP(d), STDDEV_SAMP(d) FROM near WHERE id < 0;
-- name: variance of one row
SELECT VAR_POP(i), VAR_SAMP(i), STDDEV_POP(d), STDDEV_SAMP(d) FROM single;
-- name: variance of only NULL
SELECT VAR_POP(i), VAR_SAMP(i), VAR_POP(g) FROM nulls;
-- name: variance of equal values
SELECT VAR_POP(5), STDDEV_SAMP(5.5) FROM near;
-- name: variance by host
SELECT host_id, VAR_POP(i), VAR_SAMP(d) FROM events WHERE id < 5000 GROUP BY host_id ORDER BY host_id;
-- name: variance beside average
SELECT AVG(d), VAR_POP(d), COUNT(d) FROM near;
-- name: variance in an expression
SELECT ROUND(VAR_POP(i), 4), VAR_POP(i) > 0.2, SQRT(VAR_POP(i)) FROM near;
-- name: variance in a condition
SELECT k FROM near GROUP BY k HAVING VAR_POP(i) > 0 ORDER BY k;
-- name: standard deviation of an expression
SELECT STDDEV_POP(i * 2), VAR_POP(d / 3) FROM near;
-- name: deviation under other names
SELECT STDDEV(i), VARIANCE(i) FROM near;
