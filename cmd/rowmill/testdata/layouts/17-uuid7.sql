-- layout: by day, UUIDs of version 7 as BINARY(16)
-- server: mysql
-- refused: is partitioned by RANGE COLUMNS (`id`); REMOVE PARTITIONING
CREATE TABLE events (id BINARY(16) NOT NULL, note VARCHAR(40), PRIMARY KEY (id))
PARTITION BY RANGE COLUMNS (id) (PARTITION p_1 VALUES LESS THAN (x'{{uuid 0}}'), PARTITION p_0 VALUES LESS THAN (x'{{uuid 1}}'))

INSERT INTO events VALUES (x'{{uuid 0}}', 'a')
