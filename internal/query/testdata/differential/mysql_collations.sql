-- Collations of MariaDB and MySQL: case, accents, trailing blanks.
-- on: mariadb mysql

-- name: group by a text that ignores case
SELECT ci, COUNT(*) FROM words GROUP BY ci ORDER BY ci;
-- name: count of a text that ignores case
-- expect: split
SELECT COUNT(DISTINCT ci), COUNT(DISTINCT uni), COUNT(DISTINCT pad), COUNT(DISTINCT nopad), COUNT(DISTINCT l1), COUNT(DISTINCT asc_), COUNT(DISTINCT bytes) FROM words;
-- name: group by the upper case
SELECT UPPER(ci), COUNT(*) FROM words WHERE ci IN ('e', 'a') GROUP BY UPPER(ci) ORDER BY 2, 1;
-- name: group by the length of texts that are equal
SELECT COUNT(*), SUM(x), MIN(LENGTH(ci)), MAX(LENGTH(ci)) FROM words GROUP BY ci ORDER BY ci;
-- name: counts of texts that are equal
-- expect: split
SELECT COUNT(*) AS n, SUM(x) AS s FROM words GROUP BY ci ORDER BY n, s;
-- name: counts of texts that are equal after Unicode's rules
SELECT COUNT(*) AS n, SUM(x) AS s FROM words GROUP BY uni ORDER BY n, s;
-- name: counts of texts with trailing blanks
SELECT COUNT(*) AS n, SUM(x) AS s FROM words GROUP BY pad ORDER BY n, s;
-- name: counts of texts where trailing blanks matter
SELECT COUNT(*) AS n, SUM(x) AS s FROM words GROUP BY nopad ORDER BY n, s;
-- name: counts of texts of German
SELECT COUNT(*) AS n, SUM(x) AS s FROM words GROUP BY l1 ORDER BY n, s;
-- name: counts of texts of ASCII
SELECT COUNT(*) AS n, SUM(x) AS s FROM words GROUP BY asc_ ORDER BY n, s;
-- name: counts of bytes with trailing blanks
-- expect: split
SELECT bytes, COUNT(*), SUM(x) FROM words GROUP BY bytes ORDER BY bytes;
-- name: group by texts with trailing blanks
SELECT pad, COUNT(*), SUM(x) FROM words GROUP BY pad ORDER BY pad;
-- name: group by texts where trailing blanks matter
SELECT nopad, COUNT(*), SUM(x) FROM words WHERE nopad <> '' GROUP BY nopad ORDER BY nopad;
-- name: extremes of texts that are equal
SELECT MIN(ci), MAX(ci), MIN(uni), MAX(uni) FROM words;
-- name: extremes of texts with trailing blanks
SELECT MIN(pad), MAX(pad), MIN(l1), MAX(l1) FROM words;
-- name: extremes of one text with other blanks
SELECT MIN(pad), MAX(pad), LENGTH(MIN(pad)) FROM words WHERE pad = 'a';
-- name: extremes of one text in other cases
SELECT MIN(ci), MAX(ci) FROM words WHERE ci = 'e';
-- name: extremes by group
SELECT x, MIN(ci), MAX(ci), MIN(bytes), MAX(bytes) FROM words GROUP BY x ORDER BY x;
-- name: extremes of bytes by group
-- expect: split
SELECT x, MIN(bytes), MAX(bytes) FROM words GROUP BY x ORDER BY x;
-- name: distinct texts that ignore case
SELECT DISTINCT ci FROM words ORDER BY ci;
-- name: distinct texts with trailing blanks
SELECT DISTINCT pad FROM words ORDER BY pad;
-- name: lists of texts that ignore case
SELECT GROUP_CONCAT(DISTINCT x ORDER BY x), COUNT(*) AS n, SUM(id) AS s FROM words GROUP BY ci ORDER BY n, s;
-- name: order by a text that ignores case
SELECT ci, id FROM words ORDER BY ci, id;
-- name: order by a text of German
SELECT l1, id FROM words ORDER BY l1 DESC, id;
-- name: order by a text that ties, with a limit
SELECT ci, id FROM words WHERE ci IN ('e', 'a') ORDER BY ci LIMIT 5;
-- name: order by a text that ties
-- order: 2
SELECT id, ci IN ('e') AS k FROM words WHERE ci IN ('e', 'a') ORDER BY ci;
-- name: a collation in the grouping
-- expect: split
SELECT ci COLLATE utf8mb4_bin AS k, COUNT(*) FROM words WHERE ci > 'b' GROUP BY ci COLLATE utf8mb4_bin ORDER BY k;
-- name: a collation in the order
SELECT ci, id FROM words ORDER BY ci COLLATE utf8mb4_bin, id;
-- name: a collation in the extremes
SELECT MIN(ci COLLATE utf8mb4_bin), MAX(ci COLLATE utf8mb4_bin) FROM words;
-- name: a collation in the condition
SELECT COUNT(*), SUM(id) FROM words WHERE ci COLLATE utf8mb4_bin = 'e' OR pad = 'a';
-- name: binary comparison
SELECT COUNT(*), SUM(id) FROM words WHERE BINARY ci = 'e';
-- name: having with a text that ignores case
SELECT COUNT(*) AS n, MIN(id) FROM words GROUP BY ci HAVING ci = 'E' OR ci = 'A' ORDER BY n, 2;
-- name: group by two texts
SELECT COUNT(*) AS n, SUM(id) AS s FROM words GROUP BY ci, l1 ORDER BY n, s;
-- name: a join by a text that ignores case
SELECT COUNT(*), SUM(w.x) FROM words w JOIN words z ON z.ci = w.uni COLLATE utf8mb4_general_ci AND z.id = w.id + 11;
-- name: a join of pages
SELECT v.page, COUNT(*) FROM visits v JOIN (SELECT '/A' AS page UNION SELECT '/b') p ON p.page = v.page COLLATE utf8mb4_general_ci GROUP BY v.page ORDER BY 2;
-- name: group by pages that are equal
SELECT page, COUNT(*), SUM(ms) FROM visits GROUP BY page ORDER BY page;
-- name: group by pages that are equal, one partition
SELECT page, COUNT(*), SUM(ms) FROM visits WHERE region = 6 GROUP BY page ORDER BY page;
-- name: sums of pages that are equal
SELECT COUNT(*) AS n, SUM(ms) AS s FROM visits GROUP BY page ORDER BY n, s;
-- name: distinct pages
SELECT COUNT(DISTINCT page) FROM visits;
-- name: LIKE by collation
SELECT COUNT(*), SUM(id) FROM words WHERE ci LIKE 'E%' OR pad LIKE 'a ';
-- name: a concatenation of collations
SELECT CONCAT(ci, pad) AS k, COUNT(*) FROM words WHERE x = 3 GROUP BY CONCAT(ci, pad COLLATE utf8mb4_general_ci) ORDER BY MIN(id);
-- name: latin1 in the result
SELECT l1, HEX(l1), COUNT(*) FROM words WHERE l1 IN ('z', 'a') GROUP BY l1, HEX(l1) ORDER BY l1, HEX(l1);
-- name: latin1 extremes
SELECT MIN(l), MAX(l), COUNT(DISTINCT l) FROM events;
-- name: latin1 groups
SELECT l, COUNT(*) FROM events WHERE id < 5000 GROUP BY l ORDER BY l;
-- name: texts equal after a partition by KEY
SELECT COUNT(*), COUNT(DISTINCT login), MIN(login), MAX(login) FROM users;
-- name: countries in other cases
SELECT country, COUNT(*) FROM sales WHERE country = 'in' GROUP BY country;
-- name: groups of countries with a limit
SELECT country, SUM(revenue) AS r FROM sales GROUP BY country ORDER BY r DESC LIMIT 3;
-- name: characters of result columns
SELECT CHARSET(MAX(v)), COLLATION(MAX(v)), CHARSET(MAX(l)), COLLATION(CONCAT(MAX(vb), 'x')) FROM events;
-- name: groups of an expression with NULL and the empty text, sorted for a distinct count
SELECT COUNT(DISTINCT w.id, SIGN(w.id)) FROM words w GROUP BY REPLACE(w.nopad, 'a', '');
-- name: windows over groups of texts with blanks
SELECT LAG(COUNT(*)) OVER (PARTITION BY COALESCE(w.uni, '-') ORDER BY v.ms) FROM visits v LEFT JOIN words w ON w.ci = v.page AND w.id < 30 GROUP BY COALESCE(w.uni, '-'), v.ms;
-- name: groups of texts of 260 characters and more, sorted for a distinct count
-- expect: whole: run again
SELECT COUNT(*), COUNT(DISTINCT seq) FROM metrics GROUP BY note;
-- name: an order of a union of short texts in long columns
-- expect: split
SELECT 'orders' AS what, id, status FROM orders UNION ALL SELECT 'metrics', seq, note FROM metrics WHERE seq % 300 BETWEEN 1 AND 249 ORDER BY 3, 2;
-- name: sums of groups of texts that are equal, each in a group with a number
SELECT w.ci, SUM(w.x) FROM words w GROUP BY w.ci, w.id WITH ROLLUP;
