package query

import (
	"path/filepath"
	"testing"

	"github.com/rowmill/rowmill/internal/testdb"
)

// TestPlansThatHidePartitions: a plan lacks tables that the server answers for by an index, and has
// texts that stand for several partitions.
func TestPlansThatHidePartitions(t *testing.T) {
	testdb.OnKinds(t, []string{"mariadb", "mysql"}, func(t *testing.T, kind string) {
		f := newFixture(t, kind)
		do(t, f.Reader, "CREATE TABLE big (id INT NOT NULL PRIMARY KEY, n INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (30), PARTITION p1 VALUES LESS THAN (60), PARTITION p2 VALUES LESS THAN (200))",
			"INSERT INTO big WITH RECURSIVE s (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM s WHERE i < 99) SELECT i, i % 7 FROM s",
			"CREATE TABLE parts (id INT NOT NULL, k INT NOT NULL, PRIMARY KEY (id, k)) PARTITION BY RANGE (id) SUBPARTITION BY HASH (k) (PARTITION a VALUES LESS THAN (30) (SUBPARTITION b_c, SUBPARTITION b_d), "+
				"PARTITION a_b VALUES LESS THAN (60) (SUBPARTITION c, SUBPARTITION d), PARTITION z VALUES LESS THAN (200) (SUBPARTITION z1, SUBPARTITION z2))",
			"INSERT INTO parts SELECT * FROM big",
			"CREATE TABLE commas (id INT NOT NULL PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION `a,b` VALUES LESS THAN (30), PARTITION a VALUES LESS THAN (60), PARTITION b VALUES LESS THAN (200))",
			"INSERT INTO commas SELECT id FROM big", "ANALYZE TABLE big, parts, commas")
		f.askAlike(f.runner(Options{Always: true}), "",
			"SELECT MIN(id), MAX(id) FROM big WHERE (SELECT COUNT(*) FROM big WHERE id >= 30) > 7",
			"SELECT MIN(id), MAX(id) FROM big x WHERE EXISTS (SELECT 1 FROM big x WHERE x.id = 40 AND x.n = 5)",
			"SELECT COUNT(*), SUM(k) FROM parts WHERE id < 20",
			"SELECT COUNT(*), MIN(id) FROM commas WHERE id < 20")
	})
}

// TestPlansThatHidePartitionsOnPostgres: there, plans call a partition as they like, and don't name
// what another server joins or aggregates.
func TestPlansThatHidePartitionsOnPostgres(t *testing.T) {
	f := newFixture(t, "postgres")
	socket, _ := testdb.Database(t, "postgres") // of the server
	do(t, f.Reader,
		"CREATE TABLE sales_2024 (id int, n int) PARTITION BY RANGE (id)", "CREATE TABLE q0 PARTITION OF sales_2024 FOR VALUES FROM (0) TO (100)",
		"CREATE TABLE q1 PARTITION OF sales_2024 FOR VALUES FROM (100) TO (200)", "CREATE TABLE q2 PARTITION OF sales_2024 FOR VALUES FROM (200) TO (900)",
		"INSERT INTO sales_2024 SELECT i, i % 10 FROM generate_series(0, 299) i",
		"CREATE EXTENSION postgres_fdw",
		"DO $$ BEGIN EXECUTE format('CREATE SERVER n1 FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L)', "+
			"'"+filepath.Dir(socket)+"', current_setting('port'), current_database()); END $$",
		"DO $$ BEGIN EXECUTE format('CREATE USER MAPPING FOR CURRENT_USER SERVER n1 OPTIONS (user %L)', current_user); END $$",
		"CREATE TABLE far (id int, n int)", "INSERT INTO far SELECT i, i % 3 FROM generate_series(1, 100) i", "CREATE TABLE far2 (id int, w int)", "INSERT INTO far2 SELECT i, i FROM generate_series(1, 100) i",
		"CREATE TABLE mx (id int, n int) PARTITION BY RANGE (id)", "CREATE FOREIGN TABLE mx_old PARTITION OF mx FOR VALUES FROM (0) TO (101) SERVER n1 OPTIONS (table_name 'far')",
		"CREATE TABLE mx_new PARTITION OF mx FOR VALUES FROM (101) TO (1000)", "INSERT INTO mx SELECT i, i % 3 FROM generate_series(101, 200) i",
		"CREATE TABLE mj (id int, w int) PARTITION BY RANGE (id)", "CREATE FOREIGN TABLE mj_old PARTITION OF mj FOR VALUES FROM (0) TO (101) SERVER n1 OPTIONS (table_name 'far2')",
		"CREATE TABLE mj_new PARTITION OF mj FOR VALUES FROM (101) TO (1000)", "INSERT INTO mj SELECT i, i FROM generate_series(101, 200) i",
		// Partials are a temporary table, even if another table of its name comes first.
		"CREATE TABLE rowmill_partial (rowmill_c1 int, rowmill_c2 numeric, rowmill_s1 int)", "CREATE TABLE rowmill_group (rowmill_k1 int)",
		"CREATE TABLE digits (id int, k int, n numeric) PARTITION BY HASH (id)", "CREATE TABLE d0 PARTITION OF digits FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
		"CREATE TABLE d1 PARTITION OF digits FOR VALUES WITH (MODULUS 2, REMAINDER 1)", "INSERT INTO digits SELECT i, i / 3, ('1e-' || (i * 400))::numeric FROM generate_series(1, 40) i",
		"ANALYZE")
	for _, set := range []string{"enable_partitionwise_aggregate = on", "enable_partitionwise_join = on", "search_path = public, pg_temp"} {
		do(t, f.Reader, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET "+set+"', current_database()); END $$")
	}
	f.askAlike(f.runner(Options{Always: true}), "",
		"SELECT count(*), sum(n) FROM sales_2024", "SELECT n, count(*) FROM sales_2024 GROUP BY n ORDER BY n", "SELECT * FROM sales_2024 ORDER BY id LIMIT 3",
		"SELECT count(*), sum(n) FROM mx JOIN mj USING (id)", "SELECT count(*), count(w) FROM mx LEFT JOIN mj ON mj.id = mx.id",
		"SELECT id, count(*) FROM mx GROUP BY id HAVING sum(n) > 1 ORDER BY id",
		"SELECT n, avg(id) FROM sales_2024 GROUP BY n ORDER BY 2, 1")
	f.askAlike(f.runner(Options{Always: true, Memory: 1}), "", "SELECT n, avg(id) FROM sales_2024 GROUP BY n ORDER BY 2, 1", "SELECT n, var_pop(id) FROM sales_2024 GROUP BY n ORDER BY n")
	f.askAlike(f.runner(Options{Always: true}), "", "SELECT k, var_pop(n) FROM digits GROUP BY k ORDER BY k")
}
