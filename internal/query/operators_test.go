package query

import "testing"

// TestOperatorsOfUsers asks with operators and casts of users: what a STABLE function returns may
// be another value in each piece. Those of IMMUTABLE functions, and those that a query can't call,
// don't keep it from being split.
func TestOperatorsOfUsers(t *testing.T) {
	f := newFixture(t, "postgres")
	do(t, f.Reader,
		"CREATE TYPE mood AS ENUM ('ok')", "CREATE TYPE other AS ENUM ('x')",
		"CREATE TABLE moods (id int, m mood NOT NULL) PARTITION BY LIST (id)", "CREATE TABLE m1 PARTITION OF moods FOR VALUES IN (1)", "CREATE TABLE m2 PARTITION OF moods FOR VALUES IN (2)",
		"INSERT INTO moods VALUES (1, 'ok'), (1, 'ok'), (2, 'ok')",
		"CREATE FUNCTION pid(mood) RETURNS int LANGUAGE sql STABLE AS 'SELECT pg_backend_pid()'", "CREATE CAST (mood AS int) WITH FUNCTION pid(mood)",
		"CREATE FUNCTION started(mood, int) RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT statement_timestamp()'",
		"CREATE OPERATOR @+ (LEFTARG = mood, RIGHTARG = int, FUNCTION = started)",
		"CREATE FUNCTION five(mood, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 5'", "CREATE OPERATOR @@+ (LEFTARG = mood, RIGHTARG = int, FUNCTION = five)")
	r := f.runner(Options{Always: true})
	check := func(query, whole string) { t.Helper(); f.askAlike(r, whole, query) }
	check("SELECT m, count(*) FROM moods GROUP BY m ORDER BY m", "")
	check("SELECT m @@+ 1, count(*) FROM moods GROUP BY 1 ORDER BY 1", "the operator @+") // which it contains
	check("SELECT count(*) FROM (SELECT m @+ 1, count(*) FROM moods GROUP BY 1) x", "the operator @+ may be one of a user, whose function started isn't IMMUTABLE")
	check("SELECT count(*) FROM (SELECT m::int, count(*) FROM moods GROUP BY 1) x", "it may have a cast of a user from mood to integer, whose function pid isn't IMMUTABLE")
	check("SELECT count(*) FROM (SELECT CAST(m AS int), count(*) FROM moods GROUP BY 1) x", "cast of a user")
	do(t, f.Reader, "DROP OPERATOR @+ (mood, int)", "DROP CAST (mood AS int)")
	check("SELECT m @@+ 1, count(*) FROM moods GROUP BY 1 ORDER BY 1", "")
	do(t, f.Reader, "CREATE FUNCTION equal(mood, other) RETURNS boolean LANGUAGE sql VOLATILE AS 'SELECT true'", "CREATE OPERATOR = (LEFTARG = mood, RIGHTARG = other, FUNCTION = equal)")
	check("SELECT count(*) FROM moods WHERE m IN ('x'::other)", "the operator =")
	do(t, f.Reader, "DROP OPERATOR = (mood, other)", "CREATE FUNCTION pid(other) RETURNS mood LANGUAGE sql VOLATILE AS $$SELECT 'ok'::mood$$", "CREATE CAST (other AS mood) WITH FUNCTION pid(other) AS IMPLICIT")
	check("SELECT count(*) FROM moods", "a cast of a user from other to mood")
}
