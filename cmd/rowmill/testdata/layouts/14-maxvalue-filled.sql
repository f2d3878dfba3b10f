-- layout: by day until three days ago, and a MAXVALUE tail with the rows since
-- server: mysql
-- says: time   = "at"; every = "1d"
-- plan: one period from; EXCHANGE PARTITION `pmax`; REORGANIZE PARTITION `pmax`
CREATE TABLE events (id BIGINT NOT NULL, at DATETIME NOT NULL, PRIMARY KEY (id, at))
PARTITION BY RANGE COLUMNS (at) (PARTITION p_5 VALUES LESS THAN ('{{date -4}}'), PARTITION p_4 VALUES LESS THAN ('{{date -3}}'), PARTITION pmax VALUES LESS THAN MAXVALUE)

INSERT INTO events VALUES (1, '{{date -4}}'), (2, '{{date -2}}'), (3, '{{date 0}}')

INSERT INTO events WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 59) SELECT 10 + a.i * 60 + b.i, '{{date -3}}' + INTERVAL a.i HOUR FROM n a, n b
